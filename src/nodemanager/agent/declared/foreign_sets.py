"""ConfigSets for other hosts: a host keeps only the fields that say which hosts they select.

Labels of the host, or of the set, can change that. A set that is now for this host is read completely before
the agent acts on it (`DeclaredSources.complete`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodemanager.api.common import choosing, matching
from nodemanager.api.common.configset import SETTINGS, ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.kube.objects import ObjectMeta

_NOTHING = ConfigSetSpec()
_LARGE = frozenset(("data", "data_from", "notifies"))
"""Settings that do not decide which hosts a set selects, or when."""
_EMPTIED = {
    name: getattr(_NOTHING, name)
    for name in ConfigSetSpec.__struct_fields__
    if name in _LARGE or name not in SETTINGS
}
_NO_STATUS = ConfigSetStatus()
_META = ObjectMeta()


class ForeignSet(ConfigSet):
    """A set for other hosts, without its declarations. The fields that it has are true."""


def concerns(config_set: ConfigSet, labels: Mapping[str, str]) -> bool:
    """Tell whether a set, or a revision of it that hosts may have now, is for a host with these labels."""
    if matching.matches(config_set, labels):
        return True
    status = config_set.status.rollout
    return status is not None and any(choosing.is_meant(one, labels) for one in (status.stable, status.next))


def trimmed(config_set: ConfigSet, labels: Mapping[str, str]) -> ConfigSet:
    """Return the parts of a set that a host with these labels keeps: all, if it is for this host."""
    if isinstance(config_set, ForeignSet) or concerns(config_set, labels):
        return config_set
    meta, status = config_set.metadata, config_set.status.rollout
    if status is not None:  # fields that hosts decide by stay; texts for people do not
        status = msgspec.structs.replace(status, message="", turns=[], counts=None)
    return ForeignSet(
        # Annotations may be as large as the set, because kubectl keeps a copy of it there.
        metadata=msgspec.structs.replace(meta, annotations=_META.annotations),
        spec=msgspec.structs.replace(config_set.spec, **_EMPTIED),
        status=_NO_STATUS if status is None else ConfigSetStatus(rollout=status),
    )

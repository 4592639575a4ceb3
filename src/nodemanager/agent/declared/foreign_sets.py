"""ConfigSets that are meant for other hosts: of these, a host keeps whom they are for, and nothing else.

With other labels of the host, or of the set, that changes. One that is for it now is read whole before
anything is done about it (`DeclaredSources.complete`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodemanager.api.common import choosing, matching
from nodemanager.api.common.configset import SETTINGS, ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.kube.objects import ObjectMeta

_NOTHING = ConfigSetSpec()
_LARGE = frozenset(("data", "data_from", "notifies"))
"""Settings that say nothing about whom a set is for, or when."""
_EMPTIED = {
    name: getattr(_NOTHING, name)
    for name in ConfigSetSpec.__struct_fields__
    if name in _LARGE or name not in SETTINGS
}
_NO_STATUS = ConfigSetStatus()
_META = ObjectMeta()


class ForeignSet(ConfigSet):
    """A set that is not for this host, without what it declares. What there is of it is true."""


def concerns(config_set: ConfigSet, labels: Mapping[str, str]) -> bool:
    """Tell whether a set is for a host with these labels, or a revision of it that hosts may have now."""
    if matching.matches(config_set, labels):
        return True
    status = config_set.status.rollout
    return status is not None and any(choosing.is_meant(one, labels) for one in (status.stable, status.next))


def trimmed(config_set: ConfigSet, labels: Mapping[str, str]) -> ConfigSet:
    """Return what a host with these labels keeps of a set: all of it, if it is for this host."""
    if isinstance(config_set, ForeignSet) or concerns(config_set, labels):
        return config_set
    meta, status = config_set.metadata, config_set.status.rollout
    if status is not None:  # what hosts decide by stays; what people read does not
        status = msgspec.structs.replace(status, message="", turns=[], counts=None)
    return ForeignSet(
        # Annotations may be as large as the set: kubectl keeps a copy of it there.
        metadata=msgspec.structs.replace(meta, annotations=_META.annotations),
        spec=msgspec.structs.replace(config_set.spec, **_EMPTIED),
        status=_NO_STATUS if status is None else ConfigSetStatus(rollout=status),
    )

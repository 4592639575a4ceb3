"""What operations of type realtime become: ConfigSets for the hosts of the series.

Hosts get the openings of the window as spans of time: they need no calendar then, and know what to do while
the API is away. A list of spans is replaced only when it runs short or is not true any more, so that a set
does not change with every opening.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.enforcement import EnforcedSpan, Enforcement
from nodemanager.api.common.rollout import ALL_AT_ONCE, Rollout
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.api.maintenance.nodeoperationtemplate import NodeOperationTemplateSpec
from nodemanager.api.maintenance.operations import REALTIME, Operation
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.api.rights.host_rights import HOSTNAME_LABEL
from nodemanager.fleet.maintenance import plan, steps
from nodemanager.fleet.maintenance.steps import StepsError, TemplateMissing
from nodemanager.fleet.windows.calendar import Calendar, Opened
from nodemanager.kube import times
from nodemanager.kube.objects import ObjectMeta, OwnerReference
from nodemanager.kube.selectors import IN, LabelSelector, Requirement

AHEAD: Final = 32
"""How many openings hosts are given."""
ENOUGH: Final = 16
"""With fewer openings left than this, hosts are given more."""
MAX_NAMED: Final = 1024
"""How many hosts a selector can name."""


class RealtimeError(ValueError):
    """An operation of type realtime that no ConfigSet can be made of."""


def operations(maintenance: NodeMaintenance) -> list[Operation]:
    """Return the operations that become ConfigSets."""
    return [one for one in maintenance.spec.operations if one.type == REALTIME]


def set_name(maintenance: str, operation: str) -> str:
    """Return the name of the set of an operation."""
    return f"{maintenance[:200].rstrip('-.')}-{operation}"


def is_ours(found: ConfigSet, maintenance: NodeMaintenance) -> bool:
    """Tell whether a set was made of a maintenance."""
    return any(one.uid == maintenance.metadata.uid for one in found.metadata.owner_references)


def wanted(
    maintenance: NodeMaintenance,
    operation: Operation,
    templates: Mapping[str, NodeOperationTemplateSpec],
    chosen: LabelSelector,
    openings: Sequence[EnforcedSpan],
) -> ConfigSet:
    """Return the set of an operation; raise RealtimeError if there can be none."""
    try:
        body = steps.config_set_of(operation, templates)
    except TemplateMissing as error:
        said = f"operation {operation.name}: there is no NodeOperationTemplate {error}"
        raise RealtimeError(said) from error
    except (StepsError, msgspec.ValidationError) as error:
        raise RealtimeError(f"operation {operation.name}: {error}") from error
    meta, shut = maintenance.metadata, maintenance.spec.paused or operation.suspend
    owner = OwnerReference(
        NODE_MAINTENANCES.api_version, NODE_MAINTENANCES.kind, meta.name, meta.uid, controller=True
    )
    given = {field: getattr(body, field) for field in body.__struct_fields__}
    return ConfigSet(
        metadata=ObjectMeta(
            name=set_name(meta.name, operation.name), namespace=meta.namespace, owner_references=[owner]
        ),
        spec=ConfigSetSpec(
            node_selector=chosen,
            rollout=Rollout(strategy=ALL_AT_ONCE),  # its window says when, whatever the namespace says
            enforcement=Enforcement(
                openings=[] if shut else list(openings), window=f"NodeMaintenance {meta.name}"[:512]
            ),
            **given,
        ),
    )


def shut(found: ConfigSet) -> ConfigSet:
    """Return a set that only reports from now on and repairs nothing, whatever it declares."""
    given = found.spec.enforcement or Enforcement()
    closed = msgspec.structs.replace(given, openings=[])
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, enforcement=closed))


def plan_hash(maintenance: NodeMaintenance, sets: Mapping[str, ConfigSet], window: WindowSpec) -> str:
    """Return the hash of what is enforced: declarations, what chooses the hosts, and the window.

    Which openings come next is no part of it, nor which hosts have the labels today: else it would be another
    plan every few days, and for every host that joins.
    """
    specs = {name: msgspec.structs.replace(shut(one).spec, rollout=None) for name, one in sets.items()}
    said = {name: msgspec.to_builtins(one) for name, one in specs.items()}
    whole = {"realtime": said, "window": msgspec.to_builtins(window), **plan.asked_for_by(maintenance.spec)}
    return plan.digest(whole)


def chosen(series: SeriesSpec, hosts: Sequence[str]) -> LabelSelector:
    """Return what selects the hosts of a series: its own selector, or else their names."""
    if not series.names and series.exclude is None and series.node_selector is None:
        return series.selector or LabelSelector()
    if len(hosts) > MAX_NAMED:
        raise RealtimeError(
            f"a series with names, exclude or nodeSelector may choose {MAX_NAMED} hosts for operations of"
            f" type realtime, and this one chooses {len(hosts)}; choose them by a label"
        )
    named = Requirement(key=HOSTNAME_LABEL, operator=IN, values=sorted(hosts))
    return LabelSelector(match_expressions=[named])


def openings(calendar: Calendar, known: Sequence[EnforcedSpan], now: datetime) -> list[EnforcedSpan]:
    """Return the spans that hosts are given: those that they have, if these are still true and enough."""
    found = calendar.following(now, AHEAD)
    rest = [one for one in known if one.end is None or (end := times.parse(one.end)) is None or end > now]
    true = len(rest) <= len(found) and all(map(_same, rest, found, [now] * len(rest)))
    if true and (len(rest) >= ENOUGH or len(rest) == len(found)):
        return list(known)
    return [_span(one) for one in found]


def _same(known: EnforcedSpan, found: Opened, now: datetime) -> bool:
    """Tell whether two spans are the same from now on."""
    start = times.parse(known.start)
    if start is None or (times.parse(known.end) if known.end else None) != _whole(found.end):
        return False
    return start == _whole(found.start) or (start <= now and found.start <= now)


def _span(opened: Opened) -> EnforcedSpan:
    end = times.rfc3339(opened.end) if opened.end else None
    return EnforcedSpan(start=times.rfc3339(opened.start), end=end)


def _whole(moment: datetime | None) -> datetime | None:
    """Return a moment as it is written."""
    return None if moment is None else datetime.fromisoformat(times.rfc3339(moment))


def obsolete(found: Iterable[ConfigSet], maintenance: NodeMaintenance) -> list[ConfigSet]:
    """Return the sets of a maintenance whose operation is gone."""
    names = {set_name(maintenance.metadata.name, one.name) for one in operations(maintenance)}
    return [one for one in found if is_ours(one, maintenance) and one.metadata.name not in names]

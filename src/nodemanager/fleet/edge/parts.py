"""Storage and virtual machines of a site: as backends report them, and as a DaemonSet does. Pure.

Of two reports about one part the worse one counts. A part that cannot be read is unknown, whatever was read
before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from nodemanager.api.edge.edgecluster import (
    FRESH,
    GONE,
    HEALTHY,
    NOT_OBSERVED,
    STALE,
    UNHEALTHY,
    UNKNOWN,
    EdgeCluster,
    EdgeNode,
    PartHealth,
)
from nodemanager.api.edge.edgeprofile import EdgeProfileSpec
from nodemanager.api.edge.profile_parts import LINSTOR, REPLICATED
from nodemanager.fleet.edge import findings, machines
from nodemanager.fleet.edge.decoding import printable
from nodemanager.fleet.edge.facts import Read
from nodemanager.fleet.edge.findings import Findings
from nodemanager.fleet.edge.machines import MachineFacts
from nodemanager.fleet.edge.storage import judging
from nodemanager.fleet.edge.storage.facts import StorageFacts
from nodemanager.fleet.edge.storage.judging import Wanted

_WORST: Final = (UNHEALTHY, UNKNOWN, HEALTHY, NOT_OBSERVED)


@dataclass(frozen=True, slots=True)
class PartFacts:
    """What was read of one part; `read` says whether there is an answer, and if not, why."""

    name: str
    """The name of the source, for people."""
    read: Read = field(default_factory=Read)
    storage: StorageFacts | None = None
    machines: MachineFacts | None = None

    @property
    def content(self) -> Read:
        """The answer, with a digest that tells it from another answer."""
        if self.read.answer != FRESH:
            return self.read
        return Read(data={"": repr(self.storage or self.machines)})


@dataclass(frozen=True, slots=True)
class SitePartFacts:
    """What was read of all parts that the profile asks for; None = the backend was not asked."""

    storage: PartFacts | None = None
    virtualisation: PartFacts | None = None

    def asked(self) -> dict[str, PartFacts]:
        """Return the parts that were read, by name."""
        both = {"storage": self.storage, "virtualisation": self.virtualisation}
        return {name: one for name, one in both.items() if one is not None}


NOBODY: Final = SitePartFacts()


def seen(
    facts: SitePartFacts, spec: EdgeProfileSpec, cluster: EdgeCluster, nodes: Sequence[EdgeNode] = ()
) -> dict[str, PartHealth]:
    """Return the state of the parts that were observed; unknown for those on silent nodes."""
    silent = {one.name for one in nodes if one.heartbeat in (STALE, GONE)}
    return {name: _health(one, spec, cluster, silent) for name, one in facts.asked().items()}


def _health(
    one: PartFacts, spec: EdgeProfileSpec, cluster: EdgeCluster, silent: Collection[str]
) -> PartHealth:
    if one.read.answer != FRESH:
        return PartHealth(state=UNKNOWN, said=printable(one.read.message))
    if one.storage is not None:
        verdict = judging.judge(one.storage, wanted(spec, cluster))
        return PartHealth(state=verdict.state, said=printable(verdict.text))
    judged = machines.judge(one.machines or MachineFacts(sees_machines=False), silent)
    return PartHealth(state=judged.state, said=printable(judged.text))


def wanted(spec: EdgeProfileSpec, cluster: EdgeCluster) -> Wanted:
    """Return the wanted storage of a site."""
    limits = spec.thresholds
    return Wanted(
        spec.storage.replicas if spec.storage.mode == REPLICATED else 1,
        cluster.spec.nodes if spec.storage.backend == LINSTOR else (),
        (limits.free_space_percent or 0) if limits else 0,
        spec.storage.pools if spec.storage.backend == LINSTOR else (),
    )


def required(spec: EdgeProfileSpec) -> list[str]:
    """Return the parts of which somebody has to tell how they are: else a site is not known to be well."""
    network = ["network"] if spec.network is not None else []
    return [*network, *(["storage"] if spec.storage.mode == REPLICATED else [])]


def unobserved(
    parts: Mapping[str, PartHealth], spec: EdgeProfileSpec, nodes: Sequence[EdgeNode]
) -> dict[str, PartHealth]:
    """Return the parts of which somebody has to tell and nobody does, with who might."""
    mute = ", ".join(one.name for one in nodes if one.report is None)
    said = printable(f"nothing is told by {mute}" if mute else "")
    return {one: PartHealth(state=NOT_OBSERVED, said=said) for one in required(spec) if one not in parts}


def combined(told: Mapping[str, PartHealth], looked: Mapping[str, PartHealth]) -> dict[str, PartHealth]:
    """Return, for each part, the worse of its reported and observed states; if equal, the observed one."""
    found = dict(told)
    for name, one in looked.items():
        found[name] = min(one, found.get(name, one), key=lambda part: _WORST.index(part.state))
    return found


def judge(
    parts: Mapping[str, PartHealth],
    looked: Mapping[str, PartHealth],
    said: Findings,
    must: Collection[str] = (),
) -> None:
    """Report the parts that are unwell, and those whose state is unknown although they were looked at.

    Of one that `must` be told of it is not enough to have been looked at by somebody who does not see it.
    """
    lost = [f"{name}: {one.said}" for name, one in looked.items() if one.state == UNKNOWN]
    if lost:
        said.untold(findings.PARTS_SEEN, "PartUnknown", "; ".join(lost))
    elif looked:
        blind = [f"{name}: {one.said}" for name, one in looked.items() if one.state == NOT_OBSERVED]
        said.good(findings.PARTS_SEEN, "; ".join(blind))
    unseen = {name for name, one in parts.items() if one.state == UNKNOWN and one == looked.get(name)}
    unwell = [f"{name}: {_plain(one.said)}" for name, one in parts.items() if one.state == UNHEALTHY]
    untold = [
        f"{name} ({one.said})" if one.said and one.state == NOT_OBSERVED else name
        for name, one in parts.items()
        if (one.state == UNKNOWN and name not in unseen)
        or (one.state == NOT_OBSERVED and (name not in looked or name in must))
    ]
    if unwell:
        said.bad(findings.PARTS_HEALTHY, "PartUnhealthy", "; ".join(unwell))
    elif untold:
        text = f"nobody tells how these are now: {', '.join(untold)}"
        said.untold(findings.PARTS_HEALTHY, "PartNotObserved", text)
    elif unseen:
        said.untold(findings.PARTS_HEALTHY, "PartUnknown", "")
    else:
        said.good(findings.PARTS_HEALTHY)


def _plain(said: str) -> str:
    """Return a text without its quotes, unless they show something that is else invisible."""
    return said if said and said.isprintable() else repr(said)

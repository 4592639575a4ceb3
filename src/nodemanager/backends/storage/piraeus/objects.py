"""Objects of Piraeus, with the fields that we use, and the meaning of their conditions. Pure.

A condition is good only if it is True, says that it was observed, and is about the object as it is now:
`NotObserved` and `Unknown` mean that it is unknown, and so does a missing condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from nodemanager.fleet.edge.decoding import printable
from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

GROUP: Final = "piraeus.io"
APPLIED: Final = "Applied"
AVAILABLE: Final = "Available"
CONFIGURED: Final = "Configured"
EXPECTED: Final = (APPLIED, AVAILABLE, CONFIGURED)
"""The expected conditions of clusters and satellites."""
_UNOBSERVED: Final = ("NotObserved", "Unknown")


class PiraeusStatus(Struct):
    """The report of Piraeus' operator."""

    conditions: list[Condition] = []


class PiraeusObject(Struct):
    """One of the kinds below."""

    metadata: ObjectMeta = ObjectMeta()
    status: PiraeusStatus = PiraeusStatus()


LINSTOR_CLUSTERS: Final = Resource(
    GROUP, "v1", "LinstorCluster", "linstorclusters", PiraeusObject, namespaced=False
)
LINSTOR_SATELLITES: Final = Resource(
    GROUP, "v1", "LinstorSatellite", "linstorsatellites", PiraeusObject, namespaced=False
)
LINSTOR_NODE_CONNECTIONS: Final = Resource(
    GROUP, "v1", "LinstorNodeConnection", "linstornodeconnections", PiraeusObject, namespaced=False
)
"""The paths that storage takes between nodes, such as a bond."""
LINSTOR_SATELLITE_CONFIGURATIONS: Final = Resource(
    GROUP, "v1", "LinstorSatelliteConfiguration", "linstorsatelliteconfigurations", PiraeusObject,
    namespaced=False,
)  # fmt: skip
"""The wanted configuration of satellites: their pools and their pods."""
SETTINGS: Final = ((LINSTOR_NODE_CONNECTIONS, CONFIGURED), (LINSTOR_SATELLITE_CONFIGURATIONS, APPLIED))
"""Kinds that a cluster may lack, and the one condition of each."""


class Said(NamedTuple):
    """The meaning of a condition: whether it is good, or unknown."""

    known: bool
    words: str


def findings(one: PiraeusObject, kind: str) -> Iterator[Said]:
    """Return all that is not well with a cluster or a satellite, or is not known."""
    if one.metadata.deletion_timestamp:
        name = f"{kind} {printable(one.metadata.name)}"
        yield Said(True, f"{name} is being deleted, which moves its replicas away and deletes them")
    yield from stated(one, kind, EXPECTED)


def stated(one: PiraeusObject, kind: str, expected: Sequence[str]) -> Iterator[Said]:
    """Return what is not well, or not known, by the conditions that are expected of an object."""
    name = f"{kind} {printable(one.metadata.name)}"
    for kind_of in expected:
        said = judge(one.status.conditions, kind_of, one.metadata.generation)
        if said is not None:
            yield Said(said.known, f"{name}: {said.words}")


def judge(found: Sequence[Condition], kind: str, generation: int) -> Said | None:
    """Return what is not well with one condition, None if it is."""
    condition = conditions.get(found, kind)
    if condition is None:
        return Said(False, f"nothing says whether it is {kind}")
    words = f"{kind}={condition.status} ({condition.reason}) {condition.message}".strip()
    if condition.reason in _UNOBSERVED or condition.status not in (conditions.TRUE, conditions.FALSE):
        return Said(False, printable(words))
    if condition.observed_generation < generation:
        return Said(False, f"{kind} is about an older generation")
    return None if condition.status == conditions.TRUE else Said(True, printable(words))

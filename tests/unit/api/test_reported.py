"""What a host says about itself, when it is sent and when others read it: nothing in it makes a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml

from nodemanager.api import crds
from nodemanager.api.common import reported
from nodemanager.api.common.audit_chain import AuditChain
from nodemanager.api.common.edge_state import (
    BondChange,
    BondSlave,
    BondState,
    BootState,
    DrbdPeer,
    DrbdPeerVolume,
    DrbdResource,
    DrbdState,
    DrbdVolume,
    EdgeState,
    LinkState,
    VlanState,
)
from nodemanager.api.common.left_drifts import LeftDrift, LeftDrifts
from nodemanager.api.common.managednode import (
    AppliedConfigSet,
    Drift,
    DriftRecord,
    Heartbeat,
    HostOperatingSystem,
    Interface,
    ManagedNode,
    ManagedNodeStatus,
    SSHHostKey,
    WireGuardStatus,
)
from nodemanager.api.common.node_upgrades import UpcomingUpgrades
from nodemanager.api.common.orphans import Orphan, Orphans, Pruning
from nodemanager.kube import hints
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from nodemanager.kube.schemas.patterns import compile_pattern
from nodemanager.plan import templates

EVIL = (
    "\n\r\t\x00\x1b[2J\x7f\x85\x9b31m\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\udc80"
)
BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def edge_state(bad: str) -> EdgeState:
    """Return what such a host says of its links and disks."""
    there = DrbdPeerVolume(replication=bad, disk=bad, resync_suspended=bad)
    peer = DrbdPeer(name=bad, connection=bad, role=bad, volumes=[there])
    resource = DrbdResource(name=bad, role=bad, suspended=bad, volumes=[DrbdVolume(disk=bad)], peers=[peer])
    return EdgeState(
        changed_at=bad, boot=BootState(entry=bad, version=bad),
        links=[LinkState(name=bad, mac=bad, state=bad, master=bad)],
        bonds=[BondState(name=bad, mode=bad, state=bad, active=bad,
                         slaves=[BondSlave(name=bad, state=bad, mii=bad)])],
        vlans=[VlanState(name=bad, link=bad, state=bad)],
        bond_changes=[BondChange(bond=bad, phase=bad, mode=bad, deadline=bad)],
        drbd=DrbdState(version=bad, resources=[resource], error=bad), error=bad,
    )  # fmt: skip


def everywhere(bad: str) -> ManagedNodeStatus:
    """Return a status of a hostile host, with the same in all its texts."""
    return ManagedNodeStatus(
        conditions=[Condition(type=bad, reason=bad, message=bad, last_transition_time=bad)],
        agent_version=bad, release=bad, heartbeat=Heartbeat(lease_name=bad),
        os=HostOperatingSystem(id=bad, version=bad, pretty_name=bad, kernel=bad),
        drift=Drift(last_resource=bad, last_time=bad, recent=[DriftRecord(
            sequence=1, time=bad, resource=bad, outcome=bad, message=bad, found=bad, wanted=bad, took=bad,
            by=bad, policy=bad,
        )]),
        audit_chain=AuditChain(id=bad, head=bad), audit_records=[bad],
        left_drifts=LeftDrifts(
            asks=[LeftDrift(configset=bad, since=bad)], used=bad,
            escalated=[LeftDrift(configset=bad, since=bad)],
        ),
        configsets=[AppliedConfigSet(
            name=bad, resource_version=bad, last_applied=bad, error=bad, conflicts=[bad],
        )],
        orphans=Orphans(
            count=1, pruning=[Pruning(configset=bad, message=bad)],
            resources=[Orphan(resource=bad, configset=bad, message=bad)],
        ),
        interfaces={bad: Interface(ipv4=[bad], ipv6=[bad])},
        ssh_host_keys=[SSHHostKey(fingerprint=bad)],
        wire_guard=[WireGuardStatus(name=bad, public_key=bad)],
        file_backups={bad: bad}, last_file_bucket_gc=bad, last_upgrade=bad, kubernetes_node_cordoned=bad,
        last_seen=bad, upgrade=UpcomingUpgrades(next_slots=[bad], started_at=bad), edge=edge_state(bad),
    )  # fmt: skip


def texts(value: Any) -> list[str]:
    """Return every text in plain values, keys included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [one for pair in value.items() for each in pair for one in texts(each)]
    return [one for each in value for one in texts(each)] if isinstance(value, list) else []


def test_all_texts_of_a_status_are_meant_here() -> None:
    """A field that is added later is added to `everywhere`, or this fails."""
    named = {name for name, value in msgspec.structs.asdict(everywhere("x")).items() if value}
    known = {one.name for one in msgspec.structs.fields(ManagedNodeStatus)}
    assert known - named == {"observed_generation", "jailed"}


@pytest.mark.parametrize("bad", [*EVIL, f"a{EVIL}b", "PostUp = \x85reboot"])
def test_what_is_sent_steers_nothing(bad: str) -> None:
    found = texts(reported.status(msgspec.to_builtins(everywhere(bad))))
    assert [one for one in found if UNSAFE.search(one)] == []
    assert len([one for one in found if "\n" in one]) <= 7, "messages and errors may have lines"


@pytest.mark.parametrize("bad", [*EVIL, f"a{EVIL}b"])
def test_what_templates_of_others_read_has_no_lines(bad: str) -> None:
    """Whatever an old server let pass."""
    node = ManagedNode(metadata=ObjectMeta(name="evil"), status=everywhere(bad))
    found = texts(templates.peer_data(node)["Status"])
    assert [one for one in found if BREAKS.search(one) or UNSAFE.search(one)] == []
    shown = yaml.safe_load("- " + "\n- ".join(f"a{one}" for one in found))
    assert len(shown) == len(found), "YAML sees as many lines as we wrote"


def test_what_needs_more_than_ascii_keeps_it() -> None:
    found = reported.status_of_other(msgspec.to_builtins(everywhere("größe/日本")))
    assert found["drift"]["recent"][0]["resource"] == "größe/日本"
    assert found["conditions"][0]["message"] == "größe/日本"
    assert list(found["fileBackups"]) == ["größe/日本"]
    assert found["release"] == "gr??e/??"
    assert list(found["interfaces"]) == ["gr??e???"]
    plain = msgspec.to_builtins(everywhere("fine: /etc/x"))
    assert reported.status_of_other(plain)["drift"] == plain["drift"]


TIMES = {
    "time", "lastTime", "lastTransitionTime", "lastApplied", "lastFileBucketGC", "lastUpgrade", "lastSeen",
    "kubernetesNodeCordoned", "nextSlots", "startedAt", "since", "changedAt",
    "deadline",  # the format says what they are
    "outcome", "status", "took",  # an enumeration says it, or a rule
}  # fmt: skip


def test_the_schema_refuses_what_the_agent_would_replace() -> None:
    """What the agent sends is what the schema takes, field by field."""
    (crd,) = [one for one in crds.all_crds() if one["spec"]["names"]["kind"] == "ManagedNode"]
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    free = (hints.ASCII, hints.PRINTABLE, hints.TEXT)  # keys and addresses are their own matter
    for bad in (one for one in EVIL[:-1] if not one.isprintable()):
        raw = msgspec.to_builtins(everywhere(f"a{bad}"))
        for field, pattern, text in walk(schema, raw):
            lines = "\n\t" if field in ("message", "error") else ""
            passed = not pattern or compile_pattern(pattern).search(text)
            assert not passed or bad in lines or field in TIMES, (field, bad)
        for field, pattern, text in walk(schema, reported.status(raw)):
            assert pattern not in free or compile_pattern(pattern).search(text), (field, bad)


def walk(schema: dict[str, Any], value: Any, field: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield every text that is no key, with the field that it is in and the pattern of that."""
    if isinstance(value, str):
        yield field, schema.get("pattern", ""), value
    elif isinstance(value, list):
        for each in value:
            yield from walk(schema["items"], each, field)
    elif isinstance(value, dict):
        for key, each in value.items():
            inner = schema.get("properties", {}).get(key)
            yield from walk(inner or schema["additionalProperties"], each, key if inner else field)

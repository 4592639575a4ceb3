"""Hosts on their way to a change by stages count in budgets, and are not looked at again for nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from nodemanager.api.common import choosing
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode, ManagedNodeStatus
from nodemanager.api.common.rollout import (
    ALL_AT_ONCE,
    PROGRESSING,
    SCALE,
    STAGED,
    UNDOING,
    RevisionRef,
    Rollout,
    RolloutCounts,
    RolloutStatus,
)  # fmt: skip
from nodemanager.controllers.node_maintenances import changing_hosts, waking
from nodemanager.controllers.node_maintenances.changing_hosts import ChangingHosts
from nodemanager.controllers.registration import Wake
from nodemanager.fleet.rollout import on_the_way
from nodemanager.fleet.rollout.on_the_way import UnderWay
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.cache import Change

log = logging.getLogger(__name__)
LABELS = {"role": "web"}
OLD, NEW = (RevisionRef(name=f"web-{n}", revision=n, digest=str(n) * 64, labels=LABELS) for n in (1, 2))
ROLLOUT = RolloutStatus(
    observed_generation=2, phase=PROGRESSING, stable=OLD, next=NEW, threshold=SCALE // 2, stage=1
)


def web(status: RolloutStatus | None = ROLLOUT, strategy: str = STAGED, **meta: Any) -> ConfigSet:
    return ConfigSet(
        ObjectMeta(name="web", namespace="x", labels=LABELS, generation=2, **meta),
        ConfigSetSpec(rollout=Rollout(strategy=strategy)),
        ConfigSetStatus(rollout=status),
    )


def node(name: str, digest: str = OLD.digest, version: str = "1", **report: Any) -> ManagedNode:
    said = AppliedConfigSet(name="web", observed_generation=1, digest=digest, **report)
    meta = ObjectMeta(name=name, uid=name, namespace="x", labels=LABELS, resource_version=version)
    return ManagedNode(metadata=meta, status=ManagedNodeStatus(release="6.1", configsets=[said]))


def turned(*, turn: bool) -> str:
    """Return the name of a host whose turn it is, or is not."""
    names = (f"h{number}" for number in range(99))
    return next(one for one in names if choosing.has_turn(ROLLOUT, node(one).metadata) is turn)


YES, NO = turned(turn=True), turned(turn=False)


@pytest.mark.parametrize(
    ("host", "counts"),
    [
        (node(YES), True),
        (node(YES, NEW.digest, waiting="a service starts"), True),
        (node(YES, NEW.digest), False),  # healthy
        (node(YES, NEW.digest, error="no"), False),  # failed: not on its way any more
        (node(YES, held=1), False),  # waits for its window
        (node(NO), False),
    ],
)
def test_who_is_on_the_way(host: ManagedNode, counts: bool) -> None:
    change = on_the_way.of_set(web())
    assert change is not None
    assert on_the_way.hosts([change], [host]) == ({host.metadata.name: "web"} if counts else {})


def test_who_returns_counts_until_nobody_waits_for_it_and_all_at_once_never_does() -> None:
    back = RolloutStatus(phase=UNDOING, reason=RolloutReason.HOSTS_RETURNING, stable=OLD, refused=NEW)
    change = on_the_way.of_set(web(back))
    assert change is not None
    hosts = [node("a", NEW.digest), node("b")]
    assert on_the_way.hosts([change], hosts) == {"a": "web"}
    assert on_the_way.of_set(web(msgspec.structs.replace(back, reason="HostsNotReturned"))) is None
    assert on_the_way.of_set(web(strategy=ALL_AT_ONCE)) is None
    assert on_the_way.of_set(web(RolloutStatus(stable=NEW))) is None
    assert on_the_way.of_set(web(deletion_timestamp="2026-01-01T00:00:00Z")) is None
    assert on_the_way.of_set(web(msgspec.structs.replace(back, refused=None))) is None
    assert on_the_way.of_set(web(msgspec.structs.replace(back, phase="Undone"))) is None
    assert on_the_way.of_set(web(None)) is None


def test_of_a_change_only_what_is_told_of_it_is_left_out() -> None:
    told = msgspec.structs.replace(
        ROLLOUT, message="1 of 2", counts=RolloutCounts(hosts=2), since="2026-01-01T00:00:00Z", reason="Why"
    )
    change = on_the_way.of_set(web(told))
    assert change == UnderWay("web", msgspec.structs.replace(ROLLOUT, phase=""))


def test_a_host_that_no_revision_is_meant_for_is_not_on_the_way_whatever_it_has() -> None:
    """Its labels were changed: it is to forget the set, and nobody waits for it."""
    back = RolloutStatus(phase=UNDOING, reason=RolloutReason.HOSTS_RETURNING, stable=OLD, refused=NEW)
    other = node(YES, NEW.digest)
    moved = msgspec.structs.replace(other, metadata=msgspec.structs.replace(other.metadata, labels={}))
    for status, one in ((ROLLOUT, node(YES)), (back, other)):
        change = on_the_way.of_set(web(status))
        assert change is not None
        assert on_the_way.hosts([change], [moved]) == {}
        assert on_the_way.hosts([change], [one]) == {YES: "web"}


def test_a_host_with_two_changes_counts_for_the_first() -> None:
    change = on_the_way.of_set(web())
    assert change is not None
    second = change._replace(name="other")
    assert on_the_way.hosts([change, second], [node(YES)]) == {YES: "web"}
    assert on_the_way.hosts([second, change], [node(YES)]) == {YES: "other"}


class Sets:
    """A cache with one set."""

    def __init__(self) -> None:
        self.now = web()

    def find(self, index: str, namespace: str) -> list[ConfigSet]:
        assert index == changing_hosts.UNDER_WAY
        return [self.now] if namespace in changing_hosts.under_way(self.now) else []


def test_only_hosts_that_said_something_are_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    judge = on_the_way.hosts

    def counting(changes: Any, nodes: Sequence[ManagedNode]) -> dict[str, str]:
        asked.append(len(nodes))
        return judge(changes, nodes)

    monkeypatch.setattr(on_the_way, "hosts", counting)
    sets = Sets()
    hosts = [node(f"h{number}") for number in range(50)]
    known = ChangingHosts(cast("Any", sets))
    first = known.of("x", hosts)
    assert set(first) == {one.metadata.name for one in hosts if choosing.has_turn(ROLLOUT, one.metadata)}
    assert known.of("x", hosts) == first
    counted = msgspec.structs.replace(ROLLOUT, message="more", counts=RolloutCounts(hosts=50))
    sets.now = web(counted)  # what is only told is nothing new
    assert known.of("x", hosts) == first
    assert asked == [50]
    hosts[0] = node("h0", NEW.digest, version="2")
    assert known.of("x", hosts).keys() == first.keys() - {"h0"}
    sets.now = web(msgspec.structs.replace(ROLLOUT, threshold=SCALE))
    assert len(known.of("x", hosts)) == 49
    assert asked == [50, 1, 50]
    sets.now = web(RolloutStatus(stable=NEW))
    assert known.of("x", hosts) == {}
    assert asked == [50, 1, 50]


def test_a_host_that_is_gone_takes_no_memory() -> None:
    hosts, known = [node("h0"), node("h1")], ChangingHosts(cast("Any", Sets()))
    known.of("x", hosts)
    known.forget(Change(ObjectKey("x", "h0"), hosts[0], hosts[0]))
    known.forget(Change(ObjectKey("x", "h1"), hosts[1], None))
    known.forget(Change(ObjectKey("y", "h0"), hosts[0], None))
    assert [list(one) for one in known._found.values()] == [["h0"]]


def test_ten_thousand_hosts_are_asked_about_in_a_moment() -> None:
    hosts, known = [node(f"h{number}") for number in range(10_000)], ChangingHosts(cast("Any", Sets()))
    began = time.process_time()
    known.of("x", hosts)
    first, tries = time.process_time() - began, []
    for _ in range(3):  # garbage of other tests may be collected in one of them
        began = time.process_time()
        known.of("x", hosts)
        tries.append(time.process_time() - began)
    again = min(tries)
    log.info("10,000 hosts: %.0f ms at first, %.0f ms again", first * 1000, again * 1000)
    assert again < first


def test_maintenances_are_woken_when_a_host_gets_on_and_when_the_change_ends() -> None:
    sets = SimpleNamespace(find=Sets().find)
    everything = SimpleNamespace(values=list)
    caches = cast("Any", SimpleNamespace(of=lambda kind: sets if kind is CONFIG_SETS else everything))
    old, new = node(YES), node(YES, NEW.digest)
    assert waking._got_on(old, new, caches)
    assert not waking._got_on(old, old, caches)
    assert waking._is_done(web(), web(RolloutStatus(stable=NEW)))
    assert waking._is_done(web(), None)
    assert not waking._is_done(web(), web(msgspec.structs.replace(ROLLOUT, threshold=SCALE)))
    change = Change(ObjectKey("x", "web"), web(), None)
    assert list[Wake](waking.on_config_set(change, caches)) == []

"""ConfigSets that move together: whatever happens, a host has the changes of all of them or of none.

The operator is killed between writes, hosts see what is old, revisions cannot be read, sets come, go, join
and leave. More histories: `ROLLOUT_HISTORIES=100000`.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec
import pytest

from nodemanager.api.common import choosing
from nodemanager.api.common.choosing import ChangeState
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.rollout import PAUSED, STABLE, UNDONE, WAITING, RolloutStatus
from nodemanager.fleet.rollout.reasons import RolloutReason
from support.group_world import GROUP, ROLLOUT, TICK, GroupWorld, Host

HISTORIES, STEPS = int(os.environ.get("ROLLOUT_HISTORIES", "1000")) // 8, 8
NAMES = ("a", "b", "c")


def world(seed: int, hosts: int = 6, names: tuple[str, ...] = NAMES) -> GroupWorld:
    """Return sets of a group, and hosts; one of the sets is not for all of them."""
    here = GroupWorld(random.Random(seed))
    for name in names:
        here.make(name, labels={"part": "yes"} if name == "b" else {})
    for number in range(hosts):
        here.join(**({"part": "yes"} if number % 3 else {}))
    return here


class Watcher:
    """Holds what is published and what hosts have against what is promised."""

    def __init__(self, here: GroupWorld) -> None:
        self.here = here
        self.reached: dict[tuple[str, str | None], int] = {}
        """The highest threshold of each change, by what all its members publish."""
        self.moved = 0

    def written(self) -> None:
        """Thresholds never sink while one change is rolled out, as hosts see it."""
        for one in self.here.sets.values():
            own = one.status.rollout
            if own is None or own.group is None or own.next is None:
                continue
            known = [_status(self.here.sets, member.name) for member in own.group.members]
            named = zip(own.group.members, known, strict=True)
            found = {choosing.standing(member.name, status, own.group) for member, status in named}
            if found == {ChangeState.NEXT}:
                lowest = min(status.threshold for status in known if status is not None)
                key = own.group.id, own.started_at
                assert lowest >= self.reached.get(key, 0), ("it sank", own)
                self.reached[key] = lowest

    def acts(self, host: Host) -> None:
        """What a host takes is one state of the group as a whole, and only if that is its turn.

        A set that comes to the group is not of the state yet that the others had: it stays as it is, or goes.
        """
        here, before = self.here, host.has
        if host.silent or not here.act(host):
            return
        seen = here.history[host.seen]
        group = [name for name, one in seen.items() if choosing.group_of(one) == GROUP]
        has = {name: digest for name, digest in host.has.items() if name in group}
        was = {name: digest for name, digest in before.items() if name in group}
        states = [here.meant(state, host) for state in here.states]
        states += [
            {name: was[name] for name in was if name not in state} | here.meant(state, host)
            for state in here.states
        ]
        same = [one for one in states if {name: one[name] for name in one if name in group} == has]
        assert same or has == was, ("it has a part of a change", host.meta.name, was, has)
        self.moved += 1
        for name in group:
            self._check_turn(host, seen, name, before)

    def _check_turn(
        self, host: Host, seen: Mapping[str, ConfigSet], name: str, before: dict[str, str]
    ) -> None:
        own = seen[name].status.rollout
        if own is None or own.next is None or own.group is None or not own.group.id:
            return
        took = host.has.get(name) == own.next.digest != before.get(name)
        others = [_status(seen, one.name) for one in own.group.members]
        if took and all(one is not None and one.next is not None for one in others):
            place = choosing.position(host.meta.uid, own.group.id)
            assert all(one is not None and place < one.threshold for one in others), ("not its turn", own)


def _status(sets: Mapping[str, ConfigSet], name: str) -> RolloutStatus | None:
    return sets[name].status.rollout if name in sets else None


def look(here: GroupWorld, watcher: Watcher, *, killed: bool = False) -> None:
    """Have the operator look; one that is killed writes only some of what it has decided."""
    for writes in list(here.looks()):
        for one, status in writes:
            if killed and here.random.random() < 0.4:
                return
            here.write(one, status)
            watcher.written()
            if here.random.random() < 0.3:
                some_act(here, watcher)


def some_act(here: GroupWorld, watcher: Watcher, *, all_of_it: bool = False) -> None:
    for host in here.hosts:
        if all_of_it or here.random.random() < 0.5:
            last = len(here.history) - 1
            host.seen = last if all_of_it else here.random.randint(min(host.seen, last), last)
            watcher.acts(host)


# What happens


def edited(here: GroupWorld) -> None:
    for name in sorted(here.sets):
        if here.random.random() < 0.6:
            here.edit(name, bad=here.random.random() < 0.3)


def edited_and_seen_half_way(here: GroupWorld) -> None:
    if here.sets:
        here.edit(here.random.choice(sorted(here.sets)))


def reverted(here: GroupWorld) -> None:
    for name in sorted(here.sets):
        if here.random.random() < 0.7:
            here.revert(name)


def restarted(here: GroupWorld) -> None:
    if here.sets:
        here.restart(here.random.choice(sorted(here.sets)))


def deleted(here: GroupWorld) -> None:
    if len(here.sets) > 1:
        here.delete(here.random.choice(sorted(here.sets)))


def made(here: GroupWorld) -> None:
    name = here.random.choice(NAMES)
    if name not in here.sets:
        here.make(name)


def left_or_joined(here: GroupWorld) -> None:
    if here.sets:
        name = here.random.choice(sorted(here.sets))
        rollout = here.sets[name].spec.rollout
        other = "" if rollout is not None and rollout.group else GROUP
        here.edit(name, rollout=msgspec.structs.replace(ROLLOUT, group=other))


def configured(here: GroupWorld) -> None:
    if here.sets:
        name = here.random.choice(sorted(here.sets))
        rollout = here.sets[name].spec.rollout or ROLLOUT
        here.edit(
            name, rollout=msgspec.structs.replace(rollout, stages=here.random.choice([["1"], ["2", "50%"]]))
        )


def paused(here: GroupWorld) -> None:
    if here.sets:
        name = here.random.choice(sorted(here.sets))
        rollout = here.sets[name].spec.rollout or ROLLOUT
        here.edit(name, rollout=msgspec.structs.replace(rollout, paused=not rollout.paused))


def unreadable(here: GroupWorld) -> None:
    names = [one.metadata.name for each in here.revisions.values() for one in each]
    here.unreadable = {one for one in names if here.random.random() < 0.2}


def readable(here: GroupWorld) -> None:
    here.unreadable = set()


def host_joined(here: GroupWorld) -> None:
    here.join(part="yes")


def host_silent(here: GroupWorld) -> None:
    for host in here.hosts:
        host.silent = here.random.random() < 0.3


def time_passes(_here: GroupWorld) -> None:
    pass


EVENTS: tuple[Callable[[GroupWorld], None], ...] = (
    time_passes, time_passes, edited, edited, edited_and_seen_half_way, reverted, restarted, deleted, made,
    left_or_joined, configured, paused, unreadable, readable, readable, host_joined, host_silent,
)  # fmt: skip


def history(seed: int) -> str:
    """Return how one ends."""
    here = world(seed)
    watcher = Watcher(here)
    for _ in range(STEPS):
        here.random.choice(EVENTS)(here)
        for _ in range(here.random.choice([1, 2, 9])):
            here.now += TICK
            some_act(here, watcher)
            look(here, watcher, killed=here.random.random() < 0.3)
    end = next(iter(here.sets.values())).status.rollout
    calm(here, watcher)
    return end.phase if end is not None else ""


def calm(here: GroupWorld, watcher: Watcher) -> None:
    """Everything is well: all hosts that are there come to have what all sets say."""
    here.unreadable = set()
    for host in here.hosts:
        host.silent = False
    for name in sorted(here.sets):
        here.edit(name, rollout=ROLLOUT, priority=here._next())
    settle(here, watcher)
    for name, one in here.sets.items():
        assert one.status.rollout is not None
        assert one.status.rollout.phase == STABLE, (name, one.status.rollout)
        assert one.status.rollout.current == (one.status.rollout.stable and one.status.rollout.stable.name)
    last = {name: one.status.rollout.stable for name, one in here.sets.items() if one.status.rollout}
    for host in here.hosts:
        assert host.has == here.meant(last, host), ("it lacks something", host.meta.name)


def settle(here: GroupWorld, watcher: Watcher, minutes: int = 60) -> None:
    """Let time pass until nothing more happens."""
    for _ in range(minutes):
        here.now += TICK
        before = here.sets
        for _ in range(3):
            look(here, watcher)
        some_act(here, watcher, all_of_it=True)
        if here.sets is before and all(_is_over(one) for one in here.sets.values()):
            return


def _is_over(one: ConfigSet) -> bool:
    return one.status.rollout is not None and one.status.rollout.phase in (STABLE, UNDONE)


@pytest.mark.timeout(180 + HISTORIES)
@pytest.mark.parametrize("part", range(2))
def test_whatever_happens_hosts_have_the_changes_of_all_sets_or_of_none(part: int) -> None:
    ends: Counter[str] = Counter()
    for seed in range(part, HISTORIES, 2):
        try:
            ends[history(seed)] += 1
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error
    assert set(ends) >= {STABLE, UNDONE, PAUSED, WAITING}, ends


def grown(names: tuple[str, ...] = NAMES, hosts: int = 6) -> tuple[GroupWorld, Watcher]:
    """Return a group whose hosts all have what is stable."""
    here = world(1, hosts, names)
    watcher = Watcher(here)
    settle(here, watcher)
    return here, watcher


def status_of(here: GroupWorld, name: str) -> RolloutStatus:
    found = here.sets[name].status.rollout
    assert found is not None
    return found


def test_a_host_that_fails_with_one_set_returns_from_all_and_nobody_else_had_any() -> None:
    here, watcher = grown()
    stable = {host.meta.name: host.has for host in here.hosts}
    here.edit("a", bad=True)
    here.edit("c")
    had: set[str] = set()
    for _ in range(20):
        here.now += TICK
        look(here, watcher)
        some_act(here, watcher, all_of_it=True)
        had |= {host.meta.name for host in here.hosts if host.has != stable[host.meta.name]}
    assert len(had) == 1
    assert {host.meta.name: host.has for host in here.hosts} == stable
    for name in ("a", "c"):
        found = status_of(here, name)
        assert (found.phase, found.reason, found.next) == (UNDONE, RolloutReason.HOSTS_FAILED, None)
        assert found.refused is not None
        assert "the change of group site failed on" in found.message
    assert status_of(here, "b").refused is None  # it did not change


def test_nobody_takes_anything_until_the_others_had_time_to_change_too() -> None:
    here, watcher = grown()
    here.edit("a")
    look(here, watcher)
    found = status_of(here, "a")
    assert (found.phase, found.reason, found.threshold) == (WAITING, RolloutReason.GROUP_SETTLING, 0)
    here.edit("b")
    some_act(here, watcher, all_of_it=True)
    look(here, watcher)
    group = status_of(here, "a").group
    assert group is not None
    assert [one.name for one in group.members] == ["a", "b"]
    assert status_of(here, "b").group == group
    here.now += TICK
    look(here, watcher)
    assert status_of(here, "a").threshold == status_of(here, "b").threshold > 0


def test_sets_that_do_not_say_the_same_wait_and_those_that_have_it_stay() -> None:
    here, watcher = grown()
    here.edit("a")
    for _ in range(2):
        here.now += TICK
        look(here, watcher)
        some_act(here, watcher, all_of_it=True)
    assert (reached := status_of(here, "a").threshold) > 0
    here.edit("c", rollout=msgspec.structs.replace(ROLLOUT, soak="2m"))
    for _ in range(9):
        here.now += TICK
        look(here, watcher)
        some_act(here, watcher, all_of_it=True)
    found = status_of(here, "a")
    assert (found.reason, found.threshold) == (RolloutReason.GROUP_MISMATCH, reached)
    assert "c and a of the group differ in spec.rollout.soak" in found.message
    here.edit("c", rollout=ROLLOUT)
    settle(here, watcher)
    assert status_of(here, "a").phase == STABLE


def test_a_restart_is_not_lost_when_only_some_of_it_was_written() -> None:
    here, watcher = grown()
    here.edit("a", bad=True)
    here.edit("b")
    settle(here, watcher)
    assert status_of(here, "a").phase == UNDONE
    here.bad.clear()
    here.restart("a")
    ((writes),) = list(here.looks())
    assert [one.name for one, _ in writes][-1] == "a"
    here.write(*writes[0])
    settle(here, watcher)
    assert status_of(here, "a").phase == STABLE

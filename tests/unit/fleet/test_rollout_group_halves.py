"""Sets that move together, of which only some are written: what hosts take, by the code of the agent."""

from __future__ import annotations

import random

from nodemanager.api.common import configsetrevision
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.rollout import STABLE, RolloutStatus
from support.group_world import TICK, GroupWorld, Host

NAMES = ("a", "b")


def grown(hosts: int = 4) -> GroupWorld:
    """Return a group of two sets, and hosts that have none of it yet."""
    here = GroupWorld(random.Random(1))
    for name in NAMES:
        here.make(name)
    for _ in range(hosts):
        here.join()
    return here


def status_of(here: GroupWorld, name: str) -> RolloutStatus:
    return here.sets[name].status.rollout or RolloutStatus()


def act(here: GroupWorld, *hosts: Host) -> None:
    for host in hosts:
        host.seen = len(here.history) - 1
        here.act(host)


def step(here: GroupWorld) -> None:
    """One look, all of which is written, and hosts that do what it says."""
    here.now += TICK
    for writes in list(here.looks()):
        for one, status in writes:
            here.write(one, status)
    act(here, *here.hosts)


def until_before_stable(here: GroupWorld) -> None:
    """Go on until the next look is the one that makes the change stable; of that, write the first set."""
    for _ in range(20):
        here.now += TICK
        ((writes),) = list(here.looks())
        if all(status.phase == STABLE for _, status in writes):
            here.write(*writes[0])
            return
        for one, status in writes:
            here.write(one, status)
        act(here, *here.hosts)
    raise AssertionError("it never becomes stable")


def test_a_new_host_waits_while_a_change_is_stable_in_one_set_only() -> None:
    here = grown()
    until_before_stable(here)
    assert [status_of(here, name).phase == STABLE for name in NAMES] == [True, False]
    here.edit("b", revision_history_limit=3)  # nobody has decided about that yet
    late = here.join()
    act(here, late)
    assert late.has == {}
    step(here)
    step(here)
    assert set(late.has) == set(NAMES)


def test_a_new_host_never_has_the_new_of_one_set_and_the_old_of_another() -> None:
    here = grown()
    while not all(status_of(here, name).phase == STABLE for name in NAMES):
        step(here)
    for name in NAMES:
        here.edit(name)
    until_before_stable(here)
    here.edit("b", revision_history_limit=3)
    late = here.join()
    act(here, late)
    assert late.has == {}


def test_a_host_with_what_was_undone_returns_from_all_or_none_while_the_next_change_is_half_written() -> None:
    here = grown()
    while not all(status_of(here, name).phase == STABLE for name in NAMES):
        step(here)
    here.edit("a", bad=True)
    here.edit("b")
    bad = {name: _says(here.sets[name]) for name in NAMES}
    for _ in range(9):
        step(here)
        if have := [host for host in here.hosts if host.has == bad]:
            break
    (host,) = have
    here.now += TICK
    for writes in list(here.looks()):
        for one, status in writes:
            here.write(one, status)
    assert all(status_of(here, name).refused for name in NAMES)  # and the host has not seen it
    here.edit("a")
    here.now += TICK
    ((writes),) = list(here.looks())
    assert writes[0][0].name == "a"
    here.write(*writes[0])
    assert status_of(here, "a").next is not None
    act(here, host)
    assert host.has == bad
    for one, status in writes[1:]:
        here.write(one, status)
    act(here, host)
    stable = {name: status_of(here, name).stable for name in NAMES}
    assert host.has == {name: one.digest for name, one in stable.items() if one is not None}


def _says(one: ConfigSet) -> str:
    return configsetrevision.digest_of(one.metadata.labels, configsetrevision.content_of(one.spec))

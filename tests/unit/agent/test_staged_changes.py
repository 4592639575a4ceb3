"""Which changes of a set in stages a host makes a pass for: those about what it has or shall have."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from nodemanager.agent.declared import changes, foreign_sets
from nodemanager.agent.declared.changes import DeclaredChanges
from nodemanager.agent.declared.staged_sets import StagedSets
from nodemanager.agent.requests import SETTLE_SECONDS
from nodemanager.api.common import choosing, configsetrevision
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.rollout import ALL_AT_ONCE, SCALE, Rollout
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.cache import Change
from support.staged import HOST, all_at_once, config_set, following, revision, undecided

OTHER = msgspec.structs.replace(HOST, labels={"role": "db"})
ONE, TWO = revision(1, "one"), revision(2, "two")
NEXT = msgspec.to_builtins(configsetrevision.reference(TWO))


@dataclass
class Listener:
    """Hears of changes, and notes the passes that are asked for."""

    host: ObjectMeta = HOST
    kept: list[ConfigSet] = field(default_factory=list)
    has_default: bool = False
    asked: list[float] = field(default_factory=list)

    def pass_soon(self, seconds: float = SETTLE_SECONDS) -> None:
        self.asked.append(seconds)

    def after(self, old: ConfigSet | None, new: ConfigSet | None) -> list[float]:
        """Return after how many seconds passes are asked for by a change."""
        unread = cast("Any", None)
        staged = StagedSets(unread, unread, lambda: self.kept, has_default=self.has_default)
        declared = SimpleNamespace(own=self.host, staged=staged, known_sets=None)
        listener = DeclaredChanges(cast("Any", declared), cast("Any", self), lambda: False)
        self.asked.clear()
        listener._on_config_set(Change(ObjectKey("n", "web"), old, new))
        return list(self.asked)


def having(one: ConfigSet) -> Listener:
    """A host that has what is stable of a set."""
    status = one.status.rollout
    assert status is not None
    assert status.stable is not None
    return Listener(kept=[choosing.in_force(one, status.stable, one.spec, one.metadata)])


def test_a_host_that_a_set_is_not_for_makes_no_pass() -> None:
    first, third = config_set(ONE), config_set(ONE, generation=2, next=NEXT, threshold=SCALE)
    for old, new in ((None, first), (first, undecided(first)), (undecided(first), third), (third, None)):
        assert Listener(OTHER).after(old, new) == []


def test_a_change_of_a_set_for_others_costs_no_pass_also_if_it_is_trimmed() -> None:
    first, second = all_at_once(config_set(ONE)), all_at_once(config_set(TWO, generation=2))
    cut, again = (foreign_sets.trimmed(one, OTHER.labels) for one in (first, second))
    for old, new in ((None, cut), (cut, again), (first, again), (again, None)):
        assert Listener(OTHER).after(old, new) == []
    assert Listener().after(cut, second) == [SETTLE_SECONDS]  # it was read whole, as it is ours now


def test_a_host_keeps_what_it_has_until_it_is_decided_and_says_then_that_it_has_seen_it() -> None:
    first = config_set(ONE, current="web-1")
    host = having(first)
    assert host.after(first, undecided(first)) == []
    assert host.after(undecided(first), config_set(ONE, generation=2, current="web-1")) == [SETTLE_SECONDS]
    # A list after an outage tells of both at once.
    assert host.after(first, config_set(ONE, generation=2, current="web-1")) == [SETTLE_SECONDS]
    counted = config_set(ONE, current="web-1", message="stage 1 of 2: waits for b")
    assert host.after(first, counted) == []
    assert host.after(first, None) == [SETTLE_SECONDS]


def test_its_turn_is_spread_and_its_return_is_not() -> None:
    before, turn = config_set(ONE), config_set(ONE, next=NEXT, threshold=SCALE)
    host = having(before)
    assert host.after(before, config_set(ONE, next=NEXT)) == []
    place = choosing.position(HOST.uid, TWO.spec.digest) / SCALE
    assert host.after(before, turn) == [pytest.approx(SETTLE_SECONDS + changes.SPREAD_SECONDS * place)]
    assert host.after(turn, before) == [SETTLE_SECONDS]
    canary = config_set(ONE, next=NEXT, canary={"matchLabels": HOST.labels})
    assert host.after(before, canary) == [SETTLE_SECONDS]
    everybody = config_set(ONE, next=NEXT, canary={})
    assert host.after(before, everybody) == []  # a selector that says nothing chooses no canary


def test_a_new_set_that_nobody_has_decided_about_is_told_of_after_a_while() -> None:
    new = config_set(None)
    new = msgspec.structs.replace(new, status=msgspec.structs.replace(new.status, rollout=None))
    assert Listener().after(None, new) == [changes.UNDECIDED_SECONDS]
    assert Listener().after(new, config_set(None, next=NEXT)) == [SETTLE_SECONDS]
    assert Listener().after(new, config_set(ONE)) == [SETTLE_SECONDS]


def test_from_stages_to_all_at_once_and_back() -> None:
    staged = config_set(ONE)
    plain = all_at_once(staged)
    assert having(staged).after(staged, plain) == [SETTLE_SECONDS]
    assert Listener(kept=[plain]).after(plain, undecided(staged)) == []
    assert Listener(kept=[plain]).after(undecided(staged), staged) == [SETTLE_SECONDS]
    assert Listener(OTHER).after(plain, staged) == []


def test_where_others_follow_a_default_a_set_that_says_nothing_is_waited_for() -> None:
    """Its status will say in a moment that it follows, too; if not, somebody asks."""
    one = all_at_once(config_set(ONE))
    changed = msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, priority=7))
    for old, new in ((None, one), (one, changed)):
        assert Listener().after(old, new) == [SETTLE_SECONDS]
        assert Listener(has_default=True).after(old, new) == [changes.UNDECIDED_SECONDS]
        assert Listener(OTHER, has_default=True).after(old, new) == []
    assert Listener(has_default=True).after(one, None) == [SETTLE_SECONDS]
    own = config_set(ONE)
    at_once = msgspec.structs.replace(one.spec, rollout=Rollout(strategy=ALL_AT_ONCE))
    assert Listener(has_default=True).after(one, msgspec.structs.replace(one, spec=at_once)) == [
        SETTLE_SECONDS
    ]
    # It is said, and all hosts have it: they read its revision, one after the other.
    told = following(config_set(ONE, current="web-1"))
    (waits,) = Listener(kept=[one]).after(one, told)
    assert SETTLE_SECONDS < waits < changes.FOLLOWING_SECONDS
    assert Listener().after(one, told) == [SETTLE_SECONDS]
    # It is said: there is a pass for what this host has of it now.
    assert Listener().after(one, following(own)) == [SETTLE_SECONDS]
    assert Listener().after(following(own), following(config_set(ONE, phase="Stable"))) == []
    assert having(own).after(following(own), undecided(following(own))) == []
    assert Listener().after(following(own), one) == [SETTLE_SECONDS]

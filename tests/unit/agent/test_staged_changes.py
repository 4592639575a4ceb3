"""Which changes of a set in stages a host makes a pass for: those about what it has or shall have."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from nodemanager.agent.declared import changes
from nodemanager.agent.declared.changes import DeclaredChanges
from nodemanager.agent.declared.staged_sets import StagedSets
from nodemanager.agent.requests import SETTLE_SECONDS
from nodemanager.api.common import choosing, configsetrevision
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.rollout import SCALE
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.cache import Change
from support.staged import HOST, all_at_once, config_set, revision, undecided

OTHER = msgspec.structs.replace(HOST, labels={"role": "db"})
ONE, TWO = revision(1, "one"), revision(2, "two")
NEXT = msgspec.to_builtins(configsetrevision.reference(TWO))


@dataclass
class Listener:
    """Hears of changes, and notes the passes that are asked for."""

    host: ObjectMeta = HOST
    kept: list[ConfigSet] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)

    def pass_soon(self, seconds: float = SETTLE_SECONDS) -> None:
        self.asked.append(seconds)

    def after(self, old: ConfigSet | None, new: ConfigSet | None) -> list[float]:
        """Return after how many seconds passes are asked for by a change."""
        declared = SimpleNamespace(own=self.host, staged=StagedSets(cast("Any", None), lambda: self.kept))
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

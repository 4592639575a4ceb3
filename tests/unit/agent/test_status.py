"""The status of a host: the same inputs give the same status, so that nothing is written for nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.agent.report import status
from nodemanager.agent.report.host_inventory import HostInventory
from nodemanager.agent.report.status import Collection, Pass
from nodemanager.api.common import node_conditions
from nodemanager.api.common.choosing import ChangeWait
from nodemanager.api.common.managednode import Drift, Heartbeat, HostOperatingSystem, ManagedNodeStatus
from nodemanager.client.patches import difference
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube import conditions
from nodemanager.plan.resources import ResourceId
from support.root_tree import config_set

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OUTCOMES = st.sampled_from(list(ResourceOutcome))
NAMES = st.sampled_from(["a", "b", "c"])
WORDS = st.text("ab/ é", max_size=5)


@st.composite
def passes(draw: st.DrawFn) -> Pass:
    """Any pass over some sets."""
    results = draw(
        st.lists(
            st.builds(
                Result,
                st.builds(ResourceId, st.sampled_from(["file", "package"]), WORDS),
                st.lists(NAMES, max_size=2).map(tuple),
                OUTCOMES,
                WORDS,
                drifted=st.booleans(),
            ),
            max_size=8,
        )
    )
    sets = [config_set(name) for name in sorted(draw(st.sets(NAMES)))]
    conflicts = draw(st.dictionaries(NAMES, st.lists(WORDS, max_size=2).map(tuple)))
    return Pass(sets, conflicts, results, Drift(), draw(st.dictionaries(WORDS, WORDS)))


def quiet(done: Pass) -> Pass:
    """Return the pass after this one, in which nothing had to be changed."""
    results = [one for one in done.results if one.outcome is not ResourceOutcome.CHANGED]
    return Pass(done.config_sets, done.conflicts, results, done.drift)


@given(passes(), st.integers(0, 3599))
def test_a_pass_that_changes_nothing_changes_no_status(done: Pass, seconds: int) -> None:
    first = status.of_pass(ManagedNodeStatus(), done, NOW, 7)
    again = status.of_pass(first, quiet(done), NOW + timedelta(seconds=seconds), 7)
    assert again == first
    assert difference(msgspec.to_builtins(first), msgspec.to_builtins(again)) == {}


@given(passes())
def test_a_host_is_ready_exactly_if_nothing_went_wrong(done: Pass) -> None:
    found = status.of_pass(ManagedNodeStatus(), done, NOW, 1)
    bad = any(one.bad or one.outcome is ResourceOutcome.HELD for one in done.results)
    assert conditions.is_true(found.conditions, conditions.READY) is not bad
    for entry in found.configsets:
        mine = [one for one in done.results if entry.name in one.sources]
        failed = any(one.outcome in (ResourceOutcome.FAILED, ResourceOutcome.BLOCKED) for one in mine)
        assert bool(entry.error) is failed
        waits = any(one.outcome in (ResourceOutcome.WAITING, ResourceOutcome.SHUT) for one in mine)
        assert bool(entry.waiting) is waits
        assert len(entry.error) <= status.MAX_ERROR


def entry_after(done: Pass, now: datetime = NOW, **old: Any) -> str | None:
    before = status.of_pass(ManagedNodeStatus(), Pass([config_set("a")], {}, [], Drift()), NOW, 1)
    entries = [msgspec.structs.replace(before.configsets[0], **old)]
    before = msgspec.structs.replace(before, configsets=entries)
    return status.of_pass(before, done, now, 1).configsets[0].last_applied


def test_last_applied_moves_with_a_change_and_otherwise_once_an_hour() -> None:
    later = NOW + timedelta(minutes=30)
    quietly = Pass([config_set("a")], {}, [], Drift())
    changed = Result(ResourceId("file", "/x"), ("a",), ResourceOutcome.CHANGED)
    assert entry_after(quietly, later) == "2026-01-02T03:04:05Z"
    assert entry_after(Pass([config_set("a")], {}, [changed], Drift()), later) == "2026-01-02T03:34:05Z"
    assert entry_after(quietly, later, error="gone now") == "2026-01-02T03:34:05Z"
    assert entry_after(quietly, NOW + timedelta(minutes=61)) == "2026-01-02T04:05:05Z"
    for odd in ("yesterday", "2026-01-02T03:04:05", None):
        assert entry_after(quietly, later, last_applied=odd) == "2026-01-02T03:34:05Z"


def test_a_refused_validation_has_a_reason_of_its_own() -> None:
    bad = Result(
        ResourceId("file", "/x"), ("a",), ResourceOutcome.FAILED, "cannot put /x: its validation failed: no"
    )
    other = Result(ResourceId("file", "/y"), ("a",), ResourceOutcome.FAILED, "cannot change /y: full")
    for results, reason in (([bad], "ValidationFailed"), ([bad, other], "ApplyFailed")):
        found = status.of_pass(ManagedNodeStatus(), Pass([], {}, results, Drift()), NOW, 1)
        ready = conditions.get(found.conditions, conditions.READY)
        assert ready is not None
        assert ready.reason == reason


def test_a_set_of_which_the_host_has_nothing_is_a_reason_not_to_be_ready() -> None:
    """One of which it has another revision is not: that holds, and says for what it waits."""
    missing, undecided = node_conditions.REVISION_MISSING, node_conditions.REVISION_UNDECIDED
    waits = {
        "a": ChangeWait(missing, "no revision 2", bare=False),
        "b": ChangeWait(undecided, "nobody", bare=True),
    }
    done = Pass([config_set("a")], {}, [], Drift(), waits=waits)
    found = status.of_pass(ManagedNodeStatus(), done, NOW, 1)
    ready = conditions.get(found.conditions, conditions.READY)
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == ("False", undecided, "ConfigSet b: nobody")
    assert [(one.name, one.waiting) for one in found.configsets] == [
        ("a", "RevisionMissing: no revision 2")
    ]  # the operator counts what a host reports of a set, and this one has nothing of b
    only = Pass([config_set("a")], {}, [], Drift(), waits={"a": waits["a"]})
    found = status.of_pass(ManagedNodeStatus(), only, NOW, 1)
    assert conditions.is_true(found.conditions, conditions.READY)


def test_many_failures_are_counted_not_listed() -> None:
    results = [
        Result(ResourceId("file", f"/{n}"), ("a",), ResourceOutcome.FAILED, "x" * 2000) for n in range(9)
    ]
    found = status.of_pass(ManagedNodeStatus(), Pass([config_set("a")], {}, results, Drift()), NOW, 1)
    assert len(found.configsets[0].error) == status.MAX_ERROR
    short = [Result(one.id, one.sources, one.outcome, "no") for one in results]
    found = status.of_pass(ManagedNodeStatus(), Pass([config_set("a")], {}, short, Drift()), NOW, 1)
    assert found.configsets[0].error.endswith("file:/4: no; and 4 more")


def test_what_was_seen_replaces_what_was_seen_before_and_keeps_the_rest() -> None:
    old = ManagedNodeStatus(last_upgrade="2026-01-01T00:00:00Z", release="5.0", file_backups={"/x": "1"})
    new = status.of_host(
        old, HostInventory(agent_version="1", os=HostOperatingSystem(kernel="6.1")), "lease", 3
    )
    assert (new.last_upgrade, new.release, new.file_backups) == ("2026-01-01T00:00:00Z", "6.1", {"/x": "1"})
    assert (new.observed_generation, new.heartbeat) == (3, Heartbeat(lease_name="lease"))


def test_backups_that_were_removed_are_no_longer_promised() -> None:
    old = ManagedNodeStatus(file_backups={"/x": "1", "/y": "2"})
    done = Pass([], {}, [], Drift(), {"/y": "3", "/z": "4"}, Collection(1, {"2"}))
    found = status.of_pass(old, done, NOW, 1)
    assert found.file_backups == {"/y": "2", "/z": "4"}
    assert found.last_file_bucket_gc == "2026-01-02T03:04:05Z"
    later = NOW + timedelta(hours=1)
    idle = status.of_pass(found, Pass([], {}, [], Drift(), {}, Collection(0, {"2", "4"})), later, 1)
    assert idle.last_file_bucket_gc == found.last_file_bucket_gc  # a look alone is not worth a write


def test_a_duplicate_is_told_once_seen_and_then_that_it_is_gone() -> None:
    none = status.of_duplication(ManagedNodeStatus(), False, NOW, 1)
    assert none.conditions == []
    found = status.of_duplication(none, True, NOW, 1)
    assert [(one.type, one.status, one.reason) for one in found.conditions] == [
        ("Duplicated", "True", "OtherAgent")
    ]
    gone = status.of_duplication(found, False, NOW, 1)
    assert [(one.status, one.reason, one.message) for one in gone.conditions] == [("False", "OneAgent", "")]

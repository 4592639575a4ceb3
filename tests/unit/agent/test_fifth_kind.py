"""A kind of host resource is whole once it is in the tables: nothing else in src has to know of it."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.report import status
from nodemanager.agent.report.local_status import Snapshot
from nodemanager.agent.report.reporting import Reporter
from nodemanager.agent.report.status_sources import LastPass
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.cli.views import output, plan_view, status_view
from nodemanager.cli.views.describe import configset
from nodemanager.host.process.threads import in_thread
from nodemanager.host.results import ResourceOutcome
from nodemanager.kube import conditions
from nodemanager.kube.objects import ObjectKey
from nodemanager.plan import merge
from nodemanager.plan.desired import Failure
from nodemanager.plan.resources import EXEC, FILE, PACKAGE, SERVICE, ResourceId
from nodemanager.plan.stages import KINDS, HostKinds, IncompleteHostKind
from nodemanager.plan.steps import Step, Waiting
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry
from support.note_kind import NOTE, NOTES, NotedSpec, NoteTable, WriteNote, noted_set
from support.realtime import Kept
from support.root_tree import needs_root

pytestmark = needs_root
NOW = datetime(2024, 5, 1, tzinfo=UTC)
GREETING = ResourceId(NOTE, "greeting")


def greeting(**more: Any) -> ConfigSet:
    return noted_set("web", notes=[{"name": "greeting", "text": "hello", **more}])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    return tmp_path / "notes"


@pytest.fixture
def table(folder: Path) -> NoteTable:
    return NoteTable(folder)


@pytest.fixture
def kept(tmp_path: Path, table: NoteTable) -> Kept:
    return Kept(tmp_path, kinds=table.kinds, parts=table.parts, watches=table.watches)


async def test_it_converges_in_its_place_among_the_others(kept: Kept, folder: Path) -> None:
    all_kinds = noted_set(
        "web",
        packages=[{"name": "jq"}],
        files=[{"path": f"{folder}/file", "content": "x"}],
        services=[{"name": "app", "ensure": "running"}],
        executions=[{"command": "true", "creates": f"{folder}/nothing"}],
        notes=[{"name": "greeting", "text": "hello"}],
    )
    async with kept:
        desired = merge.merge([all_kinds], kept.host.kinds)
        steps = await kept.host.converger.preview(desired, kept.desired_state(all_kinds).contents)
        assert [one.id.kind for one in steps] == [PACKAGE, FILE, NOTE, SERVICE, EXEC]
        results = {one.id: one for one in await kept.converge(all_kinds)}
        assert results[GREETING].outcome is ResourceOutcome.CHANGED
        assert (folder / "greeting").read_text() == "hello"
        again = await kept.converge(all_kinds)
        assert GREETING not in {one.id for one in again}  # it needed nothing
        assert kept.drifts.records == []


async def test_its_drift_is_repaired_at_once_and_recorded(kept: Kept, folder: Path) -> None:
    async with kept:
        await kept.converge(greeting())
        (folder / "greeting").write_text("bye")
        await kept.until(lambda: kept.drifts.records and (folder / "greeting").read_text() == "hello")
        (record,) = kept.drifts.records
        assert (record.resource, record.outcome, record.message) == (
            "note:greeting",
            "repaired",
            "says something else",
        )
        (folder / "greeting").unlink()
        await kept.until(lambda: len(kept.drifts.records) == 2)
        assert (folder / "greeting").read_text() == "hello"


async def test_its_drift_is_left_alone_where_that_is_declared(kept: Kept, folder: Path) -> None:
    async with kept:
        await kept.converge(greeting(drift="observe"))
        (folder / "greeting").write_text("bye")
        await kept.until(lambda: kept.drifts.records)
        assert [one.outcome for one in kept.drifts.records] == ["observed"]
        assert (folder / "greeting").read_text() == "bye"


def is_repaired(kept: Kept, times: int) -> bool:
    return len(kept.drifts.records) == times


async def test_a_fight_over_it_is_noticed(kept: Kept, folder: Path) -> None:
    async with kept:
        await kept.converge(greeting())
        for number in range(1, 6):
            (folder / "greeting").write_text("bye")
            await kept.until(functools.partial(is_repaired, kept, number))
        await kept.until(lambda: kept.told_contested)
        assert kept.told_contested == ["note:greeting"]


async def test_it_waits_when_the_validation_of_a_file_aborts_its_set(kept: Kept, folder: Path) -> None:
    aborted = noted_set(
        "web",
        files=[
            {"path": f"{folder}/file", "content": "x",
             "validate": {"command": "false", "onFailure": "abort"}},
        ],
        notes=[{"name": "greeting", "text": "hello"}],
    )  # fmt: skip
    async with kept:
        results = {one.id: one for one in await kept.converge(aborted)}
        assert results[GREETING].outcome is ResourceOutcome.BLOCKED
        assert "was aborted by a validation" in results[GREETING].message
        assert not (folder / "greeting").exists()


async def test_it_waits_while_a_file_of_its_set_cannot_be_made(kept: Kept, folder: Path) -> None:
    unmade = noted_set(
        "web",
        files=[{"path": f"{folder}/file", "content": "x"}],
        notes=[{"name": "greeting", "text": "hello"}],
    )
    async with kept:
        desired = merge.merge([unmade, noted_set("other", notes=[{"name": "other"}])], kept.host.kinds)
        contents = {f"{folder}/file": Failure("there is no Secret db", awaits="Secret db")}
        steps = {str(one.id): one for one in await kept.host.converger.preview(desired, contents)}
        assert isinstance(steps["note:greeting"], Waiting)
        assert steps["note:greeting"].awaits == "Secret db"
        assert isinstance(steps["note:other"], WriteNote)  # of another set
        results = {one.id: one for one in await kept.host.converger.run(desired, contents)}
        assert results[GREETING].outcome is ResourceOutcome.WAITING
        assert not (folder / "greeting").exists()


async def test_two_sets_that_differ_about_it_are_a_conflict(table: NoteTable) -> None:
    other = noted_set("other", notes=[{"name": "greeting", "text": "bye"}])
    found = merge.merge([greeting(), other], table.kinds)
    assert found.conflicts["web"] == ('note:greeting (also in configset "other")',)
    assert found.items[NOTE] == ()


@dataclass
class Recorder:
    """Takes Events, in memory."""

    said: list[tuple[str, str]]

    def normal(self, _resource: object, _about: object, reason: str, message: str) -> None:
        self.said.append((reason, message))

    warning = normal


async def test_it_is_counted_reported_and_told_of(
    kept: Kept, table: NoteTable, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    registry, events = Registry(), Recorder([])
    reporter = Reporter("web1", registry, cast("EventRecorder", events), lambda: 1.0, table.kinds)
    async with kept:
        results = await kept.converge(greeting())
        reporter.passed(ManagedNode(), [greeting()], kept.desired_state(greeting()).desired, results)
        assert events.said == [("Changed", "note:greeting noted for ConfigSet web (is not there)")]
        success = 'nodemanager_note_operations_total{node="web1",operation="note",result="success"} 1'
        assert success in registry.render()
        (folder / "greeting").write_text("bye")
        await kept.until(lambda: kept.told)
        reporter.repaired(kept.told, 0.1)
        assert "drift: note:greeting noted for ConfigSet web (says something else)" in caplog.text
        assert 'nodemanager_drift_repaired_total{node="web1"} 1' in registry.render()
        await in_thread(lambda: folder.rename(folder.with_name("elsewhere")))
        failed = await kept.converge(greeting())
        reporter.passed(ManagedNode(), [greeting()], kept.desired_state(greeting()).desired, failed)
        assert events.said[-1][0] == "Failed"
        done = status.Pass([greeting()], {}, failed, None)
        ready = status.of_pass(ManagedNodeStatus(), done, NOW, 1).conditions
        assert "note:greeting: cannot write the note" in str(
            [one.message for one in ready if one.type == conditions.READY]
        )


async def test_it_is_shown_on_the_host_in_plans_and_in_descriptions(kept: Kept, table: NoteTable) -> None:
    async with kept:
        desired = kept.desired_state(greeting()).desired
        last = LastPass(ObjectKey("n", "web1"), lambda: None, ManagedNodeStatus, lambda: desired)
        snapshot = last.fill(Snapshot())
        assert snapshot.managed == {NOTE: 1}
        assert "Managed:      1 note\n" in status_view.text(snapshot, NOW, kinds=table.kinds)
        plan = await kept.host.converger.preview(desired, {})
        shown = list(plan_view.lines(plan, kept.host.tree, output.PLAIN))
        assert shown[0] == "note:greeting  note: is not there"
    described = configset.render(greeting(), [], NOW, table.kinds, table.columns)
    assert "Notes (1)" in described
    assert "greeting   hello" in described


@pytest.mark.parametrize("part", ["parts", "watches", "columns"])
def test_a_part_that_was_forgotten_is_named(table: NoteTable, part: str) -> None:
    parts = {name: one for name, one in getattr(table, part).items() if name != NOTE}
    with pytest.raises(IncompleteHostKind, match=f"kind note has no {part}"):
        table.kinds.each(part, parts)
    with pytest.raises(IncompleteHostKind, match="note, which is no kind of this table"):
        KINDS.each(part, getattr(table, part))


def test_a_pass_without_all_parts_cannot_be_made(kept: Kept, table: NoteTable) -> None:
    converger = kept.host.converger
    with pytest.raises(IncompleteHostKind, match="kind note has no host part"):
        Converger(converger.observer, converger.tools, kinds=table.kinds)


def test_a_kind_and_its_field_in_the_spec_need_each_other() -> None:
    with pytest.raises(IncompleteHostKind, match="ConfigSetSpec differ in notes"):
        HostKinds(*KINDS, NOTES)
    with pytest.raises(IncompleteHostKind, match="NotedSpec differ in notes"):
        HostKinds(*KINDS, spec=NotedSpec)
    with pytest.raises(IncompleteHostKind, match="two of them have the same name"):
        HostKinds(*KINDS, *KINDS)


def test_a_step_that_does_not_say_what_it_is_cannot_be_defined() -> None:
    with pytest.raises(TypeError, match="step Mute says too little of itself"):
        type("Mute", (Step,), {})

"""What a host remembers of its tasks: all that go on, the last that ended, and the highest token."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nodemanager.agent.tasks import ledger as ledger_module
from nodemanager.agent.tasks.ledger import Entry, LedgerError, LedgerFolder
from nodemanager.api.maintenance.nodetask import NodeTaskSpec
from nodemanager.host.files.tree import Tree
from nodemanager.plan.tasks.record import StepRecord, TaskPhase, TaskRecord

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
SPEC = NodeTaskSpec(node_name="web1", deadline="2026-11-17T00:00:00Z")


def task(uid: str, token: int, phase: TaskPhase = TaskPhase.RUNNING) -> Entry:
    ended = NOW - timedelta(minutes=token) if phase.is_end else None
    return Entry(f"t-{uid}", SPEC, TaskRecord(uid, token, phase, (StepRecord(),), ended_at=ended))


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    made = Tree(str(tmp_path))
    yield made
    made.close()


@pytest.fixture
def folder(tree: Tree, tmp_path: Path) -> Path:
    """Where the records are, as soon as there is one."""
    LedgerFolder(tree).claim(task("first", 1))
    (path,) = tmp_path.rglob("first.json")
    return path.parent


def test_what_was_taken_is_known_to_the_next_process(tree: Tree) -> None:
    ledger = LedgerFolder(tree)
    assert (ledger.known().records, ledger.fence) == ({}, 0)
    made = [task("b", 7), task("a", 9), task("c", 7), task("old", 3, TaskPhase.SUCCEEDED)]
    for one in made:
        ledger.claim(one)
    again = LedgerFolder(tree)
    assert again.known() == ledger.known()
    assert (again.known().records["a"], again.known().fence) == (made[1].record, 9)
    assert [one.record.uid for one in again.unfinished()] == ["b", "c", "a"], "in the order of their tokens"


def test_an_older_task_does_not_lower_the_fence(tree: Tree, folder: Path) -> None:
    ledger = LedgerFolder(tree)
    ledger.claim(task("new", 9))
    ledger.claim(task("older", 4))
    assert ledger.fence == 9
    for path in folder.glob("*.json"):
        path.unlink()
    assert LedgerFolder(tree).fence == 9, "also without any record of it"


@pytest.mark.parametrize("text", ["", "nine", "-9", "\N{SUPERSCRIPT TWO}"])
def test_a_damaged_fence_is_what_the_records_say(tree: Tree, folder: Path, text: str) -> None:
    LedgerFolder(tree).claim(task("new", 9))
    (folder / "fence").write_text(text)
    assert LedgerFolder(tree).fence == 9
    for path in folder.glob("*.json"):
        path.unlink()
    assert LedgerFolder(tree).fence == 0, "and else nothing is known"


def test_a_lost_fence_is_what_the_records_say(tree: Tree, folder: Path) -> None:
    LedgerFolder(tree).claim(task("new", 9))
    (folder / "fence").unlink()
    assert LedgerFolder(tree).fence == 9


def test_what_is_no_record_is_left_alone(tree: Tree, folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    assert set(LedgerFolder(tree).entries) == {"first"}
    assert (folder / "notes.txt").exists()


def test_looking_again_finds_what_the_disk_says_and_nothing_else(tree: Tree, folder: Path) -> None:
    ledger = LedgerFolder(tree)
    (folder / "first.json").unlink()
    (folder / "fence").unlink()
    ledger.reload()
    assert (ledger.entries, ledger.fence) == ({}, 0)
    LedgerFolder(tree).claim(task("second", 2))
    ledger.reload()
    assert (set(ledger.entries), ledger.fence) == ({"second"}, 2)


def test_of_ended_tasks_the_newest_are_kept_and_of_others_all(
    tree: Tree, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "KEPT", 2)
    ledger = LedgerFolder(tree)
    for uid, token in zip("edcba", itertools.count(2), strict=False):
        ledger.claim(task(uid, token, TaskPhase.FAILED))
        ledger.claim(task(f"open-{uid}", 1))
    kept = {"b", "a", "first", *(f"open-{uid}" for uid in "edcba")}
    assert set(ledger.entries) == kept
    assert {path.stem for path in folder.glob("*.json")} == kept


def test_a_record_that_cannot_be_removed_stops_nobody(
    tree: Tree, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "KEPT", 1)
    ledger = LedgerFolder(tree)
    ledger.save(task("a", 2, TaskPhase.FAILED))
    (folder / "a.json").unlink()
    ledger.save(task("b", 3, TaskPhase.FAILED))
    assert set(ledger.entries) == {"first", "b"}


def test_a_record_that_could_not_be_read_is_kept_for_good(
    tree: Tree, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows when it ended, so it is not the oldest."""
    monkeypatch.setattr(ledger_module, "KEPT", 1)
    (folder / "first.json").write_bytes(b"{")
    ledger = LedgerFolder(tree)
    for uid, token in (("a", 2), ("b", 3)):
        ledger.save(task(uid, token, TaskPhase.FAILED))
    lost = ledger.entries["first"]
    assert set(ledger.entries) == {"first", "b"}
    assert (lost.name, lost.record.phase) == ("first", TaskPhase.HALTED)
    assert lost.record.message.startswith("its record could not be read: ")


def test_a_record_that_is_no_file_counts_as_one_that_cannot_be_read(tree: Tree, folder: Path) -> None:
    (folder / "odd.json").mkdir()
    assert LedgerFolder(tree).known().records["odd"].phase is TaskPhase.HALTED


def test_what_cannot_be_written_down_is_not_taken(tree: Tree, folder: Path) -> None:
    ledger = LedgerFolder(tree)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("in the way")
    with pytest.raises(
        LedgerError, match=r"cannot write down the task in .*/tasks: .* not a directory; nothing"
    ):
        ledger.claim(task("new", 9))
    assert "new" not in ledger.entries
    assert ledger.fence == 1


def test_what_the_system_says_is_told(tree: Tree) -> None:
    with pytest.raises(LedgerError, match="/tasks: File name too long; nothing is done until"):
        LedgerFolder(tree).save(task("u" * 300, 1))

"""What is owed: only what is on disk counts, and only what came about."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nodemanager.host.journal import Journal, JournalError
from nodemanager.host.tree import Tree
from nodemanager.plan.resources import parse_id

WEB, DB = parse_id("service:web"), parse_id("service:db")


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(Tree("/"), str(tmp_path / "state"))


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_could_not_be_written_is_written_when_it_is_owed_again(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a file would be changed in the belief that the restart is on record."""
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(JournalError, match="nothing that would need a restart is changed"):
        journal.owe({WEB: ["/a"]})
    monkeypatch.undo()
    assert journal.pending() == {}
    journal.owe({WEB: ["/a"]})
    assert Journal(Tree("/"), journal.folder).pending().keys() == {WEB}


def test_what_could_not_be_settled_is_owed_still(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.owe({WEB: ["/a"]})
    monkeypatch.setattr(os, "rename", full_disk)
    with pytest.raises(JournalError):
        journal.settle([WEB])
    monkeypatch.undo()
    assert journal.pending().keys() == {WEB}
    assert [one.name for one in Path(journal.folder).iterdir()] == ["pending.json"]


def test_a_cause_that_did_not_come_about_is_taken_back(journal: Journal) -> None:
    assert journal.owe({WEB: ["/a"]}) == {WEB: ("/a",)}
    assert journal.owe({WEB: ["/a", "/b"], DB: ["/b"]}) == {WEB: ("/b",), DB: ("/b",)}
    journal.retract({WEB: ["/b"], DB: ["/b"]})
    again = Journal(Tree("/"), journal.folder)
    assert {one: pending.causes for one, pending in again.pending().items()} == {WEB: ("/a",)}


@pytest.mark.parametrize("damage", ["", "{", '{"pending": {"x": {}}}'])
def test_a_damaged_journal_says_what_to_do(journal: Journal, damage: str) -> None:
    journal.owe({WEB: ["/a"]})
    Path(journal.folder, "pending.json").write_text(damage)
    with pytest.raises(JournalError, match="restart the services whose files changed recently"):
        Journal(Tree("/"), journal.folder)

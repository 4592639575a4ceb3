"""What is owed: only what is on disk counts, and only what came about."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files
from nodemanager.host.state.journal import Journal, JournalError
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


@pytest.mark.parametrize(
    "damage", ["", "{", '{"pending": {"x": {}}}', '{"pending": {"nonsense": {"causes": [], "since": 1}}}']
)
def test_a_damaged_journal_says_what_to_do(journal: Journal, damage: str) -> None:
    journal.owe({WEB: ["/a"]})
    Path(journal.folder, "pending.json").write_text(damage)
    with pytest.raises(JournalError, match="restart the services whose files changed recently"):
        Journal(Tree("/"), journal.folder)


def on_disk(journal: Journal) -> Journal:
    """Return what another process would find."""
    return Journal(Tree("/"), journal.folder)


def causes(journal: Journal) -> dict[str, tuple[str, ...]]:
    return {str(one): pending.causes for one, pending in journal.pending().items()}


def test_a_run_that_failed_is_owed_still_and_was_not_left_in_the_middle(journal: Journal) -> None:
    """Its end is on disk: else the next process would believe that it was interrupted, and say so."""
    journal.owe({WEB: ["/a"], DB: ["/b"]})
    journal.begin(WEB)
    assert on_disk(journal).started() == [WEB]
    journal.end(WEB)
    for found in (journal, on_disk(journal)):
        assert found.started() == []
        assert causes(found) == {"service:db": ("/b",), "service:web": ("/a",)}


def test_a_run_that_no_file_caused_leaves_nothing_when_it_has_failed(journal: Journal) -> None:
    journal.owe({DB: ["/b"]})
    journal.begin(WEB)
    journal.end(WEB)
    assert causes(journal) == causes(on_disk(journal)) == {"service:db": ("/b",)}


def test_the_end_of_what_never_began_is_none(journal: Journal) -> None:
    journal.end(WEB)
    assert not Path(journal.folder).exists()


def test_only_what_was_begun_is_told_as_begun(journal: Journal) -> None:
    journal.owe({WEB: ["/a"], DB: ["/b"]})
    journal.begin(DB)
    assert journal.started() == on_disk(journal).started() == [DB]
    assert causes(journal) == {"service:web": ("/a",), "service:db": ("/b",)}


def test_since_when_is_not_forgotten(tmp_path: Path) -> None:
    times = iter([100.0, 200.0, 300.0, 400.0])
    journal = Journal(Tree("/"), str(tmp_path / "state"), lambda: next(times))
    journal.owe({WEB: ["/a"]})
    journal.owe({WEB: ["/b"]})
    journal.begin(DB)
    assert {str(one): pending.since for one, pending in on_disk(journal).pending().items()} == {
        "service:web": 100.0, "service:db": 300.0,
    }  # fmt: skip


def test_what_is_owed_already_is_not_written_again(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.owe({WEB: ["/a"]})
    monkeypatch.setattr(os, "rename", full_disk)
    assert journal.owe({WEB: ["/a"]}) == {}
    journal.retract({DB: ["/a"]})
    journal.retract({WEB: ["/b"]})
    journal.settle([DB])
    journal.keep_only([WEB, DB])
    assert causes(journal) == {"service:web": ("/a",)}


def test_a_run_without_a_cause_is_owed_all_the_same(journal: Journal) -> None:
    assert journal.owe({WEB: []}) == {WEB: ()}
    assert journal.owe({WEB: []}) == {}
    assert causes(on_disk(journal)) == {"service:web": ()}


def test_causes_are_counted_up_to_a_number_and_no_further(journal: Journal) -> None:
    many = [f"/{number}" for number in range(100)]
    assert len(journal.owe({WEB: many[:60]})[WEB]) == 60
    assert journal.owe({WEB: many[50:]}) == {WEB: tuple(many[60:64])}
    assert journal.owe({WEB: many}) == {}
    assert causes(on_disk(journal)) == {"service:web": tuple(many[:64])}


def test_what_has_begun_is_not_taken_back_with_its_cause(journal: Journal) -> None:
    journal.owe({WEB: ["/a"], DB: ["/a", "/b"]})
    journal.begin(WEB)
    journal.retract({WEB: ["/a"], DB: ["/a"]})
    found = on_disk(journal)
    assert causes(found) == {"service:web": (), "service:db": ("/b",)}
    assert found.started() == [WEB]


def test_what_is_settled_is_settled_for_the_next_process_too(journal: Journal) -> None:
    journal.owe({WEB: ["/a"], DB: ["/b"]})
    journal.settle([WEB])
    assert causes(journal) == causes(on_disk(journal)) == {"service:db": ("/b",)}


def test_nothing_is_owed_to_what_is_no_longer_declared(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    journal.owe({WEB: ["/a"], DB: ["/b"]})
    with caplog.at_level("INFO"):
        journal.keep_only([DB])
    assert caplog.messages == ["service:web is no longer declared, so nothing is owed to it"]
    assert causes(journal) == causes(on_disk(journal)) == {"service:db": ("/b",)}


def test_what_another_process_did_is_seen_when_it_is_read_again(journal: Journal) -> None:
    journal.owe({WEB: ["/a"]})
    other = on_disk(journal)
    other.settle([WEB])
    other.owe({DB: ["/b"]})
    journal.reload()
    assert causes(journal) == {"service:db": ("/b",)}
    Path(journal.folder, "pending.json").unlink()
    journal.reload()
    assert causes(journal) == {}


def test_a_folder_that_was_exchanged_meanwhile_is_walked_to_again(journal: Journal) -> None:
    journal.owe({WEB: ["/a"]})
    folder = Path(journal.folder)
    folder.rename(folder.with_name("old"))
    journal.owe({DB: ["/b"]})
    assert causes(on_disk(journal)) == {"service:web": ("/a",), "service:db": ("/b",)}


def test_a_folder_further_up_that_was_exchanged_is_walked_to_again_too(tmp_path: Path) -> None:
    above = tmp_path / "lib"
    above.mkdir()
    tree = Tree("/")
    journal = Journal(tree, str(above / "state"))
    journal.owe({WEB: ["/a"]})
    tree.folder(str(above))  # what somebody else has walked to stays open
    above.rename(tmp_path / "old")
    above.mkdir()
    journal.owe({DB: ["/b"]})
    assert causes(on_disk(journal)) == {"service:web": ("/a",), "service:db": ("/b",)}


def test_what_leads_nowhere_is_told_with_its_own_remedy_alone(journal: Journal) -> None:
    folder = Path(journal.folder)
    folder.parent.joinpath("file").write_text("")
    with pytest.raises(JournalError, match="file is not a directory") as caught:
        Journal(Tree("/"), str(folder.parent / "file" / "state"))
    assert str(caught.value).startswith("cannot read what is owed: ")
    assert "restart the services" not in str(caught.value)


def test_who_may_not_read_it_is_told_that_root_may_and_to_restart_nothing(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(state_files, "read", denied)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(JournalError, match=r"Permission denied; only root may: run it with sudo$"):
        journal.reload()


def test_what_cannot_be_read_at_all_says_what_to_do_too(journal: Journal) -> None:
    Path(journal.folder, "pending.json").mkdir(parents=True)
    with pytest.raises(JournalError, match="it is not a file; restart the services whose files changed"):
        journal.reload()


def test_why_it_could_not_be_written_is_told_in_plain_words(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "rename", full_disk)
    with pytest.raises(JournalError, match=r"pending\.json: No space left on device; nothing that would"):
        journal.owe({WEB: ["/a"]})
    monkeypatch.undo()
    folder = Path(journal.folder)
    folder.rmdir()
    folder.symlink_to("/nowhere/at/all")
    with pytest.raises(JournalError, match=r"pending\.json: cannot reach .*; nothing that would"):
        journal.owe({WEB: ["/a"]})


def test_what_changes_while_a_program_runs_owes_another_run(journal: Journal) -> None:
    journal.owe({WEB: ["/a"]})
    journal.begin(WEB)
    assert journal.owe({WEB: ["/a"]}) == {WEB: ("/a",)}, "it may have read the old content"
    assert journal.owe({WEB: ["/a"]}) == {}
    journal.settle([WEB])
    assert causes(on_disk(journal)) == {"service:web": ("/a",)}
    assert on_disk(journal).started() == []
    journal.settle([WEB])
    assert causes(on_disk(journal)) == {}


def test_of_a_run_that_failed_everything_is_owed_that_was_and_that_came_meanwhile(journal: Journal) -> None:
    journal.owe({WEB: ["/a"]})
    journal.begin(WEB)
    journal.owe({WEB: ["/a", "/b"]})
    journal.end(WEB)
    assert causes(on_disk(journal)) == {"service:web": ("/a", "/b")}


def test_only_what_came_meanwhile_is_taken_back_from_a_run_under_way(journal: Journal) -> None:
    journal.owe({WEB: ["/a"]})
    journal.begin(WEB)
    journal.retract(journal.owe({WEB: ["/a"]}))
    journal.end(WEB)
    assert causes(on_disk(journal)) == {"service:web": ("/a",)}


def test_what_is_no_longer_declared_is_forgotten_with_what_came_meanwhile(journal: Journal) -> None:
    journal.owe({WEB: ["/a"]})
    journal.begin(WEB)
    journal.owe({WEB: ["/a"]})
    journal.keep_only([])
    assert causes(on_disk(journal)) == {}

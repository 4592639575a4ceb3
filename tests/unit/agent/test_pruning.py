"""A host takes back what it has because of sets that declare it no longer, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.results import ResourceOutcome
from nodemanager.host.state import ownership_ledger
from nodemanager.plan import merge
from nodemanager.plan.resources import file_id, package_id
from support.memory_host import DOWN
from support.owning_host import OwningHost, plain_set, pruning_set
from support.root_tree import literal_contents, needs_root

pytestmark = needs_root
EMPTY = pruning_set()


@pytest.fixture
def host(tmp_path: Path) -> OwningHost:
    return OwningHost(tmp_path)


def files(host: OwningHost) -> list[dict[str, Any]]:
    return [
        {"path": str(host.path("new")), "content": "ours"},
        {"path": str(host.path("old")), "content": "ours", "mode": "0600"},
        {"path": str(host.path("made")), "ensure": "directory"},
        {"path": str(host.path("made/in")), "content": "ours"},
        {"path": str(host.path("link")), "ensure": "symlink", "target": "ours"},
        {"path": str(host.path("was-link")), "content": "ours"},
        {"path": str(host.path("mode")), "content": "same", "mode": "0600", "owner": "7"},
        {"path": str(host.path("away")), "ensure": "absent"},
        {"path": str(host.path("no-dir")), "ensure": "absent"},
        {"path": str(host.path("found")), "content": "found"},
    ]


def furnish(host: OwningHost) -> None:
    """Make the host as it is before anything is declared."""
    for name, content in {"old": "theirs", "mode": "same", "away": "theirs", "found": "found"}.items():
        host.path(name).write_text(content)
    os.chown(host.path("old"), 3, 4)
    host.path("old").chmod(0o640)
    host.path("was-link").symlink_to("theirs")
    host.path("no-dir").mkdir(mode=0o700)


def picture(folder: Path) -> dict[str, object]:
    """Return everything that is there, but for our own state."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        if "state" in path.parts[len(folder.parts) : len(folder.parts) + 1]:
            continue
        about = path.lstat()
        what = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path)] = (oct(about.st_mode), about.st_uid, about.st_gid, what)
    return found


async def test_files_of_every_kind_are_as_they_were_before(host: OwningHost) -> None:
    furnish(host)
    before = picture(host.folder)
    await host.has(pruning_set(files=files(host)))
    assert host.path("made/in").read_text() == "ours"
    done = await host.has(EMPTY)
    assert picture(host.folder) == before
    assert done[f"file:{host.path('new')}"].message == (
        "ConfigSet web declares it no longer, and it was not there before"
    )
    assert all(one.pruned and not one.drifted for one in done.values())
    assert f"file:{host.path('found')}" not in done  # it is as it always was
    assert host.ledger.owned == {}
    assert await host.has(EMPTY) == {}


async def test_without_prune_all_of_it_is_left_behind_and_named(host: OwningHost) -> None:
    furnish(host)
    await host.has(plain_set(files=files(host)))
    ours = picture(host.folder)
    assert await host.has(plain_set()) == {}
    assert picture(host.folder) == ours
    assert host.left[f"file:{host.path('new')}"] == "spec.prune of ConfigSet web is not set"
    assert f"file:{host.path('found')}" not in host.left
    assert await host.has(EMPTY) != {}  # who sets it later takes back what was left
    assert host.left == {}


async def test_services_are_put_back_first_then_files_then_packages(host: OwningHost) -> None:
    host.services.facts.update({key: DOWN for key in host.services.facts if key.name == "app"})
    declared = pruning_set(
        packages=[{"name": "jq"}, {"name": "nginx"}],
        files=files(host)[:1],
        services=[
            {"name": "app", "ensure": "running", "enable": True},
            {"name": "nginx", "ensure": "stopped"},
        ],
        executions=[{"command": "true", "creates": str(host.path("nothing"))}],
    )
    host.packages.have["nginx"] = "1.22"  # before us
    await host.has(declared)
    host.services.calls.clear()
    host.packages.calls.clear()
    done = await host.has(EMPTY)
    assert host.services.calls == ["disable app", "stop app", "start nginx", "refresh"]
    assert host.packages.calls == ["remove jq"]
    assert [one.partition(":")[0] for one in done] == ["service", "service", "file", "package"]
    assert host.ledger.owned == {}


async def test_packages_are_left_where_only_prune_is_set(host: OwningHost) -> None:
    await host.has(plain_set(prune=True, packages=[{"name": "jq"}]))
    assert await host.has(plain_set(prune=True)) == {}
    assert host.left == {"package:jq": "spec.prunePackages of ConfigSet web is not set"}


async def test_a_package_that_something_else_needs_is_left(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(install: Any, remove: Any) -> dict[str, str]:
        del install
        return dict.fromkeys(remove, "cannot remove jq: other needs it")

    await host.has(pruning_set(packages=[{"name": "jq"}]))
    monkeypatch.setattr(host.packages, "rehearse", refuse)
    assert await host.has(EMPTY) == {}
    assert host.left == {"package:jq": "cannot remove jq: other needs it"}
    monkeypatch.undo()
    assert set(await host.has(EMPTY)) == {"package:jq"}  # it is tried again


async def test_a_package_stays_where_something_else_would_be_installed_for_it(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def substitutes(names: Any) -> dict[str, str]:
        return dict.fromkeys(names, "cannot remove jq: gojq would be installed instead")

    monkeypatch.setattr(host.packages, "substitutes", substitutes, raising=False)
    await host.has(pruning_set(packages=[{"name": "jq"}]))
    assert await host.has(EMPTY) == {}
    assert host.left == {"package:jq": "cannot remove jq: gojq would be installed instead"}
    gone = pruning_set(packages=[{"name": "jq", "ensure": "absent"}])
    assert set(await host.has(gone)) == {"package:jq"}  # who declares that it goes has it go


async def test_another_set_that_declares_the_same_takes_it_over(host: OwningHost) -> None:
    furnish(host)
    old = str(host.path("old"))
    await host.has(pruning_set(files=[{"path": old, "content": "ours"}]))
    other = pruning_set("other", files=[{"path": old, "content": "ours"}])
    assert await host.has(EMPTY, other) == {}
    assert host.ledger.owned[file_id(old)].sets == ("other@uid of other",)
    await host.has(EMPTY, pruning_set("other", files=[{"path": old, "content": "other"}]))
    await host.has(EMPTY)
    assert host.path("old").read_text() == "theirs"  # as before both


async def test_what_somebody_changed_by_hand_is_left_and_named_and_not_looked_at_again(
    host: OwningHost,
) -> None:
    one = host.path("new")
    await host.has(pruning_set(files=files(host)[:1]))
    one.write_text("mine")
    assert await host.has(EMPTY) == {}
    assert host.left == {f"file:{one}": "it was changed since by somebody else"}
    one.write_text("ours")
    assert await host.has(EMPTY) == {}
    await host.has(pruning_set(files=files(host)[:1]))  # declared again, it is ours again
    assert host.left == {}


async def test_a_set_deleted_while_the_host_was_off_is_known_by_the_record(host: OwningHost) -> None:
    other = pruning_set("other", files=[{"path": str(host.path("other")), "content": "x"}])
    await host.has(pruning_set(files=files(host)[:1]), other)
    host.restart()  # the agent was installed anew, and its state folder was kept
    done = await host.has(other)
    assert done[f"file:{host.path('new')}"].message.startswith("ConfigSet web is gone, and ")
    assert not host.path("new").exists()


async def test_an_agent_that_had_no_record_removes_nothing_that_it_finds(host: OwningHost) -> None:
    one = host.path("new")
    one.write_text("ours")
    held = (file_id(str(one)), package_id("nginx"))
    await host.has(pruning_set(files=files(host)[:1]), held=held)
    await host.has(pruning_set(files=[{"path": str(one), "content": "newer"}]))
    assert await host.has(EMPTY) == {}
    assert one.read_text() == "newer"
    assert host.left[f"file:{one}"].startswith("it is not known what was there before")


async def test_a_damaged_record_is_set_aside_and_nothing_is_removed(host: OwningHost) -> None:
    await host.has(pruning_set(files=files(host)[:1]))
    record = host.path("state") / ownership_ledger.NAME
    record.write_bytes(record.read_bytes()[:-3])
    host.restart()
    assert await host.has(EMPTY, held=(file_id(str(host.path("new"))),)) == {}
    assert host.path("new").exists()
    assert record.with_name(f"{record.name}.damaged").exists()


async def test_nothing_is_changed_of_which_no_record_can_be_made(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership_ledger, "MAX_ENTRIES", 0)
    done = await host.has(pruning_set(files=files(host)[:1]))
    assert done[f"file:{host.path('new')}"].outcome is ResourceOutcome.BLOCKED
    assert "cannot take down what this host has" in done[f"file:{host.path('new')}"].message
    assert not host.path("new").exists()


async def test_what_is_left_behind_is_not_remembered_without_limit(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership_ledger, "MAX_LEFT", 2)
    many = [{"path": str(host.path(str(number))), "content": "ours"} for number in range(4)]
    await host.has(plain_set(files=many))
    await host.has(plain_set())
    assert list(host.left) == [f"file:{host.path('2')}", f"file:{host.path('3')}"]
    assert host.path("0").exists()


async def test_a_repair_writes_nothing_down(host: OwningHost, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = pruning_set(files=files(host)[:1])
    await host.has(declared)

    def refuse(seen: object) -> None:
        raise AssertionError(f"there is no news in {seen}")

    monkeypatch.setattr(host.ledger, "note", refuse)
    host.path("new").write_text("drift")
    desired = merge.merge([declared])
    await host.converger.run(desired, literal_contents(desired))
    assert host.path("new").read_text() == "ours"


async def test_the_backup_of_what_was_there_outlives_all_others(host: OwningHost) -> None:
    furnish(host)
    old = str(host.path("old"))
    for content in ("first", "second", "third"):
        await host.has(pruning_set(files=[{"path": old, "content": content}]))
    host.bucket._clock = lambda: time.time() + 3600
    assert host.bucket.collect() == 2  # the first and the second, and not what was there before us
    await host.has(EMPTY)
    assert host.path("old").read_text() == "theirs"


async def test_a_hold_and_a_shut_window_keep_it(host: OwningHost) -> None:
    declared = pruning_set(files=files(host)[:1])
    one = f"file:{host.path('new')}"
    await host.has(declared)
    host.converger.restraints.may_act = lambda: False
    assert (await host.has(EMPTY))[one].outcome is ResourceOutcome.HELD
    host.converger.restraints.may_act = lambda: True
    host.converger.restraints.shut = lambda: frozenset({"web"})
    assert (await host.has(EMPTY))[one].outcome is ResourceOutcome.SHUT
    assert host.path("new").exists()
    assert host.ledger.owned[file_id(str(host.path("new")))].waits
    host.converger.restraints.shut = frozenset[str]
    assert (await host.has(EMPTY))[one].outcome is ResourceOutcome.CHANGED


async def test_what_fails_is_reported_and_tried_again(host: OwningHost) -> None:
    await host.has(pruning_set(services=[{"name": "nginx", "ensure": "stopped"}]))
    host.services.broken.add("nginx")
    assert (await host.has(EMPTY))["service:nginx"].outcome is ResourceOutcome.FAILED
    assert host.left == {"service:nginx": "cannot start nginx: it failed"}
    host.services.broken.clear()
    assert (await host.has(EMPTY))["service:nginx"].outcome is ResourceOutcome.CHANGED


async def test_a_directory_with_something_of_others_in_it_stays(host: OwningHost) -> None:
    await host.has(pruning_set(files=files(host)[2:4]))
    host.path("made/mine").write_text("mine")
    await host.has(EMPTY)
    assert not host.path("made/in").exists()
    assert host.left == {f"file:{host.path('made')}": "the directory is not empty: it has mine"}
    host.path("made/mine").unlink()
    await host.has(EMPTY)
    assert not host.path("made").exists()


async def test_a_service_that_stays_restarts_when_its_file_goes(host: OwningHost) -> None:
    one = str(host.path("new"))
    user = pruning_set("user", services=[{"name": "nginx", "ensure": "running", "subscribe_files": [one]}])
    await host.has(pruning_set(files=files(host)[:1]), user)
    host.services.calls.clear()
    before = host.converger.background._asked
    await host.has(EMPTY, user)
    assert (before, host.converger.background._asked) == (False, True)
    await host.has(EMPTY, user)  # what it asked for
    assert host.services.calls == ["restart nginx"]


async def test_a_plan_shows_it_and_changes_nothing(host: OwningHost) -> None:
    furnish(host)
    await host.has(pruning_set(files=files(host)))
    host.path("link").unlink()
    host.path("link").symlink_to("mine")
    ours, record = picture(host.folder), dict(host.ledger.owned)
    told = host.told(EMPTY)
    found = await host.pruner.preview(merge.merge([EMPTY]), told)
    said = {one.id.name.rpartition("/")[2]: type(one).__name__ for one in found}
    assert said["old"] == "WriteFile"
    assert said["new"] == said["in"] == said["made"] == "RemovePath"
    assert said["link"] == "Noop"
    assert (picture(host.folder), dict(host.ledger.owned)) == (ours, record)


async def test_a_repair_changes_nothing_of_what_was_there_before(host: OwningHost) -> None:
    declared = pruning_set(files=files(host)[:1])
    await host.has(declared)
    host.path("new").write_text("drift")
    desired = merge.merge([declared])
    await host.converger.run(desired, literal_contents(desired))
    await host.has(EMPTY)
    assert not host.path("new").exists()

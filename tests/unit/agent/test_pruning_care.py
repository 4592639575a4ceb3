"""What looks like something that nobody declares any more, and is not: it stays."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.agent.declared import known_sets
from nodemanager.agent.passes import pruning
from nodemanager.agent.report import orphan_report
from nodemanager.host.base import ServiceKey
from nodemanager.host.files.bucket import Bucket
from nodemanager.host.results import ResourceOutcome
from nodemanager.host.state import ownership_ledger
from nodemanager.host.state.ownership_ledger import OwnershipLedgerError
from nodemanager.host.state.vault import Vault
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import file_ownership
from nodemanager.plan.resources import file_id, package_id
from support.memory_host import DOWN, UP
from support.owning_host import NODE, OwningHost, plain_set, pruning_set
from support.root_tree import needs_root

pytestmark = needs_root
EMPTY, BASE = pruning_set(), pruning_set("base")


@pytest.fixture
def host(tmp_path: Path) -> OwningHost:
    return OwningHost(tmp_path)


def declared(host: OwningHost, name: str, content: str = "ours") -> dict[str, Any]:
    return {"path": str(host.path(name)), "content": content}


async def test_another_set_of_the_same_name_takes_back_nothing_of_the_first(host: OwningHost) -> None:
    await host.has(plain_set(files=[declared(host, "x")]), BASE)
    await host.has(BASE)
    another = msgspec.structs.replace(EMPTY, metadata=ObjectMeta(name="web", uid="another"))
    assert await host.has(BASE, told=known_sets.told([BASE, another], [BASE], NODE)) == {}
    assert await host.has(BASE, another) == {}
    assert host.path("x").exists()
    assert host.left == {f"file:{host.path('x')}": "spec.prune of ConfigSet web is not set"}


async def test_a_set_that_was_made_anew_and_declares_the_same_has_it(host: OwningHost) -> None:
    await host.has(pruning_set(files=[declared(host, "x")]))
    anew = msgspec.structs.replace(
        pruning_set(files=[declared(host, "x")]), metadata=ObjectMeta(name="web", uid="anew")
    )
    assert await host.has(anew) == {}
    assert host.ledger.owned[file_id(str(host.path("x")))].sets == ("web@anew",)
    await host.has(msgspec.structs.replace(EMPTY, metadata=anew.metadata))
    assert not host.path("x").exists()


@pytest.mark.parametrize("former", ["", "theirs"])
async def test_a_path_through_a_link_is_the_file_that_is_declared(host: OwningHost, former: str) -> None:
    host.path("usr").mkdir()
    host.path("lib").symlink_to("usr")
    if former:
        host.path("usr/x").write_text(former)
    await host.has(pruning_set(files=[declared(host, "lib/x")]))
    assert await host.has(pruning_set(files=[declared(host, "usr/x")])) == {}
    assert host.path("usr/x").read_text() == "ours"
    assert list(host.ledger.owned) == [file_id(str(host.path("usr/x")))]
    await host.has(EMPTY)  # what was there before the first name is what comes back
    assert (host.path("usr/x").read_text() if former else host.path("usr/x").exists()) == (former or False)


async def test_two_names_of_one_inode_are_not_changed_by_the_one_that_goes(host: OwningHost) -> None:
    await host.has(pruning_set(files=[declared(host, "x"), declared(host, "y")]))
    host.path("y").unlink()
    os.link(host.path("x"), host.path("y"))
    await host.has(pruning_set(files=[declared(host, "y")]))
    assert host.path("x").exists()
    said = f"it is the same as file:{host.path('y')}, or leads to it, which is declared"
    assert host.left == {f"file:{host.path('x')}": said}


async def test_a_unit_that_is_declared_by_another_name_goes_on(host: OwningHost) -> None:
    unit = replace(DOWN, unit="ssh.service")
    host.services.facts |= {ServiceKey(name): unit for name in ("ssh", "sshd")}
    await host.has(pruning_set(services=[{"name": "sshd", "ensure": "running", "enable": True}]))
    host.services.facts |= {ServiceKey(name): replace(UP, unit="ssh.service") for name in ("ssh", "sshd")}
    host.services.calls.clear()
    await host.has(pruning_set(services=[{"name": "ssh", "ensure": "running", "enable": True}]))
    assert host.services.calls == []
    assert [str(one) for one in host.ledger.owned] == ["service:ssh"]
    await host.has(EMPTY)
    assert host.services.calls == ["disable ssh", "stop ssh", "refresh"]  # as it was before both


async def test_what_moves_to_another_set_may_be_nobodys_for_a_minute(host: OwningHost) -> None:
    now, again = [0.0], list[float]()
    host.pruner = replace(host.pruner, grace=60, clock=lambda: now[0], again=again.append)
    one, other = pruning_set("one", files=[declared(host, "x")]), pruning_set("other")
    await host.has(one, other)
    assert await host.has(pruning_set("one"), other) == {}
    assert again == [60]
    assert "unless a set declares it within 60 seconds" in host.left[f"file:{host.path('x')}"]
    now[0] = 59
    await host.has(pruning_set("one"), pruning_set("other", files=[declared(host, "x")]))
    assert (host.left, host.path("x").read_text()) == ({}, "ours")
    now[0] = 61
    await host.has(pruning_set("one"), other)  # it begins anew
    assert host.path("x").exists()
    now[0] = 81
    await host.has(pruning_set("one"), other)
    assert (again, host.path("x").exists()) == ([60, 60, 40], True)
    now[0] = 121
    await host.has(pruning_set("one"), other)
    assert not host.path("x").exists()


async def test_why_something_is_left_is_said_once_and_again_when_that_changes(
    host: OwningHost, caplog: pytest.LogCaptureFixture
) -> None:
    await host.has(plain_set(files=[declared(host, "x")]), BASE)
    for _ in range(3):
        await host.has(plain_set(), BASE)
    said = f"file:{host.path('x')} is left behind, nobody declares it any more: "
    assert [one for one in caplog.messages if one.startswith(said)] == [
        f"{said}spec.prune of ConfigSet web is not set"
    ]
    host.path("x").write_text("theirs")
    for _ in range(2):
        await host.has(EMPTY, BASE)
    assert len([one for one in caplog.messages if one.startswith(said)]) == 2


async def test_a_backup_that_cannot_be_read_now_is_tried_again_later(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = OSError(errno.EIO, "Input/output error")
    host.path("x").write_text("theirs")
    await host.has(pruning_set(files=[declared(host, "x")]))

    def fails(*_: object) -> bytes:
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr(pruning, "former_content", fails)
        assert await host.has(EMPTY) == {}
    assert (host.left, host.path("x").read_text()) == ({f"file:{host.path('x')}": str(fault)}, "ours")
    await host.has(EMPTY)
    assert (host.left, host.path("x").read_text()) == ({}, "theirs")


async def test_a_look_that_saw_nothing_begins_the_minute_anew(host: OwningHost) -> None:
    now = [0.0]
    host.pruner = replace(host.pruner, grace=60, clock=lambda: now[0])
    await host.has(pruning_set("one", files=[declared(host, "x")]), EMPTY)
    await host.has(pruning_set("one"), EMPTY)
    now[0] = 3600
    host.pruner.wait_anew()  # another set may have taken it meanwhile
    await host.has(pruning_set("one"), EMPTY)
    assert host.path("x").exists()
    now[0] = 3660
    await host.has(pruning_set("one"), EMPTY)
    assert not host.path("x").exists()


async def test_what_was_left_and_is_gone_is_not_ours_when_somebody_brings_it_back(host: OwningHost) -> None:
    host.packages.have.clear()
    one = declared(host, "x")
    await host.has(plain_set(packages=[{"name": "jq"}], files=[one]))
    await host.has(plain_set())
    assert set(host.left) == {"package:jq", f"file:{host.path('x')}"}
    host.packages.have.clear()
    host.path("x").unlink()
    await host.has(plain_set())
    assert host.left == {}
    host.packages.have["jq"] = "1.6"
    host.path("x").write_text("ours")
    assert await host.has(EMPTY) == {}
    assert (dict(host.packages.have), host.path("x").exists()) == ({"jq": "1.6"}, True)


async def test_a_package_that_was_to_be_absent_is_not_removed_for_having_been_ours(host: OwningHost) -> None:
    host.packages.have.clear()
    await host.has(pruning_set(packages=[{"name": "jq"}]))
    await host.has(pruning_set(packages=[{"name": "jq", "ensure": "absent"}]))
    host.packages.have["jq"] = "1.6"
    assert await host.has(EMPTY) == {}
    assert package_id("jq") not in host.ledger.owned


async def test_nothing_comes_back_into_a_directory_that_is_gone(host: OwningHost) -> None:
    keys = host.path("bob/keys")
    keys.parent.mkdir()
    keys.write_text("bob")
    await host.has(pruning_set(files=[{"path": str(keys), "ensure": "absent"}]))
    shutil.rmtree(keys.parent)
    assert await host.has(EMPTY) == {}
    assert not keys.parent.exists()
    assert host.left == {f"file:{keys}": "its directory is gone, so what was there before is not put back"}


async def test_what_was_found_as_declared_and_changed_later_is_put_back(host: OwningHost) -> None:
    host.path("x").write_text("first")
    for content in ("first", "second", "third"):
        await host.has(pruning_set(files=[declared(host, "x", content)]))
    await host.has(EMPTY)
    assert host.path("x").read_text() == "first"


async def test_a_part_of_a_service_that_is_not_declared_is_not_ours(host: OwningHost) -> None:
    key = ServiceKey("app")
    host.services.facts[key] = DOWN
    running = pruning_set(services=[{"name": "app", "ensure": "running"}])
    await host.has(running)
    host.services.facts[key] = replace(host.services.facts[key], enabled=True, running=False)  # by hand
    await host.has(running)
    host.services.calls.clear()
    await host.has(EMPTY)
    assert host.services.calls == []
    assert host.left == {"service:app": "it starts at boot, which is not our doing, so it goes on running"}


async def test_a_part_of_a_service_that_is_declared_later_or_no_longer_is_put_back(host: OwningHost) -> None:
    host.services.facts[ServiceKey("app")] = DOWN
    await host.has(pruning_set(services=[{"name": "app", "ensure": "running"}]))
    await host.has(pruning_set(services=[{"name": "app", "ensure": "running", "enable": True}]))
    await host.has(pruning_set(services=[{"name": "app", "ensure": "running"}]))
    host.services.calls.clear()
    await host.has(EMPTY)
    assert host.services.calls == ["disable app", "stop app", "refresh"]


async def test_a_unit_that_its_package_enables_and_starts_was_not_so_before(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.packages.have.clear()
    install = host.packages.install

    async def installed(wanted: Any) -> None:
        await install(wanted)
        host.services.facts[ServiceKey("jqd")] = UP

    monkeypatch.setattr(host.packages, "install", installed)
    service = {"name": "jqd", "ensure": "running", "enable": True}
    await host.has(plain_set(prune=True, packages=[{"name": "jq"}], services=[service]))
    host.services.calls.clear()
    await host.has(plain_set(prune=True))
    assert host.services.calls == ["disable jqd", "stop jqd", "refresh"]
    assert set(host.left) == {"package:jq"}


async def test_backups_are_found_without_looking_at_all_others(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.path("x").write_text("theirs")
    await host.has(pruning_set(files=[declared(host, "x")]))

    def refuse(_: Bucket) -> None:
        raise AssertionError("each file would have to look at all backups")

    monkeypatch.setattr(Bucket, "backups", refuse)
    await host.has(EMPTY)
    assert host.path("x").read_text() == "theirs"


async def test_what_is_kept_for_later_is_not_listed_while_there_is_room(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> frozenset[str]:
        raise AssertionError("each backup would have to look at all records")

    monkeypatch.setattr(host.bucket, "_pinned", refuse)
    host.path("x").write_text("theirs")
    assert await host.has(EMPTY, pruning_set("b", files=[declared(host, "x")]))
    assert next(host.bucket.backups()).meta.path == str(host.path("x"))


async def test_a_window_that_one_of_two_sets_has_holds_back_what_both_declared(host: OwningHost) -> None:
    one = [declared(host, "x")]
    await host.has(pruning_set("a", files=one), pruning_set("b", files=one))
    host.converger.restraints.shut = lambda: frozenset({"a"})
    done = await host.has(pruning_set("a"), pruning_set("b"))
    assert done[f"file:{host.path('x')}"].outcome is ResourceOutcome.SHUT
    assert host.path("x").exists()


async def test_a_name_that_a_record_cannot_show_leads_to_no_other_file(host: OwningHost) -> None:
    odd, other = host.path("a\tb"), host.path("a\\tb")
    await host.has(pruning_set(files=[{"path": str(odd), "content": "ours"}]))
    other.write_text("ours")
    await host.has(EMPTY)
    assert (odd.exists(), other.exists()) == (True, True)
    assert "records cannot show" in next(iter(host.left.values()))


async def test_only_what_is_new_waits_for_a_record_that_cannot_be_written(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    await host.has(pruning_set(files=[declared(host, "x")]))
    host.path("x").write_text("drift")
    monkeypatch.setattr(ownership_ledger, "MAX_ENTRIES", 1)
    done = await host.has(pruning_set(files=[declared(host, "x"), declared(host, "y")]))
    assert done[f"file:{host.path('y')}"].outcome is ResourceOutcome.BLOCKED
    assert (host.path("x").read_text(), host.path("y").exists()) == ("ours", False)


async def test_a_link_on_the_way_to_something_declared_stays(host: OwningHost) -> None:
    host.path("real").mkdir()
    link = {"path": str(host.path("link")), "ensure": "symlink", "target": "real"}
    base = pruning_set("base", files=[declared(host, "link/x")])
    await host.has(pruning_set(files=[link, declared(host, "z")]), base)
    assert await host.has(pruning_set(files=[declared(host, "z")]), base) == {}
    assert (host.path("link").is_symlink(), host.path("link/x").read_text()) == (True, "ours")
    said = f"it is the same as file:{host.path('link/x')}, or leads to it, which is declared"
    assert host.left == {f"file:{host.path('link')}": said}
    await host.has(pruning_set(files=[declared(host, "z")]), BASE)
    assert not host.path("link").is_symlink()


async def test_a_directory_keeps_its_mode_while_something_declared_is_in_it(host: OwningHost) -> None:
    host.path("d").mkdir(mode=0o755)
    folder = {"path": str(host.path("d")), "ensure": "directory", "mode": "0700"}
    base = pruning_set("base", files=[declared(host, "d/x")])
    await host.has(pruning_set(files=[folder, declared(host, "z")]), base)
    await host.has(pruning_set(files=[declared(host, "z")]), base)
    assert host.path("d").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("old", "new"), [("jq", "jq:amd64"), ("jq.x86_64", "jq")])
async def test_a_package_with_and_without_its_architecture_is_one(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    host.packages.have.clear()

    async def installed() -> dict[str, str]:
        return dict.fromkeys(("jq", "jq:amd64", "jq.x86_64"), "1.6") if host.packages.have else {}

    monkeypatch.setattr(host.packages, "installed", installed)
    await host.has(pruning_set(packages=[{"name": old}]))
    host.packages.have |= {old: "1.6", new: "1.6"}
    await host.has(pruning_set(packages=[{"name": new}]))
    assert not [one for one in host.packages.calls if one.startswith("remove")]
    assert list(host.ledger.owned) == [package_id(new)]
    await host.has(EMPTY)
    assert host.packages.calls[-1] == f"remove {new}"  # it was not there before the first


@pytest.mark.parametrize(("own", "foreign"), [("jq:amd64", "jq:i386"), ("jq.x86_64", "jq.i686")])
async def test_a_package_for_another_architecture_says_nothing_about_the_hosts_own(
    host: OwningHost, own: str, foreign: str
) -> None:
    host.packages.have.clear()
    host.packages.have |= {"jq": "1.6", own: "1.6"}  # somebody else's
    host.packages.offered[foreign] = "1.6"
    await host.has(pruning_set(packages=[{"name": "jq"}, {"name": foreign}]), BASE)
    await host.has(pruning_set(packages=[{"name": "jq"}]), BASE)
    await host.has(EMPTY, BASE)
    assert "remove jq" not in host.packages.calls
    assert "jq" in host.packages.have


async def test_packages_of_one_source_are_not_one(host: OwningHost) -> None:
    host.packages.offered |= {"php8.2-cli": "8", "php8.2-fpm": "8"}
    await host.has(pruning_set(packages=[{"name": "php8.2-cli"}, {"name": "php8.2-fpm"}]))
    await host.has(pruning_set(packages=[{"name": "php8.2-fpm"}]))
    assert host.packages.calls[-1] == "remove php8.2-cli"


async def test_nothing_of_a_set_goes_while_something_of_it_is_not_in_place(host: OwningHost) -> None:
    old, new = declared(host, "old"), declared(host, "new")
    await host.has(pruning_set(packages=[{"name": "jq"}], files=[old]), BASE)
    done = await host.has(pruning_set(packages=[{"name": "no-such"}], files=[new]), BASE)
    assert done["package:no-such"].outcome is ResourceOutcome.FAILED
    assert (host.path("old").exists(), "jq" in host.packages.have) == (True, True)
    assert host.left["package:jq"] == (
        "waits: ConfigSet web declares it no longer, but what it declares is not in place yet"
    )
    assert host.ledger.owned[package_id("jq")].waits
    await host.has(pruning_set(packages=[{"name": "nginx"}], files=[new]), BASE)
    assert (host.path("old").exists(), "jq" in host.packages.have) == (False, False)


async def test_what_we_could_not_bring_about_and_is_there_may_be_somebody_elses(host: OwningHost) -> None:
    wanted = pruning_set(packages=[{"name": "htop"}])
    assert (await host.has(wanted))["package:htop"].outcome is ResourceOutcome.FAILED
    host.packages.have["htop"] = "3"  # by hand
    await host.has(wanted)
    await host.has(EMPTY)
    assert host.packages.have["htop"] == "3"
    assert "somebody else may have done it" in host.left["package:htop"]


async def test_what_we_brought_about_at_the_second_try_is_ours(host: OwningHost) -> None:
    host.services.facts[ServiceKey("app")] = DOWN
    wanted = pruning_set(services=[{"name": "app", "ensure": "running"}])
    host.services.broken.add("app")
    assert (await host.has(wanted))["service:app"].outcome is ResourceOutcome.FAILED
    host.services.broken.clear()
    await host.has(wanted)
    host.services.calls.clear()
    await host.has(EMPTY)
    assert host.services.calls == ["stop app"]


async def test_the_part_of_a_left_service_that_somebody_put_back_is_not_ours_any_more(
    host: OwningHost,
) -> None:
    key = ServiceKey("app")
    host.services.facts[key] = DOWN
    await host.has(plain_set(services=[{"name": "app", "ensure": "running", "enable": True}]))
    await host.has(plain_set())
    host.services.facts[key] = replace(UP, running=False)
    await host.has(plain_set())
    host.services.facts[key] = UP
    host.services.calls.clear()
    await host.has(EMPTY)
    assert host.services.calls == ["disable app", "refresh"]


async def test_a_path_that_moved_through_a_link_with_new_content_remembers_what_was_there(
    host: OwningHost,
) -> None:
    host.path("usr").mkdir()
    host.path("lib").symlink_to("usr")
    host.path("usr/x").write_text("theirs")
    await host.has(pruning_set(files=[declared(host, "lib/x", "one")]))
    await host.has(pruning_set(files=[declared(host, "usr/x", "two")]))
    assert (host.left, list(host.ledger.owned)) == ({}, [file_id(str(host.path("usr/x")))])
    await host.has(EMPTY)
    assert host.path("usr/x").read_text() == "theirs"


async def test_a_directory_that_does_not_come_back_takes_nothing_in(host: OwningHost) -> None:
    host.path("d").mkdir()
    host.path("d/k").write_text("theirs")
    gone = [{"path": str(host.path(name)), "ensure": "absent"} for name in ("d", "d/k")]
    await host.has(plain_set("dirs", files=gone[:1]), pruning_set(files=gone[1:]))
    await host.has(plain_set("dirs", files=gone[:1]), pruning_set(files=gone[1:]))
    assert not host.path("d").exists()
    await host.has(plain_set("dirs"), EMPTY)
    assert not host.path("d").exists()


async def test_what_was_left_a_year_ago_has_its_minute_too(host: OwningHost) -> None:
    now = [0.0]
    host.pruner = replace(host.pruner, grace=60, clock=lambda: now[0])
    await host.has(plain_set(files=[declared(host, "x")]))
    await host.has(plain_set())
    now[0] = 1e7
    assert await host.has(EMPTY) == {}
    assert host.path("x").exists()
    now[0] += 61
    await host.has(EMPTY)
    assert not host.path("x").exists()


async def test_what_is_left_for_good_is_not_read_again(host: OwningHost) -> None:
    await host.has(pruning_set(files=[declared(host, "x")]))
    host.path("x").write_text("by hand")
    await host.has(EMPTY)
    (entry,) = host.ledger.owned.values()
    assert entry.final
    assert file_ownership.OWNING.needs(host.ledger.owned).sizes[str(host.path("x"))] is None


async def test_a_record_that_cannot_be_written_after_the_fact_hides_nothing(
    host: OwningHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OwnershipLedgerError("disk full")

    await host.has(pruning_set(files=[declared(host, "x")]))
    monkeypatch.setattr(host.ledger, "settle", full)
    assert (await host.has(EMPTY))[f"file:{host.path('x')}"].outcome is ResourceOutcome.CHANGED


async def test_where_nothing_prunes_a_record_that_cannot_be_read_stops_nobody(host: OwningHost) -> None:
    (host.path("state") / ownership_ledger.NAME).mkdir(parents=True)
    host.restart()
    done = await host.has(plain_set(files=[declared(host, "x")]), BASE)
    assert done[f"file:{host.path('x')}"].outcome is ResourceOutcome.CHANGED
    done = await host.has(pruning_set(files=[declared(host, "y")]))
    assert done[f"file:{host.path('y')}"].outcome is ResourceOutcome.BLOCKED
    assert not host.path("y").exists()


@pytest.mark.parametrize("version", ["", '"version":3,'])
async def test_a_record_of_another_version_is_not_taken_for_ours(host: OwningHost, version: str) -> None:
    await host.has(pruning_set(files=[declared(host, "x")]))
    vault = Vault("/", str(host.path("state")))
    data = vault.load(ownership_ledger.NAME) or b""
    assert b'"version":2,' in data
    vault.save(ownership_ledger.NAME, data.replace(b'"version":2,', version.encode()))
    vault.close()
    host.restart()
    await host.has(EMPTY)
    assert host.path("x").exists()


async def test_a_pass_that_could_not_look_says_that_something_is_to_be_taken_back(host: OwningHost) -> None:
    """Otherwise the deletion of the set would end before anything was done about it."""
    await host.has(pruning_set(files=[declared(host, "x")]), BASE)
    going = msgspec.structs.replace(host.ledger.sets["web@uid of web"], here=False, leaving=True)
    assert orphan_report.orphans(host.ledger.owned, host.ledger.sets) is None
    host.ledger.begin({**host.ledger.sets, "web@uid of web": going}, ())
    found = orphan_report.orphans(host.ledger.owned, host.ledger.sets)
    assert found is not None
    assert [one.configset for one in found.pruning] == ["web"]

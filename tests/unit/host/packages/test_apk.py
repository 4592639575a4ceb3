"""apk, replayed: a script on PATH says what apk says (in the form of its sources; nothing was captured)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.host.base import Busy, ToolFailed, WantedPackage
from nodemanager.host.files import file_facts
from nodemanager.host.files.tree import Tree
from nodemanager.host.packages import database
from nodemanager.host.packages.apk import Apk
from nodemanager.host.packages.common import PackageContext
from support.replayed_tools import ReplayedTools, no_longer_fresh

APK = "apk --no-progress --wait 0"
CASES = Path(__file__).parents[3] / "cases" / "packages"


class Alpine:
    """A root of Alpine and its apk."""

    def __init__(self, path: Path) -> None:
        self.root = path / "root"
        self.database = self.root / "lib/apk/db/installed"
        self.database.parent.mkdir(parents=True)
        self.database.write_text((CASES / "apk-installed.txt").read_text())
        (self.root / "etc/apk").mkdir(parents=True)
        self.tools = ReplayedTools(path, "apk")
        self.tree = Tree(str(self.root))
        self.now = 0.0
        self.apk = Apk(PackageContext(self.tree, self.tools.run, clock=lambda: self.now, lock_seconds=0))


@pytest.fixture
def alpine(tmp_path: Path) -> Iterator[Alpine]:
    alpine = Alpine(tmp_path)
    yield alpine
    alpine.tree.close()


async def test_installed_runs_no_program(alpine: Alpine) -> None:
    await no_longer_fresh(alpine.database)
    first = await alpine.apk.installed()
    assert first["busybox"] == "1.36.1-r15"
    assert await alpine.apk.installed() is first
    alpine.database.write_text("P:new\nV:1-r0\n")
    assert await alpine.apk.installed() == {"new": "1-r0"}
    assert alpine.tools.calls() == []


def test_of_a_database_that_may_change_within_the_same_tick_nothing_is_kept(
    alpine: Alpine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_facts, "GRAIN", 10**18)
    assert database.stamp(alpine.tree, "/lib/apk/db/installed") is None
    monkeypatch.setattr(file_facts, "GRAIN", -(10**18))
    assert database.stamp(alpine.tree, "/lib/apk/db/installed") is not None


async def test_install_is_one_transaction_with_pins_in_world(alpine: Alpine) -> None:
    alpine.tools.answer("apk search --exact nginx", "nginx-1.24.0-r16\n")
    alpine.tools.answer("apk search --exact --all curl", "curl-8.5.0-r0\ncurl-8.9.0-r0\n")
    alpine.tools.answer(f"{APK} add --upgrade nginx curl=8.5.0-r0", "OK: 24 MiB in 31 packages\n")
    await alpine.apk.install([WantedPackage("nginx"), WantedPackage("curl", "8.5.0-r0")])
    assert [call for call in alpine.tools.calls() if " add " in call] == [
        f"{APK} add --upgrade nginx curl=8.5.0-r0"
    ]


async def test_unknown_packages_refresh_the_indexes_once_and_are_named(alpine: Alpine) -> None:
    alpine.tools.answer("apk search --exact nosuch", "")
    alpine.tools.answer(f"{APK} update", "OK: 23033 distinct packages available\n")
    for _ in range(2):
        with pytest.raises(ToolFailed, match="cannot install nosuch: no such package in the configured"):
            await alpine.apk.install([WantedPackage("nosuch")])
    assert alpine.tools.calls().count(f"{APK} update") == 1


async def test_removal_is_refused_while_others_need_it_before_world_is_touched(alpine: Alpine) -> None:
    alpine.database.write_text("P:libcurl\nV:8-r0\n\nP:nginx\nV:1-r0\n")
    alpine.tools.answer("apk del --simulate libcurl", (CASES / "apk-del-kept.txt").read_text())
    with pytest.raises(ToolFailed, match="cannot remove libcurl: cmake, curl, git would have to go as well"):
        await alpine.apk.remove(["libcurl"])
    assert alpine.tools.calls() == ["apk del --simulate libcurl"]
    alpine.tools.answer("apk del --simulate nginx", "(1/1) Purging nginx (1.24.0-r16)\n")
    alpine.tools.answer(f"{APK} del nginx", "(1/1) Purging nginx (1.24.0-r16)\n")
    await alpine.apk.remove(["nginx"])


async def test_upgrade_pins_what_is_held_and_not_pinned_yet(alpine: Alpine) -> None:
    (alpine.root / "etc/apk/world").write_text("alpine-baselayout\nbusybox=1.36.1-r15\n")
    alpine.tools.answer(f"{APK} add wireguard-tools-wg=1.0.20210914-r3", "")
    alpine.tools.answer(f"{APK} --update-cache upgrade", "")
    held = [
        WantedPackage("busybox", "1.36.1-r15"),
        WantedPackage("wireguard-tools-wg", "1.0.20210914-r3"),
        WantedPackage("absent", "1"),
    ]
    await alpine.apk.upgrade_all(held)
    assert alpine.tools.calls() == [
        f"{APK} add wireguard-tools-wg=1.0.20210914-r3",
        f"{APK} --update-cache upgrade",
    ]


async def test_a_lock_of_somebody_else_is_busy(alpine: Alpine) -> None:
    alpine.tools.answer(
        f"{APK} --update-cache upgrade",
        err="ERROR: Unable to lock database: Resource temporarily unavailable\n",
        status=99,
    )
    with pytest.raises(Busy, match="cannot upgrade all packages: another package manager is at work"):
        await alpine.apk.upgrade_all()


async def test_a_failure_ends_with_what_apk_said(alpine: Alpine) -> None:
    alpine.tools.answer("apk search --exact nginx", "nginx-1.24.0-r16\n")
    alpine.tools.answer(f"{APK} add --upgrade nginx", err="ERROR: nginx-1.24.0-r16: IO ERROR\n", status=1)
    with pytest.raises(
        ToolFailed, match=r"cannot install nginx: the package manager ended with exit status 1: .*IO ERROR"
    ):
        await alpine.apk.install([WantedPackage("nginx")])


async def test_without_a_network_the_newest_known_is_good_enough(alpine: Alpine) -> None:
    alpine.tools.answer(f"{APK} update", err="WARNING: temporary error (try again later)\n", status=1)
    alpine.tools.answer("apk search --exact nginx", "nginx-1.24.0-r16\n")
    assert await alpine.apk.candidates(["nginx"]) == {"nginx": "1.24.0-r16"}


async def test_the_newest_is_asked_for_once_in_a_while(alpine: Alpine) -> None:
    alpine.tools.answer(f"{APK} update")
    alpine.tools.answer("apk search --exact nginx", "nginx-1.24.0-r16\n")
    for _ in range(3):
        assert await alpine.apk.candidates(["nginx"]) == {"nginx": "1.24.0-r16"}
    assert alpine.tools.calls() == [f"{APK} update", "apk search --exact nginx"]
    alpine.tools.answer("apk search --exact nginx", "nginx-1.24.0-r17\n")
    alpine.now += 601
    assert await alpine.apk.candidates(["nginx"]) == {"nginx": "1.24.0-r17"}
    alpine.now += 3600
    await alpine.apk.candidates(["nginx"])
    assert alpine.tools.calls().count(f"{APK} update") == 1

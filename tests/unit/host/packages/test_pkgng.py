"""pkg, replayed: a script on PATH says what pkg says (in the form of its sources; nothing was captured)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.host.base import Busy, ToolFailed, WantedPackage
from nodemanager.host.files.tree import Tree
from nodemanager.host.packages.common import PackageContext
from nodemanager.host.packages.pkgng import Pkgng
from support.replayed_tools import ReplayedTools, no_longer_fresh

CASES = Path(__file__).parents[3] / "cases" / "packages"


class FreeBsd:
    """A root of FreeBSD and its pkg."""

    def __init__(self, path: Path) -> None:
        self.root = path / "root"
        self.database = self.root / "var/db/pkg/local.sqlite"
        self.database.parent.mkdir(parents=True)
        self.database.write_text("SQLite")
        self.tools = ReplayedTools(path, "pkg", "freebsd-version")
        self.tree = Tree(str(self.root))
        self.pkg = Pkgng(PackageContext(self.tree, self.tools.run, clock=lambda: 0.0, lock_seconds=0))
        self.tools.answer("pkg query -a %n %v", (CASES / "pkg-query.txt").read_text())
        self.tools.answer("pkg update -q")


@pytest.fixture
def freebsd(tmp_path: Path) -> Iterator[FreeBsd]:
    freebsd = FreeBsd(tmp_path)
    yield freebsd
    freebsd.tree.close()


async def test_installed_asks_once_until_the_database_changes(freebsd: FreeBsd) -> None:
    await no_longer_fresh(freebsd.database)
    first = await freebsd.pkg.installed()
    assert first["wireguard-tools"] == "1.0.20210914_3"
    assert await freebsd.pkg.installed() is first
    freebsd.database.write_text("SQLite, changed")
    await freebsd.pkg.installed()
    assert freebsd.tools.calls() == ["pkg query -a %n %v"] * 2


async def test_install_is_one_transaction_and_a_pin_may_go_back(freebsd: FreeBsd) -> None:
    freebsd.tools.answer("pkg rquery -U %n %v nginx curl", "nginx 1.24.0\ncurl 8.5.0\ncurl 8.4.0\n")
    freebsd.tools.answer("pkg install -y -U -f nginx curl-8.4.0")
    await freebsd.pkg.install([WantedPackage("nginx"), WantedPackage("curl", "8.4.0")])
    assert freebsd.tools.calls()[-1] == "pkg install -y -U -f nginx curl-8.4.0"


async def test_unknown_packages_are_named(freebsd: FreeBsd) -> None:
    freebsd.tools.answer("pkg rquery -U %n %v nginx nosuch", "nginx 1.24.0\n", status=1)
    with pytest.raises(ToolFailed, match="cannot install nosuch: no such package in the configured"):
        await freebsd.pkg.install([WantedPackage("nginx"), WantedPackage("nosuch")])
    assert "pkg update -q" in freebsd.tools.calls()


async def test_removal_never_takes_dependents_along(freebsd: FreeBsd) -> None:
    freebsd.tools.answer("pkg query -a %n %v", "curl 8\ngit 2\ncmake 3\n")
    freebsd.tools.answer("pkg query -a %n %rn", "curl git\ncurl cmake\nbash zsh\n")
    with pytest.raises(ToolFailed, match="cannot remove curl: cmake, git would have to go as well"):
        await freebsd.pkg.remove(["curl"])
    freebsd.tools.answer("pkg delete -y curl git cmake")
    await freebsd.pkg.remove(["curl", "git", "cmake"])
    assert freebsd.tools.calls()[-1] == "pkg delete -y curl git cmake"


async def test_upgrade_locks_what_is_held_and_unlocks_only_that(freebsd: FreeBsd) -> None:
    freebsd.tools.answer("pkg query -a %n %k", "nginx 0\ncurl 1\nbash 0\n")
    for command in ("lock -y nginx", "upgrade -y -U", "unlock -y nginx"):
        freebsd.tools.answer(f"pkg {command}")
    await freebsd.pkg.upgrade_all(
        [WantedPackage("nginx", "1"), WantedPackage("curl", "1"), WantedPackage("absent", "1")]
    )
    assert freebsd.tools.calls()[-3:] == ["pkg lock -y nginx", "pkg upgrade -y -U", "pkg unlock -y nginx"]


async def test_a_failed_upgrade_unlocks_as_well_and_is_reported(freebsd: FreeBsd) -> None:
    freebsd.tools.answer("pkg query -a %n %k", "nginx 0\n")
    freebsd.tools.answer("pkg lock -y nginx")
    freebsd.tools.answer("pkg unlock -y nginx")
    freebsd.tools.answer("pkg upgrade -y -U", err="pkg: no space left\n", status=3)
    with pytest.raises(
        ToolFailed, match=r"cannot upgrade all packages: .* exit status 3: pkg: no space left"
    ):
        await freebsd.pkg.upgrade_all([WantedPackage("nginx", "1")])
    assert freebsd.tools.calls()[-1] == "pkg unlock -y nginx"


async def test_a_lock_of_somebody_else_is_busy(freebsd: FreeBsd) -> None:
    freebsd.tools.answer("pkg query -a %n %k")
    freebsd.tools.answer(
        "pkg upgrade -y -U",
        err="pkg: Cannot get an advisory lock on a database, it is locked by another process\n",
        status=1,
    )
    with pytest.raises(Busy, match="another package manager is at work"):
        await freebsd.pkg.upgrade_all()


@pytest.mark.parametrize(
    ("versions", "reason"),
    [
        ("14.0-RELEASE-p3\n14.0-RELEASE-p3\n", ""),
        (
            "14.0-RELEASE-p5\n14.0-RELEASE-p3\n",
            "kernel 14.0-RELEASE-p5 is installed, 14.0-RELEASE-p3 is running",
        ),
    ],
)
async def test_reboot_is_needed_for_another_kernel(freebsd: FreeBsd, versions: str, reason: str) -> None:
    freebsd.tools.answer("freebsd-version -kr", versions)
    tree = Tree()
    try:
        assert await Pkgng(PackageContext(tree, freebsd.tools.run)).reboot_needed() == reason
    finally:
        tree.close()
    assert await freebsd.pkg.reboot_needed() == ""  # in another root nothing runs

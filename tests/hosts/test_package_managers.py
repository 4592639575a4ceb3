"""What every package manager must do, with the real apt, pacman and dnf, each in a root of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nodemanager.host.base import Busy, PackageManager, ToolFailed, WantedPackage
from support import debian_packages
from support.package_roots import AptRoot, PackageRoot, PacmanRoot, RpmRoot

pytestmark = pytest.mark.timeout(600)  # the first one installs what is missing

ROOTS: dict[str, type[PackageRoot]] = {"apt": AptRoot, "pacman": PacmanRoot, "dnf": RpmRoot}


@pytest.fixture(params=ROOTS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PackageRoot]:
    kind = ROOTS[request.param]
    debian_packages.ensure(*kind.debian)
    host = kind(tmp_path)
    yield host
    host.close()


def offer(host: PackageRoot) -> None:
    """Offer an application in two versions, and the library it needs."""
    host.publish("nm-lib", "1.0-1")
    host.publish("nm-app", "1.0-1", needs="nm-lib")
    host.synchronize()


async def test_nothing_is_installed_in_an_empty_root(host: PackageRoot) -> None:
    host.publish("nm-lib", "1.0-1")
    host.synchronize()
    assert await host.manager().installed() == {}


async def test_installs_all_in_one_transaction_with_what_they_need(host: PackageRoot) -> None:
    offer(host)
    host.publish("nm-other", "3.0-1")
    host.synchronize()
    manager = host.manager()
    await manager.install([WantedPackage("nm-app"), WantedPackage("nm-other", "3.0-1")])
    installed = await manager.installed()
    assert {name: installed.get(name) for name in ("nm-app", "nm-lib", "nm-other")} == {
        "nm-app": "1.0-1",
        "nm-lib": "1.0-1",
        "nm-other": "3.0-1",
    }
    assert host.content("/usr/share/nm-app/version") == "1.0-1"
    assert len([line for line in host.commands() if "nm-other" in line and changes(line)]) == 1


def changes(command: str) -> bool:
    return any(f" {word} " in command for word in ("install", "-S", "-U", "remove", "-R"))


async def remembered(manager: PackageManager) -> Mapping[str, str]:
    """Return what is installed once it is remembered: not while the database may change within a tick."""
    async with asyncio.timeout(90):
        while (found := await manager.installed()) is not await manager.installed():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return found


async def test_installed_is_read_again_only_when_it_changed(host: PackageRoot) -> None:
    offer(host)
    manager = host.manager()
    await manager.install([WantedPackage("nm-lib")])
    first = await remembered(manager)
    host.ran.clear()
    assert await manager.installed() is first
    assert host.ran == []
    await manager.install([WantedPackage("nm-app")])
    assert (await manager.installed())["nm-app"] == "1.0-1"


async def test_an_unknown_package_is_named_with_the_fix(host: PackageRoot) -> None:
    offer(host)
    message = (
        "cannot install nm-nosuch: no such package in the configured repositories;"
        " correct the name, or add the repository"
    )
    with pytest.raises(ToolFailed, match=message):
        await host.manager().install([WantedPackage("nm-lib"), WantedPackage("nm-nosuch")])
    assert "nm-lib" not in await host.manager().installed()


async def test_a_rehearsal_tells_what_would_be_refused_and_changes_nothing(host: PackageRoot) -> None:
    offer(host)
    manager = host.manager()
    await manager.install([WantedPackage("nm-app")])
    host.publish("nm-other", "3.0-1")
    host.synchronize()
    await manager.candidates(["nm-other"])
    before = await manager.installed()
    wanted = [WantedPackage("nm-other"), WantedPackage("nm-nosuch"), WantedPackage("nm-lib", "7.0-1")]
    refused = await manager.rehearse(wanted, ["nm-lib"])
    assert set(refused) == {"nm-nosuch", "nm-lib"}
    assert refused["nm-nosuch"].startswith("cannot install nm-nosuch: no such package")
    assert await manager.rehearse([WantedPackage("nm-other")], ["nm-app"]) == {}
    refused = await manager.rehearse([], ["nm-lib"])
    assert refused["nm-lib"].startswith("cannot remove nm-lib: nm-app")
    assert await manager.installed() == before


async def test_a_version_that_is_not_offered_is_named_beside_those_that_are(host: PackageRoot) -> None:
    offer(host)
    with pytest.raises(ToolFailed, match=r"cannot install nm-lib 7\.0-1: .* offer only 1\.0-1"):
        await host.manager().install([WantedPackage("nm-lib", "7.0-1")])


async def test_candidates_are_the_newest_and_leave_unknown_ones_out(host: PackageRoot) -> None:
    offer(host)
    host.publish("nm-lib", "1.10-1")
    host.publish("nm-lib", "1.9-1")
    if isinstance(host, PacmanRoot):  # a repository of Arch has one version of a package, the last added
        host.publish("nm-app", "1.0-1", needs="nm-lib")
    host.synchronize()
    newest = "1.9-1" if isinstance(host, PacmanRoot) else "1.10-1"
    assert await host.manager().candidates(["nm-lib", "nm-nosuch"]) == {"nm-lib": newest}


async def test_a_pin_goes_back_to_an_older_version(host: PackageRoot) -> None:
    offer(host)
    manager = host.manager()
    await manager.install([WantedPackage("nm-lib")])
    host.publish("nm-lib", "2.0-1")
    host.synchronize()
    host.now += 4000
    await manager.install([WantedPackage("nm-lib", "2.0-1")])
    assert (await manager.installed())["nm-lib"] == "2.0-1"
    await manager.install([WantedPackage("nm-lib", "1.0-1")])
    assert (await manager.installed())["nm-lib"] == "1.0-1"
    assert host.content("/usr/share/nm-lib/version") == "1.0-1"


async def test_installing_without_a_version_upgrades_to_the_newest(host: PackageRoot) -> None:
    offer(host)
    manager = host.manager()
    await manager.install([WantedPackage("nm-lib")])
    host.publish("nm-lib", "2.0-1")
    host.synchronize()
    host.now += 4000
    assert await manager.candidates(["nm-lib"]) == {"nm-lib": "2.0-1"}
    await manager.install([WantedPackage("nm-lib")])
    assert (await manager.installed())["nm-lib"] == "2.0-1"


async def test_removes_only_what_was_asked(host: PackageRoot) -> None:
    offer(host)
    manager = host.manager()
    await manager.install([WantedPackage("nm-app")])
    await manager.remove(["nm-app"])
    installed = await manager.installed()
    assert "nm-app" not in installed
    assert installed["nm-lib"] == "1.0-1"
    assert host.content("/usr/share/nm-app/version") == ""


async def test_removal_never_takes_dependents_along(host: PackageRoot) -> None:
    offer(host)
    manager = host.manager()
    await manager.install([WantedPackage("nm-app")])
    with pytest.raises(ToolFailed, match=r"cannot remove nm-lib: nm-app.* would have to go as well"):
        await manager.remove(["nm-lib"])
    assert {"nm-app", "nm-lib"} <= (await manager.installed()).keys()
    await manager.remove(["nm-lib", "nm-app"])
    assert not {"nm-app", "nm-lib"} & (await manager.installed()).keys()


async def test_upgrade_of_everything_leaves_pins_alone(host: PackageRoot) -> None:
    offer(host)
    host.publish("nm-pinned", "1.0-1")
    host.synchronize()
    manager = host.manager()
    await manager.install([WantedPackage("nm-app"), WantedPackage("nm-pinned", "1.0-1")])
    for name in ("nm-lib", "nm-app", "nm-pinned"):
        host.publish(name, "2.0-1", needs="nm-lib" if name == "nm-app" else "")
    await manager.upgrade_all(
        [WantedPackage("nm-pinned", "1.0-1"), WantedPackage("nm-not-installed", "1.0-1")]
    )
    installed = await manager.installed()
    assert {name: installed[name] for name in ("nm-lib", "nm-app", "nm-pinned")} == {
        "nm-lib": "2.0-1",
        "nm-app": "2.0-1",
        "nm-pinned": "1.0-1",
    }
    await manager.upgrade_all()
    assert (await manager.installed())["nm-pinned"] == "2.0-1"


async def test_somebody_elses_lock_is_busy_and_not_failed(host: PackageRoot) -> None:
    offer(host)
    manager = host.manager()
    await manager.candidates(["nm-lib"])
    host.lock()
    with pytest.raises(Busy, match=r"cannot .*: another package manager is at work"):
        await manager.install([WantedPackage("nm-lib")])
    assert await manager.reboot_needed() == ""


@pytest.mark.parametrize("name", ["--help", "nm-lib-", "nm lib", "*", "nm-lib/stable", "", "^nm-.*", "a=b"])
async def test_what_is_no_name_reaches_no_package_manager(host: PackageRoot, name: str) -> None:
    manager = host.manager()
    for deed in (manager.install([WantedPackage(name)]), manager.remove([name]), manager.candidates([name])):
        with pytest.raises(OSError, match="this is not the name of a package"):
            await deed
    assert host.ran == []

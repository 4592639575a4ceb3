"""What is particular to pacman, with the real one in a root of its own: no partial upgrades."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodemanager.host.base import ToolFailed, WantedPackage
from nodemanager.host.packages.pacman import Pacman
from support import debian_packages
from support.package_roots import PacmanRoot

pytestmark = pytest.mark.timeout(600)  # the first one installs what is missing


@pytest.fixture
def host(tmp_path: Path) -> Iterator[PacmanRoot]:
    debian_packages.ensure(*PacmanRoot.debian)
    host = PacmanRoot(tmp_path)
    host.publish("nm-lib", "1.0-1")
    host.publish("nm-app", "1.0-1", needs="nm-lib")
    host.synchronize()
    yield host
    host.close()


async def test_installing_never_refreshes_the_database(host: PacmanRoot) -> None:
    """`pacman -Sy nm-app` would install the application of today beside the library of yesterday."""
    manager = host.manager()
    await manager.install([WantedPackage("nm-lib")])
    host.publish("nm-lib", "2.0-1")
    host.publish("nm-app", "2.0-1", needs="nm-lib")
    assert await manager.candidates(["nm-app"]) == {"nm-app": "1.0-1"}
    with pytest.raises(ToolFailed, match=r"cannot install nm-app 2\.0-1: .*pacman -Syu"):
        await manager.install([WantedPackage("nm-app", "2.0-1")])
    await manager.install([WantedPackage("nm-app")])
    assert await manager.installed() == {"nm-lib": "1.0-1", "nm-app": "1.0-1"}
    await manager.upgrade_all()
    assert await manager.installed() == {"nm-lib": "2.0-1", "nm-app": "2.0-1"}
    assert all(" -Sy " not in f"{command} " for command in host.commands())


async def test_a_version_that_is_gone_from_the_mirror_asks_for_an_upgrade(host: PacmanRoot) -> None:
    host.withdraw("nm-lib", "1.0-1")
    with pytest.raises(
        ToolFailed, match=r"cannot install nm-lib: the mirror does not have .*upgrade the host"
    ):
        await host.manager().install([WantedPackage("nm-lib")])


async def test_a_pin_and_a_newest_in_one_call(host: PacmanRoot) -> None:
    manager = host.manager()
    await manager.install([WantedPackage("nm-app"), WantedPackage("nm-lib")])
    host.publish("nm-lib", "2.0-1")
    host.publish("nm-extra", "1.0-1")
    await manager.upgrade_all()
    await manager.install([WantedPackage("nm-lib", "1.0-1"), WantedPackage("nm-extra")])
    assert await manager.installed() == {"nm-lib": "1.0-1", "nm-app": "1.0-1", "nm-extra": "1.0-1"}


async def test_a_stale_lock_is_reported_with_the_fix_and_left_alone(host: PacmanRoot) -> None:
    host.lock()
    with pytest.raises(OSError, match=r"if no pacman runs .* remove /var/lib/pacman/db\.lck"):
        await host.manager().upgrade_all()
    assert (host.root / "var/lib/pacman/db.lck").exists()


async def test_after_a_failed_upgrade_nothing_is_installed_until_one_succeeds(host: PacmanRoot) -> None:
    """It failed after the refresh: whatever is installed now would be a partial upgrade."""
    manager = host.manager()
    await manager.install([WantedPackage("nm-app")])
    host.publish("nm-app", "2.0-1", needs="nm-nowhere")
    host.publish("nm-other", "2.0-1")
    with pytest.raises(ToolFailed, match=r"(?s)cannot upgrade all packages: .*nm-nowhere"):
        await manager.upgrade_all()
    with pytest.raises(ToolFailed, match=r"cannot install nm-other: .* this would be a partial upgrade"):
        await manager.install([WantedPackage("nm-other")])
    host.publish("nm-app", "2.0-2", needs="nm-lib")
    await manager.upgrade_all()
    await manager.install([WantedPackage("nm-other")])
    assert await manager.installed() == {"nm-lib": "1.0-1", "nm-app": "2.0-2", "nm-other": "2.0-1"}


async def test_an_upgrade_that_never_began_is_no_reason_to_refuse(host: PacmanRoot) -> None:
    manager = host.manager()
    (host.repo / "test.db").unlink()
    with pytest.raises(ToolFailed, match="cannot upgrade all packages"):
        await manager.upgrade_all()
    await manager.install([WantedPackage("nm-lib")])


async def test_a_lock_is_waited_for(host: PacmanRoot) -> None:
    """The clock stands still, so it is the end of the lock that ends the wait."""
    host.lock()
    manager = Pacman(replace(host.context, lock_seconds=60))
    task = asyncio.create_task(manager.install([WantedPackage("nm-lib")]))
    async with asyncio.timeout(60):
        while len([line for line in host.commands() if " -S " in line]) < 2:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.02)
    (host.root / "var/lib/pacman/db.lck").unlink()
    await task
    assert await manager.installed() == {"nm-lib": "1.0-1"}

"""What is heard of units, from a scripted systemd on a real socket; real machines are in tests/hosts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from jeepney.wrappers import DBusAddress

from nodemanager.host.files.tree import Tree
from nodemanager.host.services import systemd_bus
from nodemanager.host.watches import units
from nodemanager.host.watches.inbox import Inbox
from nodemanager.host.watches.paths import Interest, PathWatch
from nodemanager.host.watches.units import UnitCallbacks, UnitWatch
from nodemanager.plan.resources import ResourceId
from support.bus_peer import MANAGER, SystemdPeer, Unit

SECONDS = 50.0
QUIET = 0.05
X, Y = ResourceId("service", "x"), ResourceId("service", "y")
WANTED = {"x.service": frozenset((X,)), "y.service": frozenset((Y,)), "t@.service": frozenset[ResourceId]()}


WANTS = "etc/systemd/system/multi-user.target.wants"


class World:
    """A root, a scripted systemd and a watch."""

    def __init__(self, root: Path, user: str = "") -> None:
        self.peer = SystemdPeer()
        self.peer.units = {name: Unit(active="active", sub="running") for name in ("x.service", "y.service")}
        self.link = root / WANTS / "x.service"
        """Has x start at boot."""
        path = systemd_bus.USER_PRIVATE.format(os.getuid()) if user else systemd_bus.SYSTEM_BUS
        self.socket = root / path.lstrip("/")
        (root / "etc").mkdir()
        (root / "etc/passwd").write_text(f"{user}:x:{os.getuid()}:0::/:\n")
        self.tree = Tree(str(root))
        self.inbox = Inbox()
        self.paths = PathWatch(self.tree, self.inbox)
        self.watch = UnitWatch(self.tree, user, self.inbox, UnitCallbacks(self.files_found, self.ended))
        self.failed: BaseException | None = None
        self.looked_up = asyncio.Event()

    async def files_found(self, interests: list[Interest]) -> None:
        """Watch files for it, as the watch of a host does."""
        await self.paths.follow("units", interests)
        self.looked_up.set()

    def ended(self, task: asyncio.Task[None]) -> None:
        """Remember why it ended, which it must not."""
        if not task.cancelled():
            self.failed = task.exception()

    async def hang_up(self) -> None:
        """End the watch, and wait until it has."""
        if (task := self.watch.task) is not None:
            self.watch.close()
            await asyncio.wait([task])

    async def heard(self) -> set[ResourceId]:
        """Return what is touched next."""
        async with asyncio.timeout(SECONDS):
            return set((await self.inbox.take()).resources)

    async def wait_for(self, wanted: ResourceId) -> None:
        """Wait until something is touched."""
        while wanted not in await self.heard():
            pass

    async def look_up(self) -> None:
        """Have all units looked up now, and forget what is heard until they are."""
        self.looked_up.clear()
        self.peer.tell(MANAGER, "UnitFilesChanged", "", ())
        await self.looked_up.wait()
        await self.quiet()

    async def quiet(self) -> None:
        """Forget what is heard until nothing is any more."""
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(QUIET):
                    await self.inbox.take()

    async def enable(self) -> None:
        """Link x, as an enable that systemd does not tell of."""
        self.link.parent.mkdir(parents=True, exist_ok=True)
        self.link.symlink_to("../x.service")
        await self.quiet()

    async def barrier(self) -> set[ResourceId]:
        """Return all that is touched before y is, which is last: signals come in order."""
        state = "failed" if self.peer.units["y.service"].active == "active" else "active"
        self.peer.tell_state("y.service", state, "running")
        found: set[ResourceId] = set()
        while Y not in found:
            found |= await self.heard()
        return found - {Y}


@pytest.fixture
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    with tempfile.TemporaryDirectory(prefix="nm-") as folder:  # short: a socket's path has 107 bytes
        made = World(Path(folder), getattr(request, "param", ""))
        yield made
        await made.hang_up()
        made.paths.close()
        made.inbox.close()
        made.tree.close()
        assert made.failed is None


@pytest.fixture
async def live(world: World) -> AsyncIterator[World]:
    """The same, while systemd is there and everything was told of once."""
    async with world.peer.listen(world.socket):
        world.watch.follow(WANTED)
        assert await world.heard() == {X, Y}
        await world.barrier()
        yield world
        await world.hang_up()


async def test_a_unit_is_heard_of_when_it_has_arrived(live: World) -> None:
    live.peer.tell_state("x.service", "deactivating", "stop-sigterm")
    live.peer.tell_state("x.service", "inactive", "dead", job=7)
    assert await live.barrier() == set()
    live.peer.tell_state("x.service", "inactive", "dead")
    assert await live.heard() == {X}


async def test_a_unit_that_waits_to_be_started_again_has_arrived(live: World) -> None:
    live.peer.tell_state("x.service", "activating", "auto-restart")
    assert await live.heard() == {X}


async def test_what_is_said_twice_is_heard_once(live: World) -> None:
    live.peer.tell_state("x.service", "active", "running")
    assert await live.barrier() == set()


@pytest.mark.parametrize(
    ("name", "signature", "body"), [("UnitFilesChanged", "", ()), ("Reloading", "b", (False,))]
)
async def test_news_of_unit_files_have_units_looked_up(
    live: World, name: str, signature: str, body: tuple[bool, ...]
) -> None:
    live.peer.units["x.service"].file = "enabled"
    live.peer.tell(MANAGER, name, signature, body)
    assert await live.heard() == {X}


async def test_a_link_that_is_gone_while_units_are_looked_up_is_watched_when_it_is_back(live: World) -> None:
    await live.enable()
    await live.look_up()
    live.link.unlink()
    await live.look_up()
    await live.enable()
    live.link.unlink()
    assert await live.heard() == {X}


async def test_a_link_is_watched_also_when_its_directory_went_with_it(live: World) -> None:
    await live.enable()
    await live.look_up()
    live.link.unlink()
    live.link.parent.rmdir()
    await live.look_up()
    await live.enable()
    live.link.unlink()
    assert await live.heard() == {X}


async def test_a_link_that_was_never_there_is_watched_for(live: World) -> None:
    live.link.parent.mkdir(parents=True)
    await live.look_up()
    live.link.symlink_to("../x.service")
    assert await live.heard() == {X}


@pytest.mark.parametrize("world", ["me"], indirect=True)
async def test_units_of_a_user_whose_links_are_not_watched_are_looked_at_after_all_news(world: World) -> None:
    async with world.peer.listen(world.socket):
        world.watch.follow(WANTED)
        await world.looked_up.wait()
        await world.quiet()
        for _ in range(2):  # disabled, put back and disabled again: each time it says the same as before
            world.peer.tell(MANAGER, "UnitFilesChanged", "", ())
            await world.wait_for(X)
        await world.hang_up()


async def test_after_the_connection_broke_everything_is_told_of_again(live: World) -> None:
    live.peer.hang_up()
    await live.wait_for(X)
    await live.wait_for(X)  # once that it broke, once that it is back
    live.peer.tell_state("x.service", "failed", "failed")
    await live.wait_for(X)
    assert live.watch.shortfall == ""


async def test_a_manager_that_comes_up_is_heard_of_at_once(world: World) -> None:
    world.watch.follow(WANTED)
    await world.wait_for(X)  # its socket is being watched for now
    assert "not watched at present" in world.watch.shortfall
    async with world.peer.listen(world.socket):
        await world.wait_for(X)
        while world.watch.shortfall:
            await world.heard()
        await world.hang_up()


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        pytest.param("s", ("one",), id="too short"),
        pytest.param("sss", ("org.freedesktop.systemd1.Unit", "two", "three"), id="no dictionary"),
        pytest.param("sa{sv}as", ("org.freedesktop.systemd1.Unit", {"Job": ("s", "")}, []), id="no job"),
        pytest.param("sa{sv}as", ("org.freedesktop.systemd1.Unit", {"Job": ("u", 7)}, []), id="number"),
    ],
)
async def test_nonsense_does_not_end_it(live: World, signature: str, body: tuple[object, ...]) -> None:
    path = f"/unit/{b'x.service'.hex()}"
    address = DBusAddress(path, interface="org.freedesktop.DBus.Properties")
    live.peer.tell(address, "PropertiesChanged", signature, body)
    await live.barrier()
    assert live.failed is None


async def test_a_systemd_that_reads_its_files_is_not_asked_before_it_has(
    live: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "QUIET", 0.0)
    live.peer.units["x.service"].file = "disabled-by-hand"
    live.peer.tell(MANAGER, "Reloading", "b", (True,))
    live.peer.tell(MANAGER, "UnitFilesChanged", "", ())
    assert await live.barrier() == set()
    live.peer.tell(MANAGER, "Reloading", "b", (False,))
    assert await live.heard() == {X}


async def test_a_systemd_that_never_stops_reading_its_files_is_asked_all_the_same(
    live: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "QUIET", 1000.0)
    monkeypatch.setattr(units, "LIMIT", 0.05)
    live.peer.units["x.service"].file = "disabled-by-hand"
    heard = asyncio.create_task(live.wait_for(X))
    while not heard.done():
        for is_on in (True, False):
            live.peer.tell(MANAGER, "Reloading", "b", (is_on,))
        await asyncio.wait([heard], timeout=0.01)
    await heard

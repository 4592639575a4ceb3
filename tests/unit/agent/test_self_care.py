"""What the service manager is told, and when."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from nodemanager.agent.local_status import Board, Snapshot
from nodemanager.agent.self_care import ServiceVoice
from nodemanager.agent.status import Pass
from nodemanager.agent.status_sources import LastPass
from nodemanager.api.managednode import Drift, ManagedNode
from nodemanager.api.objects import ObjectKey
from nodemanager.client.contact import ApiState, Contact
from nodemanager.host.results import Outcome, Result
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import parse_id
from nodemanager.runtime import controller
from nodemanager.runtime.sd_notify import Notifications
from nodemanager.runtime.tasks import end
from support.root_tree import config_set

KEY = ObjectKey("nodemanager", "web1")


class Inbox:
    """The socket of a service manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.setblocking(False)

    async def next(self) -> str:
        async with asyncio.timeout(10):
            return (await asyncio.get_running_loop().sock_recv(self.socket, 4096)).decode()

    async def until(self, word: str) -> list[str]:
        """Return what comes up to a word."""
        said = [await self.next()]
        while said[-1] != word:
            said.append(await self.next())
        return said


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Inbox]:
    made = Inbox(tmp_path / "notify")
    yield made
    made.socket.close()


def made() -> tuple[Board, LastPass]:
    board = Board()
    last = LastPass(board.changed, Desired)
    board.plug(last.fill)
    return board, last


async def test_ready_comes_with_the_end_of_the_first_pass(inbox: Inbox) -> None:
    board, last = made()
    voice = ServiceVoice(Notifications(str(inbox.path)), board, lambda: last.over, patience=60)
    running = asyncio.create_task(voice.run())
    assert (await inbox.next()).startswith("STATUS=")
    sets = [config_set("a")]

    async def reconcile(_: ObjectKey) -> None:
        last.passed(ManagedNode(), Pass(sets, {}, [], Drift()))

    await last.timed(reconcile)(KEY)
    assert await inbox.until("READY=1") == ["READY=1"]
    assert await inbox.next() == "STATUS=1 ConfigSet, 0 resources: all as declared; API unknown"
    await last.timed(reconcile)(KEY)  # nothing new: nothing is said
    bad = Result(parse_id("file:/x"), ("a",), Outcome.FAILED, "no space")
    last.passed(ManagedNode(), Pass(sets, {}, [bad], Drift()))
    said = "STATUS=1 ConfigSet, 0 resources: does not hold: Ready: file:/x: no space; API unknown"
    assert await inbox.next() == said
    await end([running])


async def test_an_api_that_is_gone_holds_nobody_back(inbox: Inbox) -> None:
    board, last = made()
    voice = ServiceVoice(Notifications(str(inbox.path)), board, lambda: last.over, patience=0.05)
    running = asyncio.create_task(voice.run())
    voice.reload()  # before that, it would be taken for READY
    assert [one.partition("=")[0] for one in await inbox.until("READY=1")] == ["STATUS", "READY"]
    await inbox.next()
    voice.reload()
    assert (await inbox.next()).startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert await inbox.next() == "READY=1"
    await end([running])


async def test_a_pass_that_fails_is_told_with_its_reason_and_when_it_is_tried_again() -> None:
    board, last = made()

    async def fails(_: ObjectKey) -> None:
        raise OSError("the disk is full")

    async def works(_: ObjectKey) -> controller.Result:
        assert board.snapshot().passes.running_since
        return controller.Result(600.0)

    async def waits(_: ObjectKey) -> None:
        raise controller.Retry(1.0, "somebody was faster")

    with pytest.raises(OSError, match="full"):
        await last.timed(fails)(KEY)
    assert board.snapshot().passes.error == "the disk is full"
    assert board.snapshot().passes.next is None
    await last.timed(works)(KEY)
    passes = board.snapshot().passes
    assert (passes.error, passes.running_since) == ("", None)
    assert passes.next is not None
    assert passes.last is not None
    assert passes.next > passes.last
    with pytest.raises(controller.Retry):
        await last.timed(waits)(KEY)
    assert board.snapshot().passes.error == ""


def test_contact_is_what_the_requests_add_up_to() -> None:
    now, changes = [100.0], [0]

    def changed() -> None:
        changes[0] += 1

    contact = Contact(changed, lambda: now[0])
    seen = []
    for code in ("200", "404", "<error>", "<error>", "401", "403", "503", "200"):
        now[0] += 1
        contact.observe("GET", code, 0.1)
        seen.append((contact.state.value, contact.since, contact.last))
    assert seen == [
        ("connected", 101, 101), ("connected", 101, 102), ("alone", 103, 102), ("alone", 103, 102),
        ("refused", 105, 105), ("connected", 106, 106), ("alone", 107, 106), ("connected", 108, 108),
    ]  # fmt: skip
    assert changes[0] == 6
    assert ApiState.UNKNOWN.value == msgspec.to_builtins(Snapshot().api)["state"]

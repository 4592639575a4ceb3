"""The inbox: nothing that was added is lost, what writes gets a moment, and it stays small."""

from __future__ import annotations

import asyncio
import os
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.host.watches.event_reader import EventReader
from nodemanager.host.watches.inbox import NOW, Concern, Inbox, SettleTime
from nodemanager.plan.resources import ResourceId
from support import examples

SECONDS = 50.0
SOON = SettleTime(0.002, 0.004)
LATE = SettleTime(60.0, 120.0)
IDS = tuple(ResourceId("file", f"/{number}") for number in range(6))

concerns = st.builds(Concern, st.lists(st.sampled_from(IDS), min_size=1).map(tuple), st.booleans())
additions = st.lists(
    st.tuples(concerns, st.sampled_from((NOW, SOON)), st.booleans()), min_size=1, max_size=30
)


def concern(number: int) -> Concern:
    return Concern((IDS[number],))


@settings(max_examples=examples.some(40), deadline=None)
@given(added=additions)
def test_whatever_is_added_comes_out(added: list[tuple[Concern, SettleTime, bool]]) -> None:
    async def check() -> None:
        inbox = Inbox()
        wanted: set[ResourceId] = set()
        found: set[ResourceId] = set()
        inventory = seen = False
        async with asyncio.timeout(SECONDS):
            for one, settle, turn in added:
                inbox.add(one, settle)
                wanted.update(one.resources)
                inventory |= one.inventory
                if turn:
                    await asyncio.sleep(0)
            while found != wanted or seen != inventory:
                touched = await inbox.take()
                assert touched.resources or touched.inventory
                found |= touched.resources
                seen |= touched.inventory
        inbox.close()

    asyncio.run(check())


async def test_a_writer_gets_a_moment_and_who_is_done_does_not() -> None:
    inbox = Inbox()
    inbox.add(concern(0), LATE)
    inbox.add(concern(1))
    assert (await inbox.take()).resources == {IDS[1]}
    began = time.monotonic()
    inbox.add(concern(0))
    touched = await inbox.take()
    assert touched.resources == {IDS[0]}
    assert touched.since < began  # the first event counts
    inbox.close()


async def test_who_never_becomes_quiet_is_told_of_all_the_same() -> None:
    inbox, taken = Inbox(), asyncio.Event()

    async def take() -> None:
        await inbox.take()
        taken.set()

    task = asyncio.create_task(take())
    async with asyncio.timeout(SECONDS):
        while not taken.is_set():
            inbox.add(concern(0), SettleTime(0.02, 0.05))
            await asyncio.sleep(0)
    await task
    inbox.close()


async def test_lost_events_are_everything_once() -> None:
    inbox = Inbox()
    inbox.add_everything()
    inbox.add_everything()
    assert (await inbox.take()).everything
    inbox.add(concern(0))
    assert not (await inbox.take()).everything
    inbox.close()


async def test_a_stream_of_events_is_read_in_gulps() -> None:
    """Who writes one byte after the other, and lets us read in between, is not read one by one."""
    mouth, ear = os.pipe()
    os.set_blocking(mouth, False)
    gulps: list[int] = []
    heard = asyncio.Event()

    def drain() -> None:
        gulps.append(len(os.read(mouth, 65536)))
        if sum(gulps) >= 5000:
            heard.set()

    reader = EventReader(mouth, drain)
    for _ in range(5000):
        os.write(ear, b"x")
        await asyncio.sleep(0)
    async with asyncio.timeout(SECONDS):
        await heard.wait()
    reader.close()
    os.close(mouth)
    os.close(ear)
    assert sum(gulps) == 5000
    assert len(gulps) < 1000

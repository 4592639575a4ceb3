"""Both stores against a model that keeps a copy of everything for every revision, over random histories."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodemanager.store.base import (
    Compacted,
    EventType,
    FutureRevision,
    KeyExists,
    KeyMissing,
    Mismatch,
    Store,
    StoreError,
    StoreRecord,
    Subscription,
)
from support import examples
from support.stores import open_store

KEYS = [f"/{group}/{name}" for group in ("a", "a0", "b/n", "b") for name in "xyz"]
PREFIXES = ["/", "/a/", "/a0/", "/b/", "/b/n/", "/c/"]


@dataclass(frozen=True)
class Write:
    """A change; `stale` is how far its expected revision is from the right one."""

    kind: EventType
    key: str
    value: bytes
    stale: int


@dataclass(frozen=True)
class Burst:
    """Changes that are asked for at once."""

    writes: list[Write]


@dataclass(frozen=True)
class Compact:
    """Forget what is older than so many revisions ago."""

    back: int


@dataclass(frozen=True)
class List:
    """Read a collection as it was so many revisions ago, page by page."""

    prefix: str
    back: int
    limit: int


@dataclass(frozen=True)
class Follow:
    """Start a watch so many revisions ago."""

    prefix: str
    back: int


@dataclass(frozen=True)
class Read:
    """Read what one of the watches has."""

    which: int


@dataclass(frozen=True)
class Reopen:
    """Close the store and open it again, and resume the watches."""


keys, prefixes = st.sampled_from(KEYS), st.sampled_from(PREFIXES)
backs = st.integers(-1, 12)
writes = st.builds(
    Write, st.sampled_from(EventType), keys, st.binary(max_size=4), st.sampled_from([0, 0, 0, 0, 1, -1])
)
Step = Write | Burst | Compact | List | Follow | Read | Reopen
steps = st.lists(
    st.one_of(
        writes,
        writes,
        st.builds(Burst, st.lists(writes, min_size=2, max_size=6)),
        st.builds(Compact, backs),
        st.builds(List, prefixes, backs, st.integers(0, 4)),
        st.builds(Follow, prefixes, backs),
        st.builds(Read, st.integers(0, 3)),
        st.builds(Reopen),
    ),
    max_size=40,
)


@dataclass
class Model:
    """The truth: the whole state at each revision, the first of which is 1."""

    past: list[dict[str, StoreRecord]] = field(default_factory=lambda: [{}, {}])
    happened: list[tuple[EventType, StoreRecord]] = field(default_factory=list)
    compacted: int = 1

    @property
    def revision(self) -> int:
        return len(self.past) - 1

    def write(self, write: Write, expected: int) -> StoreRecord | type[StoreError]:
        now = dict(self.past[-1])
        old, revision = now.get(write.key), self.revision + 1
        if write.kind is EventType.CREATED:
            if old:
                return KeyExists
            new = now[write.key] = StoreRecord(write.key, write.value, revision, revision)
        elif old is None:
            return KeyMissing
        elif old.revision != expected:
            return Mismatch
        elif write.kind is EventType.UPDATED:
            new = now[write.key] = StoreRecord(write.key, write.value, old.created, revision)
        else:
            new = StoreRecord(write.key, old.value, old.created, revision)
            del now[write.key]
        self.past.append(now)
        self.happened.append((write.kind, new))
        return new

    def refuses(self, revision: int) -> type[StoreError] | None:
        if revision > self.revision:
            return FutureRevision
        return Compacted if revision < self.compacted else None

    def after(self, prefix: str, revision: int) -> list[tuple[EventType, StoreRecord, StoreRecord | None]]:
        return [
            (kind, record, self.past[record.revision - 1].get(record.key))
            for kind, record in self.happened
            if record.revision > revision and record.key.startswith(prefix)
        ]


@dataclass
class Follower:
    prefix: str
    seen: int
    watch: Subscription


class Run:
    """One history, on the store and on the model."""

    def __init__(self, twin: str, folder: Path) -> None:
        self.twin = twin
        self.folder = folder
        self.model = Model()
        self.followers: list[Follower] = []
        self.store: Store

    async def play(self, history: Sequence[Step]) -> None:
        self.store = await open_store(self.twin, self.folder)
        try:
            for step in history:
                await self.step(step)
                assert self.store.revision == self.model.revision
                now = {record.key: record for record in self.store.list("/").records}
                assert now == self.model.past[-1]
            for follower in self.followers:
                await self.read(follower)
        finally:
            await self.store.close()

    async def step(self, step: Step) -> None:
        match step:
            case Write():
                await self.burst([step])
            case Burst(writes):
                await self.burst(writes)
            case Compact(back):
                await self.compact(self.model.revision - back)
            case List(prefix, back, limit):
                self.list(prefix, self.model.revision - back, limit)
            case Follow(prefix, back):
                self.follow(prefix, self.model.revision - back)
            case Read(which):
                if self.followers:
                    await self.read(self.followers[which % len(self.followers)])
            case Reopen():
                await self.reopen()

    async def burst(self, writes: Sequence[Write]) -> None:
        asked, expectations = [], []
        for write in writes:
            current = self.model.past[-1].get(write.key)
            expected = (current.revision if current else 1) + write.stale
            expectations.append(self.model.write(write, expected))
            asked.append(self.ask(write, expected))
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        for outcome, expectation in zip(outcomes, expectations, strict=True):
            assert (outcome if isinstance(expectation, StoreRecord) else type(outcome)) == expectation

    async def ask(self, write: Write, expected: int) -> StoreRecord:
        if write.kind is EventType.CREATED:
            return await self.store.create(write.key, write.value)
        if write.kind is EventType.UPDATED:
            return await self.store.update(write.key, write.value, expected)
        return await self.store.delete(write.key, expected)

    async def compact(self, revision: int) -> None:
        if revision > self.model.revision:
            with pytest.raises(FutureRevision):
                await self.store.compact(revision)
            return
        await self.store.compact(revision)
        self.model.compacted = max(revision, self.model.compacted)
        assert self.store.compacted == self.model.compacted

    def list(self, prefix: str, revision: int, limit: int) -> None:
        if revision <= 0:
            return  # zero means now, which every step checks
        refusal = self.model.refuses(revision)
        if refusal:
            with pytest.raises(refusal):
                self.store.list(prefix, revision=revision)
            return
        state = self.model.past[revision]
        expected = [state[key] for key in sorted(state) if key.startswith(prefix)]
        got: list[StoreRecord] = []
        more = True
        while more:
            after = got[-1].key if got else ""
            page = self.store.list(prefix, revision=revision, after=after, limit=limit)
            got += page.records
            assert page.revision == revision
            assert (page.remaining, page.more) == (len(expected) - len(got), len(expected) > len(got))
            assert limit in {0, len(page.records)} or not page.more
            more = page.more
        assert got == expected

    def follow(self, prefix: str, after: int) -> None:
        refusal = self.model.refuses(max(after, 1))
        if refusal:
            with pytest.raises(refusal):
                self.store.watch(prefix, after)
            return
        self.followers.append(Follower(prefix, after, self.store.watch(prefix, after)))

    async def read(self, follower: Follower) -> None:
        expected = self.model.after(follower.prefix, follower.seen)
        if not expected:
            assert follower.watch.delivered == self.model.revision
            return
        assert follower.seen <= follower.watch.delivered < expected[0][1].revision
        got = [(e.kind, e.record, e.previous) for e in await follower.watch.next()]
        while len(got) < len(expected):
            got += [(e.kind, e.record, e.previous) for e in await follower.watch.next()]
        assert got == expected
        follower.seen = self.model.revision
        assert follower.watch.delivered == self.model.revision

    async def reopen(self) -> None:
        if self.twin == "memory":
            return
        await self.store.close()
        self.store = await open_store(self.twin, self.folder)
        assert self.store.compacted == self.model.compacted
        resumed, self.followers = self.followers, []
        for follower in resumed:
            self.follow(follower.prefix, follower.seen)


def play(twin: str, history: Sequence[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(Run(twin, Path(folder)).play(history))


RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@given(steps)
@settings(max_examples=examples.some(100), deadline=None, suppress_health_check=RELAXED)
def test_the_memory_store_is_like_the_model(history: list[Step]) -> None:
    play("memory", history)


@given(steps)
@settings(max_examples=examples.some(40), deadline=None, suppress_health_check=RELAXED)
def test_the_durable_store_is_like_the_model(history: list[Step]) -> None:
    play("sqlite", history)

"""Hands changes to any number of watches, without copying and without waiting for any of them.

Watches of the same prefix share one buffer and have a position in it each. A change is therefore
appended once per watched prefix, not once per watch, and what remains per watch is to
wake it when it waits. The buffer is bounded: a watch whose position fell out of it gets Compacted.
It is emptied as soon as every watch has read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from nodemanager.store.base import Compacted, Listener, StoreClosed, StoreEvent
from nodemanager.store.state import FIRST

BUFFER = 4096
"""How many events a watch may be behind."""


class Broadcast:
    """All watches of a store. Every method belongs to the loop's thread."""

    def __init__(self, revision: int = FIRST, buffer: int = BUFFER) -> None:
        self.revision = revision
        self.closed = False
        self._buffer = buffer
        self._channels: dict[str, _Channel] = {}
        self._listeners: list[Listener] = []

    def __len__(self) -> int:
        """How many watches there are."""
        return sum(len(channel.watches) for channel in self._channels.values())

    def subscribe(self, prefix: str, backlog: Sequence[StoreEvent] = ()) -> StoreWatch:
        """Follow a prefix from now on; `backlog` is handed out first."""
        if self.closed:
            raise StoreClosed(f"cannot watch {prefix}: the store is closed")
        channel = self._channels.get(prefix)
        if channel is None:
            channel = self._channels[prefix] = _Channel(prefix)
        return StoreWatch(self, channel, backlog)

    def listen(self, listener: Listener) -> None:
        """Hand all changes from now on to a listener, before the watches are woken."""
        self._listeners.append(listener)

    def publish(self, events: Sequence[StoreEvent]) -> None:
        """Hand changes that have happened, in order, to listeners and watches."""
        for listener in self._listeners:
            listener(events)
        touched: dict[str, _Channel] = {}
        for event in events:
            self.revision = event.record.revision
            for prefix in _prefixes(event.record.key):
                channel = self._channels.get(prefix)
                if channel is not None:
                    channel.events.append(event)
                    touched[prefix] = channel
        for channel in touched.values():
            channel.settle(self._buffer)

    def close(self) -> None:
        """End all watches, once they have read what is in their buffers."""
        self.closed = True
        for channel in self._channels.values():
            channel.wake()

    def leave(self, watch: StoreWatch, channel: _Channel) -> None:
        """Drop a watch, and its channel with the last one."""
        channel.watches.discard(watch)
        if not channel.watches:
            self._channels.pop(channel.prefix, None)


class _Channel:
    """The shared buffer of one prefix."""

    __slots__ = ("behind", "events", "prefix", "start", "waiting", "watches")

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.events: list[StoreEvent] = []
        self.start = 0  # the position of the first event in the buffer
        self.behind = 0  # how many watches have not read to the end
        self.watches: set[StoreWatch] = set()
        self.waiting: dict[asyncio.Future[None], None] = {}

    @property
    def end(self) -> int:
        return self.start + len(self.events)

    def settle(self, buffer: int) -> None:
        """Record new events: drop the oldest if there are too many, and wake the waiting watches."""
        self.behind = len(self.watches)
        excess = len(self.events) - buffer
        if excess > 0:
            del self.events[:excess]
            self.start += excess
        self.wake()

    def caught_up(self) -> None:
        """Say that one more watch has read everything, or has left."""
        self.behind -= 1
        if self.behind == 0:
            self.start = self.end
            self.events.clear()

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, {}
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[waiter] = None
        try:
            await waiter
        finally:
            self.waiting.pop(waiter, None)


class StoreWatch:
    """One subscriber. Cancelling `next` loses no event; a batch is taken only when it is returned."""

    def __init__(self, broadcast: Broadcast, channel: _Channel, backlog: Sequence[StoreEvent]) -> None:
        self._broadcast = broadcast
        self._channel = channel
        self._backlog = backlog
        self._position = channel.end
        self._returned = backlog[0].record.revision - 1 if backlog else broadcast.revision
        self._open = True
        channel.watches.add(self)

    async def next(self) -> Sequence[StoreEvent]:
        """Return the next events, at least one, in order; raise Compacted when we fell too far behind."""
        while True:
            if not self._open:
                raise StoreClosed(f"cannot follow {self._channel.prefix}: the watch is closed")
            batch = self._take()
            if batch:
                self._returned = batch[-1].record.revision
                return batch
            if self._broadcast.closed:
                raise StoreClosed(f"cannot follow {self._channel.prefix}: the store is closed")
            await self._channel.wait()

    @property
    def delivered(self) -> int:
        """The revision up to which nothing is outstanding: what a bookmark may say."""
        if not self._open or self._lost:
            return self._returned
        if self._backlog:
            return self._backlog[0].record.revision - 1
        channel = self._channel
        if self._position < channel.end:
            return channel.events[self._position - channel.start].record.revision - 1
        return self._broadcast.revision

    def close(self) -> None:
        """End it."""
        if not self._open:
            return
        returned = self.delivered
        self._open = False
        self._returned = returned
        self._backlog = ()
        self._broadcast.leave(self, self._channel)
        if self._position < self._channel.end:
            self._channel.caught_up()
        self._channel.wake()  # our own `next` may be among those that wait

    @property
    def _lost(self) -> bool:
        return self._position < self._channel.start

    def _take(self) -> Sequence[StoreEvent]:
        if self._backlog:
            batch, self._backlog = self._backlog, ()
            return batch
        channel = self._channel
        if self._lost:
            self.close()
            raise Compacted(
                f"cannot follow {channel.prefix} from revision {self._returned}: the reader was too slow"
            )
        taken = channel.events[self._position - channel.start :]
        if taken:
            self._position = channel.end
            channel.caught_up()
        return taken


def _prefixes(key: str) -> Iterator[str]:
    """Return every collection that a key is in, the widest first."""
    slash = key.find("/")
    while slash >= 0:
        yield key[: slash + 1]
        slash = key.find("/", slash + 1)

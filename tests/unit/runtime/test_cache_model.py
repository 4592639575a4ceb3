"""The cache against a model: whatever happens on the way, it ends in the server's state.

Aspects: every change is told once and in order, deletions missed during a 410 are found by the
relist, streamed and paged lists agree, no fault makes the cache spin.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

import hypothesis
from hypothesis import strategies as st

from nodemanager.api import errors
from nodemanager.api.core import LEASES, Lease
from nodemanager.api.objects import ObjectKey
from nodemanager.client.calls import Selection
from nodemanager.client.http import Client
from nodemanager.runtime.cache import Cache, CacheOptions, Change
from support import virtual_time
from support.model_api import NAMESPACE, Answer, ModelApi, ModelWatch, status_body, value_of

EXAMPLES = int(os.environ.get("NODEMANAGER_TEST_EXAMPLES", "1000"))
NAMES = st.sampled_from(["a", "b", "c", "d", "e"])

FAULTS: dict[str, Callable[[], Answer | errors.KubeError]] = {
    "refused": lambda: errors.Unreachable("scripted"),
    "timeout": lambda: errors.TimedOut("scripted"),
    "unauthorized": lambda: Answer(401, status_body(401, "Unauthorized")),
    "forbidden": lambda: Answer(403, status_body(403, "Forbidden")),
    "gone": lambda: Answer(410, status_body(410, "Expired")),
    "throttled": lambda: Answer(429, status_body(429, "TooManyRequests"), {"retry-after": "2"}),
    "failed": lambda: Answer(500, status_body(500, "InternalError")),
    "html": lambda: Answer(502, b"<html>bad gateway</html>"),
    "truncated": lambda: Answer(200, b'{"metadata": {"resourceVersion": "7"}, "items": [{"me', truncate=True),
    "not json": lambda: Answer(200, b"hello"),
    "empty": lambda: Answer(200, b""),
}  # fmt: skip

WATCH_FAULTS: dict[str, Callable[[ModelWatch], bytes | errors.KubeError]] = {
    "end": lambda _: b"",
    "broken": lambda _: errors.Unreachable("scripted"),
    "cut": lambda _: b'{"type": "MODIFIED", "object": {"metadata": {"na',
    "garbage": lambda _: b"garbage\n",
    "bookmark": ModelWatch.bookmark,
    "expired": lambda _: b'{"type":"ERROR","object":' + status_body(410, "Expired") + b"}\n",
    "error": lambda _: b'{"type":"ERROR","object":' + status_body(500, "InternalError") + b"}\n",
}

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES, st.text("xyz", max_size=3)),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("compact")),
        st.tuples(st.just("fault"), st.sampled_from(sorted(FAULTS))),
        st.tuples(st.just("watch"), st.sampled_from(sorted(WATCH_FAULTS))),
        st.tuples(st.just("settle")),
        st.tuples(st.just("wait"), st.sampled_from([0.01, 1.0, 40.0, 400.0])),
    ),
    max_size=40,
)


class Follower:
    """A subscriber that rebuilds the snapshot from changes alone, and finds every inconsistency."""

    def __init__(self) -> None:
        self.state: dict[ObjectKey, str] = {}
        self.versions: dict[ObjectKey, int] = {}

    def __call__(self, change: Change[Lease]) -> None:
        assert (change.old is None) == (change.key not in self.state), (
            f"{change.key}: told twice or not at all"
        )
        if change.old is not None:
            assert value_of(change.old) == self.state[change.key]
        if change.new is None:
            del self.state[change.key]
            return
        version = int(change.new.metadata.resource_version)
        assert version > self.versions.get(change.key, 0), f"{change.key}: went back in time"
        self.versions[change.key] = version
        self.state[change.key] = value_of(change.new)


async def act(api: ModelApi, step: tuple[str, ...]) -> None:
    match step:
        case ("put", name, value):
            api.put(name, value)
        case ("delete", name):
            api.delete(name)
        case ("compact",):
            api.compact()
        case ("fault", kind):
            api.faults.append(FAULTS[kind]())
        case ("watch", kind):
            for watch in list(api.watches):
                watch.push(WATCH_FAULTS[kind](watch))
        case ("settle",):
            await virtual_time.settle()
        case ("wait", seconds):
            await asyncio.sleep(float(seconds))


async def scenario(steps: list[tuple[str, ...]], streams: bool) -> None:
    loop = asyncio.get_running_loop()
    api = ModelApi(streams=streams)
    cache = Cache(Client(api), LEASES, Selection(NAMESPACE), options=CacheOptions(initial_timeout=5))
    cache.add_index("value", lambda lease: [value_of(lease)])
    follower = Follower()
    failures: list[BaseException] = []

    def subscriber(change: Change[Lease]) -> None:
        try:
            follower(change)
        except AssertionError as error:  # the cache would only log it
            failures.append(error)

    cache.subscribe(subscriber)
    running = asyncio.create_task(cache.run())
    for step in steps:
        await act(api, step)
    api.faults.clear()
    await asyncio.sleep(700)  # longer than any backoff and any watch
    assert not failures, failures
    snapshot = {key: value_of(lease) for key in api.expected() if (lease := cache.get(key))}
    assert snapshot == api.expected() == follower.state
    assert len(cache.values()) == len(api.objects)
    for value in {"", "x", "y"}:
        names = {lease.metadata.name for lease in cache.find("value", value)}
        assert names == {key.name for key, found in api.expected().items() if found == value}
    assert api.requests <= 20 + len(steps) * 4 + loop.time() / 5, "the cache spins"
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


@hypothesis.settings(max_examples=EXAMPLES, deadline=None)
@hypothesis.given(STEPS, st.booleans())
def test_any_interleaving_ends_in_the_state_of_the_server(
    steps: list[tuple[str, ...]], streams: bool
) -> None:
    virtual_time.run(scenario(steps, streams))

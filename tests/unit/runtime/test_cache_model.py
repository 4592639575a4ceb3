"""The cache against a model: whatever happens on the way, it ends in the server's state.

Aspects: every change is told once and in order, deletions missed during a 410 are found by the
relist, streamed and paged lists agree, no fault makes the cache spin.
"""

from __future__ import annotations

import asyncio
import contextlib

import hypothesis
import msgspec
from hypothesis import strategies as st

from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES, Lease
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache, CacheOptions, Change
from support import examples, virtual_time
from support.model_api import NAMESPACE, ModelApi, value_of
from support.model_steps import NAMES, STEP, STEPS, act


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


def trimmed(lease: Lease) -> Lease:
    """Return a lease that says that something is missing."""
    meta = msgspec.structs.replace(lease.metadata, annotations={"trimmed": "yes"})
    return msgspec.structs.replace(lease, metadata=meta)


async def scenario(steps: list[tuple[str, ...]], streams: bool, trims: bool = False) -> None:
    loop = asyncio.get_running_loop()
    api = ModelApi(streams=streams)
    cache = Cache(Client(api), LEASES, Selection(NAMESPACE), options=CacheOptions(initial_timeout=5))
    if trims:
        cache.trim_by(trimmed)
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
        if step[0] != "read":
            await act(api, step)
        elif cache.get(ObjectKey(NAMESPACE, step[1])):
            with contextlib.suppress(errors.KubeError):
                await cache.read_whole(ObjectKey(NAMESPACE, step[1]))
                found = cache.get(ObjectKey(NAMESPACE, step[1]))
                assert found is not None
                assert not found.metadata.annotations
                assert value_of(found) == api.expected()[ObjectKey(NAMESPACE, step[1])]
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


@hypothesis.settings(max_examples=examples.some(250), deadline=None)
@hypothesis.given(STEPS, st.booleans())
def test_any_interleaving_ends_in_the_state_of_the_server(
    steps: list[tuple[str, ...]], streams: bool
) -> None:
    virtual_time.run(scenario(steps, streams))


@hypothesis.settings(max_examples=examples.some(150), deadline=None)
@hypothesis.given(st.lists(STEP | st.tuples(st.just("read"), NAMES), max_size=40), st.booleans())
def test_so_does_one_that_trims_and_what_is_read_whole_never_goes_back_in_time(
    steps: list[tuple[str, ...]], streams: bool
) -> None:
    virtual_time.run(scenario(steps, streams, trims=True))

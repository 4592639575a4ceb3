"""The cache, one behaviour at a time, on a model server and virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
from collections.abc import AsyncIterator

import pytest

from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES, Lease
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache, CacheOptions, Change
from support import virtual_time
from support.model_api import NAMESPACE, Answer, ModelApi, ModelWatch, status_body, value_of

KEY = ObjectKey(NAMESPACE, "a")
BAD = {"metadata": {"namespace": NAMESPACE, "name": "bad", "resourceVersion": "9"}, "spec": "not an object"}


@contextlib.asynccontextmanager
async def running(cache: Cache[Lease]) -> AsyncIterator[None]:
    task = asyncio.create_task(cache.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def new_cache(api: ModelApi, **options: float) -> Cache[Lease]:
    return Cache(Client(api), LEASES, Selection(NAMESPACE), options=CacheOptions(**options))  # type: ignore[arg-type]


class Recorder(list[tuple[str, str | None, str | None]]):
    """Every change as (name, old value, new value)."""

    def __call__(self, change: Change[Lease]) -> None:
        values = [None if obj is None else value_of(obj) for obj in (change.old, change.new)]
        self.append((change.key.name, values[0], values[1]))


@pytest.mark.parametrize("streams", [pytest.param(True, id="streamed"), pytest.param(False, id="paged")])
@virtual_time.test
async def test_tells_of_what_is_there_then_of_what_changes(streams: bool) -> None:
    api = ModelApi(streams=streams)
    for name in "abcde":  # more than one page
        api.put(name, "1")
    cache, seen = new_cache(api), Recorder()
    cache.subscribe(seen)
    assert not cache.has_synced
    async with running(cache):
        await cache.synced()
        assert sorted(seen) == [(name, None, "1") for name in "abcde"]
        seen.clear()
        api.put("a", "2")
        api.delete("b")
        api.put("f", "1")
        await virtual_time.settle()
        assert seen == [("a", "1", "2"), ("b", "1", None), ("f", None, "1")]


@virtual_time.test
async def test_a_relist_finds_the_deletions_it_missed() -> None:
    api = ModelApi()
    api.put("a", "1")
    api.put("b", "1")
    cache, seen = new_cache(api), Recorder()
    cache.subscribe(seen)
    async with running(cache):
        await cache.synced()
        seen.clear()
        for watch in list(api.watches):
            watch.push(b"")  # the stream ends ...
            api.watches.clear()
        api.delete("a")  # ... and what happens now is compacted away before we are back
        api.put("c", "1")
        api.compact()
        api.put("b", "2")
        await asyncio.sleep(60)
        assert sorted(seen) == [("a", "1", None), ("b", "1", "2"), ("c", None, "1")]


@virtual_time.test
async def test_events_behind_the_closing_bookmark_in_the_same_read_are_not_lost() -> None:
    class Hasty(ModelApi):
        async def send(self, request: Request) -> Answer | ModelWatch:
            answer = await super().send(request)
            if isinstance(answer, ModelWatch):
                first = answer._chunks.popleft()
                assert isinstance(first, bytes)
                self.put("late", "1")
                answer.pull()
                second = answer._chunks.popleft()
                assert isinstance(second, bytes)
                answer._chunks.append(first + second)
            return answer

    api = Hasty()
    api.put("a", "1")
    cache = new_cache(api)
    async with running(cache):
        await cache.synced()
        await virtual_time.settle()
        assert {lease.metadata.name for lease in cache.values()} == {"a", "late"}


@pytest.mark.parametrize(
    ("answer", "streams"),
    [
        pytest.param((200, b""), False, id="watch-ends-at-once"),
        pytest.param((410, status_body(410, "Expired")), True, id="always-gone"),
        pytest.param((500, status_body(500, "InternalError")), True, id="always-failing"),
        pytest.param((401, status_body(401, "Unauthorized")), True, id="never-let-in"),
        pytest.param((200, b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}\n'), False,
                     id="one-bookmark-then-the-end"),
    ],
)  # fmt: skip
@virtual_time.test
async def test_a_server_that_never_works_is_not_hammered(answer: tuple[int, bytes], streams: bool) -> None:
    class Broken(ModelApi):
        async def send(self, request: Request) -> Answer | ModelWatch:
            if "watch=1" in request.target or streams:
                self.requests += 1
                return Answer(*answer)
            return await super().send(request)

    api = Broken(streams=streams)
    async with running(new_cache(api)):
        await asyncio.sleep(600)
        # At the ceiling of the backoff every 15 to 30 s; a 401 and a paged list may take two requests each.
        assert 600 / 30 <= api.requests <= 2 * 600 / 15 + 20


@virtual_time.test
async def test_a_silent_watch_is_noticed_and_renewed() -> None:
    api = ModelApi()
    cache = new_cache(api, idle_timeout=90)
    async with running(cache):
        await cache.synced()
        [silent] = api.watches
        api.watches.clear()  # the server forgot about us, but the connection stands
        api.put("a", "1")
        await asyncio.sleep(95)
        assert cache.get(KEY)
        assert silent not in api.watches


@virtual_time.test
async def test_a_cache_tells_since_when_nothing_can_have_gone_unseen() -> None:
    """A watch that ends as watches do is no gap; one that breaks is, until there is another."""
    api = ModelApi()
    cache = new_cache(api)
    async with running(cache):
        await cache.synced()
        await asyncio.sleep(10)
        for watch in list(api.watches):
            watch.push(b"")
        await asyncio.sleep(10)
        assert cache.steady_since == -math.inf
        api.faults.extend([errors.Unreachable("cut")] * 3)
        began = asyncio.get_running_loop().time()
        for watch in list(api.watches):
            watch.push(errors.Unreachable("cut"))
        await asyncio.sleep(60)
        assert began < cache.steady_since < began + 60


@pytest.mark.parametrize("streams", [True, False])
@virtual_time.test
async def test_what_is_known_is_old_until_a_new_list_is_whole(streams: bool) -> None:
    """A server that was restarted has forgotten our revision, and takes its time to list everything."""

    class Slow(ModelApi):
        slow = False

        async def send(self, request: Request) -> Answer | ModelWatch:
            answer = await super().send(request)
            if self.slow and "resourceVersion=" not in request.target:
                if isinstance(answer, ModelWatch):
                    held = answer.read_chunk

                    async def late(idle_timeout: float | None = None) -> bytes:
                        await asyncio.sleep(20)
                        return await held(idle_timeout)

                    answer.read_chunk = late  # type: ignore[method-assign]
                else:
                    await asyncio.sleep(20)
            return answer

    api = Slow(streams=streams)
    api.put("a", "1")
    cache = new_cache(api)
    async with running(cache):
        await cache.synced()
        await asyncio.sleep(10)
        assert (cache.interrupted, cache.steady_since) == (False, -math.inf)
        api.slow = True
        for watch in list(api.watches):
            watch.push(b"")
        api.watches.clear()
        api.put("a", "2")
        api.compact()
        await asyncio.sleep(15)
        known = cache.get(KEY)
        assert known is not None
        assert (value_of(known), cache.interrupted) == ("1", True)
        await asyncio.sleep(60)
        known = cache.get(KEY)
        assert known is not None
        assert (value_of(known), cache.interrupted) == ("2", False)
        assert cache.steady_since > 0


@virtual_time.test
async def test_one_unreadable_object_costs_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    for streams in (True, False):
        api = ModelApi(streams=streams)
        api.put("a", "1")
        api.objects["bad"] = BAD
        cache, seen = new_cache(api), Recorder()
        cache.subscribe(seen)
        async with running(cache):
            await cache.synced()
            bad = ObjectKey(NAMESPACE, "bad")
            assert [lease.metadata.name for lease in cache.values()] == ["a"]
            assert "spec" in cache.malformed[bad]
            assert "cannot read test/bad" in caplog.text
            api.put("bad", "mended")
            await virtual_time.settle()
            assert not cache.malformed
            assert seen[-1] == ("bad", None, "mended")


@virtual_time.test
async def test_an_object_that_becomes_unreadable_keeps_its_last_good_state() -> None:
    api = ModelApi()
    api.put("bad", "good")
    cache, seen = new_cache(api), Recorder()
    cache.subscribe(seen)
    async with running(cache):
        await cache.synced()
        [watch] = api.watches
        watch.push(json.dumps({"type": "MODIFIED", "object": BAD}).encode() + b"\n")
        await virtual_time.settle()
        key = ObjectKey(NAMESPACE, "bad")
        assert key in cache.malformed
        assert value_of(cache.get(key) or Lease()) == "good"
        assert seen[-1] == ("bad", "good", "good")  # subscribers hear that something is wrong
        watch.push(json.dumps({"type": "DELETED", "object": BAD}).encode() + b"\n")
        await virtual_time.settle()
        assert cache.get(key) is None
        assert not cache.malformed


@virtual_time.test
async def test_a_failing_subscriber_does_not_keep_others_from_hearing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing(change: Change[Lease]) -> None:
        raise RuntimeError("subscriber is broken")

    api = ModelApi()
    cache, seen = new_cache(api), Recorder()
    cache.subscribe(failing)
    cache.subscribe(seen)
    async with running(cache):
        await cache.synced()
        api.put("a", "1")
        await virtual_time.settle()
    assert seen == [("a", None, "1")]
    assert "subscriber is broken" in caplog.text


@virtual_time.test
async def test_a_late_subscriber_hears_of_everything_that_is_there() -> None:
    api = ModelApi()
    api.put("a", "1")
    cache, seen = new_cache(api), Recorder()
    async with running(cache):
        await cache.synced()
        cache.subscribe(seen)
        assert seen == [("a", None, "1")]


@virtual_time.test
async def test_a_server_without_streamed_lists_is_asked_only_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    api = ModelApi(streams=False)
    async with running(new_cache(api)):
        for _ in range(5):
            await asyncio.sleep(100)
            api.compact()
            for watch in list(api.watches):
                watch.push(b'{"type":"ERROR","object":' + status_body(410, "Expired") + b"}\n")
    assert caplog.text.count("streamed lists are not served") == 1


@virtual_time.test
async def test_an_initial_stream_without_an_end_falls_back_to_pages() -> None:
    class Endless(ModelApi):
        def bookmark(self, *, initial: bool = False) -> bytes:
            return b"" if initial else super().bookmark()

    api = Endless()
    api.put("a", "1")
    cache = new_cache(api, initial_timeout=30)
    async with running(cache):
        await asyncio.sleep(35)
        assert cache.has_synced
        assert cache.get(KEY)


@virtual_time.test
async def test_a_deletion_within_the_initial_events_is_a_deletion() -> None:
    class Undecided(ModelApi):
        async def send(self, request: Request) -> Answer | ModelWatch:
            answer = await super().send(request)
            if isinstance(answer, ModelWatch):
                gone = json.dumps({"type": "DELETED", "object": self.objects["a"]}).encode() + b"\n"
                prelude = answer._chunks.popleft()
                assert isinstance(prelude, bytes)
                *lines, bookmark = prelude.splitlines(keepends=True)
                answer._chunks.append(b"".join([*lines, gone, bookmark]))
            return answer

    api = Undecided()
    api.put("a", "1")
    api.put("b", "1")
    cache = new_cache(api)
    async with running(cache):
        await cache.synced()
        assert [lease.metadata.name for lease in cache.values()] == ["b"]


@virtual_time.test
async def test_an_object_that_was_created_anew_is_told_of_as_deleted_and_new() -> None:
    api = ModelApi()
    api.put("a", "1")
    api.objects["a"]["metadata"]["uid"] = "first"
    cache, seen = new_cache(api), Recorder()
    cache.subscribe(seen)
    async with running(cache):
        await cache.synced()
        seen.clear()
        api.put("a", "2")
        api.objects["a"]["metadata"]["uid"] = "second"
        api.compact()
        for watch in list(api.watches):
            watch._chunks.clear()
            watch.push(b'{"type":"ERROR","object":' + status_body(410, "Expired") + b"}\n")
        await asyncio.sleep(60)
        assert seen == [("a", "1", None), ("a", None, "2")]


@virtual_time.test
async def test_an_index_that_fails_ends_nobody(caplog: pytest.LogCaptureFixture) -> None:
    api = ModelApi()
    api.put("a", "1")
    cache = new_cache(api)
    cache.add_index("broken", lambda lease: [lease.metadata.labels["missing"]])
    cache.add_index("value", lambda lease: [value_of(lease)])
    async with running(cache):
        await cache.synced()
        api.put("a", "2")
        await virtual_time.settle()
        assert len(cache.find("value", "2")) == 1
        assert cache.find("broken", "x") == []
    assert "the index broken failed on test/a" in caplog.text


@pytest.mark.parametrize("code", [429, 503, 504])
@virtual_time.test
async def test_a_server_that_is_just_starting_is_asked_for_streams_again(code: int) -> None:
    api = ModelApi()
    api.faults.append(Answer(code, status_body(code, "")))
    cache = new_cache(api)
    async with running(cache):
        await cache.synced()
        assert cache._streams


@virtual_time.test
async def test_a_kind_that_is_not_there_yet_is_said_to_be_and_streamed_when_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = ModelApi()
    api.faults.extend(Answer(404, status_body(404, "NotFound")) for _ in range(2))
    cache = new_cache(api)
    async with running(cache):
        await cache.synced()
        assert cache._streams
    assert "does not serve this kind yet: nodemanager crds --install" in caplog.text


@pytest.mark.parametrize(("expected", "levels"), [(False, ["WARNING"]), (True, ["INFO"])])
@virtual_time.test
async def test_a_right_that_is_on_its_way_is_no_reason_to_warn(
    caplog: pytest.LogCaptureFixture, expected: bool, levels: list[str]
) -> None:
    caplog.set_level(logging.INFO)
    api = ModelApi()
    api.faults.extend(Answer(403, status_body(403, "Forbidden")) for _ in range(2))
    cache = new_cache(api, may_be_refused=expected)
    async with running(cache):
        await cache.synced()
    assert [one.levelname for one in caplog.records if "is missing" in one.message] == levels


@virtual_time.test
async def test_nobody_sends_us_away_for_a_year() -> None:
    api = ModelApi()
    api.faults.append(Answer(503, status_body(503, ""), {"retry-after": "31536000"}))
    api.faults.append(Answer(503, status_body(503, ""), {"retry-after": "31536000"}))
    cache = new_cache(api)
    async with running(cache):
        await asyncio.sleep(700)
        assert cache.has_synced


@pytest.mark.parametrize(
    ("code", "final"), [(403, True), (404, True), (401, False), (500, False), (503, False)]
)
@virtual_time.test
async def test_a_refusal_is_an_answer_and_a_failure_is_none(code: int, final: bool) -> None:
    """Who waits for an object that it may not read, or whose kind is not there, need not wait for ever."""
    api = ModelApi()
    api.faults.extend(Answer(code, status_body(code, "")) for _ in range(1000))
    cache = new_cache(api)
    async with running(cache):
        answered = asyncio.create_task(cache.answered())
        await asyncio.sleep(20)
        assert (answered.done(), cache.has_synced) == (final, False)
        api.faults.clear()
        await asyncio.sleep(300)
        assert (answered.done(), cache.has_synced) == (True, True)

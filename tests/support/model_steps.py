"""Random things that happen to a model server: changes, faults, compactions, broken watches, time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import strategies as st

from nodemanager.kube import errors
from support import virtual_time
from support.model_api import Answer, ModelApi, ModelWatch, status_body

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

STEP = st.one_of(
    st.tuples(st.just("put"), NAMES, st.text("xyz", max_size=3)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("compact")),
    st.tuples(st.just("fault"), st.sampled_from(sorted(FAULTS))),
    st.tuples(st.just("watch"), st.sampled_from(sorted(WATCH_FAULTS))),
    st.tuples(st.just("settle")),
    st.tuples(st.just("wait"), st.sampled_from([0.01, 1.0, 40.0, 400.0])),
)
STEPS = st.lists(STEP, max_size=40)


async def act(api: ModelApi, step: tuple[str, ...]) -> None:
    """Do one step."""
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

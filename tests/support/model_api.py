"""A model of the list and watch half of an API server, small enough to be obviously right.

It is a `Transport`: the real client and the real cache run on it, without sockets. Faults are
put into `faults` (one per request) or done to the open watches by name.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from nodemanager.client.http.transport import Request
from nodemanager.kube import errors
from nodemanager.kube.core import Lease
from nodemanager.kube.objects import ObjectKey

NAMESPACE = "test"


def status_body(code: int, reason: str, message: str = "scripted") -> bytes:
    """Return a `Status` object as an API server writes it."""
    return json.dumps(
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message,
         "code": code}
    ).encode()  # fmt: skip


@dataclass
class Answer:
    """A finite response."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    truncate: bool = False

    async def read_chunk(self, idle_timeout: float | None = None) -> bytes:
        if self.truncate:
            self.truncate = False
            half, self.body = self.body[: len(self.body) // 2], b""
            if half:
                return half
        body, self.body = self.body, b""
        return body

    async def close(self) -> None:
        pass


class ModelWatch:
    """An open watch: delivers the log from its position, until somebody ends it."""

    status = 200

    def __init__(self, api: ModelApi, position: int, prelude: bytes) -> None:
        self.headers: dict[str, str] = {}
        self._api = api
        self._position = position
        self._chunks: deque[bytes | errors.KubeError] = deque([prelude] if prelude else [])
        self._changed = asyncio.Event()

    async def read_chunk(self, idle_timeout: float | None = None) -> bytes:
        while not self._chunks:
            self._changed.clear()
            self.pull()
            if self._chunks:
                break
            try:
                async with asyncio.timeout(idle_timeout):
                    await self._changed.wait()
            except TimeoutError as error:
                raise errors.TimedOut("scripted silence") from error
        chunk = self._chunks.popleft()
        if isinstance(chunk, errors.KubeError):
            raise chunk
        return chunk

    async def close(self) -> None:
        self._api.watches.discard(self)

    def pull(self) -> None:
        """Take over what the log has for us."""
        for revision, line in self._api.log:
            if revision > self._position:
                self._chunks.append(line)
                self._position = revision

    def wake(self) -> None:
        self._changed.set()

    def push(self, chunk: bytes | errors.KubeError) -> None:
        """Send something that is not in the log: the end (empty), a bookmark, garbage, an error."""
        self.pull()
        self._chunks.append(chunk)
        self._changed.set()

    def bookmark(self) -> bytes:
        self.pull()
        return self._api.bookmark()


class ModelApi:
    """Objects with a revision, a log of changes, compaction, and a list of scripted faults."""

    def __init__(self, *, streams: bool = True, page_size: int = 3) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.log: list[tuple[int, bytes]] = []
        self.watches: set[ModelWatch] = set()
        self.faults: deque[Answer | errors.KubeError] = deque()
        self.requests = 0
        self.revision = 1
        self._streams = streams
        self._page_size = page_size
        self._compacted = 0
        self._changed = asyncio.Event()

    # What tests do to it

    def put(self, name: str, value: str) -> None:
        self.revision += 1
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.objects[name] = {
            "metadata": {"namespace": NAMESPACE, "name": name, "resourceVersion": str(self.revision)},
            "spec": {"holderIdentity": value},
        }
        self._record(kind, self.objects[name])

    def delete(self, name: str) -> None:
        obj = self.objects.pop(name, None)
        if obj is not None:
            self.revision += 1
            obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
            self._record("DELETED", obj)

    def compact(self) -> None:
        """Forget the log: whoever is behind gets 410; open watches have what is theirs already."""
        for watch in self.watches:
            watch.pull()
        self._compacted = self.revision
        self.log.clear()

    def bookmark(self, *, initial: bool = False) -> bytes:
        meta: dict[str, Any] = {"resourceVersion": str(self.revision)}
        if initial:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        return _line("BOOKMARK", {"metadata": meta})

    def expected(self) -> dict[ObjectKey, str]:
        """Return what a complete cache of this server holds."""
        return {ObjectKey(NAMESPACE, name): o["spec"]["holderIdentity"] for name, o in self.objects.items()}

    # What the client sees

    async def send(self, request: Request) -> Answer | ModelWatch:
        self.requests += 1
        if self.faults:
            fault = self.faults.popleft()
            if isinstance(fault, errors.KubeError):
                raise fault
            return fault
        url = urlsplit(request.target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if not url.path.endswith("/leases"):
            return self._get(url.path.rpartition("/")[2])
        return self._watch(query) if query.get("watch") else self._list(query)

    async def reauthenticate(self) -> bool:
        return True

    async def close(self) -> None:
        self.watches.clear()

    def _record(self, kind: str, obj: dict[str, Any]) -> None:
        self.log.append((self.revision, _line(kind, obj)))
        for watch in self.watches:
            watch.wake()

    def _get(self, name: str) -> Answer:
        if name not in self.objects:
            return Answer(404, status_body(404, "NotFound"))
        return Answer(200, json.dumps(self.objects[name]).encode())

    def _list(self, query: Mapping[str, str]) -> Answer:
        start, limit = 0, int(query.get("limit", 0)) and self._page_size
        revision = self.revision
        if token := query.get("continue"):
            start, revision = (int(part) for part in token.split("@"))
            if revision != self.revision:  # the model keeps no history to continue from
                return Answer(410, status_body(410, "Expired"))
        names = sorted(self.objects)
        end = start + limit if limit else len(names)
        meta = {"resourceVersion": str(revision)}
        if end < len(names):
            meta["continue"] = f"{end}@{revision}"
        items = [self.objects[name] for name in names[start:end]]
        return Answer(200, json.dumps({"metadata": meta, "items": items}).encode())

    def _watch(self, query: Mapping[str, str]) -> Answer | ModelWatch:
        prelude = b""
        position = int(query.get("resourceVersion") or self.revision)
        if query.get("sendInitialEvents"):
            if not self._streams:
                return Answer(422, status_body(422, "Invalid", "sendInitialEvents is forbidden"))
            prelude = b"".join(_line("ADDED", obj) for obj in self.objects.values())
            prelude += self.bookmark(initial=True)
        elif position < self._compacted:
            return Answer(200, _line("ERROR", json.loads(status_body(410, "Expired"))))
        watch = ModelWatch(self, position, prelude)
        self.watches.add(watch)
        return watch


def _line(kind: str, obj: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def value_of(lease: Lease) -> str:
    """Return what a test stored in an object."""
    return lease.spec.holder_identity or ""

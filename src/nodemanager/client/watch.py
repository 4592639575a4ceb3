"""Lists and watches as typed objects, decoded in one pass.

One object that does not fit its type must not take the whole list or stream down: it is
handed on as `Malformed` with its key, so that the cache can say so and go on.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from nodemanager.client.http.transport import Response
from nodemanager.kube import errors
from nodemanager.kube.objects import ListMeta, ObjectKey, ObjectMeta, Resource, Struct

T = TypeVar("T")
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
MAX_EVENT = 64 * 1024 * 1024
"""Longest line we buffer. etcd's limit is 1.5 MB; this only bounds a peer gone mad."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """An object that exists but does not decode to its type."""

    key: ObjectKey
    resource_version: str
    message: str


class WatchEvent(msgspec.Struct, tag_field="type", frozen=True, gc=False):
    """A change; subclasses are made per resource type, `change` tells them apart."""

    change: ClassVar[str] = ""
    object: Any


class _Bare(Struct):
    """The metadata that every object has, for those that do not decode further."""

    metadata: ObjectMeta = ObjectMeta()


class _Loose(Struct):
    """A watch event of unknown type or with an undecodable object."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _LoosePage(Struct):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list."""

    items: list[T]
    resource_version: str
    continue_token: str = ""
    malformed: list[Malformed] = field(default_factory=list)


@functools.lru_cache(maxsize=64)
def _page_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    fields = [("metadata", ListMeta, ListMeta()), ("items", list[kind] | None, None)]
    return msgspec.json.Decoder(msgspec.defstruct("Page", fields, gc=False))


@functools.lru_cache(maxsize=64)
def _event_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder for the union of all event types over one kind of object."""
    payloads = {"ADDED": kind, "MODIFIED": kind, "DELETED": kind, "BOOKMARK": _Bare, "ERROR": errors.Status}
    structs = [
        msgspec.defstruct(
            name.title(), [("object", payload)], bases=(WatchEvent,), tag=name, namespace={"change": name}
        )
        for name, payload in payloads.items()
    ]
    union: Any = structs[0]
    for struct in structs[1:]:
        union = union | struct
    return msgspec.json.Decoder(union)


def event_decoder(resource: Resource[Any]) -> msgspec.json.Decoder[Any]:
    """Return the decoder for watch events of a kind."""
    return _event_decoder(resource.type)  # type: ignore[arg-type]  # types do hash


def decode_page(resource: Resource[T], body: bytes) -> Page[T]:
    """Decode one page of a list."""
    try:
        page = _page_decoder(resource.type).decode(body)  # type: ignore[arg-type]  # types do hash
        return Page(page.items or [], _version(resource, page.metadata), page.metadata.continue_)
    except msgspec.ValidationError:
        return _decode_loose_page(resource, body)
    except errors.UNREADABLE as error:
        raise errors.ProtocolError(f"cannot read the list of {resource.plural}: {error}") from error


def _decode_loose_page(resource: Resource[T], body: bytes) -> Page[T]:
    """Decode item by item, so that one bad object costs only itself."""
    try:
        loose = msgspec.json.decode(body, type=_LoosePage)
    except errors.UNREADABLE as error:
        raise errors.ProtocolError(f"cannot read the list of {resource.plural}: {error}") from error
    items: list[T] = []
    malformed: list[Malformed] = []
    for raw in loose.items or []:
        try:
            items.append(msgspec.json.decode(raw, type=resource.type))
        except errors.UNREADABLE as error:
            malformed.append(_malformed(raw, error))
    return Page(items, _version(resource, loose.metadata), loose.metadata.continue_, malformed)


def _version(resource: Resource[Any], meta: ListMeta) -> str:
    """Return the revision of a list; what has none is no list, however well it decodes.

    A proxy that answers `{}` must not look like "everything was deleted".
    """
    if not meta.resource_version:
        raise errors.ProtocolError(f"cannot read the list of {resource.plural}: it has no resourceVersion")
    return meta.resource_version


def _malformed(raw: msgspec.Raw, error: Exception) -> Malformed:
    try:
        meta = msgspec.json.decode(raw, type=_Bare).metadata
    except errors.UNREADABLE as worse:
        raise errors.ProtocolError(f"cannot read an object: {worse}") from worse
    return Malformed(ObjectKey(meta.namespace, meta.name), meta.resource_version, str(error))


class Watch(Generic[T]):
    """A running watch, read in batches: all events that one read from the socket completed.

    A cache that wakes up once per read is much cheaper than one that wakes up once per event.
    """

    def __init__(self, resource: Resource[T], response: Response, idle_timeout: float) -> None:
        decoder = event_decoder(resource)
        self._decode = decoder.decode
        self._decode_lines = decoder.decode_lines
        self._response = response
        self._idle_timeout = idle_timeout
        self._tail: list[bytes] = []
        self._size = 0
        self._error: errors.KubeError | None = None

    async def __aenter__(self) -> Watch[T]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._response.close()

    async def batch(self) -> list[WatchEvent | Malformed]:
        """Return the next events, at least one; an empty list when the server ended the watch.

        An error behind good events is raised by the next call, so that none of them is lost.
        """
        if self._error is not None:
            raise self._error
        while chunk := await self._response.read_chunk(self._idle_timeout):
            end = chunk.rfind(b"\n") + 1
            if not end:
                self._keep(chunk)
                continue
            lines = b"".join([*self._tail, chunk[:end]])
            self._tail.clear()
            self._size = 0
            self._keep(chunk[end:])
            if events := self._events(lines):
                return events
        if self._size:
            raise errors.Unreachable("cannot go on watching: the stream ended in the middle of an event")
        return []

    def _keep(self, beginning: bytes) -> None:
        """Remember the beginning of an event that is not complete."""
        if beginning:
            self._tail.append(beginning)
            self._size += len(beginning)
        if self._size > MAX_EVENT:
            raise errors.ProtocolError(f"cannot read a watch event: longer than {MAX_EVENT} bytes")

    def _events(self, lines: bytes) -> list[WatchEvent | Malformed]:
        try:
            decoded: list[WatchEvent] = self._decode_lines(lines)
        except errors.UNREADABLE:
            return self._one_by_one(lines)  # to find out which it is
        for event in decoded:
            if event.change == "ERROR":
                return self._one_by_one(lines)
        return decoded  # type: ignore[return-value]  # a list of one of the two; copying it would cost

    def _one_by_one(self, lines: bytes) -> list[WatchEvent | Malformed]:
        events: list[WatchEvent | Malformed] = []
        for line in filter(None, lines.split(b"\n")):
            try:
                events.append(self._event(line))
            except errors.KubeError as error:
                if not events:
                    raise
                self._error = error
                break
        return events

    def _event(self, line: bytes) -> WatchEvent | Malformed:
        try:
            event: WatchEvent = self._decode(line)
        except msgspec.ValidationError as error:
            return self._loose_event(line, error)
        except errors.UNREADABLE as error:
            raise errors.ProtocolError(f"cannot read a watch event: {error}") from error
        if event.change == "ERROR":
            raise errors.from_status(event.object)
        return event

    def _loose_event(self, line: bytes, error: msgspec.ValidationError) -> WatchEvent | Malformed:
        try:
            loose = msgspec.json.decode(line, type=_Loose)
        except errors.UNREADABLE as worse:
            raise errors.ProtocolError(f"cannot read a watch event: {worse}") from worse
        malformed = _malformed(loose.object, error)
        if loose.type == "DELETED":  # that it is gone is all there is to know
            gone = _Bare(metadata=ObjectMeta(namespace=malformed.key.namespace, name=malformed.key.name,
                                             resource_version=malformed.resource_version))  # fmt: skip
            return Deleted(object=gone)
        if loose.type not in ("ADDED", "MODIFIED"):
            raise errors.ProtocolError(f"cannot understand a watch event of type {loose.type[:32]!r}")
        return malformed


class Deleted(WatchEvent, tag="DELETED", frozen=True, gc=False):
    """A deletion of an object of which only the key is known."""

    change: ClassVar[str] = "DELETED"


def ends_initial_events(bookmark: WatchEvent) -> bool:
    """Tell whether a bookmark closes the initial part of a streaming list."""
    annotations: dict[str, str] = bookmark.object.metadata.annotations
    return annotations.get(INITIAL_EVENTS_END) == "true"

"""Getting one object, and listing many, with pages, revisions and selectors."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from nodemanager.server.http import refusals
from nodemanager.server.hub import ApiAnswer, ApiCall, Hub
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import selection, stored
from nodemanager.store.base import Compacted, FutureRevision, StoreListing, StoreRecord

PAGE = 500
"""How many records we look at in one go while a selector has not filled its page."""
EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter."
)
INCONSISTENT = -1


def get(hub: Hub, call: ApiCall) -> ApiAnswer:
    """Answer with one object."""
    wanted = selection.query_revision(call.query.get("resourceVersion", ""))
    if wanted > hub.store.revision:
        raise refusals.too_large_version(wanted, hub.store.revision)
    return ApiAnswer(shown(call, find(hub, call)))


def shown(call: ApiCall, record: StoreRecord) -> Any:
    """Return an object as something to encode: its text, unless its form needs the object itself."""
    return (stored.text if call.form.is_stored else stored.load)(call.kind, record)


def find(hub: Hub, call: ApiCall) -> StoreRecord:
    """Return the record of the object that a request names, or raise NotFound."""
    record = hub.store.get(call.key)
    if record is None:
        raise refusals.not_found(call.kind, call.info.name)
    return record


@dataclass(frozen=True, slots=True)
class ListPage:
    """A part of a list."""

    records: list[StoreRecord]
    revision: int
    token: str = ""
    remaining: int | None = None

    def as_list(self, call: ApiCall) -> Untyped:
        """Return the body of an answer."""
        kind = call.kind
        meta: dict[str, Any] = {"resourceVersion": str(self.revision)}
        if self.token or kind.custom:
            meta["continue"] = self.token
        if self.remaining:
            meta["remainingItemCount"] = self.remaining
        name = kind.list_kind or f"{kind.kind}List"
        item = stored.item_text if call.form.is_stored else stored.item
        items = [item(kind, record) for record in self.records]
        return {"kind": name, "apiVersion": kind.api_version, "metadata": meta, "items": items}


def list_objects(hub: Hub, call: ApiCall) -> ApiAnswer:
    """Answer with a list, or a page of it."""
    return ApiAnswer(page(hub, call).as_list(call))


def page(hub: Hub, call: ApiCall) -> ListPage:
    """Return the page that a request asks for."""
    options = selection.list_options(call.query, watch=False)
    chosen = selection.select(call.query, call.kind)
    if call.info.name:  # the old watch path names one object
        chosen = replace(
            chosen, fields=(*chosen.fields, selection.FieldTest("metadata.name", call.info.name, True))
        )
    prefix = call.kind.prefix(call.namespace)
    revision, after = _start(options, prefix, hub.store.revision)
    walk = _Walk(hub, call.kind, prefix, chosen)
    try:
        return walk.take(revision, after, options.limit)
    except Compacted as error:
        raise errors.Gone(
            EXPIRED if options.token else "The resourceVersion for the provided list is too old."
        ) from error
    except FutureRevision as error:
        raise refusals.too_large_version(revision, hub.store.revision) from error


def _start(options: selection.ListOptions, prefix: str, current: int) -> tuple[int, str]:
    """Return at which revision and after which key to read; revision 0 = now."""
    if options.token:
        if options.version not in ("", "0"):
            raise errors.BadRequest("specifying resource version is not allowed when using continue")
        revision, start = decode_token(options.token)
        return (0 if revision == INCONSISTENT else revision), prefix + start
    wanted = selection.query_revision(options.version)
    if wanted > current:
        raise refusals.too_large_version(wanted, current)
    return (wanted if options.match == "Exact" else 0), ""


@dataclass(frozen=True, slots=True)
class _Walk:
    """Reads a collection until a page is full."""

    hub: Hub
    kind: ServedKind
    prefix: str
    chosen: selection.ObjectSelector

    def take(self, revision: int, after: str, limit: int) -> ListPage:
        step = 0 if not limit else limit if self.chosen.everything else max(limit, PAGE)
        found: list[StoreRecord] = []
        while True:
            part = self.hub.store.list(self.prefix, revision=revision, after=after, limit=step)
            revision = revision or part.revision
            for index, record in enumerate(part.records):
                if not self._matches(record):
                    continue
                found.append(record)
                if limit and len(found) == limit:
                    return self._full(found, revision, part, index)
            if not part.more:
                return ListPage(found, revision)
            after = part.records[-1].key

    def _matches(self, record: StoreRecord) -> bool:
        return self.chosen.everything or self.chosen.matches(stored.load(self.kind, record))

    def _full(self, found: list[StoreRecord], revision: int, part: StoreListing, index: int) -> ListPage:
        behind = len(part.records) - index - 1 + part.remaining
        if (not behind and not part.more) or self.chosen.name:  # of one name there is one object
            return ListPage(found, revision)
        token = encode_token(revision, part.records[index].key.removeprefix(self.prefix))
        return ListPage(found, revision, token, behind if self.chosen.everything else None)


def encode_token(revision: int, start: str) -> str:
    """Return the continue token for what comes after a key, in Kubernetes' own form."""
    body = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": revision, "start": f"{start}\x00"})
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def decode_token(text: str) -> tuple[int, str]:
    """Return revision and key of a continue token, or refuse it."""
    try:
        body = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        version, revision, start = body["v"], body["rv"], body["start"]
    except (*errors.UNREADABLE, binascii.Error, ValueError, TypeError, KeyError) as error:
        raise errors.BadRequest(f"invalid continue token: continue key is not valid: {error}") from error
    if version != "meta.k8s.io/v1" or type(revision) is not int or not isinstance(start, str):
        raise errors.BadRequest("invalid continue token: continue key is not valid: not one of ours")
    start = start.removesuffix("\x00")
    if revision < INCONSISTENT or revision == 0 or not start or ".." in start.split("/"):
        raise errors.BadRequest("invalid continue token: continue key is not valid: out of bounds")
    return revision, start

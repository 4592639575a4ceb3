"""The OpenAPI documents of a server: an index, one v3 document per group and version, one v2 document.

Documents are made at the first request for them, and kept. When a CustomResourceDefinition changes,
`replaced` keeps the documents of all groups that did not change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from nodemanager.server.kubernetes_version import VERSION, minor_version
from nodemanager.server.openapi import proto
from nodemanager.server.openapi import v2 as openapi_v2
from nodemanager.server.openapi.kinds import Published
from nodemanager.server.openapi.paths import paths_of


@dataclass(frozen=True, slots=True)
class Document:
    """One document, with a hash that changes when it does."""

    body: bytes
    hash: str

    @classmethod
    def of(cls, content: Any) -> Self:
        """Return a document with this content; equal content gives equal bytes."""
        body = msgspec.json.encode(content, order="sorted")
        return cls(body, hashlib.sha512(body).hexdigest().upper())

    @property
    def etag(self) -> str:
        """The ETag header."""
        return f'"{self.hash}"'


class Documents:
    """All documents about the kinds that are served."""

    def __init__(self, kinds: Iterable[Published], version: str = minor_version(VERSION)) -> None:
        self._version = version
        self._groups: dict[str, tuple[Published, ...]] = {}
        for kind in sorted(kinds, key=lambda kind: (kind.group_path, kind.plural)):
            self._groups[kind.group_path] = (*self._groups.get(kind.group_path, ()), kind)
        self._made: dict[str, Document] = {}
        self._index: Document | None = None
        self._v2: tuple[Document, bytes] | None = None

    def replaced(self, kinds: Iterable[Published]) -> Documents:
        """Return the documents about other kinds, sharing what is the same."""
        successor = Documents(kinds, self._version)
        for path, document in self._made.items():
            if successor._groups.get(path) == self._groups[path]:
                successor._made[path] = document
        return successor

    def index(self) -> Document:
        """Return the list of v3 documents, with addresses that change when a document does."""
        if self._index is None:
            addresses = {
                path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._v3(path).hash}"}
                for path in self._groups
            }
            self._index = Document.of({"paths": addresses})
        return self._index

    def v3(self, path: str) -> Document | None:
        """Return the document of `api/v1` or `apis/GROUP/VERSION`, or None when nothing is served there."""
        return self._v3(path) if path in self._groups else None

    def v2(self) -> Document:
        """Return the v2 document as JSON."""
        return self._both_v2()[0]

    def v2_protobuf(self) -> bytes:
        """Return the v2 document in protobuf, which is the only form kubectl reads it in."""
        return self._both_v2()[1]

    def _v3(self, path: str) -> Document:
        made = self._made.get(path)
        if made is None:
            made = self._made[path] = Document.of(v3_content(self._groups[path], self._version))
        return made

    def _both_v2(self) -> tuple[Document, bytes]:
        if self._v2 is None:
            kinds = [kind for group in self._groups.values() for kind in group]
            content = openapi_v2.document(kinds, self._version)
            self._v2 = Document.of(content), proto.encode(content)
        return self._v2


def v3_content(kinds: Iterable[Published], version: str) -> dict[str, Any]:
    """Return the v3 document that describes the kinds of one group and version."""
    served = list(kinds)
    paths = {path: item for kind in served for path, item in paths_of(kind).items()}
    own = {name: schema for kind in served for name, schema in kind.own_definitions().items()}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": paths,
        "components": {"schemas": openapi_v2.reachable(paths, own)},
    }

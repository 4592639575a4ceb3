"""The parameters of a request: which objects, how to write, how to delete, and its text for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec

from nodemanager.client.http.transport import Request

DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind: all namespaces when `namespace` is empty."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def query(self) -> dict[str, str]:
        """Return the query parameters of this selection."""
        wanted = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in wanted.items() if value}

    def __str__(self) -> str:
        parts = [f"in namespace {self.namespace!r}"] if self.namespace else []
        parts += [f"{name} {value!r}" for name, value in self.query().items()]
        return "".join(f" {part}" for part in parts)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a write is done."""

    dry_run: bool = False
    field_manager: str = "nodemanager"
    field_validation: str = ""
    """`Strict`, `Warn`, `Ignore`, or empty for the server's default."""

    def query(self) -> dict[str, str]:
        """Return the query parameters of these options."""
        query = {"fieldManager": self.field_manager} if self.field_manager else {}
        if self.dry_run:
            query["dryRun"] = "All"
        if self.field_validation:
            query["fieldValidation"] = self.field_validation
        return query


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How a deletion is done."""

    propagation: str = ""
    """`Background`, `Foreground`, `Orphan`, or empty for the kind's default."""
    grace_period: int | None = None
    uid: str = ""
    """Delete only this incarnation."""
    resource_version: str = ""
    dry_run: bool = False

    def body(self) -> bytes:
        """Return the `DeleteOptions` object."""
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if self.propagation:
            options["propagationPolicy"] = self.propagation
        if self.grace_period is not None:
            options["gracePeriodSeconds"] = self.grace_period
        if named := {name: value for name, value in preconditions.items() if value}:
            options["preconditions"] = named
        if self.dry_run:
            options["dryRun"] = ["All"]
        return msgspec.json.encode(options)


WRITE = WriteOptions()
DELETE = DeleteOptions()
EVERYWHERE = Selection()


@dataclass(frozen=True, slots=True)
class Call:
    """One request, and how we would describe it to a person: "cannot <doing>: why"."""

    method: str
    path: str
    doing: str
    query: Mapping[str, str]
    body: bytes = b""
    content_type: str = "application/json"
    accept: str = "application/json"
    timeout: float = DEFAULT_TIMEOUT
    retry: bool = True
    """Wait and repeat when the server asks us to come back later."""

    def request(self, guard: Callable[[], None] | None = None) -> Request:
        """Return the HTTP request; `guard` has the last word before a write is sent."""
        headers = {"accept": self.accept}
        if self.body:
            headers["content-type"] = self.content_type
        target = f"{self.path}?{urlencode(self.query)}" if self.query else self.path
        return Request(self.method, target, self.body, headers, None if self.method == "GET" else guard)

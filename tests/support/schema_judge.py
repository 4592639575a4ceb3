"""A real kube-apiserver as the judge of what a schema means."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from nodemanager.client.calls import Call
from nodemanager.client.http.transport import HttpTransport, read_all
from nodemanager.kube import json_values
from nodemanager.kube.schemas import checks, defaulting, embedded, pruning, structural
from nodemanager.kube.schemas import validation as schema_validation
from nodemanager.server.http import refusals
from nodemanager.server.kinds.resources import ServedKind
from support.apiserver import ApiServer
from support.clients import as_admin

GROUP = "judge.example.io"
NAME = "it"
_NUMBERS = itertools.count()
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PROBE = "probe"


class Verdict(NamedTuple):
    """What became of a request."""

    code: int
    body: dict[str, Any]
    warning: str = ""

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        """The refused fields in a fixed order; Kubernetes' own order is random."""
        causes = (self.body.get("details") or {}).get("causes") or []
        return sorted((c.get("field", ""), c.get("reason", ""), c.get("message", "")) for c in causes)


class Judge:
    """Installs schemas and tries objects on them."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport

    async def ask(self, method: str, path: str, body: Any, query: dict[str, str] | None = None) -> Verdict:
        call = Call(method, path, "ask", query or {}, msgspec.json.encode(body) if body is not None else b"")
        response = await self._transport.send(call.request())
        try:
            content = await read_all(response)
        finally:
            await response.close()
        if "json" not in response.headers.get("content-type", ""):
            return Verdict(response.status, {})  # the plain 404 of a group that is not served yet
        return Verdict(response.status, msgspec.json.decode(content), response.headers.get("warning", ""))

    async def install(self, schema: dict[str, Any]) -> tuple[str, Verdict]:
        """Create a CustomResourceDefinition; it is served a little later."""
        kind = f"Kind{next(_NUMBERS)}"
        return kind, await self.ask("POST", _CRDS, definition(kind, schema))

    async def replace_schema(self, kind: str, schema: dict[str, Any]) -> Verdict:
        """Give an installed kind another schema."""
        found = await self.ask("GET", f"{_CRDS}/{kind.lower()}s.{GROUP}", None)
        found.body["spec"] = definition(kind, schema)["spec"]
        return await self.ask("PUT", f"{_CRDS}/{kind.lower()}s.{GROUP}", found.body)

    async def served(self, kind: str) -> None:
        """Wait until objects of a kind can be created."""
        async with asyncio.timeout(90):
            while (await self.ask("GET", path_of(kind), None)).code == 404:
                pass

    async def probed(self, kind: str) -> None:
        """Wait until the schema in force is the one that refuses the probe."""
        async with asyncio.timeout(90):
            while (await self.create(kind, {PROBE: 1})).code == 201:
                pass

    async def store(self, kind: str, content: dict[str, Any]) -> Verdict:
        """Create an object for good."""
        return await self.ask("POST", path_of(kind), thing(kind, content), {"fieldValidation": "Ignore"})

    async def update(self, kind: str, obj: dict[str, Any]) -> Verdict:
        """Try to replace an object."""
        query = {"dryRun": "All", "fieldValidation": "Ignore"}
        return await self.ask("PUT", f"{path_of(kind)}/{obj['metadata']['name']}", obj, query)

    async def create(self, kind: str, content: dict[str, Any], validation: str = "Ignore") -> Verdict:
        query = {"dryRun": "All", "fieldValidation": validation}
        return await self.ask("POST", path_of(kind), thing(kind, content), query)

    async def drop(self, kinds: list[str]) -> None:
        for kind in kinds:
            await self.ask("DELETE", f"{_CRDS}/{kind.lower()}s.{GROUP}", None)


@asynccontextmanager
async def judging(kube: ApiServer) -> AsyncIterator[Judge]:
    """A judge with connections of its own."""
    transport = HttpTransport(as_admin(kube))
    try:
        yield Judge(transport)
    finally:
        await transport.close()


def path_of(kind: str) -> str:
    return f"/apis/{GROUP}/v1/{kind.lower()}s"


def thing(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": NAME, **content.get("metadata", {})}
    return {**content, "apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": meta}


def definition(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "scope": "Cluster",
            "versions": [version],
        },
    }


def our_schema_causes(schema: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return our refusal of a schema, in the form of `Verdict.causes`."""
    return sorted((c.field, c.reason, c.message) for c in checks.check_schema(schema))


def our_verdict(
    schema: dict[str, Any], obj: dict[str, Any], validation: str, old: dict[str, Any] | None = None
) -> Verdict:
    """Return what our functions make of an object."""
    node = structural.compile_schema(schema)
    obj = copy.deepcopy(obj)
    if shapeless := embedded.embedded_malformed(obj, node):
        return Verdict(400, {"messages": [f"{cause.field}: {cause.message}" for cause in shapeless]})
    unknown = [f'unknown field "{path}"' for path in pruning.prune(obj, node)]
    if unknown and validation == "Strict":
        return Verdict(400, {"messages": [f"strict decoding error: {', '.join(unknown)}"]})
    defaulting.apply_defaults(obj, node)
    if old is not None:
        old = copy.deepcopy(old)
        pruning.prune(old, node)
        defaulting.apply_defaults(old, node)
    causes = schema_validation.validate(obj, node, old=old)
    if causes:
        kind = ServedKind(GROUP, "v1", obj["kind"], "")
        message = refusals.invalid(kind, obj["metadata"]["name"], causes).message
        details = {"causes": msgspec.to_builtins(causes)}
        return Verdict(422, {"message": message, "details": details})
    return Verdict(201 if old is None else 200, obj, unknown[-1] if unknown and validation == "Warn" else "")


def difference(ours: Verdict, theirs: Verdict) -> str:
    """Return how two verdicts differ, or nothing."""
    if ours.code != theirs.code:
        return f"ours {ours.code} {ours.body}, theirs {theirs.code} {theirs.body}"
    if ours.code == 422:
        if ours.causes != theirs.causes:
            return f"ours {ours.causes}, theirs {theirs.causes}"
        if len(ours.causes) == 1 and ours.body["message"] != theirs.body["message"]:
            return f"ours {ours.body['message']!r}, theirs {theirs.body['message']!r}"
        return ""
    if ours.code == 400:
        same = theirs.body["message"].endswith(tuple(ours.body["messages"]))
        return "" if same else f"ours {ours.body['messages']}, theirs {theirs.body['message']!r}"
    content = {name: item for name, item in theirs.body.items() if name != "metadata"}
    expected = {name: item for name, item in ours.body.items() if name != "metadata"}
    if not json_values.same(content, expected):
        return f"ours {expected}, theirs {content}"
    warned = theirs.warning.partition('"')[2].removesuffix('"').replace('\\"', '"')
    return "" if warned == ours.warning else f"ours warns {ours.warning!r}, theirs {theirs.warning!r}"

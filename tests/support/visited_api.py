"""A model of the API for visits of hosts: objects by their path, and all that was asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from nodemanager.client.http.transport import Request
from nodemanager.kube.patching.merge_patch import apply_merge_patch
from support.model_api import Answer, status_body

REASONS: Mapping[int, str] = {403: "Forbidden", 404: "NotFound", 409: "Conflict", 422: "Invalid"}


@dataclass
class VisitedApi:
    """A transport; the real client runs on it, without sockets."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By kind, or kind and namespace, and name: `nodes/web1`, `nodetasks/fleet/t`."""
    stuck: dict[str, str] = field(default_factory=dict)
    """Pods that may not leave now, and why."""
    refused: dict[str, int] = field(default_factory=dict)
    """Which requests are refused, by their beginning such as `POST nodetasks`, and the code."""
    asked: list[str] = field(default_factory=list)
    """All requests, such as `PATCH nodes/web1`."""
    _revision: int = 0

    def put(self, path: str, **fields: Any) -> None:
        """Have an object, with the name and namespace that its path says."""
        *_, name = path.split("/")
        meta = {"name": name, "uid": f"uid-{name}", **fields.pop("metadata", {})}
        if path.count("/") == 2:
            meta["namespace"] = path.split("/")[1]
        self._store(path, {**fields, "metadata": meta})

    @property
    def writes(self) -> list[str]:
        """The requests that change something, but for Events."""
        return [one for one in self.asked if not one.startswith("GET") and " events/" not in one]

    def conditions(self, node: str) -> dict[str, str]:
        """Return which conditions of a Node are true, and what they say."""
        said = self.objects[f"nodes/{node}"].get("status", {}).get("conditions", [])
        return {one["type"]: one["message"] for one in said if one["status"] == "True"}

    def events(self) -> list[tuple[str, str]]:
        """Return reason and message of all Events, the older ones first."""
        found = [one for path, one in self.objects.items() if path.startswith("events/")]
        return [(one["reason"], one["message"]) for one in found]

    async def send(self, request: Request) -> Answer:
        address = urlsplit(request.target)
        path, subresource = _short(address.path)
        self.asked.append(f"{request.method} {path}{'/' * bool(subresource)}{subresource}")
        kind = path.split("/")[0]
        refusals = (
            code for said, code in self.refused.items() if f"{request.method} {path}".startswith(said)
        )
        if (code := next(refusals, None)) is not None:
            exists = request.method == "POST" and code == 409
            return Answer(code, status_body(code, "AlreadyExists" if exists else REASONS[code]))
        if subresource == "eviction":
            return self._evict(path)
        body = json.loads(request.body) if request.body else {}
        if request.method == "POST":
            return self._create(f"{path}/{body['metadata']['name']}", body)
        if request.method == "GET" and address.query:
            return self._list(kind, parse_qs(address.query))
        if path not in self.objects:
            return Answer(404, status_body(404, "NotFound"))
        if request.method == "DELETE":
            return Answer(200, json.dumps(self.objects.pop(path)).encode())
        return self._patch(path, body) if request.method == "PATCH" else self._said(path)

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        pass

    def _create(self, path: str, body: dict[str, Any]) -> Answer:
        if path in self.objects:
            return Answer(409, status_body(409, "AlreadyExists"))
        meta = {"namespace": path.split("/")[1], "uid": f"uid-{path}", **body["metadata"]}
        return self._store(path, {**body, "metadata": meta})

    def _list(self, kind: str, query: Mapping[str, list[str]]) -> Answer:
        _, _, node = query.get("fieldSelector", ["="])[0].partition("=")
        found = [one for path, one in self.objects.items() if path.startswith(f"{kind}/")]
        items = [one for one in found if one["spec"]["nodeName"] == node]
        return Answer(200, json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode())

    def _evict(self, path: str) -> Answer:
        if why := self.stuck.get(path.rpartition("/")[2]):
            return Answer(429, status_body(429, "TooManyRequests", why))
        del self.objects[path]
        return Answer(201, b'{"kind": "Status", "status": "Success"}')

    def _patch(self, path: str, patch: dict[str, Any]) -> Answer:
        known = self.objects[path]
        for key in ("resourceVersion", "uid"):
            if patch.get("metadata", {}).get(key, known["metadata"][key]) != known["metadata"][key]:
                return Answer(409, status_body(409, "Conflict"))
        said = patch.get("status", {}).get("conditions", [])  # a strategic patch: they are merged by type
        if said:
            old = {one["type"]: one for one in known.get("status", {}).get("conditions", [])}
            patch = {"status": {"conditions": [*(old | {one["type"]: one for one in said}).values()]}}
        return self._store(path, apply_merge_patch(known, patch))

    def _store(self, path: str, obj: dict[str, Any]) -> Answer:
        self._revision += 1
        obj["metadata"]["resourceVersion"] = str(self._revision)
        self.objects[path] = obj
        return self._said(path)

    def _said(self, path: str) -> Answer:
        return Answer(200, json.dumps(self.objects[path]).encode())


def _short(path: str) -> tuple[str, str]:
    """Return which object a path is about, such as `nodetasks/fleet/t`, and its subresource."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = parts[1:2] if parts[0] == "namespaces" else []
    kind, *named = parts[2:] if namespace else parts
    return "/".join([kind, *namespace, *named[:1]]), "/".join(named[1:])

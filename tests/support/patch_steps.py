"""Random writes to one object, for comparing our patches with those of a real kube-apiserver."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from nodemanager.kube.objects import Resource, Untyped

GROUP = "patches.example.com"
WIDGETS: Resource[Untyped] = Resource(GROUP, "v1", "Widget", "widgets", dict)
MANAGERS = ("one", "two", "three")

_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}
_PORT = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "port": _INTEGER,
        "protocol": {"type": "string", "default": "TCP"},
        "name": _STRING,
        "flags": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
        "extra": {"type": "object", "additionalProperties": _STRING},
    },
}
_SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": _INTEGER,
        "name": _STRING,
        "maybe": {"type": "string", "nullable": True},
        "either": {"x-kubernetes-int-or-string": True},
        "labels": {"type": "object", "additionalProperties": _STRING},
        "selector": {
            "type": "object",
            "additionalProperties": _STRING,
            "x-kubernetes-map-type": "atomic",
        },
        "nested": {
            "type": "object",
            "properties": {
                "a": _STRING,
                "deep": {"type": "object", "properties": {"b": _STRING, "c": _INTEGER}},
            },
        },
        "list": {"type": "array", "items": _STRING},
        "tags": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
        "numbers": {"type": "array", "items": _INTEGER, "x-kubernetes-list-type": "set"},
        "ports": {
            "type": "array",
            "items": _PORT,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
_STATUS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "phase": _STRING,
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": _STRING, "status": _STRING},
            },
        },
    },
}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SCHEMA},
                "subresources": {"status": {}},
            }
        ],
    },
}


@dataclass(frozen=True, slots=True)
class Step:
    """One write: what kind, by whom, with what."""

    kind: str
    """apply, force, merge, json, update."""
    manager: str
    body: Any
    subresource: str = ""


@dataclass(slots=True)
class WidgetSteps:
    """A seeded source of writes that collide often: few names, few values."""

    seed: int
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def step(self, live: Untyped) -> Step:
        """Return the next write to an object."""
        pick = self._random
        manager = pick.choice(MANAGERS)
        status = "status" if pick.random() < 0.15 else ""
        kind = pick.choices(("apply", "force", "merge", "json", "update"), (6, 3, 3, 2, 3))[0]
        body = self._body(null=kind == "merge", rare=kind in ("apply", "force"))
        if status:
            body = {**body, "status": self._status()}
        if kind == "json":
            return Step(kind, manager, self._operations(live), status)
        if kind == "update":
            meta = {name: live["metadata"][name] for name in ("name", "namespace", "resourceVersion")}
            head = {"apiVersion": live["apiVersion"], "kind": live["kind"]}
            body = {**head, **body, "metadata": {**body.get("metadata", {}), **meta}}
            wishes: tuple[list[Untyped] | None, ...] = (None, [], [{}])
            wish = pick.choices(wishes, (12, 1, 1))[0]
            if wish is not None:
                body["metadata"]["managedFields"] = wish
        return Step(kind, manager, body, status)

    def _body(self, *, null: bool, rare: bool) -> Untyped:
        pick = self._random
        spec = {name: make() for name, make in self._makers().items() if pick.random() < 0.3}
        if null:
            spec |= {name: None for name in self._makers() if pick.random() < 0.15}
        if rare and pick.random() < 0.03:
            spec[pick.choice(("unknown", "size", "name", "list"))] = pick.choice(("x", 1, ["y"], {"z": 1}))
        body: Untyped = {"spec": spec} if pick.random() < 0.95 else {}
        if pick.random() < 0.3:
            body["metadata"] = {
                "labels": self._strings(),
                "finalizers": self._some((f"{GROUP}/a", f"{GROUP}/b", f"{GROUP}/c")),
            }
        return body

    def _makers(self) -> dict[str, Any]:
        pick = self._random
        return {
            "size": lambda: pick.randint(1, 3),
            "name": lambda: pick.choice("ab"),
            "maybe": lambda: pick.choice(("a", None)),
            "either": lambda: pick.choice((1, "1")),
            "labels": self._strings,
            "selector": self._strings,
            "nested": self._nested,
            "list": lambda: self._some("abc"),
            "tags": lambda: self._some("abcde"),
            "numbers": lambda: self._some((1, 2, 3, 10)),
            "ports": self._ports,
            "free": self._free,
        }

    def _some(self, choices: Any) -> list[Any]:
        return self._random.sample(list(choices), self._random.randint(0, min(3, len(choices))))

    def _strings(self) -> dict[str, str]:
        return {name: self._random.choice("xy") for name in self._some("abc")}

    def _nested(self) -> Untyped:
        pick = self._random
        deep: Untyped = {name: value for name, value in (("b", "x"), ("c", 1)) if pick.random() < 0.5}
        return pick.choice(({"a": "x"}, {"a": "y", "deep": deep}, {"deep": deep}, {}))

    def _ports(self) -> list[Untyped]:
        pick = self._random
        ports: list[Untyped] = []
        for port in self._some((80, 443, 53)):
            entry: Untyped = {"port": port}
            if pick.random() < 0.5:
                entry["protocol"] = pick.choice(("TCP", "UDP"))
            if pick.random() < 0.5:
                entry["name"] = pick.choice(("x", "y"))
            if pick.random() < 0.3:
                entry["flags"] = self._some("ab")
            if pick.random() < 0.3:
                entry["extra"] = self._strings()
            ports.append(entry)
        return ports

    def _free(self) -> Any:
        pick = self._random
        return {
            name: pick.choice((1, "x", True, ["a"], [], {}, {"a": 1}, {"a": {"b": [1]}, "c": "x"}))
            for name in self._some("pqr")
        }

    def _status(self) -> Untyped:
        pick = self._random
        conditions = [{"type": name, "status": pick.choice(("True", "False"))} for name in self._some("XYZ")]
        return pick.choice(({"phase": pick.choice("ab")}, {"conditions": conditions}, {}))

    def _operations(self, live: Untyped) -> list[Untyped]:
        pick = self._random
        operations: list[Untyped] = []
        for _ in range(pick.randint(1, 3)):
            name, make = pick.choice(list(self._makers().items()))
            path = f"/spec/{name}"
            if name in ("list", "tags", "ports") and pick.random() < 0.6:
                path += pick.choice(("/-", "/0", "/1", "/-1", "/9", "/x"))
                made: Any = {"port": 8080} if name == "ports" else "z"
            else:
                made = make()
            other = f"/spec/{pick.choice(list(self._makers()))}"
            operations.append(self._operation(path, made, other, live))
        return operations

    def _operation(self, path: str, value: Any, other: str, live: Untyped) -> Untyped:
        pick = self._random
        name = pick.choices(("add", "replace", "remove", "test", "copy", "move"), (8, 3, 3, 2, 1, 1))[0]
        if name == "remove":
            return {"op": name, "path": path}
        if name in ("copy", "move"):
            return {"op": name, "from": path, "path": other}
        if name == "test" and pick.random() < 0.7:
            value = (live.get("spec") or {}).get(path.removeprefix("/spec/"))
        return {"op": name, "path": path, "value": value}

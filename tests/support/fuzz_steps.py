"""Random requests about a few objects: what one client after the other might ask a server."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from nodemanager.kube import json_values
from nodemanager.kube.objects import Untyped
from nodemanager.kube.schemas import pruning, structural
from support.duel import JSON, Ask
from support.fuzz_objects import Kind, Objects

MANAGERS = ("one", "two", "three")
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"
_LABELS = ("a=x", "a!=x", "a in (x,y)", "!a", "a", "a notin (x)", "a=x,b", "a in x")
_FIELDS = ("metadata.name=a", "metadata.name!=a", "spec.odd=1")

_COPIED = ("/metadata/labels", "/metadata/annotations", "/metadata/finalizers")
"""The part of metadata that is copied elsewhere: the rest has what only one server can know."""


@dataclass
class Steps:
    """Draws the next request from what is there.

    Bytes are never null: kube-apiserver shows them as empty but stores something else, and so writes such an
    object anew when nothing changes.
    """

    random: Random
    namespace: str
    kinds: Sequence[Kind]
    lives: dict[tuple[Kind, str], Untyped] = field(default_factory=dict)
    """Every object as it was last seen, in symbols."""
    stale: list[str] = field(default_factory=list)
    """Revisions that have passed."""
    _pending: list[Ask] = field(default_factory=list)
    _made: bool = False

    def __post_init__(self) -> None:
        self.objects = Objects(self.random, self.namespace)
        self.chance, self.one = self.objects.chance, self.objects.one

    def step(self) -> tuple[Kind, str, Ask]:
        """Return the next request, the kind that it is about, and the name or nothing."""
        kind, name = self.random.choice(self.kinds), self._name()
        if not kind.namespaced:
            name = f"{self.namespace}-{name}"
        if self._pending:
            return kind, "", self._pending.pop()
        if (kind, name) not in self.lives and self.chance(0.6):
            return (
                kind,
                name,
                self._apply(kind, name) if kind.updates and self.chance(0.3) else self._create(kind, name),
            )
        makers = (
            self._create, self._update, self._merge, self._operations, self._apply, self._delete, self._get,
            self._list, self._delete_many,
        )  # fmt: skip
        weights = (1, 5, 4, 3, 5, 2, 1, 2, 0.3) if kind.updates else (5, 0, 0, 0, 0, 2, 1, 2, 0.3)
        make = self.random.choices(makers, weights)[0]
        return kind, name, make(kind, name)

    def _name(self) -> str:
        return str(self.one("a", "b", "c"))

    # Parts

    def _query(self, **more: str) -> dict[str, str]:
        query = {"fieldManager": self.one(*MANAGERS), **more}
        if self.chance(0.1):
            del query["fieldManager"]
        if self.chance(0.4):
            query["fieldValidation"] = self.one("Strict", "Warn", "Ignore", "Strict", "Odd")
        if self.chance(0.1):
            query["dryRun"] = self.one("All", "All", "All", "Odd")
        return query

    def _meta(self, kind: Kind) -> Untyped:
        objects = self.objects
        group = "fuzz.example.com"
        meta: Untyped = objects.maybe(labels=objects.texts, annotations=objects.texts)
        if not kind.namespaced or self.chance(0.3):
            meta.setdefault("labels", {})["run"] = self.namespace
        if self.chance(0.15):
            meta["finalizers"] = objects.some(f"{group}/a", f"{group}/b")
        if self.chance(0.06):
            meta["ownerReferences"] = [self._owner() for _ in range(self.one(1, 1, 2))]
        if self.chance(0.04):
            meta |= self.one(
                {"labels": {"bad key!": "x"}}, {"labels": {"a": "bad value!"}}, {"odd": 1}, {"labels": None},
                {"annotations": {"a": None}}, {"finalizers": ["unqualified"]}, {"labels": {"a": 1}},
                {"generation": 7}, {"uid": "mine"}, {"namespace": "elsewhere"},
            )  # fmt: skip
        return meta

    def _owner(self) -> Untyped:
        owner = {"apiVersion": "elsewhere.example.com/v1", "kind": "Owner", "name": "o"}
        owner["uid"] = self.one("u1", "u2")
        if self.lives and self.chance(0.5):
            kind, name = self.random.choice(list(self.lives))
            uid = self.lives[kind, name]["metadata"]["uid"]
            owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid}
        return owner | self.objects.maybe(
            controller=lambda: self.one(True, False), blockOwnerDeletion=lambda: self.one(True, False)
        )

    def _whole(self, kind: Kind, name: str) -> Untyped:
        body: Untyped = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": self._meta(kind)}
        body["metadata"]["name"] = name
        body |= kind.make(self.objects)
        if kind.status is not None and self.chance(0.15):
            body["status"] = kind.status(self.objects)
        whole: Untyped = self._spoilt(body)
        return whole

    def _spoilt(self, body: Any) -> Any:
        """Sometimes put in what is not expected there."""
        if not self.chance(0.15) or (isinstance(body, dict) and body.get("kind") == "Pod"):
            return body
        body = copy.deepcopy(body)
        places = [
            place for place in _places(body) if place[1] not in ("metadata", "name", "apiVersion", "kind")
        ]
        if not places:
            return body
        where, key = self.random.choice(places)
        if isinstance(where, dict) and self.chance(0.4):
            where[self.one("unknown", "odd")] = self.one(1, "x", {"a": 1}, None)
        else:
            where[key] = self.one(None, None, "text", 1, True, [], {}, ["x"], {"a": "x"}, 1.5)
        return body

    # Writes

    def _create(self, kind: Kind, name: str) -> Ask:
        body = self._whole(kind, name)
        meta = body["metadata"]
        if not self._made and self.chance(0.08):
            self._made = True  # one only: where random names stand in a list is random
            del meta["name"]
            meta["generateName"] = f"{name}-"
        elif kind.kind != "Pod" and self.chance(0.03):
            meta["name"] = self.one("Bad_Name", "a" * 254, "", "a..b", "-x", f"{name}.dots")
        if self.chance(0.03):
            meta["resourceVersion"] = self.one("@rv1", "7", "odd")
        query = self._query()
        if self.chance(0.03):
            body |= self.one({"apiVersion": "v9"}, {"kind": None}, {"kind": None if kind.custom else "Odd"})
            query["fieldValidation"] = "Ignore"
        return Ask("POST", kind.path(self.namespace), query, _without_null_bytes(kind, body))

    def _update(self, kind: Kind, name: str) -> Ask:
        live = copy.deepcopy(self.lives.get((kind, name)))
        body = self._whole(kind, name)
        if live is not None:
            kept = live["metadata"]
            if self.chance(0.6):  # as a good client does: change what was read
                body = {**live, **{key: value for key, value in body.items() if self.chance(0.5)}}
            meta = body["metadata"] = {**kept, **body["metadata"], "name": kept.get("name", name)}
            self._other_identity(meta)
        path = kind.path(self.namespace, name)
        if kind.status is not None and self.chance(0.3):
            body["status"] = self._spoilt(kind.status(self.objects))
            path += "/status"
        return Ask("PUT", path, self._query(), _without_null_bytes(kind, self._spoilt(body)))

    def _other_identity(self, meta: Untyped) -> None:
        if self.chance(0.3):
            meta.pop("resourceVersion", None)
        elif self.chance(0.15):
            meta["resourceVersion"] = self.one(*self.stale[-3:], "0", "odd", "")
        for key in ("uid", "creationTimestamp", "generation", "managedFields"):
            if self.chance(0.2):
                meta.pop(key, None)
        if self.chance(0.05):
            key = self.one("uid", "creationTimestamp", "generation", "deletionTimestamp")
            meta[key] = 5 if key == "generation" else self.one("2020-01-01T00:00:00Z", "odd")
        if self.chance(0.06):
            meta["managedFields"] = self.one([], [{}])

    def _merge(self, kind: Kind, name: str) -> Ask:
        body = self._part(kind, name)
        media = MERGE_PATCH
        if (not kind.custom and self.chance(0.6)) or self.chance(0.02):
            media = STRATEGIC_PATCH
        if self.chance(0.3):
            self._null(body)
        return self._patch(kind, name, body, media)

    def _part(self, kind: Kind, name: str) -> Untyped:
        whole = self._whole(kind, name)
        for key in ("apiVersion", "kind"):
            whole.pop(key, None)
        whole["metadata"].pop("name")
        body = {key: value for key, value in whole.items() if self.chance(0.7)}
        live = self.lives.get((kind, name))
        if live is not None and self.chance(0.12):
            meta = body.setdefault("metadata", {})
            meta["resourceVersion"] = self.one(live["metadata"]["resourceVersion"], *self.stale[-2:], "odd")
        return body

    def _null(self, body: Untyped) -> None:
        places = [place for place in _places(body) if isinstance(place[0], dict)]
        if places:
            where, key = self.random.choice(places)
            where[key] = None

    def _patch(self, kind: Kind, name: str, body: Any, media: str, **more: str) -> Ask:
        path = kind.path(self.namespace, name)
        if kind.status is not None and self.chance(0.25):
            path += "/status"
            if isinstance(body, dict):
                body["status"] = self._spoilt(kind.status(self.objects))
        return Ask("PATCH", path, self._query(**more), body, media)

    def _operations(self, kind: Kind, name: str) -> Ask:
        live = self.lives.get((kind, name), {})
        kept = ("/metadata/managedFields", "/apiVersion", "/kind")
        places = [path for path in _pointers(live) if not path.startswith(kept)]
        places += ["/metadata/labels/a", "/metadata/labels", "/spec/odd", "/data/a", "/metadata/finalizers/-"]
        operations = []
        for _ in range(self.random.randint(1, 3)):
            path = self.random.choice(places)
            operation: Untyped = {"op": self.one("add", "replace", "remove", "test", "add"), "path": path}
            if operation["op"] != "remove":
                operation["value"] = self.one("x", 1, None, True, {"a": "x"}, ["x"], "y", {})
            if kind.bytes and path.startswith(f"/{kind.bytes}/") and operation.get("value", "") is None:
                operation["value"] = ""
            if self.chance(0.1):
                whence = [path for path in places if path.startswith(_COPIED) or path[:5] != "/meta"]
                operation |= {"op": self.one("copy", "move"), "from": self.random.choice(whence)}
            operations.append(operation)
        return self._patch(kind, name, operations, JSON_PATCH)

    def _apply(self, kind: Kind, name: str) -> Ask:
        body = self._whole(kind, name)
        if kind.custom:
            drop_open_nulls(body, kind.schema or {})
            _drop_undeclared(body, kind.schema or {})
            # Here, too, null and empty lists are kept, but never read back.
            meta = json_values.without_nulls(body["metadata"])
            body["metadata"] = {key: value for key, value in meta.items() if value}
        if self.chance(0.04):
            body |= self.one({"apiVersion": "v9"}, {"kind": "Odd"}, {"apiVersion": None})
        if self.chance(0.04):
            body["metadata"] |= self.one({"name": "other"}, {"managedFields": []}, {"uid": "odd"})
        more = {"force": self.one("true", "true", "false")} if self.chance(0.5) else {}
        return self._patch(kind, name, _without_null_bytes(kind, body), APPLY_PATCH, **more)

    # Deletes and reads

    def _delete(self, kind: Kind, name: str) -> Ask:
        live = self.lives.get((kind, name), {"metadata": {}})["metadata"]
        options: Untyped = {}
        if kind.kind != "Namespace" and self.chance(0.3):
            options["preconditions"] = self.objects.maybe(
                uid=lambda: self.one(live.get("uid", "u"), live.get("uid", "u"), "odd"),
                resourceVersion=lambda: self.one(live.get("resourceVersion", "7"), *self.stale[-2:]),
            )
        if self.chance(0.2):
            options["gracePeriodSeconds"] = self.one(0, 5, 30)
        options |= self._propagation()
        if self.chance(0.1):
            options["dryRun"] = ["All"]
        if kind.kind == "Namespace":  # here one server has a controller that ends it, and the other has none
            options["dryRun"] = ["All"]
        if options:
            options |= {"apiVersion": "v1", "kind": "DeleteOptions"}
        return Ask("DELETE", kind.path(self.namespace, name), {}, options or None)

    def _propagation(self) -> Untyped:
        """Return what shall become of the owned; nobody collects here, so the object stays."""
        options: Untyped = {}
        if self.chance(0.25):
            options["propagationPolicy"] = self.one("Background", "Foreground", "Orphan", "Odd")
        if self.chance(0.08):
            options["orphanDependents"] = self.chance(0.5)
        return options

    def _delete_many(self, kind: Kind, _name: str) -> Ask:
        query = self._selection(kind) if not kind.namespaced or self.chance(0.5) else {}
        query |= {key: json_values.compact(value).strip('"') for key, value in self._propagation().items()}
        return Ask("DELETE", kind.path(self.namespace), query)

    def _get(self, kind: Kind, name: str) -> Ask:
        accept = self.one(JSON, JSON, TABLE, PARTIAL.format(""))
        return Ask("GET", kind.path(self.namespace, name), {}, accept=accept)

    def _list(self, kind: Kind, _name: str) -> Ask:
        accept = self.one(JSON, JSON, TABLE, PARTIAL.format("List"))
        path, query = kind.path(self.namespace), self._selection(kind)
        if kind.namespaced and self.chance(0.3):
            query["limit"] = self.one("1", "2")
            self._pending.append(Ask("GET", path, {**query, "continue": "@continue"}, accept=accept))
        return Ask("GET", path, query, accept=accept)

    def _selection(self, kind: Kind) -> dict[str, str]:
        query = {}
        if self.chance(0.5):
            query["labelSelector"] = self.one(*_LABELS)
        if not kind.namespaced:
            mine = f"run={self.namespace}"
            query["labelSelector"] = ",".join(part for part in (mine, query.get("labelSelector")) if part)
        if self.chance(0.3):
            query["fieldSelector"] = self.one(*_FIELDS, *kind.fields)
        return query


def _without_null_bytes(kind: Kind, body: Untyped) -> Untyped:
    found = body.get(kind.bytes)
    if isinstance(found, dict):
        body[kind.bytes] = {key: "" if value is None else value for key, value in found.items()}
    return body


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container with every key in it, except what is managed by others."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if key != "managedFields":
            yield value, key
            yield from _places(item)


def _pointers(value: Any, path: str = "") -> Iterator[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        here = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
        yield here
        yield from _pointers(item, here)


def _parts(value: Any, schema: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Mapping[str, Any] | None]]:
    """Yield every key of a value with what is there, and the schema of that where there is one."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield index, item, schema.get("items")
    elif isinstance(value, dict):
        more = schema.get("additionalProperties")
        for key, item in list(value.items()):
            part = (schema.get("properties") or {}).get(key)
            yield key, item, part or (more if isinstance(more, dict) else None)


def drop_open_nulls(value: Any, schema: Mapping[str, Any]) -> None:
    """Remove null from the declared fields of any type that are not nullable.

    An apply lets it through there, and a default brings it. As what is undeclared (see `_drop_undeclared`),
    kube-apiserver stores it, and drops it whenever it reads the object.
    """
    for key, item, part in _parts(value, schema):
        if part is None:
            continue
        if item is None and isinstance(value, dict) and _lets_null_pass(part):
            del value[key]
        drop_open_nulls(item, part)


def _lets_null_pass(schema: Mapping[str, Any]) -> bool:
    is_typed = "type" in schema or schema.get("x-kubernetes-int-or-string")
    return not is_typed and not schema.get("nullable") and schema.get("default") is None


def _drop_undeclared(value: Any, schema: Mapping[str, Any]) -> None:
    """Remove what is undeclared in the declared parts of open maps, and below maps of anything.

    An apply lets it through there. kube-apiserver stores it, drops it whenever it reads the object, and so
    has a new revision to write when nothing changes; ours drops it at once (docs/embedded-server.md).
    """
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") is True
    is_map = schema.get("additionalProperties") is True
    for key, item, part in _parts(value, schema):
        if isinstance(value, dict) and (is_map or (is_open and key in (schema.get("properties") or {}))):
            pruning.prune_value(item, structural.compile_schema(part or {}))
        _drop_undeclared(item, part or {})

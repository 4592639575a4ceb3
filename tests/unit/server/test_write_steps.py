"""The steps of a write are values in a row: each is made from the one before, and none is changed later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from nodemanager.kube.json_values import copy_of
from nodemanager.kube.objects import Untyped
from nodemanager.server.http.app import Handler
from nodemanager.server.http.negotiation import Form
from nodemanager.server.http.routing import RequestInfo
from nodemanager.server.hub import ApiCall, Hub
from nodemanager.server.kinds import namespaces
from nodemanager.server.kinds.builtin_kinds import BUILTIN, CRDS
from nodemanager.server.kinds.go_zero_values import NormalForm
from nodemanager.server.kinds.kind_schema import KindSchema
from nodemanager.server.kinds.resources import Catalogue, ServedKind
from nodemanager.server.verbs import internal_requests, patching, pending_write, write
from nodemanager.server.verbs.pending_write import PendingWrite, Step
from support.memory_store import MemoryStore

SIZE = {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}
WIDGETS: Untyped = {
    "metadata": {"name": "widgets.ex.io"},
    "spec": {
        "group": "ex.io",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SIZE}}},
            }
        ],
    },
}  # fmt: skip
OBJECTS: dict[str, Untyped] = {
    "configmaps": {"data": {"a": "b"}},
    "secrets": {"stringData": {"a": "b"}},
    "namespaces": {"metadata": {"labels": {"a": "b"}}},
    "roles": {"rules": [{"verbs": ["get"], "resources": ["pods"], "apiGroups": [""], "resourceNames": []}]},
    "pods": {"spec": {"containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 1}]}]}},
    "poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    "widgets": {"apiVersion": "ex.io/v1", "kind": "Widget", "spec": {}, "status": {"ignored": True}},
}
LABELS = {"metadata": {"labels": {"changed": "yes"}}}
KINDS = pytest.mark.parametrize("plural", OBJECTS)


@pytest.fixture(name="hub")
async def _hub() -> Hub:
    hub = Hub(MemoryStore(), Catalogue(BUILTIN))
    await namespaces.ensure(hub, "default")
    await write.create(hub, request("create", CRDS, WIDGETS))
    return hub


@pytest.fixture(name="seen")
def _seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that were taken; every one must leave alone what it was given."""
    taken: list[str] = []

    def watched(step: Step) -> Step:
        async def checked(given: PendingWrite) -> PendingWrite:
            before = copy_of([given.obj, given.old])
            found = await step(given)
            assert [given.obj, given.old] == before, f"{step.__name__} changed what it was given"
            taken.append(step.__name__)
            return found

        return checked

    plain = pending_write.advance

    async def advance(given: PendingWrite, steps: Sequence[Step]) -> PendingWrite:
        return await plain(given, [watched(step) for step in steps])

    for module in (write, patching):
        monkeypatch.setattr(module, "advance", advance)
    return taken


@pytest.fixture(name="stages")
def _stages(monkeypatch: pytest.MonkeyPatch) -> list[NormalForm]:
    """The normal forms that were made."""
    made: list[NormalForm] = []
    plain: Callable[..., Untyped] = KindSchema.normalised

    def normalised(schema: KindSchema, obj: Untyped, stage: NormalForm = NormalForm.CHECKED) -> Untyped:
        made.append(stage)
        return plain(schema, obj, stage)

    monkeypatch.setattr(KindSchema, "normalised", normalised)
    return made


def request(verb: str, kind: ServedKind, body: Any, media: str = "application/json", **query: str) -> ApiCall:
    name = "" if verb == "create" else "it"
    namespace = "default" if kind.namespaced else ""
    info = RequestInfo(verb, "", kind.group, kind.version, namespace, kind.plural, name)
    query.setdefault("fieldManager", "me")
    return ApiCall(info, kind, query, internal_requests.SELF, Form(), msgspec.json.encode(body), media)


def kind_of(hub: Hub, plural: str) -> ServedKind:
    return next(kind for kind in hub.catalogue if kind.plural == plural)


def object_of(plural: str) -> Untyped:
    obj = OBJECTS[plural]
    return {**obj, "metadata": {**obj.get("metadata", {}), "name": "it"}}


DECODED = ["identify", "default", "own", "mutate", "prepare", "admit", "check", "ask_policies", "store"]


@KINDS
async def test_every_verb_takes_the_same_steps_and_none_looks_back(
    hub: Hub, seen: list[str], stages: list[NormalForm], plural: str
) -> None:
    kind = kind_of(hub, plural)
    applied = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"annotations": {}, "name": "it"},
    }

    async def steps_of(handler: Handler, call: ApiCall) -> list[str]:
        seen.clear()
        stages.clear()
        await handler(hub, call)
        assert stages == [NormalForm.SENT, NormalForm.CHECKED, NormalForm.STORED]
        return list(seen)

    assert await steps_of(write.create, request("create", kind, object_of(plural))) == ["decode", *DECODED]
    [record] = (one for one in hub.store.list(kind.prefix()).records if one.key.endswith("/it"))
    changed = {**object_of(plural), "metadata": {"name": "it", "resourceVersion": str(record.revision)}}
    assert await steps_of(write.update, request("update", kind, changed)) == ["decode", "find", *DECODED]
    for media, body in ((patching.MERGE_PATCH, LABELS), (patching.APPLY_PATCH, applied)):
        assert await steps_of(patching.patch, request("patch", kind, body, media)) == ["decode", *DECODED]


async def test_a_generated_name_that_is_taken_is_generated_again(
    hub: Hub, seen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["a-1", "a-1", "a-1", "a-2"])
    monkeypatch.setattr("nodemanager.server.verbs.metadata.generated", lambda _base: next(names))
    kind = kind_of(hub, "configmaps")
    for _ in range(2):
        answer = await write.create(hub, request("create", kind, {"metadata": {"generateName": "a-"}}))
        assert answer.status == 201
    assert list(names) == []
    assert seen.count("decode") == 2

"""The same questions to the embedded server and to kube-apiserver: the same answers, word for word."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from nodemanager.client.calls import Call, DeleteOptions, Selection, WriteOptions
from nodemanager.client.patches import ApplyPatch, JsonPatch, MergePatch, StrategicPatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import CRDS, LEASES, Lease
from nodemanager.kube.objects import ObjectMeta, Resource, Untyped
from nodemanager.runtime.cache import Cache
from support.both_servers import BOTH, client_of
from support.scripted_server import until

NAMESPACES: Resource[Untyped] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)
CONFIG_MAPS: Resource[Untyped] = Resource("", "v1", "ConfigMap", "configmaps", dict)
SECRETS: Resource[Untyped] = Resource("", "v1", "Secret", "secrets", dict)
ROLES: Resource[Untyped] = Resource("rbac.authorization.k8s.io", "v1", "Role", "roles", dict)
WIDGETS: Resource[Untyped] = Resource("likeness.test", "v1", "Widget", "widgets", dict)

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1, "default": 3},
                "color": {"type": "string"},
            },
        },
        "status": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
    },
}
WIDGET_CRD: Untyped = {
    "metadata": {"name": "widgets.likeness.test"},
    "spec": {
        "group": "likeness.test",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": SCHEMA},
            }
        ],
    },
}


@dataclass
class Api:
    """One of the two servers, with a namespace of our own and the widgets defined."""

    client: Client
    namespace: str

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Send a request as it is, and return the decoded answer."""
        query = more.pop("query", {})
        raw = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        answer = await self.client.send(Call(method, path, "ask", query, raw, retry=False, **more))
        return msgspec.json.decode(answer) if answer else None

    async def refused(self, method: str, path: str, body: Any = None, **more: Any) -> errors.StatusError:
        """Send a request that must be refused, and return the refusal."""
        with pytest.raises(errors.StatusError) as caught:
            await self.ask(method, path, body, **more)
        return caught.value

    async def widget(self, name: str, **spec: Any) -> Untyped:
        """Create a widget."""
        return await self.client.create(
            WIDGETS, {"metadata": {"name": name}, "spec": spec}, self.namespace, options=WriteOptions()
        )

    def path(self, resource: Resource[Any], name: str = "", subresource: str = "") -> str:
        """Return a path in our namespace."""
        return resource.path(self.namespace, name, subresource)


@pytest.fixture(params=BOTH)
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    async with client_of(request) as client:
        namespace = f"likeness-{uuid.uuid4().hex[:8]}"
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(CRDS, WIDGET_CRD)

        async def served() -> bool:
            try:
                await client.list(WIDGETS, Selection(namespace))
            except errors.NotFound:
                return False
            return True

        async with asyncio.timeout(50):
            while not await served():  # noqa: ASYNC110 - a foreign server says nowhere else when it is ready
                await asyncio.sleep(0.05)
        yield Api(client, namespace)


async def test_paths_that_lead_nowhere(api: Api) -> None:
    for path in (
        "/foo",
        "/apis/nope.example/v1",
        "/apis/nope.example/v1/things",
        "/apis/likeness.test/v9/widgets",
    ):
        refusal = await api.refused("GET", path)
        assert (refusal.status.code, refusal.message) == (404, "404 page not found")
    refusal = await api.refused("GET", "/api/v1/things")
    assert refusal.message.startswith("the server could not find the requested resource")
    assert refusal.status.reason == "NotFound"
    refusal = await api.refused("PUT", api.path(CONFIG_MAPS), {})
    assert (refusal.status.code, refusal.status.reason) == (405, "MethodNotAllowed")
    assert (await api.refused("GET", api.path(CONFIG_MAPS, "x", "status"))).status.code == 404


async def test_what_a_created_widget_looks_like(api: Api) -> None:
    made = await api.widget("a", size=2, color="red")
    meta = made["metadata"]
    assert (meta["name"], meta["namespace"], meta["generation"]) == ("a", api.namespace, 1)
    assert all(meta[field] for field in ("uid", "creationTimestamp", "resourceVersion"))
    assert made["spec"] == {"size": 2, "color": "red"}
    assert (await api.widget("b"))["spec"] == {"size": 3}
    bare = {"apiVersion": "likeness.test/v1", "kind": "Widget", "metadata": {"generateName": "gen-"}}
    named = await api.ask("POST", api.path(WIDGETS), bare)
    assert len(named["metadata"]["name"]) == len("gen-") + 5
    both = {**bare, "metadata": {"name": "c"}, "status": {"ok": True}}
    assert "status" not in await api.ask("POST", api.path(WIDGETS), both)


@pytest.mark.parametrize(
    ("spec", "field", "reason", "why"),
    [
        ({"size": 0}, "spec.size", "FieldValueInvalid", "should be greater than or equal to 1"),
        ({"size": "x"}, "spec.size", "FieldValueTypeInvalid", "must be of type integer"),
    ],
)
async def test_a_widget_against_its_schema(
    api: Api, spec: Untyped, field: str, reason: str, why: str
) -> None:
    with pytest.raises(errors.Invalid, match=why) as caught:
        await api.widget("a", **spec)
    assert [(cause.field, cause.reason) for cause in caught.value.causes] == [(field, reason)]
    assert caught.value.message.startswith('Widget.likeness.test "a" is invalid: spec.size: Invalid value: ')


@pytest.mark.parametrize(
    ("meta", "text"),
    [
        ({}, 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'),
        (
            {"name": "X_y"},
            'ConfigMap "X_y" is invalid: metadata.name: Invalid value: "X_y": a lowercase RFC 1123',
        ),
        (
            {"name": "a", "labels": {"b c": "d"}},
            'ConfigMap "a" is invalid: metadata.labels: Invalid value: "b c"',
        ),
        (
            {"name": "a", "finalizers": ["x"]},
            'ConfigMap "a" is invalid: metadata.finalizers[0]: Invalid value: "x": name is neither a',
        ),
    ],
)
async def test_metadata_that_is_refused(api: Api, meta: Untyped, text: str) -> None:
    refusal = await api.refused("POST", api.path(CONFIG_MAPS), {"metadata": meta})
    assert refusal.status.code == 422
    assert refusal.message.startswith(text)


async def test_bodies_that_are_refused(api: Api) -> None:
    path = api.path(WIDGETS)
    start = "the object provided is unrecognized (must be of type Widget): "
    for body in (b"{nope", b"[]"):
        refusal = await api.refused("POST", path, body)
        assert refusal.status.code == 400
        assert refusal.message.startswith(f"{start}couldn't get version/kind; json parse error: ")
    refusal = await api.refused("POST", path, {"metadata": {"name": "a"}})
    assert refusal.message.startswith(f"{start}Object 'Kind' is missing in ")
    other = {"apiVersion": "likeness.test/v2", "kind": "Widget", "metadata": {"name": "a"}}
    assert (await api.refused("POST", path, other)).message == (
        "the API version in the data (likeness.test/v2) does not match the expected API version "
        "(likeness.test/v1)"
    )
    wrong = {"apiVersion": "likeness.test/v1", "kind": "Gadget", "metadata": {"name": "a"}}
    assert (await api.refused("POST", path, wrong)).message == (
        'Gadget.likeness.test "a" is invalid: kind: Invalid value: "Gadget": must be Widget'
    )
    assert (await api.refused("POST", path, b"x", content_type="text/plain")).status.code == 415
    elsewhere = {"metadata": {"name": "a", "namespace": "other"}}
    assert (await api.refused("POST", api.path(CONFIG_MAPS), elsewhere)).message == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )
    versioned = {"metadata": {"name": "a", "resourceVersion": "7"}}
    refusal = await api.refused("POST", api.path(CONFIG_MAPS), versioned)
    assert (refusal.status.code, refusal.message) == (
        500, "resourceVersion should not be set on objects to be created",
    )  # fmt: skip
    missing = CONFIG_MAPS.path("nowhere")
    assert (await api.refused("POST", missing, {"metadata": {"name": "a"}})).message == (
        'namespaces "nowhere" not found'
    )


async def test_field_validation(api: Api) -> None:
    body = {"apiVersion": "likeness.test/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"zap": 1}}
    refusal = await api.refused("POST", api.path(WIDGETS), body, query={"fieldValidation": "Strict"})
    start = 'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
    assert refusal.message == f'{start}unknown field "spec.zap"'
    twice = msgspec.json.encode({**body, "spec": {}}).replace(
        b'"spec":{}', b'"spec":{"size":1,"size":2},"x":1'
    )
    refusal = await api.refused("POST", api.path(WIDGETS), twice, query={"fieldValidation": "Strict"})
    assert refusal.message.endswith('strict decoding error: duplicate field "spec.size", unknown field "x"')
    assert (await api.ask("POST", api.path(WIDGETS), body))["spec"] == {"size": 3}
    refusal = await api.refused(
        "POST", api.path(CONFIG_MAPS), {"metadata": {"name": "a"}}, query={"dryRun": "x"}
    )
    assert refusal.message == (
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["x"]: supported values: "All"'
    )


async def test_dry_run_stores_nothing(api: Api) -> None:
    body = {"metadata": {"name": "a"}, "data": {"k": "v"}}
    made = await api.ask("POST", api.path(CONFIG_MAPS), body, query={"dryRun": "All"})
    assert made["data"] == {"k": "v"}
    assert "resourceVersion" not in made["metadata"]
    refusal = await api.refused("GET", api.path(CONFIG_MAPS, "a"))
    assert refusal.message == 'configmaps "a" not found'
    assert (refusal.details.name, refusal.details.kind) == ("a", "configmaps")


async def test_updates_race(api: Api) -> None:
    made = await api.client.create(
        CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"x": "1"}}, api.namespace
    )
    path, new = api.path(CONFIG_MAPS, "a"), {**made, "data": {"x": "2"}}
    saved = await api.ask("PUT", path, new)
    assert saved["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert (await api.refused("PUT", path, new)).message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your '
        "changes to the latest version and try again"
    )
    same = await api.ask("PUT", path, {"metadata": {"name": "a"}, "data": {"x": "2"}})
    assert same["metadata"]["resourceVersion"] == saved["metadata"]["resourceVersion"]
    assert (await api.refused("PUT", api.path(CONFIG_MAPS, "b"), new)).message == (
        "the name of the object (a) does not match the name on the URL (b)"
    )
    assert (await api.refused("POST", api.path(CONFIG_MAPS), {"metadata": {"name": "a"}})).message == (
        'configmaps "a" already exists'
    )
    await api.widget("a")
    whole = {"apiVersion": "likeness.test/v1", "kind": "Widget", "metadata": {"name": "a"}}
    assert (await api.refused("PUT", api.path(WIDGETS, "a"), whole)).message == (
        'widgets.likeness.test "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified '
        "for an update"
    )


async def test_generation_counts_specs_and_status_is_apart(api: Api) -> None:
    client, namespace = api.client, api.namespace
    await api.widget("a", size=1)
    patched = await client.patch(
        WIDGETS,
        "a",
        namespace,
        MergePatch({"status": {"ok": True}, "spec": {"size": 7}}),
        subresource="status",
    )
    assert (patched["spec"], patched["status"]) == ({"size": 1}, {"ok": True})
    assert patched["metadata"]["generation"] == 1
    patched = await client.patch(
        WIDGETS, "a", namespace, MergePatch({"status": {"ok": False}, "spec": {"size": 7}})
    )
    assert (patched["spec"], patched["status"]) == ({"size": 7}, {"ok": True})
    assert patched["metadata"]["generation"] == 2
    labelled = await client.patch(WIDGETS, "a", namespace, MergePatch({"metadata": {"labels": {"x": "y"}}}))
    assert labelled["metadata"]["generation"] == 2


async def test_patches(api: Api) -> None:
    client, namespace = api.client, api.namespace
    await api.widget("a", size=1)
    swapped = await client.patch(
        WIDGETS, "a", namespace, JsonPatch([{"op": "replace", "path": "/spec/size", "value": 5}])
    )
    assert swapped["spec"] == {"size": 5}
    wrong = JsonPatch([{"op": "test", "path": "/spec/size", "value": 1}])
    with pytest.raises(
        errors.Invalid, match="the server rejected our request due to an error in our request"
    ):
        await client.patch(WIDGETS, "a", namespace, wrong)
    with pytest.raises(errors.UnsupportedType, match="application/merge-patch"):
        await client.patch(WIDGETS, "a", namespace, StrategicPatch({"spec": {"size": 8}}))
    with pytest.raises(errors.Invalid, match=r"metadata\.uid: Invalid value: .*field is immutable"):
        await client.patch(WIDGETS, "a", namespace, MergePatch({"metadata": {"uid": "1"}}))
    with pytest.raises(errors.NotFound, match=r'widgets\.likeness\.test "nope" not found'):
        await client.patch(WIDGETS, "nope", namespace, MergePatch({"spec": {}}))
    renamed = JsonPatch([{"op": "replace", "path": "/metadata/name", "value": "q"}])
    with pytest.raises(errors.BadRequest, match="does not match the name on the URL"):
        await client.patch(WIDGETS, "a", namespace, renamed)


async def test_apply_creates_merges_and_conflicts(api: Api) -> None:
    one, two = WriteOptions(field_manager="one"), WriteOptions(field_manager="two")

    async def apply(spec: Untyped, options: WriteOptions, *, force: bool = False) -> Untyped:
        patch = ApplyPatch({"spec": spec}, force=force)
        return await api.client.patch(WIDGETS, "a", api.namespace, patch, options=options)

    assert (await apply({"size": 2}, one))["spec"] == {"size": 2}
    merged = await apply({"color": "red"}, two)
    assert merged["spec"] == {"size": 2, "color": "red"}
    managers = {(entry["manager"], entry["operation"]) for entry in merged["metadata"]["managedFields"]}
    assert managers == {("one", "Apply"), ("two", "Apply")}
    with pytest.raises(errors.Conflict, match=r'conflict with "one": .spec.size'):
        await apply({"size": 9}, two)
    assert (await apply({"size": 9}, two, force=True))["spec"]["size"] == 9


async def test_deletion_with_finalizers_and_preconditions(api: Api) -> None:
    client, namespace = api.client, api.namespace
    made = await api.widget("a")
    with pytest.raises(errors.Conflict, match=r"the UID in the precondition \(x\) does not match the UID"):
        await client.delete(WIDGETS, "a", namespace, options=DeleteOptions(uid="x"))
    gone = await api.ask("DELETE", api.path(WIDGETS, "a"))
    assert (gone["kind"], gone["status"]) == ("Status", "Success")
    assert gone["details"]["uid"] == made["metadata"]["uid"]
    assert (
        await api.refused("DELETE", api.path(WIDGETS, "a"))
    ).message == 'widgets.likeness.test "a" not found'
    held = {"metadata": {"name": "b", "finalizers": ["likeness.test/hold"]}}
    await client.create(WIDGETS, held, namespace)
    marked = await api.ask("DELETE", api.path(WIDGETS, "b"))
    assert marked["metadata"]["deletionTimestamp"]
    assert (marked["metadata"]["deletionGracePeriodSeconds"], marked["metadata"]["generation"]) == (0, 2)
    more = {"metadata": {"finalizers": ["likeness.test/hold", "likeness.test/more"]}}
    with pytest.raises(errors.Invalid, match="no new finalizers can be added if the object is being deleted"):
        await client.patch(WIDGETS, "b", namespace, MergePatch(more))
    await client.patch(WIDGETS, "b", namespace, MergePatch({"metadata": {"finalizers": None}}))
    with pytest.raises(errors.NotFound):
        await client.get(WIDGETS, "b", namespace)


async def test_delete_options_and_collections(api: Api) -> None:
    await api.widget("a", color="red")
    await api.widget("b", color="blue")
    refusal = await api.refused("DELETE", api.path(WIDGETS, "a"), {"propagationPolicy": "Foo"})
    assert refusal.message == (
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Foo": supported '
        'values: "Foreground", "Background", "Orphan", "nil"'
    )
    await api.client.delete_collection(WIDGETS, Selection(api.namespace, fields="spec.color=red"))
    left = await api.client.list(WIDGETS, Selection(api.namespace))
    assert [item["metadata"]["name"] for item in left.items] == ["b"]


async def test_pages_of_a_list(api: Api) -> None:
    for name in ("a", "b", "c"):
        await api.widget(name)
    first = await api.ask("GET", api.path(WIDGETS), query={"limit": "2"})
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 1
    await api.widget("d")
    token = first["metadata"]["continue"]
    rest = await api.ask("GET", api.path(WIDGETS), query={"limit": "2", "continue": token})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    exact = {"resourceVersion": first["metadata"]["resourceVersion"], "resourceVersionMatch": "Exact"}
    assert len((await api.ask("GET", api.path(WIDGETS), query=exact))["items"]) == 3
    assert (await api.refused("GET", api.path(WIDGETS), query={"continue": "zzz"})).status.code == 400


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        (
            {"resourceVersionMatch": "Exact"},
            422,
            "resourceVersionMatch is forbidden unless resourceVersion is",
        ),
        (
            {"resourceVersion": "1", "resourceVersionMatch": "Foo"},
            422,
            'supported values: "Exact", "NotOlderThan"',
        ),
        ({"sendInitialEvents": "true"}, 422, "sendInitialEvents is forbidden for list"),
        ({"resourceVersion": "abc"}, 400, 'strconv.ParseUint: parsing "abc": invalid syntax'),
        ({"limit": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"fieldSelector": "spec.size=3"}, 400, "field label not supported: spec.size"),
        ({"fieldSelector": "zzz"}, 400, "invalid selector: 'zzz'; can't understand 'zzz'"),
        ({"labelSelector": "a  b"}, 400, "unable to parse requirement: "),
        ({"resourceVersion": "999999999"}, 504, "Too large resource version: 999999999, current: "),
        (
            {"watch": "1", "sendInitialEvents": "true"},
            422,
            "sendInitialEvents requires setting resourceVersionM",
        ),
    ],
)
async def test_list_options_that_are_refused(api: Api, query: dict[str, str], code: int, text: str) -> None:
    refusal = await api.refused("GET", api.path(WIDGETS), query=query)
    assert refusal.status.code == code
    assert text in refusal.message


async def test_tables_and_metadata(api: Api) -> None:
    await api.widget("a", size=4)
    table = await api.ask("GET", api.path(WIDGETS), accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
    assert [row["cells"] for row in table["rows"]] == [["a", 4]]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    assert "spec" not in await api.ask("GET", api.path(WIDGETS, "a"), accept=partial)
    assert (await api.refused("GET", api.path(WIDGETS), accept=partial)).status.code == 406
    assert (await api.refused("GET", api.path(WIDGETS), accept="text/csv")).status.code == 406


async def test_watches_see_what_their_selector_lets_through(api: Api) -> None:
    client, namespace = api.client, api.namespace
    before = await client.list(WIDGETS, Selection(namespace))
    await api.widget("a", color="red")
    await api.widget("b", color="blue")
    await client.patch(WIDGETS, "b", namespace, MergePatch({"spec": {"color": "red"}}))
    await client.patch(WIDGETS, "a", namespace, MergePatch({"spec": {"color": "blue"}}))
    await client.delete(WIDGETS, "b", namespace)
    seen: list[tuple[str, str]] = []
    selection = Selection(namespace, fields="spec.color=red")
    async with (
        await client.watch(WIDGETS, selection, resource_version=before.resource_version) as watch,
        asyncio.timeout(50),
    ):
        while len(seen) < 4:
            for event in await watch.batch():
                assert not isinstance(event, tuple)
                seen.append((event.change, event.object["metadata"]["name"]))  # type: ignore[union-attr]
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("DELETED", "b")]


async def test_our_cache_follows(api: Api) -> None:
    cache = Cache(api.client, LEASES, Selection(api.namespace))
    seen: dict[str, Any] = {}

    def remember(change: Any) -> None:
        seen[change.key.name] = change.new

    cache.subscribe(remember)
    running = asyncio.create_task(cache.run())
    try:
        await asyncio.wait_for(cache.synced(), 50)
        await api.client.create(LEASES, Lease(metadata=ObjectMeta(name="a")), api.namespace)
        await until(lambda: seen.get("a") is not None)
        await api.client.delete(LEASES, "a", api.namespace)
        await until(lambda: seen.get("a", 1) is None)
    finally:
        running.cancel()
        await asyncio.wait({running})


async def test_secrets_and_roles(api: Api) -> None:
    made = await api.client.create(
        SECRETS, {"metadata": {"name": "s"}, "stringData": {"a": "b"}}, api.namespace
    )
    assert (made["data"], made["type"], "stringData" in made) == ({"a": "Yg=="}, "Opaque", False)
    refusal = await api.refused(
        "POST", api.path(ROLES), {"metadata": {"name": "r:x"}, "rules": [{"verbs": ["get"]}]}
    )
    assert [cause.field for cause in refusal.causes] == ["rules[0].apiGroups", "rules[0].resources"]


async def test_null_is_the_value_that_is_not_there(api: Api) -> None:
    role = {"metadata": {"name": "r", "creationTimestamp": None}, "rules": None}
    assert not (await api.ask("POST", api.path(ROLES), role)).get("rules")
    body = {"metadata": {"name": "a"}, "data": {"k": None, "x": "y"}, "immutable": None}
    made = await api.ask("POST", api.path(CONFIG_MAPS), body)
    assert (made["data"], "immutable" in made) == ({"k": "", "x": "y"}, False)
    made["binaryData"] = None
    same = await api.ask("PUT", api.path(CONFIG_MAPS, "a"), made)
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_the_creation_time_is_the_servers(api: Api) -> None:
    made = await api.widget("a")
    created = made["metadata"]["creationTimestamp"]
    for text in (created.replace("Z", "+00:00"), "2020-01-01T00:00:00Z"):
        made["metadata"]["creationTimestamp"] = text
        saved = await api.ask("PUT", api.path(WIDGETS, "a"), made)
        assert saved["metadata"]["creationTimestamp"] == created


async def test_times_with_microseconds(api: Api) -> None:
    path = LEASES.path(api.namespace)
    lease = {"metadata": {"name": "a"}, "spec": {"renewTime": "2026-01-01T02:00:00.123456+02:00"}}
    assert (await api.ask("POST", path, lease))["spec"]["renewTime"] == "2026-01-01T00:00:00.123456Z"
    wrong = {"metadata": {"name": "b"}, "spec": {"renewTime": "2026-01-01T00:00:00Z"}}
    refusal = await api.refused("POST", path, wrong)
    assert refusal.status.code == 400
    assert refusal.message == (
        'Lease in version "v1" cannot be handled as a Lease: parsing time "2026-01-01T00:00:00Z" as '
        '"2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"'
    )


async def test_subresources_that_a_definition_does_not_have(api: Api) -> None:
    await api.widget("a")
    refusal = await api.refused("GET", api.path(WIDGETS, "a", "scale"))
    assert refusal.message == 'widgets.likeness.test "a" not found'
    assert (refusal.details.name, refusal.details.kind) == ("a", "widgets")


async def test_namespaces_that_stay_and_that_end(api: Api) -> None:
    refusal = await api.refused("DELETE", "/api/v1/namespaces/default")
    assert refusal.message == 'namespaces "default" is forbidden: this namespace may not be deleted'
    held = {"metadata": {"name": "a", "finalizers": ["likeness.test/hold"]}}
    await api.client.create(CONFIG_MAPS, held, api.namespace)
    ending = await api.ask("DELETE", f"/api/v1/namespaces/{api.namespace}")
    assert ending["status"]["phase"] == "Terminating"
    refusal = await api.refused("POST", api.path(CONFIG_MAPS), {"metadata": {"name": "b"}})
    assert refusal.message == (
        f'configmaps "b" is forbidden: unable to create new content in namespace {api.namespace} because '
        "it is being terminated"
    )
    assert [cause.reason for cause in refusal.causes] == ["NamespaceTerminating"]


async def test_definitions_that_are_refused(api: Api) -> None:
    path = CRDS.path()
    wrong = {**WIDGET_CRD, "metadata": {"name": "x.likeness.test"}}
    assert (await api.refused("POST", path, wrong)).message == (
        'CustomResourceDefinition.apiextensions.k8s.io "x.likeness.test" is invalid: metadata.name: Invalid '
        'value: "x.likeness.test": must be spec.names.plural+"."+spec.group'
    )
    empty = {"metadata": {"name": "z.likeness.test"}, "spec": {"group": "likeness.test"}}
    fields = {cause.field for cause in (await api.refused("POST", path, empty)).causes}
    assert {"metadata.name", "spec.scope", "spec.versions", "spec.names.plural", "spec.names.kind"} <= fields


async def test_discovery_names_the_widgets(api: Api) -> None:
    listed = await api.ask("GET", "/apis/likeness.test/v1")
    widgets = next(one for one in listed["resources"] if one["name"] == "widgets")
    del widgets["storageVersionHash"]
    assert widgets == {
        "name": "widgets", "singularName": "widget", "namespaced": True, "kind": "Widget",
        "shortNames": ["wd"],
        "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
    }  # fmt: skip
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    whole = await api.ask("GET", "/apis", accept=accept)
    group = next(one for one in whole["items"] if one["metadata"]["name"] == "likeness.test")
    assert group["versions"][0]["resources"][0]["responseKind"] == {
        "group": "likeness.test", "version": "v1", "kind": "Widget",
    }  # fmt: skip

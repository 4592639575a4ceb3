"""Deletion policies and owner references: what DELETE and POST answer, on both servers word for word.

Who collects is another process in a cluster, so nothing here waits for a collection.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from nodemanager.client.calls import Call
from nodemanager.kube import errors
from nodemanager.kube.core import CRDS, PODS
from nodemanager.kube.objects import Untyped
from support.both_servers import BOTH, client_of
from support.owned import CONFIG_MAPS, HOLD, NAMESPACES, blocking, config_map

Ask = Callable[..., Awaitable[Any]]
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
BACKGROUND_POLICY, FOREGROUND_POLICY, ORPHAN_POLICY = (
    {"propagationPolicy": policy} for policy in ("Background", "Foreground", "Orphan")
)
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u1"}


@pytest.fixture(params=BOTH)
async def ask(request: pytest.FixtureRequest) -> AsyncIterator[Ask]:
    """Send a request as it is; `OURS` in a path is a namespace of our own."""
    async with client_of(request) as client:
        namespace = f"owned-{uuid.uuid4().hex[:8]}"
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})

        async def send(method: str, path: str, body: Any = None, **query: str) -> Any:
            raw = b"" if body is None else msgspec.json.encode(body)
            call = Call(method, path.replace("OURS", namespace), "ask", query, raw, retry=False)
            answer = await client.send(call)
            return msgspec.json.decode(answer) if answer else None

        yield send


MAPS = CONFIG_MAPS.path("OURS")


async def finalizers_after(ask: Ask, path: str, options: Any, **query: str) -> list[str] | str:
    """Delete; return the finalizers of the answer, or that it is gone."""
    answer = await ask("DELETE", path, options, **query)
    if answer["kind"] == "Status":
        return "gone"
    assert answer["metadata"]["deletionTimestamp"]
    return answer["metadata"].get("finalizers") or []


@pytest.mark.parametrize(
    ("had", "options", "answered"),
    [
        ([], {}, "gone"),
        ([], BACKGROUND_POLICY, "gone"),
        ([], FOREGROUND_POLICY, [FOREGROUND]),
        ([], ORPHAN_POLICY, [ORPHAN]),
        ([], {"orphanDependents": True}, [ORPHAN]),
        ([], {"orphanDependents": False}, "gone"),
        ([HOLD], {}, [HOLD]),
        ([HOLD], FOREGROUND_POLICY, [HOLD, FOREGROUND]),
        ([HOLD], ORPHAN_POLICY, [HOLD, ORPHAN]),
        ([HOLD], {"orphanDependents": False}, [HOLD]),
        ([ORPHAN], {}, [ORPHAN]),
        ([ORPHAN], BACKGROUND_POLICY, "gone"),
        ([ORPHAN], FOREGROUND_POLICY, [FOREGROUND]),
        ([ORPHAN], {"orphanDependents": False}, "gone"),
        ([FOREGROUND], {}, [FOREGROUND]),
        ([FOREGROUND], BACKGROUND_POLICY, "gone"),
        ([FOREGROUND], {"orphanDependents": True}, [ORPHAN]),
        ([FOREGROUND], {"orphanDependents": False}, "gone"),
        ([ORPHAN, HOLD], {}, [ORPHAN, HOLD]),
        ([ORPHAN, HOLD], ORPHAN_POLICY, [ORPHAN, HOLD]),
        ([ORPHAN, HOLD], BACKGROUND_POLICY, [HOLD]),
        ([ORPHAN, HOLD], FOREGROUND_POLICY, [HOLD, FOREGROUND]),
        ([FOREGROUND, HOLD], ORPHAN_POLICY, [HOLD, ORPHAN]),
    ],
)
async def test_the_policy_becomes_a_finalizer(
    ask: Ask, had: list[str], options: Untyped, answered: list[str] | str
) -> None:
    await ask("POST", MAPS, config_map("a", finalizers=had))
    assert await finalizers_after(ask, f"{MAPS}/a", options) == answered


@pytest.mark.parametrize(
    ("first", "second", "answered"),
    [
        ("Foreground", {}, [FOREGROUND]),
        ("Foreground", BACKGROUND_POLICY, "gone"),
        ("Foreground", ORPHAN_POLICY, [ORPHAN]),
    ],
)
async def test_a_second_request_may_change_the_policy(
    ask: Ask, first: str, second: Untyped, answered: list[str] | str
) -> None:
    owner = await ask("POST", MAPS, config_map("a"))
    await ask("POST", MAPS, config_map("b", blocking(owner), finalizers=[HOLD]))
    assert await finalizers_after(ask, f"{MAPS}/a", {"propagationPolicy": first}) == [FOREGROUND]
    assert await finalizers_after(ask, f"{MAPS}/a", second) == answered


async def test_options_in_the_query(ask: Ask) -> None:
    for number, (query, answered) in enumerate(
        [
            ({"propagationPolicy": "Foreground"}, [FOREGROUND]),
            ({"orphanDependents": "true"}, [ORPHAN]),
            ({"orphanDependents": "false"}, "gone"),
        ]
    ):
        await ask("POST", MAPS, config_map(f"a{number}"))
        assert await finalizers_after(ask, f"{MAPS}/a{number}", None, **query) == answered
    await ask("POST", MAPS, config_map("b"))
    body = {"kind": "DeleteOptions", "apiVersion": "v1"}
    assert await finalizers_after(ask, f"{MAPS}/b", body, propagationPolicy="Foreground") == "gone"


async def test_a_dry_run_answers_the_same_and_changes_nothing(ask: Ask) -> None:
    await ask("POST", MAPS, config_map("a"))
    dry = {**FOREGROUND_POLICY, "dryRun": ["All"]}
    assert await finalizers_after(ask, f"{MAPS}/a", dry) == [FOREGROUND]
    assert "deletionTimestamp" not in (await ask("GET", f"{MAPS}/a"))["metadata"]


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (
            {"orphanDependents": True, **FOREGROUND_POLICY},
            422,
            (
                'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Foreground": '
                "orphanDependents and deletionPropagation cannot be both set"
            ),
        ),
        (
            {"kind": "DeleteOptions", "apiVersion": "v1", "orphanDependents": "maybe"},
            400,
            "json: cannot unmarshal string into Go struct field DeleteOptions.orphanDependents of type bool",
        ),
    ],
)
async def test_options_that_are_refused(ask: Ask, options: Untyped, code: int, text: str) -> None:
    await ask("POST", MAPS, config_map("a"))
    with pytest.raises(errors.StatusError) as caught:
        await ask("DELETE", f"{MAPS}/a", options)
    assert (caught.value.status.code, caught.value.message) == (code, text)


async def test_a_collection_is_deleted_with_a_policy(ask: Ask) -> None:
    held = config_map("a", finalizers=[HOLD])
    await ask("POST", MAPS, held)
    listed = await ask("DELETE", MAPS, FOREGROUND_POLICY)
    shown = {one["metadata"]["name"]: one["metadata"].get("finalizers") for one in listed["items"]}
    assert shown["a"] == [HOLD]  # as it was before
    assert (await ask("GET", f"{MAPS}/a"))["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("options", "answered"),
    [
        ({}, []),
        (BACKGROUND_POLICY, []),
        (FOREGROUND_POLICY, [FOREGROUND]),
        (ORPHAN_POLICY, [ORPHAN]),
        ({"orphanDependents": False}, [FOREGROUND]),
    ],
)
async def test_a_namespace(ask: Ask, options: Untyped, answered: list[str]) -> None:
    await ask("POST", MAPS, config_map("held", finalizers=[HOLD]))
    assert await finalizers_after(ask, "/api/v1/namespaces/OURS", options) == answered


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
async def test_a_definition_has_a_finalizer_of_its_own(ask: Ask, policy: str) -> None:
    group = f"g{uuid.uuid4().hex[:8]}.test"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    await ask("POST", CRDS.path(), {"metadata": {"name": f"things.{group}"}, "spec": spec})
    path = CRDS.path("", f"things.{group}")
    cleanup = "customresourcecleanup.apiextensions.k8s.io"
    assert await finalizers_after(ask, path, {"propagationPolicy": policy}) == [cleanup]


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
async def test_an_event_owns_nothing(ask: Ask, policy: str) -> None:
    path = "/api/v1/namespaces/OURS/events"
    namespace = (await ask("POST", MAPS, config_map("x")))["metadata"]["namespace"]
    about = {"involvedObject": {"namespace": namespace, "name": "x"}}
    await ask("POST", path, {"metadata": {"name": "e", "finalizers": [ORPHAN]}, **about})
    assert await finalizers_after(ask, f"{path}/e", {"propagationPolicy": policy}) == "gone"


async def test_a_pod_whose_time_runs_keeps_its_policy(ask: Ask) -> None:
    with contextlib.suppress(errors.AlreadyExists):  # what a controller does in a cluster
        await ask("POST", "/api/v1/namespaces/OURS/serviceaccounts", {"metadata": {"name": "default"}})
    spec = {"nodeName": "h", "containers": [{"name": "c", "image": "i:1"}]}
    path = PODS.path("OURS")
    await ask("POST", path, {"metadata": {"name": "p", "finalizers": [HOLD]}, "spec": spec})
    assert await finalizers_after(ask, f"{path}/p", ORPHAN_POLICY | {"gracePeriodSeconds": 60}) == [
        HOLD,
        ORPHAN,
    ]
    pending = await ask("DELETE", f"{path}/p", BACKGROUND_POLICY)
    assert pending["metadata"]["deletionGracePeriodSeconds"] == 60
    shorter = await ask("DELETE", f"{path}/p", {**BACKGROUND_POLICY, "gracePeriodSeconds": 5})
    assert (shorter["metadata"]["finalizers"], shorter["metadata"]["deletionGracePeriodSeconds"]) == (
        [HOLD],
        5,
    )


def _not_empty(field: str, value: str = "") -> str:
    what = "version must not be empty" if field == "apiVersion" else "must not be empty"
    return f'metadata.ownerReferences.{field}: Invalid value: "{value}": {what}'


TWO = [
    {**OWNER, "controller": True},
    {**OWNER, "name": "p", "uid": "u2", "controller": True, "blockOwnerDeletion": False},
]
SHOWN = (
    '[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"u1","controller":true},{"apiVersion":"v1",'
    '"kind":"ConfigMap","name":"p","uid":"u2","controller":true,"blockOwnerDeletion":false}]'
)


@pytest.mark.parametrize(
    ("meta", "code", "text"),
    [
        (
            {"ownerReferences": [{}]}, 422,
            f"[{', '.join(_not_empty(field) for field in ('apiVersion', 'kind', 'name', 'uid'))}]",
        ),
        ({"ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]}, 422, _not_empty("apiVersion", "a/b/c")),
        ({"ownerReferences": [{**OWNER, "apiVersion": "a/"}]}, 422, _not_empty("apiVersion", "a/")),
        (
            {"ownerReferences": TWO}, 422,
            (f"metadata.ownerReferences: Invalid value: {SHOWN}: "
            'Only one reference can have Controller set to true. Found "true" in references for ConfigMap/o '
            "and ConfigMap/p"),
        ),
        (
            {"ownerReferences": [{**OWNER, "kind": "Event"}]}, 422,
            ('metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"o",'
            '"uid":"u1"}: /v1, Kind=Event is disallowed from being an owner'),
        ),
        (
            {"ownerReferences": [{**OWNER, "uid": 3}]}, 400,
            ("json: cannot unmarshal number into Go struct field OwnerReference."
            "metadata.ownerReferences.uid of type types.UID"),
        ),
        (
            {"ownerReferences": [{**OWNER, "controller": "x"}]}, 400,
            ("json: cannot unmarshal string into Go struct field "
            "OwnerReference.metadata.ownerReferences.controller of type bool"),
        ),
        (
            {"finalizers": [ORPHAN, FOREGROUND]}, 422,
            ('metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and '
            "foregroundDeletion cannot be both set"),
        ),
    ],
)  # fmt: skip
async def test_metadata_that_is_refused(ask: Ask, meta: Untyped, code: int, text: str) -> None:
    with pytest.raises(errors.StatusError) as caught:
        await ask("POST", MAPS, config_map("a", **meta))
    start = (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap'
        if code == 400
        else 'ConfigMap "a" is invalid'
    )
    assert (caught.value.status.code, caught.value.message) == (code, f"{start}: {text}")


async def test_the_same_reference_is_kept_once(ask: Ask) -> None:
    other = {**OWNER, "apiVersion": "nobody.test/v1"}  # so that nobody collects it meanwhile
    made = await ask("POST", MAPS, config_map("a", other, {**other, "name": "x"}, other))
    assert [one["name"] for one in made["metadata"]["ownerReferences"]] == ["o", "x"]
    put = await ask("PUT", f"{MAPS}/a", config_map("a", other, other))
    assert put["metadata"]["ownerReferences"] == [other]


async def test_owners_that_nobody_has_seen_are_accepted(ask: Ask) -> None:
    """Kubernetes does not look whether an owner is there, only the collector does."""
    odd = {**OWNER, "apiVersion": "events.k8s.io/v1", "kind": "Event", "blockOwnerDeletion": None}
    made = await ask(
        "POST", MAPS, config_map("a", {**OWNER, "apiVersion": "nope.test/v1"}, {**odd, "uid": "u2"})
    )
    assert [one["uid"] for one in made["metadata"]["ownerReferences"]] == ["u1", "u2"]
    assert "blockOwnerDeletion" not in made["metadata"]["ownerReferences"][1]

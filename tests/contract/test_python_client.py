"""The official Python client: the same on the embedded server and kube-apiserver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, ResourceNotFoundError
from kubernetes.leaderelection import electionconfig
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from support.either import Place

GADGETS = ("clients.test", "v1")


@pytest.fixture
def api(place: Place) -> Iterator[Any]:
    """Its transport, connected as the kubeconfig says."""
    connected: Any = config.new_client_from_config(config_file=str(place.kubeconfig))
    with connected:
        yield connected


def meta(name: str, **more: Any) -> Any:
    return client.V1ObjectMeta(name=name, **more)


def status_of(refusal: Any) -> Any:
    return json.loads(refusal.body)


def gadget(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "clients.test/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec}


def test_typed_objects_go_round(place: Place, api: Any) -> None:
    core: Any = client.CoreV1Api(api)
    body = client.V1ConfigMap(metadata=meta("c", labels={"a": "b"}), data={"k": "v"})
    made = core.create_namespaced_config_map(place.namespace, body)
    assert (made.data, made.metadata.labels) == ({"k": "v"}, {"a": "b"})
    assert made.metadata.creation_timestamp.tzinfo is not None
    made.data["k"] = "w"
    replaced = core.replace_namespaced_config_map("c", place.namespace, made)
    assert replaced.metadata.resource_version != made.metadata.resource_version
    with pytest.raises(ApiException) as caught:
        core.replace_namespaced_config_map("c", place.namespace, made)
    assert caught.value.status == 409
    patched = core.patch_namespaced_config_map("c", place.namespace, {"data": {"k": None, "z": "1"}})
    assert patched.data == {"z": "1"}
    listed = core.list_namespaced_config_map(place.namespace, label_selector="a=b")
    assert [item.metadata.name for item in listed.items] == ["c"]
    core.delete_namespaced_config_map("c", place.namespace)
    assert core.list_namespaced_config_map(place.namespace, label_selector="a=b").items == []


def test_what_a_refusal_contains(place: Place, api: Any) -> None:
    core: Any = client.CoreV1Api(api)
    with pytest.raises(ApiException) as caught:
        core.read_namespaced_secret("nope", place.namespace)
    assert (caught.value.status, caught.value.reason) == (404, "Not Found")
    assert (caught.value.headers or {})["Content-Type"] == "application/json"
    assert status_of(caught.value) == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound",
        "message": 'secrets "nope" not found', "details": {"name": "nope", "kind": "secrets"}, "code": 404,
    }  # fmt: skip
    objects: Any = client.CustomObjectsApi(api)
    with pytest.raises(ApiException) as caught:
        objects.create_namespaced_custom_object(*GADGETS, place.namespace, "gadgets", gadget("g", size=0))
    assert caught.value.status == 422
    cause = status_of(caught.value)["details"]["causes"][0]
    assert cause == {
        "reason": "FieldValueInvalid", "field": "spec.size",
        "message": "Invalid value: 0: spec.size in body should be greater than or equal to 1",
    }  # fmt: skip


def test_pages(place: Place, api: Any) -> None:
    core: Any = client.CoreV1Api(api)
    for name in "abcde":
        core.create_namespaced_config_map(place.namespace, client.V1ConfigMap(metadata=meta(name)))
    seen: list[list[str]] = []
    token = None
    while token is None or token:
        page = core.list_namespaced_config_map(place.namespace, limit=2, _continue=token or None)
        seen.append([item.metadata.name for item in page.items])
        token = page.metadata._continue or ""
    assert seen == [["a", "b"], ["c", "d"], ["e"]]


def test_custom_objects_and_their_status(place: Place, api: Any) -> None:
    objects: Any = client.CustomObjectsApi(api)
    at = (*GADGETS, place.namespace, "gadgets")
    objects.create_namespaced_custom_object(*at, gadget("g", size=1))
    status = {"status": {"ready": True}, "spec": {"size": 9}}
    objects.patch_namespaced_custom_object_status(*at, "g", status)
    objects.patch_namespaced_custom_object(*at, "g", {"spec": {"size": 2}})
    shown = objects.get_namespaced_custom_object(*at, "g")
    assert (shown["spec"], shown["status"]) == ({"size": 2}, {"ready": True})
    shown["spec"]["size"] = 3
    assert objects.replace_namespaced_custom_object(*at, "g", shown)["metadata"]["generation"] == 3
    listed = objects.list_cluster_custom_object(*GADGETS, "gadgets")
    assert place.namespace in {item["metadata"]["namespace"] for item in listed["items"]}
    objects.delete_collection_namespaced_custom_object(*at)
    assert objects.list_namespaced_custom_object(*at)["items"] == []


def test_watch_follows_and_ends(place: Place, api: Any) -> None:
    core: Any = client.CoreV1Api(api)
    start = core.list_namespaced_config_map(place.namespace).metadata.resource_version
    core.create_namespaced_config_map(place.namespace, client.V1ConfigMap(metadata=meta("a")))
    core.patch_namespaced_config_map("a", place.namespace, {"data": {"x": "1"}})
    core.delete_namespaced_config_map("a", place.namespace)
    watching: Any = watch.Watch()
    seen = []
    for event in watching.stream(
        core.list_namespaced_config_map, place.namespace, resource_version=start, timeout_seconds=20
    ):
        assert isinstance(event["object"], client.V1ConfigMap)
        seen.append((event["type"], event["object"].data))
        if event["type"] == "DELETED":
            watching.stop()
    assert seen == [("ADDED", None), ("MODIFIED", {"x": "1"}), ("DELETED", {"x": "1"})]
    short: Any = watch.Watch()
    assert not list(short.stream(core.list_namespaced_config_map, place.namespace, timeout_seconds=1))


def test_watch_from_no_revision(place: Place, api: Any) -> None:
    core: Any = client.CoreV1Api(api)
    watching: Any = watch.Watch()
    stream = watching.stream(core.list_namespaced_config_map, place.namespace, resource_version="x")
    with pytest.raises(ApiException) as caught:
        next(stream)
    assert caught.value.status == 500  # so it is, instead of a bad request
    message = status_of(caught.value)["message"]
    assert message.startswith('resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x"')


def test_the_dynamic_client_applies(place: Place, api: Any) -> None:
    found: Any = dynamic.DynamicClient(api).resources.get(api_version="clients.test/v1", kind="Gadget")
    assert (found.name, found.namespaced) == ("gadgets", True)
    apply = {"namespace": place.namespace, "name": "g"}
    made = found.server_side_apply(body=gadget("g", size=1), field_manager="one", **apply)
    assert made.spec.size == 1
    with pytest.raises(ConflictError) as caught:
        found.server_side_apply(body=gadget("g", size=2), field_manager="two", **apply)
    message = 'Apply failed with 1 conflict: conflict with "one": .spec.size'
    assert status_of(caught.value)["message"] == message
    forced = found.server_side_apply(
        body=gadget("g", size=2), field_manager="two", force_conflicts=True, **apply
    )
    assert [entry.manager for entry in forced.metadata.managedFields] == ["two"]
    merged = found.patch(
        body=gadget("g", size=4), content_type="application/merge-patch+json", namespace=place.namespace
    )
    assert merged.spec.size == 4
    assert found.get(name="g", namespace=place.namespace).metadata.generation == 3
    found.delete(name="g", namespace=place.namespace)
    with pytest.raises(NotFoundError):
        found.get(name="g", namespace=place.namespace)


def test_the_dynamic_client_discovers(place: Place, api: Any) -> None:
    known: Any = dynamic.DynamicClient(api)
    sets = known.resources.get(api_version="common.nodemanager/v1", kind="ConfigSet")
    assert sets.short_names == ["cs", "cset"]
    assert known.resources.get(api_version="v1", kind="Node").namespaced is False
    with pytest.raises(ResourceNotFoundError):
        known.resources.get(api_version="nope/v1", kind="Nope")
    sets.create(body={"apiVersion": "common.nodemanager/v1", "kind": "ConfigSet",
                      "metadata": {"name": "s"}, "spec": {}}, namespace=place.namespace)  # fmt: skip
    seen = [
        (event["type"], event["object"].metadata.name)
        for event in sets.watch(namespace=place.namespace, timeout=1)
    ]
    assert seen == [("ADDED", "s")]


def test_identity_and_rights(place: Place, api: Any) -> None:
    core: Any = client.CoreV1Api(api)
    rights: Any = client.RbacAuthorizationV1Api(api)
    core.create_namespaced_service_account(place.namespace, client.V1ServiceAccount(metadata=meta("a")))
    rule = client.V1PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["list"])
    rights.create_namespaced_role(place.namespace, client.V1Role(metadata=meta("r"), rules=[rule]))
    binding = client.V1RoleBinding(
        metadata=meta("b"),
        role_ref=client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name="r"),
        subjects=[client.RbacV1Subject(kind="ServiceAccount", name="a", namespace=place.namespace)],
    )
    rights.create_namespaced_role_binding(place.namespace, binding)
    request = client.AuthenticationV1TokenRequest(
        spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600)
    )
    token = core.create_namespaced_service_account_token("a", place.namespace, request).status.token
    reviews: Any = client.AuthenticationV1Api(api)
    review = reviews.create_token_review(client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token)))
    assert review.status.authenticated
    assert review.status.user.username == f"system:serviceaccount:{place.namespace}:a"
    wrong = reviews.create_token_review(client.V1TokenReview(spec=client.V1TokenReviewSpec(token="x")))
    assert not wrong.status.authenticated
    asked = client.V1ResourceAttributes(namespace=place.namespace, verb="list", resource="configmaps")
    access: Any = client.AuthorizationV1Api(api)
    answer = access.create_subject_access_review(
        client.V1SubjectAccessReview(
            spec=client.V1SubjectAccessReviewSpec(
                user=f"system:serviceaccount:{place.namespace}:a", resource_attributes=asked
            )
        )
    )
    assert answer.status.allowed


def test_two_candidates_for_a_lease(place: Place, api: Any) -> None:
    def candidate(identity: str) -> Any:
        lock: Any = LeaseLock("lock", place.namespace, identity)
        lock.api_instance = client.CoordinationV1Api(api)
        settings: Any = electionconfig.Config(lock, 60, 40, 5, lambda: None, lambda: None)
        return LeaderElection(settings)

    first, second = candidate("one"), candidate("two")
    assert first.try_acquire_or_renew()
    assert not second.try_acquire_or_renew()
    assert first.try_acquire_or_renew()
    leases: Any = client.CoordinationV1Api(api)
    lease = leases.read_namespaced_lease("lock", place.namespace)
    assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("one", 60)
    assert lease.spec.renew_time >= lease.spec.acquire_time


def test_manifests_of_several_kinds(place: Place, api: Any) -> None:
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}},
    ]
    utils.create_from_yaml(api, yaml_objects=objects, namespace=place.namespace)
    core: Any = client.CoreV1Api(api)
    assert core.read_namespaced_secret("s", place.namespace).data == {"a": "Yg=="}
    with pytest.raises(utils.FailToCreateError) as caught:
        utils.create_from_yaml(api, yaml_objects=objects, namespace=place.namespace)
    assert [error.status for error in caught.value.api_exceptions] == [409, 409]


def test_events_nodes_and_versions(place: Place, api: Any) -> None:
    core: Any = client.CoreV1Api(api)
    about = client.V1ObjectReference(kind="ConfigSet", name="x", namespace=place.namespace)
    core.create_namespaced_event(
        place.namespace,
        client.CoreV1Event(metadata=meta("e"), involved_object=about, reason="Tested", message="m"),
    )
    chosen = core.list_namespaced_event(place.namespace, field_selector="involvedObject.name=x")
    assert [event.reason for event in chosen.items] == ["Tested"]
    name = f"n-{place.namespace}"
    core.create_node(client.V1Node(metadata=meta(name)))
    core.patch_node(name, {"spec": {"unschedulable": True}})
    ready = client.V1NodeCondition(type="Ready", status="True")
    core.patch_node_status(name, {"status": {"conditions": [api.sanitize_for_serialization(ready)]}})
    node = core.read_node(name)
    assert (node.spec.unschedulable, node.status.conditions[0].type) == (True, "Ready")
    core.delete_node(name)
    version: Any = client.VersionApi(api)
    assert version.get_code().major == "1"
    definitions: Any = client.ApiextensionsV1Api(api)
    crd = definitions.read_custom_resource_definition("gadgets.clients.test")
    assert "Established" in {condition.type for condition in crd.status.conditions}

"""What the real kubectl makes of our OpenAPI documents, beside what it makes of kube-apiserver's."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from nodemanager.api import crds
from support import openapi_judge
from support import openapi_stand_in as stand_in
from support.apiserver import ApiServer

FIELD = re.compile(r"^ +(\S+)\t<([^>]*)>( -required-)?$")
OURS = ["configset", "configset.spec.files", "managednode", "managednode.status"]
THEIRS = [
    "configmap", "secret", "serviceaccount", "event.v1", "events.v1.events.k8s.io", "namespace", "node",
    "pod", "pod.spec.containers", "lease", "poddisruptionbudget", "role", "rolebinding", "clusterrole",
    "clusterrolebinding", "validatingadmissionpolicy", "validatingadmissionpolicybinding",
]  # fmt: skip
pytestmark = pytest.mark.xdist_group("openapi")  # one server for all of them
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def need_kubectl() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on the PATH")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stand_in.StandIn]:
    need_kubectl()
    with stand_in.running(tmp_path_factory.mktemp("openapi"), stand_in.SERVED) as server:
        yield server


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stand_in.StandIn]:
    """A server where nothing can be patched: kubectl finds no fieldValidation and validates by itself."""
    need_kubectl()
    kinds = [
        dataclasses.replace(
            kind, verbs=tuple(verb for verb in kind.verbs if verb != "patch"), subresources={}
        )
        for kind in stand_in.SERVED
    ]
    with stand_in.running(tmp_path_factory.mktemp("strict"), kinds) as server:
        yield server


@pytest.fixture(scope="module")
def real(kube: ApiServer) -> ApiServer:
    """The real server, with our definitions."""
    openapi_judge.publish(kube, crds.all_crds())
    return kube


def fields(explanation: str) -> list[tuple[str, ...]]:
    """Return depth, name, type and necessity of every field that kubectl explains."""
    lines = explanation.splitlines()
    found = [(line, match) for line in lines if (match := FIELD.match(line))]
    return [
        (str(len(line) - len(line.lstrip())), match[1], match[2], match[3] or "") for line, match in found
    ]


def explain(server: stand_in.StandIn | ApiServer, *args: str) -> str:
    result = server.kubectl("explain", *args)
    assert result.returncode == 0, result.stderr
    return result.stdout


def named(what: str) -> list[str]:
    """Return arguments that choose between two kinds of the same name."""
    match what:
        case "event.v1":
            return ["events", "--api-version=v1"]
        case "events.v1.events.k8s.io":
            return ["events", "--api-version=events.k8s.io/v1"]
    return [what]


@pytest.mark.parametrize("what", [*OURS, *THEIRS])
def test_explain_shows_the_same_fields(what: str, ours: stand_in.StandIn, real: ApiServer) -> None:
    args = [*named(what), "--recursive"]
    expected = fields(explain(real, *args))
    assert fields(explain(ours, *args)) == expected
    assert len(expected) > 3


def test_explain_describes_our_kinds_in_the_same_words(ours: stand_in.StandIn, real: ApiServer) -> None:
    assert explain(ours, "configset.spec.files") == explain(real, "configset.spec.files")
    assert explain(ours, "managednode.spec") == explain(real, "managednode.spec")


@pytest.mark.parametrize("what", ["configset.spec.files", "pod.spec.containers", "lease.spec", "node.status"])
def test_explain_from_v2_shows_the_same_fields(what: str, ours: stand_in.StandIn, real: ApiServer) -> None:
    """This form asks for /openapi/v2 in protobuf."""
    args = ["--output=plaintext-openapiv2", "--recursive", what]
    expected = fields(explain(real, *args))
    assert fields(explain(ours, *args)) == expected
    assert expected


def test_definition_of_definitions_is_explained(ours: stand_in.StandIn) -> None:
    """Without --recursive: schemas contain schemas."""
    text = explain(ours, "customresourcedefinition.spec.versions.schema.openAPIV3Schema")
    assert ("2", "x-kubernetes-preserve-unknown-fields", "boolean", "") in fields(text)


def manifest(kind: str, spec: dict[str, Any], version: str = "common.nodemanager/v1") -> str:
    obj = {"apiVersion": version, "kind": kind, "metadata": {"name": "one", "namespace": "default"}}
    return json.dumps({**obj, "spec": spec})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(
            manifest("ConfigSet", {"filez": []}),
            'unknown field "filez" in nodemanager.common.v1.ConfigSet.spec',
            id="custom",
        ),
        pytest.param(
            manifest("Pod", {"containers": [{"name": "a", "imagee": "b"}]}, "v1"),
            'unknown field "imagee" in io.k8s.api.core.v1.Container',
            id="nested",
        ),
        pytest.param(
            manifest("Pod", {}, "v1"), 'missing required field "containers" in io.k8s.api.core.v1.PodSpec',
            id="required",
        ),
        pytest.param(
            manifest("Lease", {"leaseTransitions": "many"}, "coordination.k8s.io/v1"),
            'LeaseSpec.leaseTransitions: got "string", expected "integer"',
            id="type",
        ),
    ],
)  # fmt: skip
def test_kubectl_finds_the_mistake(text: str, complaint: str, strict: stand_in.StandIn) -> None:
    result = strict.kubectl("create", "--dry-run=client", "--validate=strict", "-f", "-", stdin=text)
    assert result.returncode == 1
    assert complaint in result.stderr


def test_kubectl_finds_no_mistake_where_none_is(strict: stand_in.StandIn) -> None:
    probe = {"httpGet": {"port": "web", "path": "/"}, "periodSeconds": 5}
    resources = {"limits": {"memory": "64Mi", "cpu": 1}}
    container = {"name": "a", "image": "b", "livenessProbe": probe, "resources": resources}
    text = manifest("Pod", {"containers": [container]}, "v1")
    result = strict.kubectl("create", "--dry-run=client", "--validate=strict", "-f", "-", stdin=text)
    assert (result.returncode, result.stderr) == (0, "")


def test_kubectl_leaves_validation_to_a_server_that_can(ours: stand_in.StandIn) -> None:
    result = ours.kubectl(
        "create", "--validate=strict", "-f", "-", stdin=manifest("ConfigSet", {"filez": []})
    )
    assert result.returncode == 0
    assert "fieldValidation=Strict" in ours.written[-1][1]


def live(text: str) -> dict[str, Any]:
    """Return an object as it is after `kubectl apply` of a manifest."""
    obj: dict[str, Any] = json.loads(text)
    obj["metadata"] |= {"annotations": {LAST_APPLIED: text}, "resourceVersion": "7", "uid": "u"}
    return obj


def test_apply_merges_a_pod_by_the_keys_of_our_schema(ours: stand_in.StandIn) -> None:
    def pod(image: str, period: int) -> str:
        probe = {
            "httpGet": {"port": 80, "httpHeaders": [{"name": "a", "value": "b"}]},
            "periodSeconds": period,
        }
        first = {"name": "a", "image": image, "livenessProbe": probe, "ports": [{"containerPort": 80}]}
        return manifest("Pod", {"containers": [first, {"name": "b", "image": "same"}]}, "v1")

    ours.objects["/api/v1/namespaces/default/pods/one"] = live(pod("old", 5))
    result = ours.kubectl("apply", "-f", "-", stdin=pod("new", 9))
    assert (result.returncode, result.stderr) == (0, "")
    method, _, content_type, patch = ours.written[-1]
    assert (method, content_type) == ("PATCH", "application/strategic-merge-patch+json")
    assert patch["spec"] == {
        "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
        "containers": [{"name": "a", "image": "new", "livenessProbe": {"periodSeconds": 9}}],
    }


def test_apply_sends_a_merge_patch_for_a_custom_resource(ours: stand_in.StandIn) -> None:
    path = "/apis/common.nodemanager/v1/namespaces/default/configsets/one"
    ours.objects[path] = live(manifest("ConfigSet", {"priority": 1}))
    result = ours.kubectl("apply", "-f", "-", stdin=manifest("ConfigSet", {"priority": 2}))
    assert (result.returncode, result.stderr) == (0, "")
    method, _, content_type, patch = ours.written[-1]
    assert (method, content_type) == ("PATCH", "application/merge-patch+json")
    assert patch["spec"] == {"priority": 2}

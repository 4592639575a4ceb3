"""The manifests for a cluster: valid to the last field, within pod security, their rights enough."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.client.auth import host_kubeconfig, kubeconfig
from nodemanager.client.subresources import request_token
from nodemanager.host.process import runner
from support import apiserver, cli
from support.agent_process import Api, owned
from support.chart import Object, named, plain
from support.either import Place, prepared
from support.joined_host import Reply, ask
from support.scripted_server import until

APPLY = "application/apply-patch+yaml"
FORBIDDEN = 403
PLURALS = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
NOT_EMBEDDED = {"Deployment", "DaemonSet", "ResourceQuota"}
"""The embedded server refuses these by name, as it runs no pods; their pods are judged instead."""
EVERYTHING = named([*plain("config"), *plain("config/agent")])
OPERATOR = EVERYTHING["Deployment/nodemanager-operator"]
AGENT = EVERYTHING["DaemonSet/nodemanager-agent"]


def moved(obj: Object, namespace: str) -> Object:
    """Return an object as it is in a namespace of the test, wherever it names its own."""
    text = json.dumps(obj)
    for name in ("nodemanager", "nodemanager-agents"):
        text = text.replace(f'"namespace": "{name}"', f'"namespace": "{namespace}"')
    text = text.replace('"--namespace=nodemanager"', f'"--namespace={namespace}"')
    found: Object = json.loads(text)
    return found


def pod_of(workload: Object, name: str) -> Object:
    """Return the pod that a controller would make of a Deployment or DaemonSet."""
    template = workload["spec"]["template"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": name},
            "spec": template["spec"]}  # fmt: skip


async def dry(api: Api, obj: Object) -> Reply:
    """Have the server judge an object as strictly as it can, and keep nothing."""
    group, _, version = obj["apiVersion"].rpartition("/")
    plural = PLURALS.get(obj["kind"], f"{obj['kind'].lower()}s")
    folder = f"/apis/{group}/{version}" if group else f"/api/{version}"
    if "namespace" in obj["metadata"]:
        folder += f"/namespaces/{obj['metadata']['namespace']}"
    target = f"{folder}/{plural}/{obj['metadata']['name']}"
    query = "fieldManager=test&force=true&dryRun=All&fieldValidation=Strict"
    return await ask(api.client, "PATCH", f"{target}?{query}", obj, APPLY)


def is_embedded(request: pytest.FixtureRequest) -> bool:
    return "embedded" in request.node.name


@pytest.mark.parametrize("name", EVERYTHING)
async def test_every_manifest_is_valid(api: Api, request: pytest.FixtureRequest, name: str) -> None:
    obj = moved(EVERYTHING[name], api.namespace)
    if obj["kind"] in NOT_EMBEDDED and is_embedded(request):
        assert (await dry(api, obj)).code == 404
        if obj["kind"] == "ResourceQuota":
            return  # there is no pod in it
        obj = pod_of(obj, "judged")
        obj["metadata"]["namespace"] = api.namespace
    assert await dry(api, obj) == Reply(200)
    wrong: Any = obj.get("spec", obj)
    wrong["spelt"] = "wrong"  # and it does look
    assert "spelt" in (await dry(api, obj)).message


def test_kustomize_makes_the_same_of_them() -> None:
    """Nothing in our kustomizations but lists of files, and kubectl finds them all."""
    for folder in ("config", "config/agent"):
        argv = ["kubectl", "kustomize", str(Path(__file__).parents[2] / folder)]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=40, check=True)
        except FileNotFoundError:
            pytest.skip("no kubectl on PATH: on Debian install kubernetes-client")
        assert named(list(yaml.safe_load_all(done.stdout))) == named(plain(folder))


@pytest.fixture(name="strict")
def _strict(kube: apiserver.ApiServer, tmp_path: Path) -> Place:
    """A namespace of a kube-apiserver with the labels of the one that the operator runs in."""
    place = prepared(kube.kubeconfig, tmp_path, tmp_path / "cache")
    label(place, EVERYTHING["Namespace/nodemanager"])
    return place


def label(place: Place, namespace: Object) -> None:
    labels = [f"{key}={value}" for key, value in namespace["metadata"]["labels"].items()]
    place.kubectl("label", "--overwrite", "namespace", place.namespace, *labels)


@pytest.mark.apiserver
@pytest.mark.xdist_group("apiserver")
def test_the_operator_is_within_the_restricted_standard(strict: Place) -> None:
    made = strict.run("apply", "-f", "-", stdin=json.dumps(moved(OPERATOR, strict.namespace)))
    assert (made.returncode, made.stderr) == (0, "")  # a warning would be there
    strict.kubectl("create", "-f", "-", stdin=json.dumps(pod_of(OPERATOR, "operator")))
    loose = pod_of(OPERATOR, "loose")
    loose["spec"] = {**loose["spec"], "hostNetwork": True}
    assert "violates PodSecurity" in strict.refused("create", "-f", "-", stdin=json.dumps(loose))


@pytest.mark.apiserver
@pytest.mark.xdist_group("apiserver")
def test_the_agent_runs_in_its_own_namespace_only(strict: Place) -> None:
    pod = json.dumps(pod_of(AGENT, "agent"))
    refusal = strict.refused("create", "-f", "-", stdin=pod)
    assert 'violates PodSecurity "restricted:latest"' in refusal
    assert "privileged" in refusal
    label(strict, EVERYTHING["Namespace/nodemanager-agents"])
    made = strict.run("create", "-f", "-", stdin=pod)
    assert (made.returncode, made.stderr) == (0, "")


@contextmanager
def operator(place: Place, folder: Path, token: str, port: int) -> Iterator[Path]:
    """Run the operator with the arguments and rights of the manifests; its log must not speak of refusals."""
    config = kubeconfig.load(path=str(place.kubeconfig), environ={}, run=runner.run)
    own = folder / "operator.kubeconfig"
    own.write_bytes(host_kubeconfig.kubeconfig(config, "operator", place.namespace, token))
    (container,) = moved(OPERATOR, place.namespace)["spec"]["template"]["spec"]["containers"]
    args = [
        one.replace("0.0.0.0:8081", f"127.0.0.1:{port}").replace("0.0.0.0:8080", "0")
        for one in container["args"]
    ]
    log = folder / "operator.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*cli.ARGV, *args, "--kubeconfig", str(own)], stdout=file, stderr=file, env=cli.environment()
        )
    try:
        yield log
    finally:
        process.terminate()
        assert process.wait(50) == 0
    assert "orbidden" not in log.read_text()


async def test_the_operator_needs_no_more_than_the_manifests_give(
    place: Place, api: Api, tmp_path: Path
) -> None:
    """It leads, is ready where the kubelet asks, and lets a host read what its ConfigSets refer to."""
    for one in EVERYTHING.values():
        if one["metadata"].get("name") == "nodemanager-operator" and one["kind"] not in NOT_EMBEDDED:
            place.kubectl("apply", "-f", "-", stdin=json.dumps(moved(one, place.namespace)))
    token = (await request_token(api.client, "nodemanager-operator", place.namespace, seconds=600)).token
    (container,) = OPERATOR["spec"]["template"]["spec"]["containers"]
    probes = {container[kind]["httpGet"]["path"] for kind in ("livenessProbe", "readinessProbe")}
    port = apiserver.free_port()
    with operator(place, tmp_path, token, port) as log:
        await until(lambda: answers(port, "/readyz"), 90)
        assert all(answers(port, path) for path in probes)
        meta = {"name": "web1", "namespace": place.namespace, "labels": {"role": "web"}}
        await api.client.create(MANAGED_NODES, {"metadata": meta}, place.namespace)
        await api.config_set("web", {"role": "web"}, files=[owned("/x", template="x", secretRefs=["key"])])
        role = ("role", "nodemanager-web1-references", "-o", "json", "--ignore-not-found")
        await until(lambda: '"key"' in place.kubectl("get", *role), 90)
        lease = place.shown("lease", "nodemanager-operator")
        assert lease["spec"]["holderIdentity"], log.read_text()


def answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False

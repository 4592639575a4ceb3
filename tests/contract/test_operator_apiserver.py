"""`nodemanager operator` as a real process on a real kube-apiserver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.controllers import assembly
from nodemanager.kube import manifests
from support import apiserver
from support.scripted_server import until

NODE = """
apiVersion: common.nodemanager/v1
kind: ManagedNode
metadata: {{name: {name}, namespace: {namespace}, labels: {{role: web}}}}
"""
CONFIG_SET = """
apiVersion: common.nodemanager/v1
kind: ConfigSet
metadata: {{name: base, namespace: {namespace}, labels: {{role: web}}}}
spec: {{packages: [{{name: nginx}}]}}
"""


class Operator:
    """A running operator with its ports and its log; it has the rights of config/rbac/operator.yaml only."""

    def __init__(self, api: apiserver.ApiServer, namespace: str, log: Path) -> None:
        self.metrics, self.probes = apiserver.free_port(), apiserver.free_port()
        self.log = log
        kubeconfig = log.with_suffix(".kubeconfig")
        account = f"system:serviceaccount:{namespace}:nodemanager-operator"
        kubeconfig.write_text(apiserver.kubeconfig_of(api, account))
        rights = manifests.dump(assembly.manifests(namespace))
        api.kubectl("apply", "-f", "-", stdin=rights)
        argv = [
            sys.executable, "-m", "nodemanager", "operator", "--kubeconfig", str(kubeconfig),
            "--namespace", namespace, "--metrics-bind-address", f":{self.metrics}",
            "--health-probe-bind-address", f":{self.probes}",
        ]  # fmt: skip
        with log.open("wb") as file:
            self.process = subprocess.Popen(argv, stdout=file, stderr=file)

    def get(self, port: int, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, OSError) as error:
            return str(error)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(50)


@pytest.fixture
def namespace(kube: apiserver.ApiServer, request: pytest.FixtureRequest) -> str:
    crds = Path(__file__).parents[2] / "config" / "crd"
    kube.kubectl("apply", "--server-side", "-f", str(crds))
    kube.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(crds))
    name = f"operator-{os.getpid()}-{abs(hash(request.node.name)) % 10**6}"
    kube.kubectl("create", "namespace", name)
    return name


@pytest.fixture
def operator(kube: apiserver.ApiServer, namespace: str, tmp_path: Path) -> Iterator[Operator]:
    running = Operator(kube, namespace, tmp_path / "operator.log")
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait(50)


def status(api: apiserver.ApiServer, namespace: str) -> dict[str, Any]:
    text = api.kubectl("get", "cset", "base", "-n", namespace, "-o", "json").stdout
    found: dict[str, Any] = json.loads(text).get("status", {})
    return found


def counted(api: apiserver.ApiServer, namespace: str) -> dict[str, int]:
    """Return the counts of hosts that are not zero."""
    return {name: count for name, count in status(api, namespace).get("nodes", {}).items() if count}


def report(api: apiserver.ApiServer, namespace: str, node: str, error: str = "") -> None:
    entry = {"name": "base", "observedGeneration": 1, "error": error}
    patch = json.dumps({"status": {"configsets": [entry]}})
    api.kubectl("patch", "mn", node, "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)


async def test_rolls_up_what_hosts_report(
    kube: apiserver.ApiServer, namespace: str, operator: Operator
) -> None:
    await until(lambda: operator.get(operator.probes, "/readyz") == "ok", 90)
    kube.kubectl("apply", "-f", "-", stdin=CONFIG_SET.format(namespace=namespace))
    for name in ("one", "two"):
        kube.kubectl("apply", "-f", "-", stdin=NODE.format(name=name, namespace=namespace))
    await until(lambda: counted(kube, namespace) == {"matched": 2}, 90)
    report(kube, namespace, "one")
    report(kube, namespace, "two", "no space left on device")
    await until(lambda: counted(kube, namespace) == {"matched": 2, "applied": 1, "failed": 1}, 90)
    report(kube, namespace, "two")
    kube.kubectl("delete", "mn", "one", "-n", namespace)
    await until(lambda: counted(kube, namespace) == {"matched": 1, "applied": 1}, 90)
    scraped = operator.get(operator.metrics, "/metrics")
    assert 'controller_runtime_reconcile_total{controller="configset",result="success"}' in scraped
    assert 'leader_election_master_status{name="nodemanager-operator"} 1' in scraped
    assert 'rest_client_requests_total{code="200",method="PATCH"' in scraped
    assert operator.stop() == 0
    lease = kube.kubectl("get", "lease", "nodemanager-operator", "-n", namespace, "-o", "json").stdout
    assert not json.loads(lease)["spec"].get("holderIdentity")
    log = operator.log.read_text()
    assert "ERROR" not in log
    assert "Traceback" not in log


async def test_a_template_that_cannot_be_read_is_marked(
    kube: apiserver.ApiServer, namespace: str, operator: Operator
) -> None:
    """Nothing is refused; the condition names file, line and column, and goes with the mistake."""
    spec = {"nodeSelector": {}, "files": [{"path": "/etc/motd", "template": "hello\n{{ if }}\n"}]}
    meta = {"name": "base", "namespace": namespace}
    body = {"apiVersion": "common.nodemanager/v1", "kind": "ConfigSet", "metadata": meta, "spec": spec}
    kube.kubectl("apply", "-f", "-", stdin=json.dumps(body))

    def invalid() -> tuple[str, str]:
        found = status(kube, namespace).get("conditions", [])
        return next(((one["status"], one["message"]) for one in found if one["type"] == "Invalid"), ("", ""))

    said = "spec.files[0].template: line 2, column 7: /etc/motd: missing value for command"
    await until(lambda: invalid() == ("True", said), 90)
    body["spec"] = {**spec, "files": [{"path": "/etc/motd", "template": "{{ .Node.Name }}"}]}
    kube.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    await until(lambda: invalid() == ("False", ""), 90)
    assert status(kube, namespace)["chosenBy"] == "any labels (nodeSelector {})"


async def test_a_second_one_waits_for_the_first(
    kube: apiserver.ApiServer, namespace: str, operator: Operator, tmp_path: Path
) -> None:
    leads = 'leader_election_master_status{name="nodemanager-operator"} 1'
    await until(lambda: leads in operator.get(operator.metrics, "/metrics"), 90)
    second = Operator(kube, namespace, tmp_path / "second.log")
    try:
        await until(lambda: second.get(second.probes, "/readyz") == "ok", 90)
        assert leads not in second.get(second.metrics, "/metrics")
        assert operator.stop() == 0
        await until(lambda: leads in second.get(second.metrics, "/metrics"), 90)
        assert second.stop() == 0
    finally:
        second.process.kill()
        second.process.wait(50)


def test_without_our_kinds_it_says_what_to_do(tmp_path: Path, kube: apiserver.ApiServer) -> None:
    del kube  # for its skip: a server that never had our kinds is needed
    with apiserver.running(tmp_path / "kube") as bare:
        operator = Operator(bare, "default", tmp_path / "operator.log")
        assert operator.process.wait(50) == 1
    assert "nodemanager crds --install" in operator.log.read_text()

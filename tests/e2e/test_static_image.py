"""The image of a release, from scratch: the operator in it decides, as nobody, with nothing to write to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # tools/ is not installed

from tools.packages import image
from tools.packages.contents import Program

import nodemanager
from nodemanager.client.auth import kubeconfig
from nodemanager.client.subresources import request_token
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from support import apiserver, daemonset_pod, debian_packages, oci_image, server_process, static_program
from support.chart import named, plain
from support.fleet import until
from support.fleet_api import NAMESPACE, FleetApi
from support.oci_image import OciImage

MANIFESTS = named(plain("config"))
OPERATOR = "nodemanager-operator"
SECRETS = "var/run/secrets/kubernetes.io/serviceaccount"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its root")


@pytest.fixture
def unpacked(tmp_path: Path) -> OciImage:
    program = Program(
        static_program.find(), static_program.NATIVE, nodemanager.__version__, 1700000000, effort=1
    )
    return oci_image.unpack(image.build(program, tmp_path), tmp_path / "root")


@dataclass
class Cluster:
    api: FleetApi
    env: dict[str, str]


@pytest.fixture
def cluster(tmp_path: Path, unpacked: OciImage) -> Iterator[Cluster]:
    """An API with the operator's account, and what a kubelet gives its pod."""
    with server_process.running(tmp_path / "data", first=True) as server:
        api = FleetApi(server.kubeconfig)
        for one in MANIFESTS.values():
            if one["metadata"]["name"] == OPERATOR and one["kind"] != "Deployment":
                api.apply(one)

        async def issue(client: Client) -> str:
            return (await request_token(client, OPERATOR, NAMESPACE, seconds=3600)).token

        config = kubeconfig.load(path=str(server.kubeconfig), environ={}, run=runner.run)
        folder = unpacked.root / SECRETS
        folder.mkdir(parents=True)
        (unpacked.root / "proc").mkdir()
        files = {
            "token": api.call(issue).encode(),
            "ca.crt": config.ca or b"",
            "namespace": NAMESPACE.encode(),
        }
        for name, data in files.items():
            (folder / name).write_bytes(data)
        url = urlsplit(config.server)
        env = {"KUBERNETES_SERVICE_HOST": url.hostname or "", "KUBERNETES_SERVICE_PORT": str(url.port)}
        yield Cluster(api, env)


def test_nothing_is_in_it_but_the_program(unpacked: OciImage) -> None:
    found = [path.relative_to(unpacked.root) for path in unpacked.root.rglob("*") if path.is_file()]
    assert sorted(map(str, found)) == ["etc/group", "etc/passwd", "usr/bin/nodemanager"]
    pod = MANIFESTS[f"Deployment/{OPERATOR}"]["spec"]["template"]["spec"]
    user = f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
    assert unpacked.config["config"]["User"] == user


def test_the_operator_in_it_reconciles_a_config_set(
    cluster: Cluster, unpacked: OciImage, tmp_path: Path
) -> None:
    probes, metrics = apiserver.free_port(), apiserver.free_port()
    args, mounts = daemonset_pod.workload(MANIFESTS[f"Deployment/{OPERATOR}"])
    assert mounts == []
    args = [one.replace(":8081", f":{probes}").replace(":8080", f":{metrics}") for one in args]
    log = tmp_path / "operator.log"
    with log.open("wb") as file:
        environ = {"PATH": os.environ["PATH"], **cluster.env}
        process = subprocess.Popen(unpacked.argv(*args), stdout=file, stderr=file, env=environ)
    try:
        until(
            lambda: daemonset_pod.answers(probes) or process.poll() is not None,
            f"the operator: {log.read_text()}",
            60,
        )
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "Uid:\t65532\t65532\t65532\t65532" in status
        assert "CapEff:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        cluster.api.config_set("web", "web1", files=[{"path": "/etc/motd", "content": "hello\n"}])
        found = until(lambda: cluster.api.get("ConfigSet", "web").get("status"), "the status", 60)
        assert found is not None
        assert found["observedGeneration"] == 1
        assert cluster.api.get("Lease", OPERATOR)["spec"]["holderIdentity"]
        process.terminate()
        assert process.wait(50) == 0
    finally:
        process.kill()
        process.wait(50)
        sys.stdout.write(log.read_text())
    assert "Traceback" not in log.read_text()
    assert '"level":"ERROR"' not in log.read_text()


def test_skopeo_reads_it(tmp_path: Path) -> None:
    program = Program(static_program.find(), static_program.NATIVE, "1.2.3", 1700000000, effort=1)
    debian_packages.ensure("skopeo")
    file = image.build(program, tmp_path)
    done = subprocess.run(
        ["skopeo", "inspect", f"oci-archive:{file}"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr

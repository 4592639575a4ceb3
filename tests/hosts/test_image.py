"""The container image in its two roles: an operator without any rights, an agent that keeps a real host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from nodemanager.client.auth import kubeconfig
from nodemanager.client.subresources import request_token
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.kube import manifests
from support import apiserver, cli, daemonset_pod, image_build, server_process
from support.bridge import Bridge
from support.chart import named, plain
from support.fleet import Host, apt_repository, until
from support.fleet_api import NAMESPACE, FleetApi
from support.image_build import Image, instructions
from support.nspawn import Machine

EVERYTHING = named([*plain("config"), *plain("config/agent")])
SECRETS = daemonset_pod.SECRETS
SEE = "readlink /proc/self/ns/mnt > /run/seen"
SYSTEMCTL = """\
#!/bin/sh
[ "$1" = reboot ] || exec /usr/bin/systemctl "$@"
echo "systemctl $*" > /run/rebooted
"""
WEB = "[Service]\nExecStart=/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n"


@dataclass
class Cluster:
    """An API, one machine that is a node of it, and the image."""

    api: FleetApi
    host: Host
    image: Image
    server: str
    ca: bytes

    def account(self, folder: Path, token: str) -> dict[str, str]:
        """Write what a kubelet mounts into a pod, and return the variables that it sets."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in {"token": token.encode(), "ca.crt": self.ca, "namespace": b"x"}.items():
            (folder / name).write_bytes(data)
        url = urlsplit(self.server)
        return {"KUBERNETES_SERVICE_HOST": url.hostname or "", "KUBERNETES_SERVICE_PORT": str(url.port)}

    def start_agent(self) -> None:
        """Start the pod of the DaemonSet on the machine."""
        token = self.api.call(lambda client: daemonset_pod.token(client, NAMESPACE, self.host.name))
        machine, scratch = self.host.machine, self.host.machine.root.parent / "account"
        env = self.account(scratch, token)
        for path in scratch.iterdir():
            machine.write(f"/run/pod/{path.name}", path.read_text(), 0o600)
        args, _ = daemonset_pod.workload(EVERYTHING["DaemonSet/nodemanager-agent"])
        env |= {"NODEMANAGER_HOSTNAME": self.host.name}
        daemonset_pod.start(machine, "/opt/image", [*self.image.entrypoint, *args], env)

    def log(self) -> str:
        return self.host.machine.journal("-u", daemonset_pod.UNIT)


@pytest.fixture(scope="module", name="cluster")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with apt_repository(folder / "apt") as repository:
        repository.publish("slow", "1", postinst=SLOW)
        repository.publish("webd", "1", files={"/lib/systemd/system/webd.service": WEB})
    with image_build.built(folder / "image") as image, Bridge() as bridge:
        for path in (*daemonset_pod.workload(EVERYTHING["DaemonSet/nodemanager-agent"])[1], SECRETS):
            (image.root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)  # as container runtimes do
        network, address = bridge.plug("node")
        binds = {repository.repo: "/srv/repository", image.root: "/opt/image"}
        with (
            server_process.running(folder / "data", host=bridge.address, first=True) as server,
            Machine.boot(binds=binds, network=network) as machine,
        ):
            machine.write("/etc/apt/sources.list", "deb [trusted=yes] file:/srv/repository ./\n")
            api = FleetApi(server.kubeconfig)
            config = kubeconfig.load(path=str(server.kubeconfig), environ={}, run=runner.run)
            host = Host(machine.name, address, machine, api)
            yield Cluster(api, host, image, config.server, config.ca or b"")


SLOW = "touch /run/slow.began; while [ ! -e /run/slow.go ]; do sleep 0.1; done; touch /run/slow.done"


def let_in(cluster: Cluster) -> None:
    """Do what the documentation says for a node, once."""
    for one in EVERYTHING.values():
        if one["metadata"]["name"] == daemonset_pod.ACCOUNT:
            cluster.api.apply({**one, "metadata": {"name": daemonset_pod.ACCOUNT}})
    rights = cli.run("rbac", "--hostname", cluster.host.name, f"--daemonset={NAMESPACE}", "--kubernetes-node")
    cluster.api.apply(*manifests.load_all(rights.stdout, "rbac"))


def test_the_dockerfile_has_no_address_and_ends_as_nobody() -> None:
    steps = instructions((image_build.ROOT / "Dockerfile").read_text())
    assert not [one for one in steps if "://" in one.rest or "index" in one.rest]
    assert [one.rest for one in steps if one.name == "USER"] == ["65532:65532"]
    (base,) = [one.rest.partition("=")[2] for one in steps if one.name == "ARG"]
    name, _, tag = base.partition(":")
    assert "/" not in name
    assert tag.count(".") == 2, "pin the base image to a whole version"
    pod = EVERYTHING["Deployment/nodemanager-operator"]["spec"]["template"]["spec"]
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (65532, 65532)


def test_the_operator_runs_without_rights_and_without_a_disk(cluster: Cluster, tmp_path: Path) -> None:
    for one in EVERYTHING.values():
        if one["metadata"]["name"] == "nodemanager-operator" and one["kind"] != "Deployment":
            cluster.api.apply(one)

    async def issue(client: Client) -> str:
        return (await request_token(client, "nodemanager-operator", NAMESPACE, seconds=3600)).token

    env = cluster.account(cluster.image.root / SECRETS.lstrip("/"), cluster.api.call(issue))
    probes, metrics = apiserver.free_port(), apiserver.free_port()
    args, mounts = daemonset_pod.workload(EVERYTHING["Deployment/nodemanager-operator"])
    assert mounts == []
    args = [one.replace(":8081", f":{probes}").replace(":8080", f":{metrics}") for one in args]
    log = tmp_path / "operator.log"
    with log.open("wb") as file:
        process = subprocess.Popen(cluster.image.argv(*args, **env), stdout=file, stderr=file)
    try:
        until(
            lambda: daemonset_pod.answers(probes) or process.poll() is not None,
            f"the operator: {log.read_text()}",
        )
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "Uid:\t65532\t65532\t65532\t65532" in status
        assert "CapEff:\t0000000000000000" in status
        assert "CapBnd:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        lease = until(lambda: cluster.api.get("Lease", "nodemanager-operator"), log.read_text())
        assert lease["spec"]["holderIdentity"]
        process.terminate()
        assert process.wait(50) == 0
    finally:
        process.kill()
        process.wait(50)
    assert "Traceback" not in log.read_text()
    assert '"level":"ERROR"' not in log.read_text()


def test_the_agent_in_a_pod_keeps_the_host_it_runs_on(cluster: Cluster) -> None:
    """Files, packages, services and executions are the host's; apt outlives the pod; and it reboots."""
    host, machine = cluster.host, cluster.host.machine
    let_in(cluster)
    cluster.start_agent()
    try:
        cluster.api.config_set(
            "web", host.name,
            files=[{"path": "/etc/motd", "content": "kept from a pod\n"}],
            packages=[{"name": "webd"}],
            services=[{"name": "webd", "ensure": "running", "enable": True}],
            executions=[{"command": "/bin/sh", "args": ["-c", SEE], "creates": "/run/seen"}],
        )  # fmt: skip
        host.converge("web")
        assert host.text("/etc/motd") == "kept from a pod\n"
        assert (host.shows("webd", "ActiveState"), host.shows("webd", "UnitFileState")) == (
            "active",
            "enabled",
        )
        own = machine.run("readlink", "/proc/1/ns/mnt").stdout
        assert host.text("/run/seen") == own, "programs run where the host's own do"
        assert host.status()["interfaces"]["eth0"]["ipv4"] == [host.address]
        assert host.node()["metadata"]["labels"]["nodemanager.io/os"] == "debian"

        cluster.api.config_set("slow", host.name, packages=[{"name": "slow"}])
        until(
            lambda: machine.run("test", "-e", "/run/slow.began", check=False).returncode == 0, "the package"
        )
        daemonset_pod.kill(machine)
        until(lambda: host.shows(daemonset_pod.UNIT, "ActiveState") != "active", "the end of the pod")
        machine.run("touch", "/run/slow.go")
        until(lambda: machine.run("test", "-e", "/run/slow.done", check=False).returncode == 0, "apt goes on")
        until(lambda: "ok installed" in _package(machine, "slow"), "the package is installed")

        machine.write("/usr/local/sbin/systemctl", SYSTEMCTL, 0o755)
        upgrade = {"spec": {"upgrade": {"schedule": "* * * * * * *", "delay": "1h"}}}
        note = {"upgrade.nodemanager/reboot": "always"}
        node = cluster.api.managed_node(host.name) | upgrade
        cluster.api.apply({**node, "metadata": {"name": host.name, "annotations": note}})
        cluster.start_agent()
        until(lambda: host.text("/run/rebooted") == "systemctl reboot\n", "the host is upgraded and reboots")
    except BaseException:
        sys.stdout.write(cluster.log())
        raise


def _package(machine: Machine, name: str) -> str:
    return machine.run("dpkg-query", "-W", "-f", "${Status}", name, check=False).stdout

"""The Monday example, typed as in the guide: three hosts are upgraded and rebooted, one at a time."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from nodemanager.client.patches import MergePatch
from nodemanager.kube.core import PODS
from support.fleet import Fleet, Host, apt_repository, manager, until
from support.fleet_api import NAMESPACE
from support.package_roots import AptRoot

SECONDS = 240.0
NEEDS_REBOOT = "touch /run/reboot-required\n"
MANIFEST = """\
apiVersion: maintenance.nodemanager/v1alpha1
kind: NodeMaintenance
metadata: {{name: monday-upgrades, namespace: nodemanager}}
spec:
  window:
    schedules: [{{weekdays: [{day}], start: "{start}", duration: 3h, timeZone: UTC}}]
  series: {{selector: {{matchLabels: {{role: web}}}}}}
  budget: {{maxUnavailable: 1}}
  operations:
  - {{name: upgrade, type: cron, schedule: "{cron}", templateRef: {{name: package-upgrade}}}}
  - {{name: reboot, type: cron, schedule: "{cron}", templateRef: {{name: reboot-if-needed}}}}
  - name: note
    type: one-shot
    steps: [{{name: touch, execution: {{argv: [touch, /var/tmp/was-here], timeout: 1m}}}}]
  - name: sshd
    type: realtime
    configSet:
      files: [{{path: /etc/hardening.conf, ensure: file, mode: "0600", content: "PermitRootLogin no\\n"}}]
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    with apt_repository(tmp_path_factory.mktemp("apt") / "apt") as found:
        found.publish("app", "1.0")
        yield found


@pytest.fixture(scope="module")
def shared_fleet(repository: AptRoot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three hosts; two of them are Kubernetes Nodes, the third is not."""
    folder = tmp_path_factory.mktemp("fleet")
    with Fleet.up(folder, "alpha", "beta", "gamma", repository=repository.repo) as fleet:
        for name in ("alpha", "beta", "gamma"):
            host = fleet[name]
            host.machine.run("apt-get", "update")
            host.machine.run("apt-get", "install", "-y", "app")
            if name != "gamma":
                fleet.api.apply(node(host.name))
            host.join()
        for name in ("alpha", "beta", "gamma"):
            until(functools.partial(release, fleet[name]), f"a report of {name}")
            label(fleet[name])
        repository.publish("app", "2.0", postinst=NEEDS_REBOOT)
        yield fleet


@pytest.fixture
def fleet(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    with shared_fleet.watched(request) as found:
        yield found


def node(name: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def release(host: Host) -> str:
    return str(host.status().get("release", ""))


def alive(host: Host) -> bool:
    found = host.status().get("conditions", [])
    return any((one["type"], one["status"]) == ("Alive", "True") for one in found)


def label(host: Host) -> None:
    meta = {"name": host.name, "namespace": "nodemanager", "labels": {"role": "web"}}
    host.api.apply({"apiVersion": "common.nodemanager/v1", "kind": "ManagedNode", "metadata": meta})


RESTRICTED = {
    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip
"""What our namespace asks of pods."""


def guarded_pod(host: Host) -> None:
    """Put a pod onto the Node of a host that a disruption budget keeps there."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "u", "controller": True}
    meta = {"name": "web", "namespace": "nodemanager", "labels": {"app": "web"}, "ownerReferences": [owner]}
    spec = {
        "containers": [{"name": "c", "image": "i", "securityContext": RESTRICTED}], "nodeName": host.name,
        "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False,
    }  # fmt: skip
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "nodemanager"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
    }  # fmt: skip
    host.api.apply(pod, budget)
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    patch = MergePatch({"status": running})
    host.api.call(lambda client: client.patch(PODS, "web", NAMESPACE, patch, subresource="status"))


def version(host: Host) -> str:
    return host.machine.run("dpkg-query", "--show", "--showformat=${Version}", "app").stdout


def has(host: Host, path: str) -> bool:
    return host.machine.run("test", "-e", path, check=False).returncode == 0


def is_hardened(host: Host) -> bool:
    return host.text("/etc/hardening.conf") == "PermitRootLogin no\n"


def boot_id(host: Host) -> str:
    return host.machine.read("/proc/sys/kernel/random/boot_id").strip()


def test_monday(fleet: Fleet) -> None:
    alpha, gamma = fleet["alpha"], fleet["gamma"]
    boots = {name: boot_id(fleet[name]) for name in ("alpha", "beta", "gamma")}
    assert previewed(fleet) == {fleet[name].name: {"app": "1.0 -> 2.0"} for name in boots}
    assert {version(fleet[name]) for name in boots} == {"1.0"}, "who only asks changes nothing"
    guarded_pod(alpha)
    now = datetime.now(UTC)
    slot = now + timedelta(minutes=2)  # at least a whole one, and not what is left of this one
    manifest = MANIFEST.format(
        day=f"{now - timedelta(hours=1):%a}", start=f"{now - timedelta(hours=1):%H:%M}",
        cron=f"{slot.minute} {slot.hour} * * *",
    )  # fmt: skip
    switches = [switched_on(fleet[name]) for name in boots]
    fleet.api.apply(yaml.safe_load(manifest))

    def phase() -> dict[str, Any]:
        found: dict[str, Any] = fleet.api.get("NodeMaintenance", "monday-upgrades").get("status", {})
        return found

    until(lambda: "kept by poddisruptionbudget" in why(alpha), "a drain that waits", SECONDS)
    assert {version(fleet[name]) for name in boots} == {"1.0"}, "one at a time, the first waits"
    fleet.api.delete("PodDisruptionBudget", "web")
    done = until(lambda: ended(phase()), "the end of the run", SECONDS)
    for switch in switches:
        switch.join()
    assert (done["outcome"], done["hosts"]["text"]) == ("Succeeded", "3/3"), done
    for name, before in boots.items():
        host = fleet[name]
        assert (version(host), boot_id(host) != before) == ("2.0", True), name
        until(functools.partial(has, host, "/var/tmp/was-here"), "the one-shot, in a run before or after")
        until(functools.partial(is_hardened, host), f"the realtime operation on {name}")
    until(lambda: "unschedulable" not in fleet.api.get("Node", alpha.name).get("spec", {}), "its uncordon")
    gamma.machine.write("/etc/hardening.conf", "PermitRootLogin yes\n")
    until(lambda: is_hardened(gamma), "the repair")


def previewed(fleet: Fleet) -> dict[str, dict[str, str]]:
    """Return what the hosts say that apt would upgrade, long before any window opens."""
    later = f"0 6 * * {(datetime.now(UTC) + timedelta(days=3)).isoweekday() % 7}"
    spec = {
        "window": {"schedules": [{"cron": later, "duration": "1h", "timeZone": "UTC"}]},
        "series": {"selector": {"matchLabels": {"role": "web"}}},
        "operations": [{"name": "upgrade", "type": "cron", "schedule": later,
                        "templateRef": {"name": "package-upgrade"}}],
    }  # fmt: skip
    kind = {"apiVersion": "maintenance.nodemanager/v1alpha1", "kind": "NodeMaintenance"}
    fleet.api.apply({**kind, "metadata": {"name": "later", "namespace": NAMESPACE}, "spec": spec})
    options = ("--timeout", "50s", "-o", "json", "-n", NAMESPACE, "--kubeconfig", str(fleet.api.kubeconfig))
    for host in fleet.hosts.values():
        until(functools.partial(alive, host), f"a heartbeat of {host.name}")
    told = json.loads(manager("maintenance", "plan", "later", "--preview", *options))
    return {one["host"]: one["packages"] for one in told["preview"]}


def switched_on(host: Host) -> threading.Thread:
    """Switch a host on again when it reboots."""
    switch = threading.Thread(target=host.machine.follow_reboot, args=(2 * SECONDS,), daemon=True)
    switch.start()
    return switch


def why(host: Host) -> str:
    return manager("why", host.name, "--kubeconfig", str(host.api.kubeconfig))


def ended(status: dict[str, Any]) -> dict[str, Any]:
    """Return the run of the slot, once it has ended; the one-shot alone is a run before it."""
    runs = [one for one in status.get("history", []) if "upgrade" in one.get("operations", [])]
    return runs[0] if runs else {}

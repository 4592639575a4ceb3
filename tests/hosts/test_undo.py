"""A bad upgrade reaches the canary alone: versions are back, the run is stopped, and `why` says it."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.kube import core
from support.fleet import Fleet, Host, apt_repository, manager, until
from support.fleet_api import NAMESPACE
from support.package_roots import AptRoot

SECONDS = 400.0
VERSIONS = itertools.count(1)
DPKG_LOG = "/var/log/dpkg.log"
RESTART = "systemctl daemon-reload; systemctl restart app.service || true"
MANIFEST = """\
apiVersion: maintenance.nodemanager/v1alpha1
kind: NodeMaintenance
metadata: {name: NAME, namespace: nodemanager}
spec:
  window: {always: true}
  series: {canaries: {matchLabels: {tier: canary}}}
  operations:
  - name: upgrade
    type: one-shot
    steps:
    - {name: packages, packages: {upgrade: all}, timeout: 10m, onFailure: undo}
"""
PROBE = {"name": "serves", "probe": {"unit": "app"}, "timeout": "2s", "onFailure": "undo"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    with apt_repository(tmp_path_factory.mktemp("apt") / "apt") as found:
        publish(found)
        yield found


@pytest.fixture(scope="module")
def shared_fleet(repository: AptRoot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two hosts that run the first version; one is the canary, and does not come first by its name."""
    with Fleet.up(tmp_path_factory.mktemp("fleet"), "alpha", "zulu", repository=repository.repo) as fleet:
        for host in fleet.hosts.values():
            host.machine.run("apt-get", "update")
            host.machine.run("apt-get", "install", "-y", "app")
            host.join()
        for short, tier in (("alpha", "rest"), ("zulu", "canary")):
            host = fleet[short]
            until(functools.partial(host.condition, "Ready"), f"a report of {short}")
            fleet.api.apply(fleet.api.managed_node(host.name, labels={"tier": tier}))
        yield fleet


@pytest.fixture
def fleet(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    with shared_fleet.watched(request) as found:
        yield found


def publish(repository: AptRoot, program: str = "/bin/sleep inf", needs: str = "") -> str:
    """Offer the next version of a service, which is restarted when it is installed."""
    version = f"{next(VERSIONS)}.0"
    if needs:
        repository.publish(needs, "1.0")
    unit = f"[Service]\nExecStart={program}\n[Install]\nWantedBy=multi-user.target\n"
    files = {"/lib/systemd/system/app.service": unit}
    repository.publish("app", version, files=files, postinst=RESTART, needs=needs)
    return version


def apply(fleet: Fleet, name: str, *steps: dict[str, Any], **spec: Any) -> None:
    found = yaml.safe_load(MANIFEST.replace("NAME", name))
    found["spec"]["operations"][0]["steps"] += steps
    found["spec"] |= spec
    fleet.api.apply(found)


def stopped(fleet: Fleet, name: str) -> dict[str, Any]:
    """Wait until a run has stopped, and return the status of its maintenance."""

    def status() -> dict[str, Any]:
        found: dict[str, Any] = fleet.api.get("NodeMaintenance", name).get("status", {})
        return found if found.get("phase") == "Stopped" else {}

    return until(status, f"a stop of {name}", SECONDS)


def phase(fleet: Fleet, name: str) -> str:
    return str(fleet.api.get("NodeMaintenance", name).get("status", {}).get("phase", ""))


def said(fleet: Fleet, *args: str) -> str:
    return manager(*args, "--kubeconfig", str(fleet.api.kubeconfig), "--namespace", NAMESPACE)


def version(host: Host) -> str:
    return host.machine.run("dpkg-query", "--show", "--showformat=${Version}", "app").stdout


def kubelet_says(host: Host, ready: str) -> None:
    """Have the host be a Kubernetes Node, and its kubelet say how it is."""
    condition = {"type": "Ready", "status": ready, "reason": "KubeletReady"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": host.name}}
    patch = MergePatch({"status": {"conditions": [condition]}})
    host.api.apply(node)
    host.api.call(lambda client: client.patch(core.NODES, host.name, "", patch, subresource="status"))


def in_line(text: str) -> str:
    """Return what was said for people on one line, wherever it was broken."""
    return " ".join(text.split())


def events(host: Host) -> list[str]:
    """Return what was told about a host."""
    found = host.api.call(lambda client: client.list(core.EVENTS, Selection(NAMESPACE))).items
    return [f"{one.reason}: {one.message}" for one in found if one.involved_object.name == host.name]


def test_claim_4_an_upgrade_whose_probe_fails_on_the_canary(fleet: Fleet, repository: AptRoot) -> None:
    """Its agent takes it back. When a better version is there, the same run goes on."""
    canary, other = fleet["zulu"], fleet["alpha"]
    now = version(canary)
    publish(repository, "/bin/false", needs="extra")
    before = other.text(DPKG_LOG)
    apply(fleet, "probed", PROBE)
    status = stopped(fleet, "probed")
    assert (version(canary), canary.is_active("app")) == (now, True)
    assert canary.machine.run("dpkg-query", "--show", "extra", check=False).returncode != 0
    assert other.text(DPKG_LOG) == before, "one host was touched"
    assert (status["hosts"]["text"], status["hosts"]["failed"]) == ("0/2", 1), status
    tasks = json.loads(said(fleet, "get", "ntask", "-o", "json"))["items"]
    (task,) = [one for one in tasks if one["spec"]["reason"]["name"] == "probed"]
    name, step = task["metadata"]["name"], "step upgrade-serves failed: not within 2 s: app does not run"
    why = in_line(said(fleet, "why", canary.name))
    assert why.count("Maintenance: probed,") == 1, "it is said once"
    assert f"Reason: TaskUndone That is: its last visit ended Undone: {step} Object: nodetask/{name}" in why
    assert f"`nodemanager describe nodetask {name}`" in why
    assert "`nodemanager maintenance retry probed`" in why
    assert f"Reason: Stopped Object: managednode/{canary.name}" in in_line(said(fleet, "why", other.name))
    shown = in_line(said(fleet, "maintenance", "history", "probed", "--failed"))
    assert f"{canary.name} Undone upgrade-serves" in shown
    assert step in shown
    described = in_line(said(fleet, "describe", "nmaint", "probed"))
    assert "RunStopped" in described
    assert f"1 host failed: managednode/{canary.name}" in described
    assert "app does not run" in said(fleet, "describe", "nodetask", name)
    better = publish(repository)
    assert "1 host that failed will be tried again" in said(fleet, "maintenance", "retry", "probed")
    until(lambda: (version(canary), version(other)) == (better, better), "the better version", SECONDS)
    until(lambda: phase(fleet, "probed") == "Succeeded", "the end of the run", SECONDS)


def test_claim_4_an_upgrade_after_which_the_node_is_not_ready(
    fleet: Fleet, repository: AptRoot, request: pytest.FixtureRequest
) -> None:
    """Its agent has nothing to complain about; the operator sees it, and has it taken back."""
    canary, other = fleet["zulu"], fleet["alpha"]
    now = version(canary)
    newer = publish(repository, needs="more")
    before = other.text(DPKG_LOG)
    kubelet_says(canary, "True")
    request.addfinalizer(lambda: fleet.api.delete("Node", canary.name))
    apply(fleet, "proven", soak="15s", activeDeadlineSeconds=120, disruption={"cordon": True})
    until(lambda: version(canary) == newer, "the upgrade", SECONDS)
    kubelet_says(canary, "False")
    status = stopped(fleet, "proven")
    assert version(canary) == now
    assert canary.machine.run("dpkg-query", "--show", "more", check=False).returncode != 0
    assert other.text(DPKG_LOG) == before, "one host was touched"
    assert (status["hosts"]["text"], status["hosts"]["failed"]) == ("0/2", 1), status
    why = in_line(said(fleet, "why", canary.name))
    assert f"Reason: NotProven That is: its last visit ended Undone: node/{canary.name}: not Ready" in why
    shown = in_line(said(fleet, "maintenance", "history", "proven", "--failed"))
    assert f"{canary.name} Undone upgrade-packages" in shown
    assert "not proven afterwards, and taken back by" in shown
    undoing = "MaintenanceUndoing: "
    until(
        lambda: any(one.startswith(undoing) and "not Ready" in one for one in events(canary)),
        "an Event that says so",
    )
    until(lambda: "unschedulable" not in fleet.api.get("Node", canary.name).get("spec", {}), "its uncordon")

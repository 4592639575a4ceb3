"""`nodemanager health` of a site whose bonds, replicas and agents are real, at the moments that matter.

What it says is kept (`FIGURES=dir`): docs/health.md shows it.
"""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from nodemanager.controllers import assembly
from nodemanager.kube import times
from support import edge_profiles
from support.fleet import until
from support.fleet_api import NAMESPACE
from support.lab import figures
from support.lab.agents import AgentLab
from support.lab.delivery import SECONDS
from support.lab.replica import SLOW, Pair
from support.lab.site import BOND

BEFORE, AFTER = "balance-rr", "active-backup"
SITE, BRIDGED = "store-4711", "store-4712"
AGE = "30s"
"""How old a sign of life may be: as short as a guest that has little of a core can keep to."""
STATE, BEATS = "vx-rail-upgrade-state", "vx-rail-heartbeats"


@pytest.fixture
def pair(lab: AgentLab) -> Iterator[Pair]:
    """A resource in sync over bonds of systemd-networkd, with agents that tell of it."""
    for node in lab.nodes:
        node.make_bond(BEFORE)
    made = Pair(lab.site)
    made.create()
    made.sync()
    lab.start()
    yield made
    made.down()


def declare(lab: AgentLab, name: str, patch: dict[str, Any]) -> None:
    """Have a site of the two nodes, by the shipped profile with some changes."""
    profile = edge_profiles.shipped("vx-rail", f"of-{name}", {"thresholds": {"heartbeatAge": AGE}, **patch})
    lab.api.apply(profile, *assembly.site_manifests(edge_profiles.typed(profile), NAMESPACE))
    spec = {"profile": f"of-{name}", "nodes": [node.name for node in lab.nodes]}
    lab.api.apply(
        {"apiVersion": profile["apiVersion"], "kind": "EdgeCluster", "metadata": {"name": name}, "spec": spec}
    )


def status(lab: AgentLab, name: str) -> dict[str, Any]:
    found: dict[str, Any] = lab.api.get("EdgeCluster", name).get("status", {})
    return found


def capture(lab: AgentLab, name: str, code: int, words: str) -> str:
    """Run the command as an administrator does, until it ends like this and says that; keep what it says."""
    said: list[str] = []

    def shown() -> str:
        assert lab.api.server is not None
        done = lab.api.server.cli("health", "-n", NAMESPACE)
        said[:] = [f"{done.stdout}{done.stderr}\nexit code {done.returncode}"]
        return done.stdout if done.returncode == code and words in " ".join(done.stdout.split()) else ""

    try:
        found = until(shown, f"{name}: exit code {code}, and {words!r}", SECONDS)
    except pytest.fail.Exception as error:
        pytest.fail(f"{error}; it said\n{said[0]}")
    figures.keep(f"health/{name}.txt", found)
    return found


def test_what_health_says_of_real_bonds_replicas_and_agents(lab: AgentLab, pair: Pair) -> None:
    first, second = lab.nodes

    def comes(holds: Callable[[dict[str, Any]], object], what: str, name: str = SITE) -> None:
        try:
            until(lambda: holds(status(lab, name)), what, SECONDS)
        except pytest.fail.Exception:
            pytest.fail(f"{what}: {json.dumps(status(lab, name), indent=1)}")

    declare(lab, SITE, {"bridge": None, "virtualisation": "none", "workflows": []})
    comes(lambda one: one.get("phase") == "MultiNode" and _tell(one, "drbd"), "all is well")
    capture(lab, "healthy", 0, "network Healthy")

    change = {"bond": BOND, "mode": AFTER}
    done = first.does(
        {"name": "stage", "bondStage": change},
        {"name": "arm", "bondArm": {**change, "deadline": "1h"}},
        {"name": "flip", "bondFlip": change, "timeout": "5m"},
    )
    assert done["phase"] == "Succeeded", done
    comes(lambda one: "half-flipped" in one.get("message", ""), "it is half-flipped")
    capture(lab, "half_flipped", 2, "every second packet is lost")
    assert first.does({"name": "revert", "bondRevert": {"bond": BOND}})["phase"] == "Succeeded"
    pair.wait_clean()
    comes(lambda one: one.get("phase") == "MultiNode", "all is well again")

    pair.rate(SLOW)
    pair.sides[1].drbd("invalidate")
    comes(lambda one: one["storage"]["state"] == "Unhealthy" and "sync" in one["message"], "it syncs")
    capture(lab, "syncing", 2, "sync")
    pair.sync()
    comes(lambda one: one.get("phase") == "MultiNode", "all is well again")

    second.kill()
    comes(lambda one: _reports(one)[second.name].get("state") == "Stale", f"{second.name} is silent")
    shown = capture(lab, "silent_node", 2, f"{second.name} Stale")
    row = next(line.split() for line in shown.splitlines() if line.split()[:2] == [second.name, "Stale"]
               and len(line.split()) == 7)  # fmt: skip
    assert row[2:] == ["-"] * 5, "nothing of a silent host is shown"
    lab.api.delete("EdgeCluster", SITE)


def _reports(one: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {node["name"]: node.get("report", {}) for node in one.get("nodes", [])}


def _tell(one: dict[str, Any], what: str) -> bool:
    found = _reports(one).values()
    return len(found) == 2 and all(what in report for report in found)


def test_what_health_says_when_the_bridge_goes_stale_and_when_nobody_looks(lab: AgentLab) -> None:
    """Here agents do not run: a script writes what the DaemonSet would, and then stops."""
    lab.rest()

    def beat(*names: str) -> None:
        now = times.rfc3339(datetime.now(UTC))
        _config_map(lab, BEATS, {f"node-{name}": now for name in names})

    words = dict.fromkeys(("storage", "network", "virtualisation"), "healthy")
    _config_map(
        lab, STATE, {"state.json": json.dumps({"state": "WaitSync", "direction": "forward"}), **words}
    )
    declare(lab, BRIDGED, {"bridge": {"namespace": NAMESPACE, "daemonSet": None, "component": None}})

    def beats_until(phase: str) -> None:
        def look() -> bool:
            beat(*(node.name for node in lab.nodes))
            return status(lab, BRIDGED).get("phase") == phase

        until(look, f"the site is {phase}: {status(lab, BRIDGED)}", SECONDS)

    beats_until("Upgrading")
    until(lambda: status(lab, BRIDGED).get("reason") == "HeartbeatStale", "the bridge is stale", SECONDS)
    capture(lab, "stale_bridge", 2, "no new sign of life")
    with stopped(lab):
        capture(lab, "operator_gone", 3, "nobody looked since")
    lab.api.delete("EdgeCluster", BRIDGED)


@contextlib.contextmanager
def stopped(lab: AgentLab) -> Iterator[None]:
    """Have the operator do nothing for a while."""
    assert lab.api.operator is not None
    lab.api.operator.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        lab.api.operator.send_signal(signal.SIGCONT)


def _config_map(lab: AgentLab, name: str, data: dict[str, str]) -> None:
    lab.api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})

"""LINSTOR over the DRBD of two guests: what our backend says of it at every moment, and what agents do.

The controller is simulated; all that it says of disks and connections, it has from the kernels of the guests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from nodemanager.backends.errors import Premature
from nodemanager.controllers import assembly
from support import edge_profiles
from support.fleet import until
from support.fleet_api import NAMESPACE
from support.lab import figures, linstor
from support.lab.agents import AgentLab
from support.lab.delivery import SECONDS
from support.lab.linstor import LabLinstor
from support.lab.replica import FAST, NAME, SLOW, Pair
from support.lab.site import BOND, Site
from support.linstor import drbd_moments

LOOKED_AT = "500k"
SITE, PROFILE = "store-4713", "of-store-4713"


@pytest.fixture
def pair(site: Site) -> Iterator[Pair]:
    """A resource on both nodes that was never in sync."""
    site.bond("balance-rr", "balance-rr")
    made = Pair(site)
    made.create()
    yield made
    made.down()


def look(controller: LabLinstor, moment: str) -> None:
    """See that the storage is said to be as the table has it, and keep what was said."""
    verdict = controller.verdict()
    figures.keep(f"linstor/{moment}.txt", f"{verdict.state}: {verdict.text}\n")
    assert drbd_moments.differences(moment, verdict) == []


def refused(controller: LabLinstor, node: str) -> None:
    """See that our backend would not delete the copy of a node."""
    with pytest.raises(Premature, match="no other copy is known to be UpToDate"):
        controller.ask(lambda backend: backend.withdraw(NAME, node))


def test_what_is_said_of_a_new_copy_a_pause_and_a_verify(pair: Pair) -> None:
    first, second = pair.sides
    with linstor.controlling(pair) as controller:
        look(controller, "new")
        first.drbd("primary", "--force")
        pair.wait("SyncSource", "SyncTarget")
        look(controller, "syncing")
        refused(controller, "node0")
        for number, side in enumerate(pair.sides):
            side.drbd("pause-sync")
            pair.wait("PausedSyncS", "PausedSyncT")
            look(controller, f"paused_by_node{number}")
            side.drbd("resume-sync")
        pair.rate(FAST)
        pair.wait_clean()
        look(controller, "established")
        second.corrupt(start=1000, count=4)
        look(controller, "corrupt_unnoticed")
        pair.rate(LOOKED_AT)
        first.drbd("verify")
        pair.wait("VerifyS", "VerifyT")
        look(controller, "verifying")
        pair.rate(FAST)
        assert [one.out_of_sync for one in pair.wait("Connected")] == [16, 16]
        look(controller, "verify_found_differences")
        assert {one.split()[0] for one in controller.asked} == {"GET"}


def test_what_is_said_of_a_split_brain_and_of_dead_cables(pair: Pair, site: Site) -> None:
    first, second = pair.sides
    pair.sync()
    with linstor.controlling(pair) as controller:
        look(controller, "established")
        for line in site.lines.values():
            line.cut = True
        pair.wait("WFConnection")
        look(controller, "cables_dead")
        for line in site.lines.values():
            line.cut = False
        pair.wait_clean()
        second.drbd("disconnect")
        until(lambda: first.row().connection == "WFConnection", "the first side waits")
        first.fill(0, 64)
        look(controller, "disconnected")
        refused(controller, "node0")
        refused(controller, "node1")
        second.drbd("primary")
        second.fill(512, 64)
        second.drbd("connect")
        pair.wait("StandAlone")
        look(controller, "split_brain")
        refused(controller, "node0")
        refused(controller, "node1")


def declare(lab: AgentLab, url: str) -> None:
    """Have a site of the two nodes whose storage is asked for at this address."""
    patch: dict[str, Any] = {
        "storage": {"linstor": {"url": url}},
        "topology": {"nodes": {"minimum": 1, "maximum": 2}, "links": "direct"},
        "network": {"bond": BOND, "modes": {"single": "balance-rr", "multi": "balance-rr"}},
        "workflows": [],
    }
    profile = edge_profiles.shipped("k3s-linstor", PROFILE, patch)
    lab.api.apply(profile, *assembly.site_manifests(edge_profiles.typed(profile), NAMESPACE))
    spec = {"profile": PROFILE, "nodes": [node.name for node in lab.nodes]}
    site = {"kind": "EdgeCluster", "metadata": {"name": SITE}, "spec": spec}
    lab.api.apply({"apiVersion": profile["apiVersion"], **site})


def test_the_operator_hears_of_the_same_disks_from_linstor_and_from_agents(lab: AgentLab) -> None:
    for node in lab.nodes:
        node.make_bond("balance-rr")
    pair = Pair(lab.site)
    pair.create()
    pair.sync()
    lab.start()

    def comes(phase: str, words: str) -> str:
        """Wait until the site is like this, and return the digest of what LINSTOR told."""

        def told() -> str:
            status = lab.api.get("EdgeCluster", SITE).get("status", {})
            inputs = [one for one in status.get("inputs", []) if one["name"].startswith("LINSTOR ")]
            fits = status.get("phase") == phase and words in status.get("storage", {}).get("said", "")
            return str(inputs[0].get("digest", "none")) if fits and inputs else ""

        try:
            return until(told, f"{phase}, {words!r}", SECONDS)
        except pytest.fail.Exception:
            pytest.fail(f"not {phase}, {words!r}: {json.dumps(lab.api.get('EdgeCluster', SITE), indent=1)}")

    with linstor.controlling(pair) as controller:
        declare(lab, controller.url)
        well = comes("MultiNode", "nothing differs")
        pair.rate(SLOW)
        pair.sides[1].drbd("invalidate")
        assert comes("Degraded", "sync") != well, "LINSTOR tells of it as well as agents do"
        pair.rate(FAST)
        pair.wait_clean()
        assert comes("MultiNode", "nothing differs") == well
        pair.sides[1].corrupt(start=1000, count=4)
        pair.sides[0].drbd("verify")
        assert comes("Degraded", "16 KiB differ") == well, "which LINSTOR does not know, and hosts do"
        assert controller.verdict().state == "Healthy"
    pair.sides[1].drbd("disconnect")
    pair.sides[1].drbd("connect")
    pair.wait_clean()
    comes("Unknown", "cannot list storage nodes")
    lab.api.delete("EdgeCluster", SITE)
    pair.down()

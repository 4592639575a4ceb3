"""The DaemonSet in sh, watched by the bridge before both servers: all states, and all that goes wrong.

What is said is compared after every step: a phase that is wrong for one look is wrong.
"""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from nodemanager.api.edge.bridge_parts import FORMATS, OPAQUE, HeartbeatSource, StateSource
from nodemanager.api.edge.edgecluster import EdgeClusterStatus
from nodemanager.client.calls import Selection
from nodemanager.controllers.edge_clusters.reading import DAEMON_SETS
from nodemanager.fleet.edge import decoding, findings
from nodemanager.kube import conditions
from nodemanager.kube.core import CONFIG_MAPS, EVENTS
from nodemanager.kube.objects import Untyped
from support import edge_site
from support.agent_process import Api
from support.daemonset.pods import ACCOUNT, Pod
from support.edge_site import EdgeSite
from support.either import Place

pytestmark = [pytest.mark.usefixtures("place"), pytest.mark.timeout(180)]


@pytest.fixture(name="site")
async def _site(place: Place, api: Api) -> AsyncIterator[EdgeSite]:
    """A site of two nodes with which all is well."""
    async with edge_site.standing(place, api) as site:
        await site.daemon_set.deploy()
        await site.daemon_set.begin("a", "b")
        await site.look()
        assert (await watched(site)).phase == "MultiNode"
        yield site


async def watched(site: EdgeSite, *alive: str) -> EdgeClusterStatus:
    """Have nodes give signs of life (all of them, if none is named), and look."""
    await site.daemon_set.live(*(alive or ("a", "b")))
    return await site.look()


def at(status: EdgeClusterStatus) -> tuple[str, int, str, str]:
    """Return what is said of where it is."""
    assert status.observed is not None
    seen = status.observed
    return seen.state, seen.number, seen.direction, seen.lock_holder


def told(status: EdgeClusterStatus, kind: str) -> tuple[str, str, str]:
    """Return the phase, and a condition."""
    found = conditions.get(status.conditions, kind)
    assert found is not None
    return status.phase, found.status, found.reason


NOWHERE = ("", 0, "", "")


async def test_it_walks_all_states_and_each_is_seen(site: EdgeSite) -> None:
    states, pod = site.daemon_set.bridge.states, await site.daemon_set.pod("a")
    assert at(await watched(site)) == ("Idle", 1, "forward", "")
    for number, state in enumerate(states[1:], 2):
        assert await pod.does("step") == state
        status = await watched(site, "b")  # a gave its sign of life with the step
        holder = "a" if "AcquireLock" in states[:number] and state != "ReleaseLock" else ""
        assert at(status) == (state, number, "forward", holder)
        assert (status.phase, status.reason) == ("Upgrading", "StateObserved"), status.message
        assert told(status, findings.STATE_IN_ORDER)[1:] == ("True", "AsExpected")
    assert await pod.does("step") == "Idle"
    status = await watched(site, "b")
    assert (status.phase, at(status)) == ("MultiNode", ("Idle", 1, "forward", ""))
    reasons = {one.reason for one in status.events}
    assert not reasons, "that it goes on is no warning"


async def test_it_goes_back_step_by_step_and_says_so(site: EdgeSite) -> None:
    states, pod = site.daemon_set.bridge.states, await site.daemon_set.pod("a")
    await site.daemon_set.skip_to("FlipPrimaryBond")
    assert (await watched(site, "b")).phase == "Upgrading"
    for number in range(states.index("FlipPrimaryBond"), 1, -1):
        assert await pod.does("back") == states[number - 1]
        status = await watched(site, "b")
        assert (status.phase, status.reason) == ("Recovering", "GoesBack"), status.message
        assert at(status) == (states[number - 1], number, "rollback", "a" if number > 2 else "")
        assert told(status, findings.STATE_IN_ORDER)[1:] == ("True", "AsExpected")
    assert await pod.does("back") == "Idle"
    assert at(await watched(site, "b")) == ("Idle", 1, "forward", "")
    assert await pod.tell("back") == "refused it does nothing"


async def test_from_the_first_new_copy_on_there_is_no_way_back(site: EdgeSite) -> None:
    pod = await site.daemon_set.pod("a")
    await site.daemon_set.skip_to("WaitSync")
    assert await pod.tell("back") == "refused there is no way back from WaitSync"
    status = await watched(site)
    assert (status.phase, at(status)[0]) == ("Upgrading", "WaitSync")
    assert [(one.reason, one.message) for one in status.events] == [
        ("Halted", "there is no way back from WaitSync: data is kept as it is, and somebody has to look")
    ]


async def test_a_state_that_is_cut_off_or_unknown_is_never_taken_for_the_old_one(site: EdgeSite) -> None:
    pod = await site.daemon_set.pod("a")
    await site.daemon_set.skip_to("PinWorkloads")
    assert (await watched(site)).phase == "Upgrading"
    await pod.does("fault", "truncated")
    await pod.does("step")
    status = await watched(site)
    assert told(status, findings.STATE_RECOGNISED) == ("Unknown", "Unknown", "StateUnreadable")
    assert at(status) == NOWHERE
    assert status.observed is not None
    assert status.observed.raw_state == ""
    await pod.does("fault", "unknown", r"Meditating\u001b[31m")
    await pod.does("step")
    status = await watched(site)
    assert told(status, findings.STATE_RECOGNISED) == ("Unknown", "False", "StateUnrecognised")
    assert at(status)[:2] == ("", 0)
    shown = site.place.kubectl("get", "ecl", "site", "-o", "jsonpath={.status.observed.rawState}")
    assert shown == "Meditating?[31m"
    await pod.does("fault", "none")
    assert await pod.does("step") == "StageBondConfig", "it knew where it was"
    status = await watched(site)
    assert (status.phase, at(status)[0]) == ("Upgrading", "StageBondConfig")


async def test_a_state_that_goes_back_without_a_word(site: EdgeSite) -> None:
    pod = await site.daemon_set.pod("a")
    await site.daemon_set.skip_to("SnapshotBaseline")
    assert (await watched(site)).phase == "Upgrading"
    await pod.does("fault", "regressed")
    assert await pod.does("step") == "PinWorkloads"
    status = await watched(site)
    assert told(status, findings.STATE_IN_ORDER) == ("Degraded", "False", "StateRegressed")
    assert "it is at PinWorkloads, and was at SnapshotBaseline before" in status.message
    await pod.does("fault", "none")
    assert await pod.does("step") == "SnapshotBaseline"
    assert (await watched(site)).phase == "Upgrading"


async def test_a_clock_that_is_ahead_and_a_node_that_is_silent(site: EdgeSite) -> None:
    other = await site.daemon_set.pod("b")
    await other.does("fault", "future", "3600")
    status = await watched(site)
    assert told(status, findings.HEARTBEATS_FRESH) == ("Degraded", "False", "HeartbeatFuture")
    assert [one.heartbeat for one in status.nodes] == ["Fresh", "Future"]
    await other.does("fault", "silent")
    for _ in range(10):
        status = await watched(site)
    assert told(status, findings.HEARTBEATS_FRESH) == ("Degraded", "False", "HeartbeatFuture"), (
        "of its last word"
    )
    await other.does("fault", "none")
    await watched(site)
    assert (await watched(site)).phase == "MultiNode"
    await other.does("fault", "silent")
    for _ in range(10):
        status = await watched(site)
    assert told(status, findings.HEARTBEATS_FRESH) == ("Degraded", "False", "HeartbeatStale")
    assert [one.heartbeat for one in status.nodes] == ["Fresh", "Stale"]
    assert status.nodes_text == "1/2"


async def test_a_state_that_it_is_stuck_in_is_shown_with_its_age(site: EdgeSite) -> None:
    pod = await site.daemon_set.pod("a")
    await site.daemon_set.skip_to("QuiesceReplication")
    first = await watched(site)
    await pod.does("fault", "stuck")
    for _ in range(5):
        assert await pod.does("step") == "QuiesceReplication"
        status = await watched(site)
        assert (status.phase, at(status)) == ("Upgrading", at(first))
    assert status.observed is not None
    assert first.observed is not None
    assert status.observed.since == first.observed.since
    assert status.observed_at != first.observed_at, "that it was looked at is news, that it changed is not"


async def test_config_maps_that_are_deleted(site: EdgeSite) -> None:
    pod = await site.daemon_set.pod("a")
    await site.daemon_set.skip_to("PreconditionsCheck")
    assert (await watched(site)).phase == "Upgrading"
    await pod.does("lose", "state")
    status = await watched(site)
    assert told(status, findings.BRIDGE_READABLE) == ("Unknown", "False", "Missing")
    assert at(status) == NOWHERE
    assert await pod.does("begin") == "PreconditionsCheck", "it knows where it was, and writes nothing"
    assert (await watched(site)).phase == "Unknown"
    assert await pod.does("step") == "AcquireLock"
    assert (await watched(site)).phase == "Upgrading"
    await pod.does("lose", "beats")
    status = await site.look()
    assert told(status, findings.BRIDGE_READABLE)[1:] == ("False", "Missing")
    assert {one.heartbeat for one in status.nodes} == {"Gone"}
    assert (status.phase, at(status)) == ("Degraded", NOWHERE), "nobody lives whose word that would be"
    for _ in range(2):
        status = await watched(site)
    assert (status.phase, at(status)[0]) == ("Upgrading", "AcquireLock")


@pytest.mark.parametrize(("when", "left_at"), [("unwritten", "ArmRollback"), ("written", "FlipPeerBonds")])
async def test_killed_in_the_middle_of_a_step(site: EdgeSite, when: str, left_at: str) -> None:
    pod = await site.daemon_set.pod("a")
    await site.daemon_set.skip_to("ArmRollback")
    await watched(site)
    await pod.does("fault", "killed", when)
    assert await pod.tell("step") == "", "it died over it"
    assert pod.process is not None
    assert pod.process.wait(60) == -signal.SIGKILL
    status = await watched(site, "b")
    assert (status.phase, at(status)[0]) == ("Upgrading", left_at), "that is what is written"
    for _ in range(10):
        status = await watched(site, "b")
    assert told(status, findings.HEARTBEATS_FRESH) == ("Degraded", "False", "HeartbeatStale")
    other = await site.daemon_set.pod("b")
    assert await other.tell("step") == "refused a has the lock", "though a is dead"
    pod.start()
    await watched(site)
    status = await watched(site)
    assert (status.phase, at(status)[0], at(status)[3]) == ("Upgrading", left_at, "a")
    states = site.daemon_set.bridge.states
    assert await pod.does("step") == states[states.index(left_at) + 1]


async def test_all_pods_killed_leaves_no_word_that_is_still_believed(site: EdgeSite) -> None:
    await site.daemon_set.skip_to("CommitBond")
    assert at(await watched(site))[0] == "CommitBond"
    for one in site.daemon_set.pods.values():
        one.kill()
    for _ in range(10):
        status = await site.look()
    assert (status.phase, status.reason, status.nodes_text) == ("Degraded", "HeartbeatStale", "0/2")
    assert at(status) == NOWHERE
    assert status.observed is not None
    assert status.observed.raw_state == "CommitBond", "which is what is written, and not what is so"
    assert status.storage is not None
    assert status.storage.state == "Unknown"


async def test_a_second_daemon_set(site: EdgeSite) -> None:
    """Two that do the same work: the second one goes on from what it remembers, whoever has the lock."""
    where = site.daemon_set
    rogue = await where.pod("b")
    await rogue.does("begin")
    await where.skip_to("SuspendMigration")
    assert (await watched(site)).phase == "Upgrading"
    assert await rogue.tell("step") == "refused a has the lock"
    await rogue.does("fault", "rogue")
    assert await rogue.does("step") == "PinWorkloads", "it has read the state when it asked for the lock"
    await where.skip_to("FreezePlacement")
    assert (await watched(site)).phase == "Upgrading"
    assert await rogue.does("step") == "SnapshotBaseline", "it did not read it again"
    status = await watched(site)
    assert told(status, findings.STATE_IN_ORDER) == ("Degraded", "False", "StateRegressed")
    if where.bridge.daemon_set is None:
        return  # the embedded API serves none
    await where.deploy("vx-rail-node-init-2")
    status = await watched(site)
    assert told(status, findings.ONE_DAEMON_SET) == ("Degraded", "False", "TwoDaemonSets")
    assert at(status) == NOWHERE, "nobody knows whose word it is"


async def everything_of_it(site: EdgeSite) -> dict[str, Untyped]:
    """Return all objects in the namespace of the DaemonSet, whole."""
    client, where = site.api.client, Selection(site.daemon_set.bridge.namespace)
    kinds = [CONFIG_MAPS.untyped(), EVENTS.untyped()]
    kinds += [DAEMON_SETS.untyped()] if site.daemon_set.bridge.daemon_set else []
    return {
        f"{kind.kind}/{one['metadata']['name']}": one
        for kind in kinds
        for one in (await client.list(kind, where)).items
    }


async def test_it_cannot_tell_that_it_is_watched(place: Place, api: Api) -> None:
    who = ("-n", f"{place.namespace}-vx", f"--as=system:serviceaccount:{place.namespace}-vx:{ACCOUNT}")

    async def story(site: EdgeSite, *, look: bool) -> tuple[list[Any], dict[str, Untyped], str]:
        """Have the DaemonSet do something; returns what it heard, what it left, and what it may do."""
        pod, heard = await site.daemon_set.pod("a"), []
        for words in (["begin"], ["beat"], ["step"], ["warn", "Odd", "x"], ["step"], ["back"], ["beat"]):
            heard.append(await pod.tell(*words))
            if look:
                assert (await site.look()).phase
        return heard, await everything_of_it(site), place.kubectl("auth", "can-i", "--list", *who)

    async with edge_site.standing(place, api) as site:
        await site.daemon_set.deploy()
        alone, _, rights = await story(site, look=False)
        for one in ("state", "beats"):
            await (await site.daemon_set.pod("a")).does("lose", one)
        site.daemon_set.pods.pop("a").end()
        heard, left, rights_then = await story(site, look=True)
        before = json.dumps(left, sort_keys=True)
        site.restart()
        for _ in range(5):
            await site.look()
        assert json.dumps(await everything_of_it(site), sort_keys=True) == before
    assert heard == alone
    assert rights_then == rights
    for name, obj in left.items():
        managers = {each["manager"] for each in obj["metadata"].get("managedFields", [])}
        assert name.startswith("DaemonSet/") or managers <= {ACCOUNT}, f"{name} has {managers}"
        assert not {"finalizers", "ownerReferences"} & obj["metadata"].keys(), name
    asked = [one for one in site.asked if f"/namespaces/{place.namespace}-vx/" in one]
    assert asked
    assert {one.split()[0] for one in asked} == {"GET"}


async def test_both_programs_that_it_may_ask_with_do_the_same(site: EdgeSite) -> None:
    by_kubectl = Pod("a", {**(await site.daemon_set.pod("a")).environ, "CLIENT": "kubectl"}, lambda: site.now)
    by_kubectl.start(FAULT="future 5")
    try:
        for words in (
            ["begin"],
            ["step"],
            ["step"],
            ["warn", "Odd", "by", "kubectl"],
            ["say", "storage", "split"],
        ):
            await by_kubectl.does(*words)
        status = await watched(site)
        assert (status.phase, at(status)) == ("Degraded", ("AcquireLock", 3, "forward", "a"))
        assert [one.message for one in status.events] == ["by kubectl"]
        assert status.storage is not None
        assert status.storage.said == "split"
        await by_kubectl.does("lose", "state")
        assert (await watched(site)).phase == "Unknown"
        assert (await by_kubectl.tell("dance")) == "refused there is no command dance"
    finally:
        by_kubectl.end()


@pytest.mark.parametrize("field", ["", "at"])
async def test_signs_of_life_and_states_in_every_form_of_a_profile(site: EdgeSite, field: str) -> None:
    environ, now = (await site.daemon_set.pod("a")).environ, site.now
    for form in FORMATS:
        more = {"BEAT_FORMAT": form, "BEAT_FIELD": field, "STATE_FIELD": field, "LOCK_FIELD": "",
                "DIRECTION_FIELD": ""}  # fmt: skip
        one = Pod("a", {**environ, **more}, lambda: now)
        one.start()
        try:
            await one.does("begin")
            await one.does("skip", "CommitBond")
            assert await one.does("step") == "JoinStorage", "it reads what it wrote"
        finally:
            one.end()
        bridge, client = site.daemon_set.bridge, site.api.client
        beats = await client.get(CONFIG_MAPS, bridge.heartbeats.config_map, bridge.namespace)
        source = HeartbeatSource(config_map="x", field=field, format=form)
        beat = decoding.beat(source, (beats.data or {})[f"{bridge.heartbeats.key_prefix}a"])
        assert beat.at == (None if form == OPAQUE else now)
        state = await client.get(CONFIG_MAPS, bridge.state.config_map, bridge.namespace)
        text = (state.data or {})[bridge.state.key]
        found = decoding.state(StateSource(config_map="x", key="x", field=field), bridge.states, text)
        assert found.raw == "JoinStorage"

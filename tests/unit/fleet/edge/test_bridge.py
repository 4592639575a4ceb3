"""What the bridge makes of one look at a DaemonSet: its state, who does its work, and what is to be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.edge.edgecluster import (
    BRIDGE,
    FRESH,
    MISSING,
    REFUSED,
    UNANSWERED,
    EdgeClusterStatus,
    EdgeInput,
    EdgeNode,
    ObservedState,
)
from nodemanager.fleet.edge import bridge, findings
from nodemanager.fleet.edge.bridge import BridgeView, Look
from nodemanager.fleet.edge.facts import BridgeFacts, Read, SeenDaemonSet
from nodemanager.fleet.edge.findings import Findings
from nodemanager.fleet.edge.heartbeats import Limits
from nodemanager.kube import times
from nodemanager.kube.conditions import Condition
from support import edge_world

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
AT, BEFORE = times.rfc3339(NOW), times.rfc3339(NOW - timedelta(hours=1))
GIVEN = edge_world.bridge()
STATES = GIVEN.states
ITS = {"app": "vx-rail-node-init"}
SET = SeenDaemonSet("vx-rail-node-init", ITS, 2, 2)
WORDS = {"storage": "healthy", "network": "healthy", "virtualisation": "broken"}


def state(number: int = 1, **fields: Any) -> Read:
    name = fields.pop("name", STATES[number - 1])
    return Read(data={"state.json": json.dumps({"state": name, **fields}), **WORDS})


def beats(second: int = 0) -> Read:
    return Read(data={"node-a": times.rfc3339(NOW + timedelta(seconds=second))})


def facts(said: Read | None = None, *sets: SeenDaemonSet, **fields: Any) -> BridgeFacts:
    known = {"heartbeats": beats(), "daemon_sets": sets or (SET,), **fields}
    return BridgeFacts(state() if said is None else said, **known)


class Seen:
    """One look, and what was said of it."""

    def __init__(
        self, read: BridgeFacts, before: EdgeClusterStatus | None = None, lives: bool = True, **given: Any
    ) -> None:
        known, limits = before or EdgeClusterStatus(), Limits.of(None)
        given_bridge = msgspec.structs.replace(GIVEN, **given)
        if lives:  # its sign of life changed since the look before
            silent = replace(read, heartbeats=beats(-10))
            first = bridge.view(Look(given_bridge, silent, known, limits, NOW), Findings(1))
            looked = times.rfc3339(NOW - timedelta(seconds=10))
            known = msgspec.structs.replace(known, nodes=first.nodes, observed_at=looked)
        self.said = Findings(3)
        self.view: BridgeView = bridge.view(Look(given_bridge, read, known, limits, NOW), self.said)

    def of(self, kind: str) -> tuple[str, str]:
        [found] = [one for one in self.said.found if one.type == kind]
        return found.status, found.reason

    def condition(self, kind: str) -> Condition:
        [found] = [one for one in self.said.found if one.type == kind]
        return found

    @property
    def inputs(self) -> Mapping[str, tuple[str, str]]:
        return {one.name: (one.state, one.message) for one in self.view.inputs}


NAME = "vx-rail-node-init"


@pytest.mark.parametrize(
    ("sets", "status", "reason", "message"),
    [
        pytest.param([SET], "True", "AsExpected", "2 of its 2 pods are ready", id="all ready"),
        pytest.param(
            [SeenDaemonSet(NAME, {}, 2, 2)], "True", "AsExpected", "2 of its 2 pods", id="by name"
        ),
        pytest.param(
            [SeenDaemonSet(NAME, ITS, 2, 1)], "False", "PodsNotReady", "1 of its 2 pods", id="one is"
        ),
        pytest.param([SeenDaemonSet(NAME, ITS)], "False", "NoPods", f"{NAME} runs on no node", id="nowhere"),
        pytest.param(
            [SeenDaemonSet("copy", ITS, 2, 2)], "False", "AnotherDaemonSet",
            f"copy is there in the place of {NAME}", id="a copy",
        ),
        pytest.param(
            [SeenDaemonSet("copy", {**ITS, "more": "x"}, 2, 2), SET], "False", "TwoDaemonSets",
            f"several do the same work: copy, {NAME}", id="two",
        ),
        pytest.param(
            [SeenDaemonSet("other", {"app": "other"}, 2, 2)], "False", "NoDaemonSet",
            f"there is no DaemonSet kube-system/{NAME}", id="others only",
        ),
        pytest.param(
            [SeenDaemonSet("other", {}, 2, 2), SET], "True", "AsExpected", "2 of its 2 pods are ready",
            id="one without labels is none of it",
        ),
    ],
)  # fmt: skip
def test_who_does_the_work(sets: list[SeenDaemonSet], status: str, reason: str, message: str) -> None:
    found = Seen(facts(None, *sets)).condition(findings.ONE_DAEMON_SET)
    assert (found.status, found.reason) == (status, reason)
    assert found.message.startswith(message)


@pytest.mark.parametrize(
    ("answer", "status"), [(REFUSED, "Unknown"), (UNANSWERED, "Unknown"), (MISSING, "True")]
)
def test_who_does_the_work_is_not_known_where_nobody_could_look(answer: str, status: str) -> None:
    assert Seen(facts(daemon_sets_read=Read(answer, message="no"))).of(findings.ONE_DAEMON_SET)[0] == status


def test_a_daemon_set_that_the_profile_does_not_name_is_not_asked_for() -> None:
    found = Seen(facts(state(5)), daemon_set=None)
    assert findings.ONE_DAEMON_SET not in [one.type for one in found.said.found]
    assert [name.split()[0] for name in found.inputs] == ["ConfigMap", "ConfigMap", "Events"]
    assert found.view.observed.state == STATES[4], "who writes it is nobody's question then"


def test_labels_that_the_profile_does_not_name_make_nothing_its_own() -> None:
    assert GIVEN.daemon_set is not None
    named = msgspec.structs.replace(GIVEN.daemon_set, labels={})
    two = facts(None, SeenDaemonSet("other", {"app": "x"}, 2, 2), SET)
    assert Seen(two, daemon_set=named).of(findings.ONE_DAEMON_SET)[0] == "True"


COPY = SeenDaemonSet("copy", ITS, 2, 2)


@pytest.mark.parametrize(
    ("sets", "lives", "current"),
    [
        pytest.param([SET], True, True, id="one at work"),
        pytest.param([SeenDaemonSet(NAME, ITS, 1, 0)], True, True, id="on one node"),
        pytest.param([SET], False, False, id="no node lives"),
        pytest.param([SeenDaemonSet(NAME, ITS)], True, False, id="on no node"),
        pytest.param([COPY, SET], True, False, id="two of them"),
        pytest.param([SeenDaemonSet("other", {}, 2, 2)], True, False, id="none of them"),
    ],
)
def test_its_word_counts_while_one_is_at_work_and_a_node_lives(
    sets: list[SeenDaemonSet], lives: bool, current: bool
) -> None:
    said = state(12, direction="rollback", lockHolder="a")
    found = Seen(facts(said, *sets), lives=lives).view
    seen = found.observed
    shown = (seen.state, seen.number, seen.direction, seen.lock_holder)
    assert shown == ((STATES[11], 12, "rollback", "a") if current else ("", 0, "", ""))
    assert (seen.raw_state, seen.furthest) == (STATES[11], STATES[11])
    parts = {name: (one.state, one.said) for name, one in found.parts.items()}
    assert parts["storage"] == ("Healthy" if current else "Unknown", "healthy")
    assert parts["virtualisation"] == ("Unhealthy" if current else "Unknown", "broken")


def test_a_word_that_is_missing_is_no_observation() -> None:
    said = state()
    bare = Read(data={"state.json": said.data["state.json"], "network": " healthy \n"})
    found = Seen(facts(bare)).view.parts
    assert {name: (one.state, one.said) for name, one in found.items()} == {
        "storage": ("NotObserved", ""), "network": ("Healthy", "healthy"),
        "virtualisation": ("NotObserved", ""),
    }  # fmt: skip
    assert Seen(facts(Read(data={"state.json": "?", **WORDS}))).view.parts == {}
    assert list(Seen(facts(), network=None, storage=None).view.parts) == ["virtualisation"]


def test_since_when_it_is_in_a_state_is_kept_while_it_is_the_same() -> None:
    def since(raw: str, at: str | None) -> str | None:
        before = EdgeClusterStatus(observed=ObservedState(raw_state=raw, since=at))
        return Seen(facts(state(5)), before).view.observed.since

    assert since(STATES[4], BEFORE) == BEFORE
    assert since(STATES[3], BEFORE) == AT
    assert since(STATES[4], None) == AT
    assert Seen(facts(state(5))).view.observed.since == AT


@pytest.mark.parametrize(
    ("was", "number", "back", "furthest", "in_order"),
    [
        pytest.param(4, 5, "", 5, "True", id="one further"),
        pytest.param(5, 5, "", 5, "True", id="as before"),
        pytest.param(5, 4, "", 5, "False", id="one back"),
        pytest.param(5, 4, "rollback", 5, "True", id="one back, as it says"),
        pytest.param(5, 2, "", 5, "False", id="to the second"),
        pytest.param(5, 1, "", 1, "True", id="to the first: it begins anew"),
        pytest.param(0, 3, "", 3, "True", id="nothing was seen before"),
    ],
)
def test_a_state_goes_on_or_says_that_it_goes_back(
    was: int, number: int, back: str, furthest: int, in_order: str
) -> None:
    before = EdgeClusterStatus(observed=ObservedState(furthest=STATES[was - 1] if was else ""))
    found = Seen(facts(state(number, direction=back)), before)
    assert found.view.observed.furthest == STATES[furthest - 1]
    assert found.of(findings.STATE_RECOGNISED) == ("True", "AsExpected")
    assert found.of(findings.STATE_IN_ORDER) == (
        (in_order, "AsExpected" if in_order == "True" else "StateRegressed")
    )
    if in_order == "False":
        assert STATES[was - 1] in found.condition(findings.STATE_IN_ORDER).message


def test_a_state_that_the_profile_does_not_know_is_shown_as_it_is() -> None:
    before = EdgeClusterStatus(observed=ObservedState(furthest=STATES[4]))
    found = Seen(facts(state(name="Dreaming")), before)
    seen = found.view.observed
    assert (seen.state, seen.number, seen.raw_state, seen.furthest) == ("", 0, "Dreaming", STATES[4])
    assert found.of(findings.STATE_RECOGNISED) == ("False", "StateUnrecognised")
    assert "'Dreaming' is none of the 21 states" in found.condition(findings.STATE_RECOGNISED).message
    assert found.of(findings.STATE_IN_ORDER) == ("Unknown", "StateUnrecognised")
    lost = EdgeClusterStatus(observed=ObservedState(furthest="OfAnotherProfile"))
    assert Seen(facts(state(name="Dreaming")), lost).view.observed.furthest == "OfAnotherProfile"


@pytest.mark.parametrize(
    ("read", "why"),
    [
        pytest.param(Read(REFUSED, message="forbidden"), "forbidden", id="refused"),
        pytest.param(Read(MISSING), "its ConfigMap is not there", id="missing"),
        pytest.param(Read(data={}), "its ConfigMap has no key state.json", id="no key"),
        pytest.param(Read(data={"state.json": "["}), "it is no JSON", id="no JSON"),
    ],
)
def test_a_state_that_cannot_be_read_is_said_to_be_so_and_how_far_it_was_is_kept(
    read: Read, why: str
) -> None:
    before = EdgeClusterStatus(observed=ObservedState(furthest=STATES[4], raw_state="x", state="x"))
    found = Seen(facts(read), before)
    assert (found.view.decoded, found.view.observed) == (None, ObservedState(furthest=STATES[4]))
    for kind in (findings.STATE_RECOGNISED, findings.STATE_IN_ORDER):
        assert found.of(kind) == ("Unknown", "StateUnreadable")
    assert why in found.condition(findings.STATE_RECOGNISED).message


STATE, BEATS = (f"ConfigMap kube-system/vx-rail-{one}" for one in ("upgrade-state", "heartbeats"))
DAEMON_SET, EVENTS = f"DaemonSet kube-system/{NAME}", f"Events of {NAME}"


def test_all_that_is_read_is_told_and_since_when_it_is_so() -> None:
    found = Seen(facts())
    assert found.inputs == dict.fromkeys((STATE, BEATS, DAEMON_SET, EVENTS), (FRESH, ""))
    assert {one.changed_at for one in found.view.inputs} == {AT}
    old = [msgspec.structs.replace(one, changed_at=BEFORE) for one in found.view.inputs]
    again = Seen(facts(), EdgeClusterStatus(inputs=old)).view.inputs
    assert [one.changed_at for one in again] == [BEFORE] * 4
    other = Seen(facts(state(2)), EdgeClusterStatus(inputs=old)).view.inputs
    assert [one.changed_at for one in other] == [AT, BEFORE, BEFORE, BEFORE]
    unready = facts(None, SeenDaemonSet(NAME, ITS, 2, 1))
    assert [one.changed_at for one in Seen(unready, EdgeClusterStatus(inputs=old)).view.inputs][2] == AT
    never = [msgspec.structs.replace(one, changed_at=None) for one in old]
    assert Seen(facts(), EdgeClusterStatus(inputs=never)).view.inputs[0].changed_at == AT


@pytest.mark.parametrize(
    ("read", "inputs", "worst"),
    [
        pytest.param(facts(), {}, "AsExpected", id="all"),
        pytest.param(
            facts(Read(data={"state.json": "["})), {STATE: "Unreadable"}, "Unreadable", id="no JSON"
        ),
        pytest.param(facts(Read(MISSING)), {STATE: MISSING}, MISSING, id="no state"),
        pytest.param(
            facts(None, SeenDaemonSet("other", {}, 1, 1)), {DAEMON_SET: MISSING}, MISSING, id="no DaemonSet"
        ),
        pytest.param(
            facts(Read(MISSING), daemon_sets_read=Read(REFUSED, message="no")),
            {STATE: MISSING, DAEMON_SET: REFUSED}, REFUSED, id="what cannot be seen is worse",
        ),
        pytest.param(
            facts(Read(data={"state.json": "["}), heartbeats=Read(UNANSWERED, message="no")),
            {STATE: "Unreadable", BEATS: UNANSWERED}, UNANSWERED, id="than what cannot be understood, too",
        ),
        pytest.param(
            facts(events_read=Read(REFUSED, message="no")), {EVENTS: REFUSED}, "AsExpected",
            id="nothing follows from Events",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_read(read: BridgeFacts, inputs: dict[str, str], worst: str) -> None:
    found = Seen(read)
    states = {name: shown for name, (shown, _) in found.inputs.items() if shown != FRESH}
    assert states == inputs
    assert found.of(findings.BRIDGE_READABLE) == ("True" if worst == "AsExpected" else "False", worst)
    if worst != "AsExpected":
        text = found.condition(findings.BRIDGE_READABLE).message
        assert all(f"{name}: " in text for name in inputs)


NOWHERE = SeenDaemonSet("other", {}, 1, 1)
GONE = EdgeClusterStatus(nodes=[EdgeNode(name="old", source=BRIDGE, heartbeat=FRESH, digest="x")])


@pytest.mark.parametrize(
    ("read", "before", "anything"),
    [
        pytest.param(facts(Read(MISSING), NOWHERE, heartbeats=Read(MISSING)), None, False, id="nothing"),
        pytest.param(facts(Read(MISSING), heartbeats=Read(MISSING)), None, True, id="the DaemonSet"),
        pytest.param(facts(Read(MISSING), NOWHERE), None, True, id="signs of life"),
        pytest.param(
            facts(Read(MISSING), NOWHERE, heartbeats=Read(MISSING)), GONE, True, id="one that is gone"
        ),
        pytest.param(facts(None, NOWHERE, heartbeats=Read(MISSING)), None, True, id="a state"),
        pytest.param(
            facts(Read(REFUSED), NOWHERE, heartbeats=Read(MISSING)), None, True, id="nobody could look"
        ),
    ],
)
def test_whether_there_is_any_trace_of_it(
    read: BridgeFacts, before: EdgeClusterStatus | None, anything: bool
) -> None:
    assert Seen(read, before, lives=False).view.anything is anything


def test_an_input_that_is_not_there_has_no_digest() -> None:
    found = bridge.told_input("x", Read(MISSING, {"a": "b"}, "gone"), EdgeClusterStatus(), NOW)
    assert found == EdgeInput(name="x", state=MISSING, message="gone")

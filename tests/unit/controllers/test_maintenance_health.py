"""Gates of health of a maintenance: which of them keep a host back, and who is asked what, and when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.health_gates import HttpGate
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT, NodeMaintenance
from nodemanager.controllers.disruption.nodes import Node
from nodemanager.controllers.node_maintenances import gates
from nodemanager.controllers.node_maintenances.gates import MaintenanceGates
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.decide import HostWait
from nodemanager.fleet.maintenance.facts import GateFinding
from nodemanager.fleet.maintenance.questions import GateAnswer, Question
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.kube.objects import ObjectMeta

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SHOP, OWN = {"http": {"url": "http://shop/"}}, {"http": {"url": "http://$(host)/"}}
ASKED = HttpGate(url="http://shop/")
SILENT = "managednode/web1: its agent is silent"
NOT_READY = msgspec.convert({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, Node)
ALIVE: dict[str, Any] = {"conditions": [{"type": "Alive", "status": "True", "reason": "x"}]}
WELL: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "True", "reason": "x"}]}
ILL: dict[str, Any] = {
    "conditions": [{"type": "Ready", "status": "False", "reason": "x", "message": "web: no"}]
}
NOT_ASKED = GateFinding("http http://shop/: not asked yet", Reason.GATE_NOT_ASKED)


def maintenance(waiting: list[dict[str, Any]] | None = None, **health: Any) -> NodeMaintenance:
    meta = {"name": "monday", "namespace": "fleet"}
    body = {"metadata": meta, "spec": {"health": health}, "status": {"waiting": waiting or []}}
    return msgspec.convert(body, NodeMaintenance)


def known(
    answers: Mapping[Question, GateAnswer] | None = None, now: datetime | None = NOW, **health: Any
) -> MaintenanceGates:
    return gates.gates_of(maintenance(**health), answers, now)


def host(state: State | None = None, name: str = "web1", uid: str = "m", **status: Any) -> ManagedNode:
    notes = {}
    if state is not None:
        visit = Claim(
            maintenance="monday", uid=uid, host_uid="h", run="r", attempt=0, state=state,
            since=NOW - MINUTE / 2, begun=NOW - MINUTE, expires=NOW + MINUTE,
        )  # fmt: skip
        notes[ANNOTATION_VISIT] = claims.encode(visit)
    body = {"metadata": {"name": name, "annotations": notes}, "status": status}
    return msgspec.convert(body, ManagedNode)


def test_without_gates_all_holds() -> None:
    none = gates.gates_of(NodeMaintenance(metadata=ObjectMeta(name="monday")))
    assert none == MaintenanceGates()
    assert none.problem is None
    assert none.failing(host(), None) == {}


@pytest.mark.parametrize(
    ("health", "named", "said"),
    [
        ({"before": [SHOP], "after": [SHOP]}, "", ""),
        ({"before": [{"http": {"url": "ftp:"}}]}, "health.before[0]", "health.before[0].http.url: must be"),
        ({"before": [SHOP], "after": [SHOP, {"http": {"url": "http://u:p@x"}}]}, "health.after[1]",
         "health.after[1].http.url: must have neither user"),
    ],
)  # fmt: skip
def test_a_gate_that_cannot_be_asked_is_named(health: dict[str, Any], named: str, said: str) -> None:
    found = known(**health).problem
    assert (found is not None) is bool(named)
    if found is not None:
        assert (found.reason, found.object) == (Reason.GATE_INVALID, named)
        assert found.message.startswith(said)


@pytest.mark.parametrize(
    ("gate", "one", "node", "said"),
    [
        pytest.param({"alive": True}, host(), None, SILENT, id="never heard"),
        pytest.param(
            {"alive": True}, host(conditions=[{"type": "Alive", "status": "False", "reason": "x"}]), None,
            SILENT, id="silent",
        ),
        pytest.param(
            {"alive": True}, host(conditions=[{"type": "Alive", "status": "True", "reason": "x"}]), None, "",
            id="alive",
        ),
        pytest.param({"ready": True}, host(), None, "", id="no Node"),
        pytest.param({"alive": True}, host(**ALIVE), NOT_READY, "", id="a Node that nobody asks about"),
        pytest.param({"ready": True}, host(), Node(), "", id="a Node that is ready"),
        pytest.param({"ready": True}, host(), NOT_READY, "node/web1: not Ready", id="a Node, not ready"),
        pytest.param({"configSetsHold": True}, host(**WELL), None, "", id="all is as declared"),
        pytest.param({"configSetsHold": True}, host(**ILL), None, "managednode/web1: web: no", id="not so"),
        pytest.param(
            {"configSetsHold": True}, host(conditions=[{"type": "Ready", "status": "False", "reason": "No"}]),
            None, "managednode/web1: No", id="not so, and no word why",
        ),
        pytest.param(
            {"configSetsHold": True}, host(), None, "managednode/web1: its agent has reported nothing yet",
            id="nothing reported",
        ),
        pytest.param(
            {"configSetsHold": True, "name": "sets"}, host(**ILL), None, "sets: managednode/web1: web: no",
            id="with a name",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["before", "after"])
def test_gates_about_a_host_are_answered_by_what_is_known_of_it(
    where: str, gate: dict[str, Any], one: ManagedNode, node: Node | None, said: str
) -> None:
    other = "after" if where == "before" else "before"
    health: dict[str, Any] = {where: [gate]}
    wanted = {where: GateFinding(said) if said else None, other: None}
    for now in (NOW, None):
        assert known(now=now, **health).failing(one, node) == wanted


YES, OLD, NO = GateAnswer(NOW - MINUTE / 12), GateAnswer(NOW - MINUTE / 3), GateAnswer(NOW, "answered 500")
BEFORE = GateAnswer(NOW - 2 * MINUTE / 3)
SAID = GateFinding("http http://shop/: answered 500")


@pytest.mark.parametrize(
    ("answer", "state", "before", "after"),
    [
        pytest.param(None, None, NOT_ASKED, NOT_ASKED, id="not asked"),
        pytest.param(NO, None, SAID, SAID, id="no"),
        pytest.param(YES, None, None, None, id="yes"),
        pytest.param(OLD, None, NOT_ASKED, None, id="yes, a while ago"),
        pytest.param(OLD, State.PROVING, NOT_ASKED, None, id="yes, since it has to be proven"),
        pytest.param(BEFORE, State.PROVING, NOT_ASKED, NOT_ASKED, id="yes, before it had to be proven"),
        pytest.param(BEFORE, State.SOAKING, NOT_ASKED, None, id="yes, when it was proven already"),
    ],
)
def test_an_answer_lets_a_host_begin_for_a_moment_and_proves_it_since_its_work(
    answer: GateAnswer | None, state: State | None, before: GateFinding | None, after: GateFinding | None
) -> None:
    answers: dict[Question, GateAnswer] = {ASKED: answer} if answer is not None else {}
    found = known(answers, before=[SHOP], after=[SHOP]).failing(host(state), None)
    assert found == {"before": before, "after": after}


def test_who_cannot_ask_takes_gates_of_others_for_holding() -> None:
    assert known(now=None, before=[SHOP], after=[SHOP]).failing(host(), None) == {
        "before": None,
        "after": None,
    }


def test_a_no_is_worth_more_than_no_answer_and_the_first_counts() -> None:
    named = {**OWN, "name": "itself"}
    unasked = known(before=[named, SHOP]).failing(host(), None)["before"]
    assert unasked == GateFinding("itself: not asked yet", Reason.GATE_NOT_ASKED)
    assert known({ASKED: NO}, before=[named, SHOP]).failing(host(), None)["before"] == SAID
    sets = {"configSetsHold": True}
    assert known({ASKED: NO}, before=[SHOP, sets]).failing(host(**ILL), None)["before"] == SAID


@pytest.mark.parametrize(
    ("reason", "asked"),
    [
        (Reason.GATE_BEFORE, True),
        (Reason.GATE_NOT_ASKED, True),
        (Reason.GATE_UNANSWERED, True),
        (Reason.GATE_FORBIDDEN, True),
        (Reason.BUDGET_SPENT, False),
        (Reason.PROVING, False),
    ],
)
def test_others_are_asked_for_hosts_whose_turn_it_is(reason: Reason, asked: bool) -> None:
    waits = [HostWait("web1", reason), HostWait("web2", Reason.PAUSED)]
    found = list(known(before=[OWN, {"alive": True}, SHOP]).questions_before(waits))
    assert found == ([HttpGate(url="http://web1/"), ASKED] if asked else [])
    assert list(known(before=[{"alive": True}]).questions_before(waits)) == []


@pytest.mark.parametrize(
    ("one", "asked"),
    [
        (host(), False),
        (host(State.WORKING), False),
        (host(State.PROVING), True),
        (host(State.SOAKING), True),
        (host(State.RETURNING), False),
        (host(State.PROVING, uid="other"), False),
        (msgspec.structs.replace(host(), metadata=ObjectMeta(annotations={ANNOTATION_VISIT: "?"})), False),
    ],
)
def test_others_are_asked_for_hosts_that_are_being_proven(one: ManagedNode, asked: bool) -> None:
    hosts = [one, host(State.WORKING, "web2")]
    found = list(known(after=[OWN, {"alive": True}, SHOP]).questions_after(hosts, "m"))
    assert found == ([HttpGate(url="http://web1/"), ASKED] if asked else [])
    assert list(known(after=[{"alive": True}]).questions_after(hosts, "m")) == []


@pytest.mark.parametrize(
    ("gate", "asked"),
    [
        ({"alive": True}, False),
        ({"http": {"url": "http://shop/"}}, True),
        ({"prometheus": {"url": "http://p/", "query": "up"}}, True),
        ({"object": {"apiVersion": "v1", "kind": "Pod", "name": "db", "cel": "true"}}, True),
    ],
)
def test_gates_about_something_else_are_asked(gate: dict[str, Any], asked: bool) -> None:
    waits = [HostWait("web1", Reason.GATE_NOT_ASKED)]
    assert bool(list(known(before=[gate]).questions_before(waits))) is asked


def test_an_object_without_a_namespace_is_one_of_that_of_the_maintenance() -> None:
    pod = {"object": {"apiVersion": "v1", "kind": "Pod", "name": "db", "cel": "true"}}
    found = known(before=[pod]).failing(host(), None)["before"]
    assert found == GateFinding("Pod fleet/db: not asked yet", Reason.GATE_NOT_ASKED)


def wait(reason: Reason, about: str = "http: no") -> dict[str, Any]:
    return {"reason": reason.value, "hosts": 2, "first": ["a", "b"], "object": about}


GATES = {"before": [SHOP], "after": [SHOP]}
PLAIN = {"before": [{"alive": True}], "after": [{"alive": True}]}


@pytest.mark.parametrize(
    ("health", "waits", "where", "reason"),
    [
        pytest.param(GATES, wait(Reason.GATE_UNANSWERED), "before", Reason.GATE_UNANSWERED, id="before"),
        pytest.param(GATES, wait(Reason.PROVING), "after", Reason.GATE_BEFORE, id="after"),
        pytest.param(GATES, wait(Reason.PROVING, ""), "", None, id="being proven, without a word"),
        pytest.param(GATES, wait(Reason.PAUSED), "", None, id="something else"),
        pytest.param(PLAIN, wait(Reason.GATE_BEFORE), "", None, id="nobody was asked before"),
        pytest.param(PLAIN, wait(Reason.PROVING), "", None, id="nobody was asked after"),
    ],
)
def test_who_cannot_ask_is_told_by_the_status(
    health: dict[str, Any], waits: dict[str, Any], where: str, reason: Reason | None
) -> None:
    found = gates.told(maintenance([waits], **health))
    wanted: dict[str, dict[str, GateFinding]] = {"before": {}, "after": {}}
    if reason is not None:
        wanted[where] = dict.fromkeys(("a", "b"), GateFinding("http: no", reason))
    assert found == wanted
    assert gates.told(maintenance([waits, wait(Reason.PAUSED)], **health)) == wanted

"""What keeps further hosts from a change: who has to approve, the audit log, windows and gates of health."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS, AuditCheckpoint
from nodemanager.api.common import choosing
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import ConfigSetRevisionSpec
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rollout import SCALE, Rollout, RolloutStatus
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS, MaintenanceApproval
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS, MaintenanceWindow
from nodemanager.client.verbs import Client
from nodemanager.controllers.disruption.nodes import NODES, Node
from nodemanager.controllers.gate_asking import Asker
from nodemanager.controllers.rollouts.gating import AskedChange, GateReader, asked_alone
from nodemanager.fleet.rollout.gates import ASK_SECONDS, RolloutGates
from nodemanager.kube import times
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache
from support.scripted_server import Exchange, serve, until
from support.visited_api import VisitedApi

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
LABELS = {"role": "web"}
NEW, OLD = "b" * 64, "a" * 64
SETS = {"configSetsHold": True}
LOG = ObjectKey("x", "log")


class Around:
    """The caches of an operator, and who asks for it."""

    def __init__(self) -> None:
        client = Client(VisitedApi())
        self.windows = Cache(client, MAINTENANCE_WINDOWS)
        self.nodes, self.approvals = Cache(client, NODES), Cache(client, MAINTENANCE_APPROVALS)
        self.checkpoints = Cache(client, AUDIT_CHECKPOINTS)
        self.asker = Asker(client, lambda: NOW, lambda _key: None)
        self.reader = GateReader(
            client, self.windows, self.nodes, self.approvals, self.asker, checkpoints=self.checkpoints
        )

    async def read(
        self, given: ConfigSet, changes: Sequence[AskedChange] = (), hosts: Sequence[ManagedNode] = ()
    ) -> RolloutGates:
        return await self.reader.read(asked_alone(given), changes, hosts, NOW)


def config_set(*, published: bool = True, begun: bool = True, **rollout: Any) -> ConfigSet:
    """Return a set whose change all hosts have had for an hour, and soak."""
    turn = {"threshold": SCALE, "at": times.rfc3339(NOW - timedelta(hours=1))}
    ref = {"name": "web-2", "revision": 2, "digest": NEW, "labels": LABELS}
    status = {
        "observedGeneration": 1, "phase": "Soaking", "stage": 1, "threshold": SCALE, "turns": [turn],
        "next": ref if begun else None, "stable": {**ref, "name": "web-1", "digest": OLD},
    }  # fmt: skip
    meta = {"name": "web", "namespace": "x", "generation": 1, "labels": LABELS}
    spec = {"rollout": {"strategy": "Staged", **rollout}} if rollout else {}
    body = {"metadata": meta, "spec": spec, "status": {"rollout": status if published else None}}
    return msgspec.convert(body, ConfigSet)


def host(name: str, digest: str = NEW, alive: str = "True", ready: str = "False") -> ManagedNode:
    since = times.rfc3339(NOW - timedelta(hours=2))
    said = [
        {"type": "Alive", "status": alive, "reason": "x", "lastTransitionTime": since},
        {"type": "Ready", "status": ready, "reason": "x", "message": f"{name} waits"},
    ]
    status = {
        "release": "6.1", "conditions": said,
        "configsets": [{"name": "web", "digest": digest, "observedGeneration": 1}],
    }  # fmt: skip
    meta = {"name": name, "namespace": "x", "uid": name, "labels": LABELS}
    return msgspec.convert({"metadata": meta, "status": status}, ManagedNode)


async def test_without_anything_that_is_asked_for_nothing_is_in_the_way() -> None:
    around = Around()
    changes = [AskedChange(None, ConfigSetRevisionSpec()), AskedChange(Rollout(), ConfigSetRevisionSpec())]
    for given in (config_set(), config_set(published=False), config_set(stages=["5"])):
        assert await around.read(given, changes, [host("a")]) == RolloutGates()


def asked(digest: str = NEW, group: str = "", **approval: Any) -> AskedChange:
    rollout = msgspec.convert({"strategy": "Staged", "group": group, "approval": approval}, Rollout)
    return AskedChange(rollout, ConfigSetRevisionSpec(config_set="web", revision=2, digest=digest))


def approval(plan: str = NEW, name: str = "web", namespace: str = "x") -> MaintenanceApproval:
    body = {"metadata": {"name": "a", "namespace": namespace},
            "spec": {"configSet": name, "planHash": plan, "approver": "jo"}}  # fmt: skip
    return msgspec.convert(body, MaintenanceApproval)


@pytest.mark.parametrize(
    ("changes", "given", "unapproved"),
    [
        pytest.param([asked(required=True)], None, NEW, id="nobody approved"),
        pytest.param([asked(required=False)], None, "", id="nobody has to"),
        pytest.param([asked(required=True)], approval(), "", id="approved"),
        pytest.param([asked(required=True)], approval(OLD), NEW, id="what was before is approved"),
        pytest.param([asked(required=True)], approval(name="db"), NEW, id="another set is approved"),
        pytest.param([asked(required=True)], approval(namespace="y"), NEW, id="one elsewhere is approved"),
        pytest.param([asked(group="g", required=True)], None, f"{NEW} (ConfigSet web)", id="one of several"),
        pytest.param(
            [asked(required=True), asked(OLD, required=True)], approval(), OLD, id="only one is approved"
        ),
    ],
)
async def test_a_change_waits_for_its_approval(
    changes: list[AskedChange], given: MaintenanceApproval | None, unapproved: str
) -> None:
    around = Around()
    if given is not None:
        around.approvals._put(ObjectKey(given.metadata.namespace, "a"), given)
    assert (await around.read(config_set(stages=["5"]), changes)).unapproved == unapproved


@pytest.mark.parametrize(
    ("workflows", "intact", "said"),
    [
        ("Continue", "True", ""),
        ("Stop", "True", "the audit log cannot be relied on: it is behind"),
        ("Stop", "False", "the audit log cannot be relied on: a record is missing"),
    ],
)
async def test_a_change_waits_for_an_audit_log_that_can_be_relied_on(
    workflows: str, intact: str, said: str
) -> None:
    around = Around()
    told = [{"type": "Intact", "status": intact, "reason": "x", "message": "a record is missing"}]
    one = msgspec.convert({"status": {"workflows": workflows, "conditions": told}}, AuditCheckpoint)
    around.checkpoints._put(LOG, one)
    assert (await around.read(config_set())).unrecorded == said


async def test_a_window_that_is_not_there_is_in_the_way() -> None:
    around = Around()
    given = config_set(windowRef={"name": "nights"})
    missing = (await around.read(given)).window
    assert missing is not None
    assert missing.problem is not None
    assert (missing.problem.reason, missing.name) == ("WindowNotFound", "nights")
    shut = msgspec.convert({"spec": {"always": True, "timeZone": "Nowhere"}}, MaintenanceWindow)
    around.windows._put(ObjectKey("x", "nights"), shut)
    wrong = (await around.read(given)).window
    assert wrong is not None
    assert wrong.problem is not None
    assert wrong.problem.reason == "WindowInvalid"
    assert wrong.problem.message.startswith("MaintenanceWindow nights: ")


# Gates of health


@pytest.mark.parametrize(
    ("given", "hosts", "said"),
    [
        pytest.param(config_set(health=[SETS]), [host("a")], "managednode/a: a waits", id="has the change"),
        pytest.param(config_set(health=[SETS]), [host("a", ready="True")], None, id="and is well"),
        pytest.param(config_set(health=[SETS]), [host("a", alive="False")], None, id="silent"),
        pytest.param(config_set(health=[SETS], begun=False), [host("a")], None, id="no change"),
        pytest.param(config_set(health=[SETS], published=False), [host("a")], None, id="not begun"),
        pytest.param(config_set(health=[]), [host("a")], None, id="no gate"),
    ],
)
async def test_gates_are_about_hosts_that_have_the_change(
    given: ConfigSet, hosts: list[ManagedNode], said: str | None
) -> None:
    health = (await Around().read(given, (), hosts)).health
    assert (health.said if health is not None else None) == said


async def test_a_node_is_asked_for_by_the_name_of_its_host() -> None:
    around = Around()
    given = config_set(health=[{"ready": True}])
    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    around.nodes._put(ObjectKey("", "a"), msgspec.convert(not_ready, Node))
    found = (await around.read(given, (), [host("a")])).health
    assert found is not None
    assert found.said == "node/a: not Ready"
    assert (await around.read(given, (), [host("b")])).health is None
    around.nodes.refused = "nodes is forbidden"
    found = (await around.read(given, (), [host("b")])).health
    assert found is not None
    assert found.reason == "GateForbidden"


SOAKS = RolloutStatus(phase="Soaking")
WAITS = RolloutStatus(phase="Waiting", reason="HostsSilent")


@pytest.mark.parametrize("again", [None, ASK_SECONDS / 2, 2 * ASK_SECONDS])
async def test_gates_are_asked_while_it_matters_and_looked_at_soon_again(again: float | None) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.answer(200, b"")

    soon = ASK_SECONDS if again is None else min(again, ASK_SECONDS)
    around = Around()
    async with serve(answer) as server:
        gate = {"http": {"url": f"{server.url}/$(host)"}}
        about, hosts = asked_alone(config_set(health=[gate])), [host("a"), host("b")]
        for given, status in (
            (config_set(), SOAKS), (config_set(stages=["5"]), SOAKS), (config_set(health=[gate]), WAITS),
        ):  # fmt: skip
            assert around.reader.ask(asked_alone(given), hosts, status, again) == again
        assert not around.asker._asking
        assert around.reader.ask(about, hosts, SOAKS, again) == soon
        await until(lambda: not around.asker._asking)
        assert sorted(one.target for one in server.requests) == ["/a", "/b"]
    assert not any(one.why for one in around.asker.answers.values())


def test_of_very_many_hosts_those_that_came_last_are_asked_about() -> None:
    """All others were asked about when they came."""
    hosts = [host(f"h{number}") for number in range(103)]
    health = Around().reader._health(asked_alone(config_set(health=[SETS])), hosts)
    first = sorted(hosts, key=lambda one: choosing.position(one.metadata.uid, NEW))[:3]
    assert [one for one in hosts if one not in health.hosts] == sorted(first, key=hosts.index)

"""While the audit log is bent nothing new begins, on both servers; and all goes on with another log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS, KEY_SECRET, NAME
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.rollout import STABLE
from nodemanager.api.rights.audit_policy import POLICY
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.controllers import audit, rollouts
from nodemanager.controllers.audit import journal
from nodemanager.kube import conditions, core, errors, times
from support import cli, whole_server
from support.either import Place
from support.joined_host import guard
from support.maintenance_site import ENTRIES, PATIENCE, Site
from support.rollout_site import RolloutSite
from support.upgrade_site import ask, scheduled, told, until_over


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "KEY_CHECK", timedelta(seconds=1))


async def workflows(site: Site) -> str:
    try:
        return (await site.client.get(AUDIT_CHECKPOINTS, NAME, site.namespace)).status.workflows
    except errors.NotFound:
        return ""


async def until_workflows(site: Site, wanted: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while await workflows(site) != wanted:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)


async def unprotected(site: Site, remove: Callable[[], object]) -> None:
    """Do what the policy forbids, once it is not bound any more; a kube-apiserver takes a moment."""
    await site.client.delete(core.POLICY_BINDINGS, POLICY)
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await asyncio.to_thread(remove)
            except AssertionError:  # kubectl was refused
                await asyncio.sleep(0.1)
            else:
                return


async def run(place: Place, *args: str) -> cli.Ran:
    where = ("--kubeconfig", str(place.kubeconfig), "-n", place.namespace)
    done = await asyncio.to_thread(cli.run, *args, *where)
    assert done.code == 0, done
    return done


async def bend(place: Place, site: Site) -> None:
    """Remove the end of the log, as an administrator can who takes the policy away for a moment."""
    found = (await site.client.list(AUDIT_SEGMENTS, Selection(site.namespace))).items
    last = max(one.metadata.name for one in found)
    await unprotected(site, lambda: place.kubectl("delete", "auditsegment", last, "-n", site.namespace))
    await install(place)


async def install(place: Place) -> None:
    done = await asyncio.to_thread(cli.run, "crds", "--install", "--kubeconfig", str(place.kubeconfig))
    assert done.code == 0, done


async def test_a_bent_log_holds_up_maintenances_and_rollouts_until_another_one_begins(
    place: Place, site: Site, tmp_path: Path
) -> None:
    await guard(place, tmp_path)
    host = await site.host("a")
    config = whole_server.load(place.kubeconfig)
    rolling = RolloutSite(site.client, config, place.kubeconfig, site.namespace, site.own)
    await rolling.join("b")
    drifted, due = await site.host("drifted"), await scheduled(site, "due", group="")
    async with site.operator(entries=(*ENTRIES, rollouts.REGISTRATION, audit.REGISTRATION)):
        await until_workflows(site, "Continue")
        await bend(place, site)
        poke = {"metadata": {"name": "poke"}, "spec": {"files": [], "nodeSelector": {}}}
        await site.client.create(CONFIG_SETS, poke, site.namespace)  # so that something is to be recorded
        await until_workflows(site, "Stop")

        await site.maintenance(series={"names": [host]})
        await rolling.declare("web", "one", stages=["100%"], soak="0")
        waits = await site.until(lambda found: found.status.observed_generation)
        valid = conditions.get(waits.status.conditions, "Valid")
        assert valid is not None
        assert (valid.status, valid.reason, waits.status.run) == ("False", "AuditBroken", None)
        stuck = await rolling.until("web", lambda status: status.reason == "AuditBroken")
        assert (stuck.stage, stuck.threshold) == (0, 0)
        assert "cannot be relied on" in stuck.message
        asks = [{"configset": "poke", "since": times.rfc3339(site.now()), "resources": 1}]
        left = MergePatch({"status": {"leftDrifts": {"asks": asks}}})
        await site.client.patch(MANAGED_NODES, drifted, site.namespace, left, subresource="status")
        slot = await ask(site, due, site.now())
        assert "AuditBroken" in await told(site, drifted, "RepairWaiting")
        assert "AuditBroken" in await told(site, due, "UpgradeWaiting")
        assert site.agents.taken == []
        why = await asyncio.to_thread(
            cli.run, "why", host, "--kubeconfig", str(place.kubeconfig), "-n", site.namespace
        )
        assert "AuditBroken" in why.stdout, why

        # As docs/audit.md has it.
        await run(place, "audit", "export", str(tmp_path / "bent.jsonl"))
        bent = await asyncio.to_thread(cli.run, "audit", "verify", str(tmp_path / "bent.jsonl"))
        assert bent.code == 1, bent
        whole = ("delete", "auditsegments,auditcheckpoints", "--all", "-n", site.namespace)
        await unprotected(site, lambda: place.kubectl(*whole))
        await site.client.delete(core.SECRETS, KEY_SECRET, site.namespace)
        await install(place)

        await until_workflows(site, "Continue")
        await site.until_phase("Succeeded")
        await until_over(site, due, slot)
        assert sorted(site.agents.hosts) == sorted([host, due])
        assert "ConfigSet poke" in await told(site, drifted, "RepairTurn")
        await rolling.until("web", lambda status: status.phase == STABLE)
    done = await run(place, "audit", "verify")
    assert done.stdout.startswith("intact")

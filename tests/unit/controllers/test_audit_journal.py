"""The writer of the audit log on the embedded API: what is recorded, signed, and found after a restart."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.audit.auditcheckpoint import KEY_SECRET
from nodemanager.api.audit.record import Record
from nodemanager.api.common import node_conditions
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.rights.stamp_policy import STAMPING
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers.audit import journal, keys
from nodemanager.controllers.registration import THE_ONE
from nodemanager.fleet.audit import host_budget
from nodemanager.kube import conditions
from nodemanager.kube.core import MUTATING_BINDINGS, MUTATING_POLICIES, SECRETS
from nodemanager.runtime.controller import Retry
from support import audit_site, examples, whole_server
from support.accounts import operator_of
from support.audit_site import Site
from support.clients import connected

NAMESPACE = "default"


@pytest.fixture(name="client")
async def _client(tmp_path: Path) -> AsyncIterator[Client]:
    """The operator, to the policies, with the rights of an administrator."""
    async with (
        whole_server.serving(tmp_path) as (config, _),
        connected(operator_of(config, NAMESPACE)) as own,
    ):
        yield own


@pytest.fixture(name="admin")
async def _admin(client: Client, tmp_path: Path) -> AsyncIterator[Client]:
    async with connected(whole_server.load(tmp_path / "data" / "admin.kubeconfig")) as admin:
        yield admin


@pytest.fixture(name="site")
async def _site(client: Client) -> AsyncIterator[Site]:
    async with audit_site.writing(client, NAMESPACE) as site:
        await site.write()
        yield site


def config_set(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"files": []}}


def brief(found: list[Record]) -> list[tuple[str, str, str]]:
    return [(one.verb, one.aspect, one.object.name) for one in found]


async def test_a_log_begins_with_its_key_and_is_signed(site: Site) -> None:
    first = (await site.records())[0]
    published = await site.checkpoint()
    assert (first.verb, first.aspect, first.sequence) == ("begin", "log", 0)
    assert [first.to] == published.spec.keys
    assert conditions.is_true(published.status.conditions, "Intact")
    assert conditions.is_true(published.status.conditions, "Current")
    assert published.status.workflows == "Continue"
    report = await site.verified()
    assert (report.findings, report.signed) == ([], published.spec.size)


async def test_changes_of_one_second_are_written_together(client: Client, admin: Client) -> None:
    async with audit_site.writing(client, NAMESPACE, gather=timedelta(seconds=1)) as site:
        await site.write()
        begun = len(await site.records())
        for number in range(3):
            await admin.create(CONFIG_SETS, config_set(f"web{number}"), NAMESPACE)
            await site.caught_up()
            again = await site.journal.reconcile(THE_ONE)
            assert again is not None
            assert again.requeue_after is not None
            assert 0.5 < again.requeue_after <= 1.0
        assert len(await site.records()) == begun
        site.clock.at += timedelta(seconds=1)
        await site.write()
        assert brief((await site.records())[begun:]) == [("create", "spec", f"web{one}") for one in range(3)]
        site.clock.at -= timedelta(days=1)  # a clock that is set back holds nothing up
        await admin.delete(CONFIG_SETS, "web1", NAMESPACE)
        await site.write()
        assert brief((await site.records())[-1:]) == [("delete", "spec", "web1")]


async def test_many_changes_do_not_wait_for_more(
    client: Client, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_AT_ONCE", 2)
    async with audit_site.writing(client, NAMESPACE, gather=timedelta(hours=1)) as site:
        await site.write()
        for number in range(2):
            await admin.create(CONFIG_SETS, config_set(f"web{number}"), NAMESPACE)
        await site.write()
        assert [one[2] for one in brief(await site.records())[-2:]] == ["web0", "web1"]


async def test_what_changes_is_recorded_with_who_did_it(site: Site, admin: Client) -> None:
    await admin.create(CONFIG_SETS, config_set("web"), NAMESPACE)
    await site.write()
    await admin.patch(CONFIG_SETS, "web", NAMESPACE, MergePatch({"spec": {"priority": 3}}))
    await site.write()
    await admin.patch(CONFIG_SETS, "web", NAMESPACE, MergePatch({"metadata": {"labels": {"a": "b"}}}))
    await site.write()
    await admin.delete(CONFIG_SETS, "web", NAMESPACE)
    await site.write()
    found = [one for one in await site.records() if one.object.name == "web"]
    assert brief(found) == [
        ("create", "spec", "web"),
        ("update", "spec", "web"),
        ("relabel", "labels", "web"),
        ("delete", "spec", "web"),
    ]
    assert [one.object.generation for one in found] == [1, 2, 2, 2]
    assert found[0].object.spec_digest != found[1].object.spec_digest
    assert [one.actor.known for one in found[:3]] == ["admission"] * 3
    assert found[1].from_ == found[0].to
    assert not any(one.late for one in found)
    assert (await site.verified()).intact


async def test_who_starts_anew_records_only_what_changed_meanwhile(
    site: Site, client: Client, admin: Client
) -> None:
    await admin.create(CONFIG_SETS, config_set("kept"), NAMESPACE)
    await admin.create(CONFIG_SETS, config_set("gone"), NAMESPACE)
    await site.write()
    before = await site.records()
    await admin.delete(CONFIG_SETS, "gone", NAMESPACE)
    await admin.create(CONFIG_SETS, config_set("new"), NAMESPACE)
    async with audit_site.writing(client, NAMESPACE) as other:
        await other.write()
        found = (await other.records())[len(before) :]
        assert brief(found) == [
            ("delete", "spec", "gone"),
            ("create", "spec", "new"),
        ]
        assert all(one.late for one in found)
        await other.write()
        assert len(await other.records()) == len(before) + 2
        assert (await other.verified()).intact


async def test_two_writers_neither_fork_nor_skip_nor_repeat(
    site: Site, client: Client, admin: Client
) -> None:
    async with audit_site.writing(client, NAMESPACE) as other:
        await other.write()
        seed = examples.seed()
        chance, rounds = random.Random(seed), examples.some(6)
        for number in range(rounds):
            writer = chance.choice((site, other))
            await admin.create(CONFIG_SETS, config_set(f"set-{number}"), NAMESPACE)
            await site.caught_up()
            await other.caught_up()
            try:
                await writer.journal.reconcile(THE_ONE)
            except Retry:  # the other one was faster: read again
                await writer.journal.reconcile(THE_ONE)
        found = await site.records()
        assert [one.sequence for one in found] == list(range(len(found)))
        names = [one.object.name for one in found if one.aspect == "spec" and one.verb == "create"]
        assert sorted(names) == sorted(f"set-{number}" for number in range(rounds)), seed
        assert (await site.verified()).intact


async def test_a_key_is_handed_over_by_the_old_one(site: Site, client: Client, admin: Client) -> None:
    before = (await site.checkpoint()).spec.keys
    ask = {"metadata": {"annotations": {keys.ROTATE: "please"}}}
    await client.patch(SECRETS, KEY_SECRET, NAMESPACE, MergePatch(ask))
    site.clock.at = site.clock.at.replace(minute=5)
    await site.write()
    secret = await client.get(SECRETS, KEY_SECRET, NAMESPACE)
    assert keys.ROTATE not in secret.metadata.annotations
    assert "next" not in secret.values
    await admin.create(CONFIG_SETS, config_set("after"), NAMESPACE)
    await site.write()
    published = (await site.checkpoint()).spec
    assert published.keys[:1] == before
    assert len(published.keys) == 2
    report = await site.verified()
    assert (report.findings, report.keys) == ([], published.keys)
    assert published.note.count("\n— ") == 1


async def test_another_key_in_the_secret_breaks_the_log(site: Site, client: Client, admin: Client) -> None:
    forged = {"data": {"seed": "A" * 43 + "="}}
    await client.patch(SECRETS, KEY_SECRET, NAMESPACE, MergePatch(forged))
    site.clock.at = site.clock.at.replace(minute=5)
    await admin.create(CONFIG_SETS, config_set("web"), NAMESPACE)
    await site.write()
    status = (await site.checkpoint()).status
    found = conditions.get(status.conditions, "Intact")
    assert found is not None
    assert (found.status, found.reason, status.workflows) == ("False", "KeyLost", "Stop")
    assert "is not the one that has signed" in found.message


async def test_a_lost_key_is_replaced_only_when_somebody_says_so(
    site: Site, client: Client, admin: Client
) -> None:
    await admin.delete(SECRETS, KEY_SECRET, NAMESPACE)
    site.clock.at = site.clock.at.replace(minute=5)
    await site.write()
    assert (await site.checkpoint()).status.workflows == "Stop"
    empty = {"metadata": {"name": KEY_SECRET, "annotations": {keys.REPLACE: "yes"}}}
    await admin.create(SECRETS, empty, NAMESPACE)
    site.clock.at = site.clock.at.replace(minute=10)
    await admin.create(CONFIG_SETS, config_set("web"), NAMESPACE)
    await site.write()
    published = await site.checkpoint()
    assert published.status.workflows == "Continue"
    assert len(published.spec.keys) == 2


async def test_a_log_that_was_bent_in_the_database_is_found_and_stops_workflows(tmp_path: Path) -> None:
    for bent in (False, True):
        async with (
            whole_server.serving(tmp_path) as (config, _),
            connected(operator_of(config, NAMESPACE)) as client,
            audit_site.writing(client, NAMESPACE) as site,
        ):
            await site.write()
            status = (await site.checkpoint()).status
        found = conditions.get(status.conditions, "Intact")
        assert found is not None
        expected = ("False", "Bent", "Stop") if bent else ("True", "Verified", "Continue")
        assert (found.status, found.reason, status.workflows) == expected
        assert not bent or "records 0 to 0" in found.message
        if not bent:
            await audit_site.bend(tmp_path / "data" / "state.db")


async def test_a_host_whose_chain_went_back_is_named_until_somebody_accepts_it(
    site: Site, client: Client, admin: Client
) -> None:
    await admin.create(MANAGED_NODES, {"metadata": {"name": "web1"}}, NAMESPACE)
    for size, reason in ((5, "Kept"), (3, "NotKept")):
        chain = {"id": "ab", "size": size, "head": f"{size}" * 64, "firstKept": 0}
        change = MergePatch({"status": {"auditChain": chain}})
        await admin.patch(MANAGED_NODES, "web1", NAMESPACE, change, subresource="status")
        await site.write()
        assert (await said(site, "HostChainsKept")).reason == reason
    condition = await said(site, "HostChainsKept")
    assert "web1: Shortened: records 3 to 4 were told of, and are gone" in condition.message
    assert (await site.checkpoint()).status.workflows == "Continue", "one host stops nobody else"
    key, _, token = condition.message.rpartition(" ")[2].partition("=")
    async with audit_site.writing(client, NAMESPACE) as other:  # it is told by the log
        await other.write()
        assert (await said(other, "HostChainsKept")).reason == "NotKept"
        note = MergePatch({"metadata": {"annotations": {key: token}}})
        await admin.patch(MANAGED_NODES, "web1", NAMESPACE, note)
        await other.write()
        assert (await said(other, "HostChainsKept")).reason == "Kept"
        last = (await other.records())[-1]
        assert (last.verb, last.actor.name, last.actor.known) == ("accept", "admin", "admission")
        assert (await other.verified()).intact


async def said(site: Site, kind: str) -> conditions.Condition:
    found = conditions.get((await site.checkpoint()).status.conditions, kind)
    assert found is not None
    return found


async def test_a_host_fills_no_log_and_what_it_shows_in_the_end_is_there(
    site: Site, admin: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(host_budget, "MAX_AN_HOUR", 3)
    await admin.create(MANAGED_NODES, {"metadata": {"name": "web1"}}, NAMESPACE)
    await site.write()

    async def claim(number: int) -> None:
        said = {"type": node_conditions.CREDENTIAL_RENEWED, "status": "True", "reason": "Renewed"}
        said |= {"message": f"until {number}", "lastTransitionTime": "2026-11-17T08:00:00Z"}
        change = MergePatch({"status": {"conditions": [said]}})
        await admin.patch(MANAGED_NODES, "web1", NAMESPACE, change, subresource="status")
        await site.write()

    async def told() -> list[str]:
        return [one.to for one in await site.records() if one.aspect == "token"]

    for number in range(7):
        await claim(number)
    assert await told() == ["until 0", "until 1", "until 2"]
    assert caplog.text.count("host web1 causes more audit records than it may") == 1
    await admin.patch(MANAGED_NODES, "web1", NAMESPACE, MergePatch({"spec": {"domain": "example.org"}}))
    await site.write()
    assert (await site.records())[-1].verb == "update", "what people want is recorded all the same"
    site.clock.at += timedelta(minutes=61)
    await site.write()
    assert await told() == ["until 0", "until 1", "until 2", "until 6"]
    await claim(8)
    assert (await told())[-1] == "until 8"
    assert (await site.verified()).intact


async def test_anchors_that_were_due_are_written_although_nothing_changes(site: Site, admin: Client) -> None:
    await admin.create(MANAGED_NODES, {"metadata": {"name": "web1"}}, NAMESPACE)
    for size in (1, 2):
        chain = {"id": "ab", "size": size, "head": f"{size}" * 64}
        change = MergePatch({"status": {"auditChain": chain}})
        await admin.patch(MANAGED_NODES, "web1", NAMESPACE, change, subresource="status")
        await site.write()
    assert [one.to[0] for one in await site.records() if one.verb == "anchor"] == ["1"]
    site.clock.at += timedelta(hours=2)  # the log is read again, too
    await site.write()
    assert [one.to[0] for one in await site.records() if one.verb == "anchor"] == ["1", "2"]


async def test_whether_users_are_stamped_is_a_condition(site: Site, admin: Client) -> None:
    assert (await said(site, "UsersStamped")).status == "True"
    for resource, reason in ((MUTATING_BINDINGS, "NotBound"), (MUTATING_POLICIES, "NotInstalled")):
        await admin.delete(resource, STAMPING)
        site.clock.at += timedelta(minutes=2)
        await site.write()
        found = await said(site, "UsersStamped")
        assert (found.status, found.reason) == ("False", reason)
        assert "nodemanager crds --install" in found.message
    assert (await site.checkpoint()).status.workflows == "Continue"

"""Who asked for something, on both servers: written down by the server, and by nobody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.audit import actors
from nodemanager.api.audit.actors import CLAIMED_AUTHOR, REQUESTED_BY, who
from nodemanager.api.common.audit_chain import CHAIN_ACCEPTED
from nodemanager.api.common.managednode import ANNOTATION_REBOOT, LABEL_OS, MANAGED_NODES
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT, NODE_MAINTENANCES
from nodemanager.client.patches import ApplyPatch, MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors
from nodemanager.kube.objects import Untyped
from support import stamps
from support.accounts import operating
from support.either import Place
from support.joined_host import guard, succeeds
from support.stamps import FORGED, FORGERIES, SETS, being

NODES = MANAGED_NODES.untyped()
GITOPS = "system:serviceaccount:argocd:argocd-application-controller"
OPERATOR = "system:serviceaccount:{}:nodemanager-operator"


@pytest.fixture(name="alice")
async def _alice(place: Place, tmp_path: Path) -> AsyncIterator[Client]:
    """Somebody who declares things, where the policies are in force."""
    await guard(place, tmp_path)
    async with being(place, "alice", ["ops"]) as client:
        yield client


async def made(client: Client, place: Place, name: str = "web", **meta: Any) -> Untyped:
    """Create a ConfigSet for all hosts."""
    body = {"metadata": {"name": name, "namespace": place.namespace, **meta}, "spec": {"nodeSelector": {}}}
    return await client.create(SETS, body, place.namespace)


async def owner(client: Client, place: Place) -> dict[str, str]:
    """Create a maintenance, and return how what it owns refers to it: the operator may write such a set."""
    steps = [{"name": "boot", "reboot": {"when": "always"}}]
    spec = {
        "windowRef": {"name": "w"}, "seriesRef": {"name": "s"},
        "operations": [{"name": "o", "type": "one-shot", "steps": steps}],
    }  # fmt: skip
    body = {"metadata": {"name": "m", "namespace": place.namespace}, "spec": spec}
    found = await client.create(NODE_MAINTENANCES.untyped(), body, place.namespace)
    kind = {"apiVersion": NODE_MAINTENANCES.api_version, "kind": NODE_MAINTENANCES.kind}
    return {**kind, "name": "m", "uid": found["metadata"]["uid"]}


async def test_whoever_creates_is_written_down(place: Place, alice: Client) -> None:
    for name, meta in (
        ("web", {}),
        ("forged", {"annotations": stamps.NOTED}),
        ("empty", {"annotations": {}}),
    ):
        found = who(await made(alice, place, name, **meta))
        assert (found.name, found.known) == ("alice", actors.ADMISSION)
        assert "ops" in found.groups
        assert found.of_groups == len(found.groups)


@pytest.mark.parametrize("user", ["bob", GITOPS, OPERATOR])
@pytest.mark.parametrize("how", FORGERIES)
async def test_no_way_of_writing_forges_the_user(place: Place, alice: Client, how: str, user: str) -> None:
    name, forge = user.format(place.namespace), FORGERIES[how]
    first = await made(alice, place, ownerReferences=[await owner(alice, place)])
    stamp = first["metadata"]["annotations"][REQUESTED_BY]
    async with being(place, name) as client:
        await forge(client, await client.get(SETS, "web", place.namespace), 7)
        changed = await client.get(SETS, "web", place.namespace)
        assert (who(changed).name, changed["metadata"]["generation"]) == (name, 2)
        await forge(alice, changed, 7)  # nothing is asked for: the stamp stays as it was
        same = await client.get(SETS, "web", place.namespace)
        assert same["metadata"]["annotations"] == changed["metadata"]["annotations"]
    assert stamp != changed["metadata"]["annotations"][REQUESTED_BY] != FORGED


async def test_a_status_hides_nobody(place: Place, alice: Client) -> None:
    first = await made(alice, place)
    async with being(place, "bob") as bob:
        await stamps.status(bob, first, 7)
    found = await alice.get(SETS, "web", place.namespace)
    assert found["metadata"]["annotations"] == first["metadata"]["annotations"]
    assert found["spec"] == first["spec"]


async def test_the_same_again_changes_nothing_whoever_applies_it(place: Place, alice: Client) -> None:
    body = {
        "apiVersion": SETS.api_version, "kind": SETS.kind, "metadata": {"name": "web"},
        "spec": {"nodeSelector": {}, "priority": 3},
    }  # fmt: skip
    first = await alice.patch(SETS, "web", place.namespace, ApplyPatch(body, force=True))
    again = await alice.patch(SETS, "web", place.namespace, ApplyPatch(body, force=True))
    assert again == first
    assert REQUESTED_BY not in json.dumps(first["metadata"]["managedFields"])
    async with being(place, "bob") as bob:
        same = await bob.patch(SETS, "web", place.namespace, ApplyPatch(body, force=True))
        assert same["metadata"]["annotations"] == first["metadata"]["annotations"]
        whole = {**first, "metadata": {"name": "web", "resourceVersion": same["metadata"]["resourceVersion"]}}
        kept = await stamps.send(bob, "PUT", first, whole, "application/json")
    assert who(kept).name == "alice"


async def test_labels_and_orders_count_and_other_notes_do_not(place: Place, alice: Client) -> None:
    await made(alice, place)
    for meta, name in (
        ({"annotations": {"example.org/note": "x"}}, "alice"),
        ({"finalizers": ["example.org/keep"]}, "alice"),
        ({"labels": {"role": "web"}}, "bob"),
        ({"finalizers": []}, "bob"),
    ):
        async with being(place, "bob") as bob:
            found = await bob.patch(SETS, "web", place.namespace, MergePatch({"metadata": meta}))
        assert who(found).name == name, meta
    order = {"annotations": {actors.CHANGE: "https://git.example.org/c/1"}}
    found = await alice.patch(SETS, "web", place.namespace, MergePatch({"metadata": order}))
    assert (who(found).name, who(found).change) == ("alice", "https://git.example.org/c/1")


async def test_a_claimed_author_is_a_claim_within_bounds(place: Place, alice: Client) -> None:
    await made(alice, place)
    async with being(place, GITOPS) as bot:
        claim = {"metadata": {"annotations": {CLAIMED_AUTHOR: "Eve <eve@example.org>"}}}
        claimed = await bot.patch(SETS, "web", place.namespace, MergePatch(claim))
        found = who(claimed)
        assert (found.name, found.claimed) == (GITOPS, "Eve <eve@example.org>")
        for text in ("x" * 257, "two\nlines"):
            bad = {"metadata": {"annotations": {CLAIMED_AUTHOR: text}}}
            with pytest.raises(errors.Forbidden, match="256 characters"):
                await bot.patch(SETS, "web", place.namespace, MergePatch(bad))


async def test_names_and_groups_of_any_kind_are_written_down_within_bounds(
    place: Place, alice: Client
) -> None:
    del alice
    groups = [f"{index}{'g' * 200}" for index in range(100)]
    async with being(place, 'o"hara\\n","user":"boss', groups) as client:
        found = await made(client, place)
    assert len(found["metadata"]["annotations"][REQUESTED_BY]) < 8192
    told = who(found)
    assert (told.name, len(told.groups)) == ('o"hara\\n","user":"boss', actors.MAX_GROUPS)
    assert told.of_groups > 100
    assert told.groups[0] == groups[0][: actors.MAX_GROUP] + actors.CUT
    async with being(place, "u" * 300) as client:
        assert who(await made(client, place, "long")).name == "u" * actors.MAX_USER + actors.CUT


async def test_hosts_and_the_operator_hide_nobody_by_what_they_note(
    place: Place, alice: Client, me: Client
) -> None:
    body = {"metadata": {"name": "b", "namespace": place.namespace}}
    created = await me.create(NODES, body, place.namespace)
    assert who(created).name == f"system:serviceaccount:{place.namespace}:nodemanager-b"
    held = {"spec": {"enforcement": {"mode": "Hold"}}}
    asked = await alice.patch(NODES, "b", place.namespace, MergePatch(held))
    assert who(asked).name == "alice"
    labelled = {"metadata": {"labels": {LABEL_OS: "debian"}, "annotations": stamps.NOTED}}
    same = await me.patch(NODES, "b", place.namespace, MergePatch(labelled))
    assert who(same).name == "alice"
    async with operating(place) as operator:
        visit = {"metadata": {"annotations": {ANNOTATION_VISIT: "x", **stamps.NOTED}}}
        same = await operator.patch(NODES, "b", place.namespace, MergePatch(visit))
        assert who(same).name == "alice"
    order = {"metadata": {"annotations": {ANNOTATION_REBOOT: "true"}}}
    given = await me.patch(NODES, "b", place.namespace, MergePatch(order))
    assert who(given).name == who(created).name  # nobody else asked for that
    for key in (CLAIMED_AUTHOR, actors.CHANGE, CHAIN_ACCEPTED):
        claim = {"metadata": {"annotations": {key: "boss"}}}
        with pytest.raises(errors.Forbidden, match="a host may not say who asked for something"):
            await me.patch(NODES, "b", place.namespace, MergePatch(claim))


async def test_without_the_policy_a_stamp_is_the_users_own_or_as_it_was(place: Place, alice: Client) -> None:
    first = await made(alice, place)
    await alice.delete(core.MUTATING_BINDINGS, "nodemanager-stamping")
    try:
        async with being(place, "bob") as bob:
            await _unstamped(bob, place)
            with pytest.raises(errors.Forbidden, match="bob may not say who asked for this"):
                await made(bob, place, "forged", annotations=stamps.NOTED)
            for forge in FORGERIES.values():
                with pytest.raises(errors.Forbidden, match="bob may not say who asked for this"):
                    await forge(bob, first, 7)
            found = await bob.patch(SETS, "web", place.namespace, MergePatch({"spec": {"priority": 7}}))
            assert found["metadata"]["annotations"] == first["metadata"]["annotations"]
            assert who(found).known == actors.FIELD_MANAGER  # the stamp is of another generation
            bare = {"metadata": {"annotations": {REQUESTED_BY: None}}}
            assert (
                "annotations"
                not in (await bob.patch(SETS, "web", place.namespace, MergePatch(bare)))["metadata"]
            )
    finally:
        await asyncio.to_thread(succeeds, "crds", "--install", "--kubeconfig", str(place.kubeconfig))
    assert who(await made(alice, place, "after")).name == "alice"


async def _unstamped(client: Client, place: Place) -> None:
    """Wait until the server stamps nobody any more, which a kube-apiserver takes a moment for."""
    for number in range(1000):
        found = await made(client, place, f"probe{number}")
        if REQUESTED_BY not in (found["metadata"].get("annotations") or {}):
            return
    raise AssertionError("users are still stamped")

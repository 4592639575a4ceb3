"""Nobody asks for or approves a plan in the name of somebody else; on both servers."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.client.verbs import Client
from support.agent_process import Api
from support.editors import editor
from support.either import Place
from support.joined_host import Reply, ask

CREATED = 200
TOUCH = {"name": "note", "type": "one-shot", "steps": [{"name": "x", "execution": {"argv": ["true"]}}]}


def approval(approver: str) -> dict[str, Any]:
    return {
        "apiVersion": "maintenance.nodemanager/v1alpha1",
        "kind": "MaintenanceApproval",
        "metadata": {"name": "yes"},
        "spec": {"maintenance": "monday", "planHash": "ab" * 32, "approver": approver},
    }


async def test_the_approver_is_who_creates_the_approval(place: Place, api: Api, me: Client) -> None:
    del me  # where it is, the policies are in force
    folder = MAINTENANCE_APPROVALS.path(place.namespace)
    said = Reply(CREATED)
    async with asyncio.timeout(90):  # a kube-apiserver takes a moment for a new policy
        while said.code == CREATED:
            said = await ask(api.client, "POST", f"{folder}?dryRun=All", approval("jane"))
    found = re.search(r"spec.approver must be (\S+), who creates the approval: nobody approves", said.message)
    assert (said.code, found is not None) == (403, True), said
    assert found is not None
    assert (await ask(api.client, "POST", folder, approval(found[1]))).code == CREATED
    stored = await api.client.get(MAINTENANCE_APPROVALS.untyped(), "yes", place.namespace)
    for odd in ({}, {"spec": {**stored["spec"], "approver": "jane"}}):  # none, so that another may come after
        body = {**{key: value for key, value in stored.items() if key != "spec"}, **odd}
        assert (await ask(api.client, "PUT", f"{folder}/yes", body)).code in (403, 422), odd
    changed = await ask(api.client, "PATCH", f"{folder}/yes", {"spec": {"approver": "jane"}})
    assert (changed.code, "cannot be changed" in changed.message) == (422, True), changed


def maintenance(requester: str, **more: Any) -> dict[str, Any]:
    asked = {"required": True, "differentUser": True, **({"requester": requester} if requester else {})}
    return {
        "apiVersion": "maintenance.nodemanager/v1alpha1",
        "kind": "NodeMaintenance",
        "metadata": {"name": "monday"},
        "spec": {"window": {"always": True}, "operations": [TOUCH], "approval": asked, **more},
    }


async def test_the_requester_is_who_wrote_the_maintenance_last(place: Place, api: Api, me: Client) -> None:
    del me  # where it is, the policies are in force
    folder = NODE_MAINTENANCES.path(place.namespace)
    said = Reply(CREATED)
    async with asyncio.timeout(90):
        while said.code == CREATED:
            said = await ask(api.client, "POST", f"{folder}?dryRun=All", maintenance(""))
    found = re.search(r"spec.approval.requester must be (\S+), who writes the maintenance", said.message)
    assert (said.code, found is not None) == (403, True), said
    assert found is not None
    assert (await ask(api.client, "POST", folder, maintenance("jane"))).code == 403
    assert (await ask(api.client, "POST", folder, maintenance(found[1]))).code == CREATED
    async with editor(place, "jane") as jane:
        path = f"{folder}/monday"
        name = f"system:serviceaccount:{place.namespace}:jane"
        for change in ({"stopAfter": 3}, {"operations": [{**TOUCH, "suspend": True}]}, {"soak": "1m"}):
            refused = await ask(jane, "PATCH", path, {"spec": change})
            assert (refused.code, f"requester must be {name}" in refused.message) == (403, True), refused
        for allowed in ({"spec": {"paused": True}}, {"metadata": {"labels": {"a": "b"}}}):
            assert (await ask(jane, "PATCH", path, allowed)).code == CREATED, allowed
        own = {"spec": {"stopAfter": 3, "approval": {"requester": name}}}
        assert (await ask(jane, "PATCH", path, own)).code == CREATED
        assert (await ask(jane, "PATCH", path, {"spec": {"approval": {"requester": found[1]}}})).code == 403
        without = {"spec": {"approval": {"differentUser": False}}}
        assert (await ask(jane, "PATCH", path, without)).code == CREATED


def config_set(requester: str, **more: Any) -> dict[str, Any]:
    asked = {"required": True, "differentUser": True, **({"requester": requester} if requester else {})}
    return {
        "apiVersion": "common.nodemanager/v1",
        "kind": "ConfigSet",
        "metadata": {"name": "web", "labels": {"role": "web"}},
        "spec": {"rollout": {"strategy": "Staged", "approval": asked}, **more},
    }


async def test_the_requester_is_who_wrote_the_config_set_last(place: Place, api: Api, me: Client) -> None:
    del me  # where it is, the policies are in force
    folder = CONFIG_SETS.path(place.namespace)
    said = Reply(CREATED)
    async with asyncio.timeout(90):
        while said.code == CREATED:
            said = await ask(api.client, "POST", f"{folder}?dryRun=All", config_set(""))
    found = re.search(
        r"spec.rollout.approval.requester must be (\S+), who writes the ConfigSet", said.message
    )
    assert (said.code, found is not None) == (403, True), said
    assert found is not None
    assert (await ask(api.client, "POST", folder, config_set("jane"))).code == 403
    assert (await ask(api.client, "POST", folder, config_set(found[1]))).code == CREATED
    async with editor(place, "jane") as jane:
        path, name = f"{folder}/web", f"system:serviceaccount:{place.namespace}:jane"
        file = {"spec": {"files": [{"path": "/motd", "content": "x"}]}}
        labels = {"metadata": {"labels": {"role": "db"}}}
        for change in (file, labels, {"spec": {"rollout": {"soak": "1m"}}}):
            refused = await ask(jane, "PATCH", path, change)
            assert (refused.code, f"requester must be {name}" in refused.message) == (403, True), refused
        for allowed in ({"spec": {"rollout": {"paused": True}}}, {"metadata": {"annotations": {"a": "b"}}}):
            assert (await ask(jane, "PATCH", path, allowed)).code == CREATED, allowed
        own = {"spec": {**file["spec"], "rollout": {"approval": {"requester": name}}}}
        assert (await ask(jane, "PATCH", path, own)).code == CREATED
        without = {"spec": {"rollout": {"approval": {"differentUser": False}}}}
        assert (await ask(jane, "PATCH", path, without)).code == CREATED


async def test_an_approval_is_of_a_maintenance_or_of_a_config_set(place: Place, api: Api) -> None:
    """Whatever the policies say: here they are not in force."""
    folder = MAINTENANCE_APPROVALS.path(place.namespace)
    for spec in ({}, {"maintenance": "monday", "configSet": "web"}):
        body = approval("jane")
        body["spec"] = {"planHash": "ab" * 32, "approver": "jane", **spec}
        said = await ask(api.client, "POST", f"{folder}?dryRun=All", body)
        assert (said.code, "must have either maintenance or configSet" in said.message) == (422, True), said

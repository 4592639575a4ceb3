"""Nobody approves a plan in the name of somebody else; on both servers."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.client.verbs import Client
from support.agent_process import Api
from support.either import Place
from support.joined_host import Reply, ask

CREATED = 200


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
    async with asyncio.timeout(30):  # a kube-apiserver takes a moment for a new policy
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

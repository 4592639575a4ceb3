"""Maintenances, hosts and tasks with made-up states, as if an operator and agents had written them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT, NODE_MAINTENANCES, NodeMaintenance
from nodemanager.api.maintenance.nodeoperationtemplate import NODE_OPERATION_TEMPLATES
from nodemanager.api.maintenance.nodetask import MAINTENANCE, NODE, NODE_TASKS, RUN
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.patches import MergePatch
from nodemanager.client.subresources import request_token
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.kube import core, errors, times
from nodemanager.kube.objects import Resource
from support import cli, whole_server
from support.agent_process import Api
from support.clients import Tokens, connected

TOUCH = [{"name": "touch", "execution": {"argv": ["touch", "/x"]}}]
ONCE = {"name": "note", "type": "one-shot", "steps": TOUCH}
OPERATOR = "nodemanager-operator"
HASH = "4f1c09d2ab77" + "0" * 52


def ago(**spent: float) -> str:
    """Return a moment in the past, or in the future, as the API has it."""
    return times.rfc3339(datetime.now(UTC) - timedelta(**spent))


@dataclass
class Told:
    """A namespace in which nobody is at work but the test."""

    api: Api
    tasks: list[str] = field(default_factory=list)

    async def run(self, *args: str) -> cli.Ran:
        """Run a command as the administrator."""
        where = ("--kubeconfig", str(self.api.kubeconfig), "-n", self.api.namespace)
        return await asyncio.to_thread(cli.run, *args, *where)

    async def host(self, name: str, alive: str = "True", **labels: str) -> str:
        """Have a host that is heard of; returns its uid."""
        body = {"metadata": {"name": name, "labels": labels}, "spec": {}}
        made = await self.api.client.create(MANAGED_NODES, body, self.api.namespace)
        condition = {
            "type": "Alive", "status": alive, "reason": "Heard", "message": "as the test says",
            "lastTransitionTime": ago(minutes=5),
        }  # fmt: skip
        await self.status(MANAGED_NODES, name, {"conditions": [condition], "heartbeat": {"leaseName": name}})
        return made.metadata.uid

    async def status(self, resource: Any, name: str, status: dict[str, Any]) -> None:
        """Write a status, as whoever owns it."""
        await self.api.client.patch(
            resource, name, self.api.namespace, MergePatch({"status": status}), subresource="status"
        )

    async def maintenance(
        self, name: str = "monday", status: dict[str, Any] | None = None, **spec: Any
    ) -> NodeMaintenance:
        """Create a maintenance, by default one that is due on all hosts now."""
        whole = {"window": {"always": True}, "operations": [ONCE], **spec}
        body = {"metadata": {"name": name}, "spec": whole}
        made = await self.api.client.create(NODE_MAINTENANCES, body, self.api.namespace)
        if status is not None:
            await self.status(NODE_MAINTENANCES, name, {"observedGeneration": 1, **status})
        return made

    async def get(self, name: str = "monday") -> NodeMaintenance:
        return await self.api.client.get(NODE_MAINTENANCES, name, self.api.namespace)

    async def template(self, name: str, **spec: Any) -> None:
        whole = {"steps": TOUCH, **spec}
        body = {"metadata": {"name": name}, "spec": whole}
        await self.api.client.create(NODE_OPERATION_TEMPLATES, body, self.api.namespace)

    async def claim(self, host: str, owner: NodeMaintenance, run: str, state: State, **more: Any) -> None:
        """Have a visit be at a host."""
        node = await self.api.node(host)
        now = datetime.now(UTC)
        made = Claim(
            owner.metadata.name, owner.metadata.uid, node.metadata.uid, run, 0, state,
            since=now, begun=now, expires=now + timedelta(hours=2), task=f"{host}-task", **more,
        )  # fmt: skip
        await self.api.patch_node(
            {"metadata": {"annotations": {ANNOTATION_VISIT: claims.encode(made)}}}, host
        )

    @contextlib.asynccontextmanager
    async def _as_operator(self) -> AsyncIterator[Client]:
        """Be the account that alone may create tasks."""
        kinds: dict[str, Resource[Any]] = {
            "ServiceAccount": core.SERVICE_ACCOUNTS, "Role": core.ROLES, "RoleBinding": core.ROLE_BINDINGS
        }  # fmt: skip
        for one in assembly.manifests(self.api.namespace):
            if one["kind"] in kinds:
                with contextlib.suppress(errors.AlreadyExists):
                    await self.api.client.create(kinds[one["kind"]].untyped(), one, self.api.namespace)
        issued = await request_token(self.api.client, OPERATOR, self.api.namespace, seconds=3600)
        config = whole_server.load(self.api.kubeconfig)
        own = ClientConfig(config.server, ca=config.ca, credentials=Tokens(issued.token))
        async with connected(own) as client:
            yield client

    async def task(self, host: str, owner: NodeMaintenance, run: str, **status: Any) -> str:
        """Have a task of a run, and what its agent says of it."""
        name = f"{host}-{len(self.tasks)}"
        labels = {NODE: host, MAINTENANCE: owner.metadata.name, RUN: run}
        about = {"kind": "NodeMaintenance", "name": owner.metadata.name, "uid": owner.metadata.uid}
        spec = {
            "nodeName": host, "steps": TOUCH, "deadline": ago(hours=-1), "fencingToken": 1, "reason": about
        }  # fmt: skip
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        async with self._as_operator() as operator:
            await operator.create(NODE_TASKS, body, self.api.namespace)
        self.tasks.append(name)
        if status:
            await self.status(NODE_TASKS, name, status)
        return name


def counts(total: int, **found: int) -> dict[str, Any]:
    """Return `status.hosts`."""
    done = found.get("succeeded", 0)
    whole = {"waiting": 0, "running": 0, "succeeded": 0, "failed": 0, "skipped": 0, **found}
    return {"total": total, "text": f"{done}/{total}", **whole}

"""An agent that is wired together, remembers what is wanted, and has no API."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from nodemanager.agent import service
from nodemanager.agent.assembly import HostSetup
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.options import AgentOptions
from nodemanager.agent.parts import Agent
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.client.auth.config import ClientConfig
from nodemanager.kube.objects import ObjectMeta
from nodemanager.runtime.metrics import Registry
from support.clients import connected
from support.root_tree import config_set


@contextlib.asynccontextmanager
async def lone_agent(root: Path, metrics: str = ":8080", probes: str = ":8081") -> AsyncIterator[Agent]:
    """Build an agent of a folder, which would serve at these addresses; nothing of it runs."""
    async with connected(ClientConfig("http://127.0.0.1:1")) as client:
        host = HostSetup(str(root), "web1")
        options = AgentOptions("nodemanager", host, metrics, probes, realtime=False)
        agent = service.build(client, options, Registry())
        own = ManagedNode(metadata=ObjectMeta(name="web1", namespace="nodemanager"))
        agent.sources.memory.keep([config_set("s")], DeclaredInputs(), own, peers=False)
        agent.reachability.failed("nobody is there")
        yield agent
        agent.close()

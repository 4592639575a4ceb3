"""Where declarations come from, and that a host which was let go forgets their Secrets."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.desired_state import DesiredState, DesiredStateCache
from nodemanager.agent.declared.memory import InputsMemory
from nodemanager.agent.declared.references import ReferenceWatch
from nodemanager.agent.declared.sources import DeclaredSources
from nodemanager.agent.link import api_reachability
from nodemanager.agent.link.api_reachability import ApiReachability, SecretLimits, UnixClocks
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.auth.config import ClientConfig
from nodemanager.host.state.vault import Vault
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.plan.desired import Content, Failure
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.tasks import end
from support import scripted_server
from support.clients import connected
from support.rendering import Inline
from support.root_tree import config_set
from support.scripted_server import Exchange

GRACE = 100.0
NODE = ManagedNode(metadata=ObjectMeta(name="web1", namespace="default"))
SETS = [
    config_set("s", files=[
        {"path": "/x", "template": "<{{ index .Node.Secrets `password` }}>", "secretRefs": ["db"]},
        {"path": "/y", "template": "{{ .Node.Name }}"},
    ])
]  # fmt: skip


def canary() -> str:
    """Return a password that is in no constant of this module."""
    return "".join(map(chr, range(ord("a"), ord("z") + 1)))[::-1] * 2


def known() -> int:
    """Return how many objects that Python knows of have the password in them."""
    gc.collect()
    return sum(
        _has_it(one) or (isinstance(one, dict) and not gc.is_tracked(one) and any(map(_has_it, one.values())))
        for each in gc.get_objects()
        for one in gc.get_referents(each)
    )


def _has_it(one: object) -> bool:
    if isinstance(one, str):
        one = one.encode(errors="replace")
    plain = canary().encode()
    return isinstance(one, bytes | bytearray) and (plain in one or base64.b64encode(plain) in one)


async def tell_the_secret(exchange: Exchange) -> None:
    """Stream one Secret to whoever asks, and keep nothing of it."""
    await exchange.stream()
    await exchange.event("ADDED", _secret())
    end_of_list = {"k8s.io/initial-events-end": "true"}
    await exchange.event("BOOKMARK", {"metadata": {"resourceVersion": "2", "annotations": end_of_list}})
    await exchange.hang()


def _secret() -> dict[str, Any]:
    meta = {"name": "db", "namespace": "default", "uid": "1", "resourceVersion": "1"}
    return {"metadata": meta, "data": {"password": base64.b64encode(canary().encode()).decode()}}


class Host:
    """What a host hears, and what it makes of it."""

    def __init__(self, sources: DeclaredSources, time: list[float]) -> None:
        self.sources, self.time = sources, time
        self.desired_states = DesiredStateCache(Contenter(Inline()))

    async def passes(self) -> DesiredState:
        """Do as a pass does."""
        await self.sources.follow(await self.desired_states.references(SETS, NODE))
        inputs = self.sources.inputs()
        desired_state = await self.desired_states.make(SETS, inputs, NODE)
        kept, own = self.desired_states.basis(inputs, NODE)
        self.sources.memory.keep(SETS, kept, own, peers=False)
        if inputs.withheld:
            self.sources.memory.forget_secrets()
        return desired_state


@pytest.fixture(name="host")
async def _host(tmp_path: Path) -> AsyncIterator[Host]:
    async with (
        scripted_server.serve(tell_the_secret) as server,
        connected(ClientConfig(server.url)) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        time = [1.8e9]
        clocks = UnixClocks(lambda: time[0], lambda: time[0])
        here = ApiReachability(Vault("/", str(tmp_path)), SecretLimits(grace=GRACE), clocks)
        stack.callback(here.close)
        memory = InputsMemory(
            Vault("/", str(tmp_path)), Vault("/", str(tmp_path)), ObjectKey("default", "web1")
        )
        stack.callback(memory.close)
        references = ReferenceWatch(client, "default", lambda: None)
        config_sets, nodes = Cache(client, CONFIG_SETS), Cache(client, MANAGED_NODES)
        config_sets._complete()  # what is declared is given
        nodes._complete()
        running = asyncio.create_task(references.run())
        yield Host(DeclaredSources(config_sets, nodes, references, memory, here), time)
        await end([running])


async def test_a_host_that_was_let_go_forgets_secrets_also_in_memory(host: Host) -> None:
    desired_state = await host.passes()
    assert isinstance(desired_state.contents["/x"], Content)
    del desired_state
    assert known() >= 3  # as the API told it, what was made of it, what is remembered
    here = host.sources.reachability
    here.was_refused("401")
    host.time[0] += api_reachability.SURE_SECONDS
    here.was_refused("401")
    assert isinstance((await host.passes()).contents["/x"], Content)  # for a while
    host.time[0] += GRACE
    desired_state = await host.passes()
    assert isinstance(desired_state.contents["/x"], Failure)
    assert "is not used: the API has refused this host" in desired_state.contents["/x"].message
    assert isinstance(desired_state.contents["/y"], Content)
    await asyncio.sleep(0)  # what was watched ends
    assert known() == 0
    here.reached()
    assert isinstance((await host.passes()).contents["/x"], Content)  # let in again, it is asked for anew

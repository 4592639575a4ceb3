"""What Argo CD and Flux see of ConfigSets under the operator: no generated field in `spec`, no difference.

Through a rollout, an undo, a pause, a restart, and with the finalizer of pruning.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from nodemanager.api import crds
from nodemanager.api.common.configset import CONFIG_SETS, FINALIZER
from nodemanager.api.common.configsetrevision import RESTART
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.rollout import PAUSED, STABLE, UNDONE
from nodemanager.api.common.rolloutpolicy import ROLLOUT_POLICIES
from nodemanager.client.patches import MergePatch
from nodemanager.controllers import assembly
from nodemanager.controllers.rollouts import reconciling, waking
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.kube.schemas.defaulting import apply_defaults
from nodemanager.kube.schemas.structural import compile_schema
from support.either import Place
from support.gitops import Argo, Flux, GitOpsTool, ServerSide
from support.rollout_site import LABELS, PATIENCE, RolloutSite, rollout_site_at

HOSTS = ("a", "b", "c")
TOOLS = [
    pytest.param(Argo, id="argo"),
    pytest.param(ServerSide, id="argo-server-side"),
    pytest.param(Flux, id="flux"),
]


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(reconciling, "AGAIN_SECONDS", 0.01)


@pytest.fixture(name="site")
async def _site(place: Place) -> AsyncIterator[RolloutSite]:
    async with rollout_site_at(place) as site:
        yield site


def manifest(kind: Resource[Any], name: str, spec: Untyped, **metadata: Any) -> Untyped:
    about = {"name": name, **metadata}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": about, "spec": spec}


def web(content: str, **rollout: Any) -> Untyped:
    """A set with every field that the operator has something to do with."""
    spec = {
        "nodeSelector": {"matchLabels": LABELS},
        "prune": True,
        "prunePackages": True,
        "pruneTimeout": "1s",
        "revisionHistoryLimit": 3,
        "rollout": {
            "strategy": "Staged", "stages": ["1", "50%"], "soak": "0", "maxUnavailable": "50%",
            "canary": {"selector": {"matchLabels": {"canary": "true"}}}, "onSilence": "ignore", **rollout,
        },
        "files": [
            {"path": "/motd", "content": content},
            {"path": "/conf", "template": "{{ .Data.color }}\n", "mode": "0640"},
        ],
        "packages": [{"name": "jq"}],
        "services": [{"name": "app", "ensure": "running", "enable": True, "subscribe_files": ["/conf"]}],
        "executions": [{"command": "true", "creates": "/made"}],
    }  # fmt: skip
    return manifest(CONFIG_SETS, "web", spec, annotations={"common.nodemanager/change": "https://x.test/1"})


def defaulted(kind: Resource[Any], spec: Untyped) -> Untyped:
    """Return a spec with what its schema fills in, which is the same for everybody and for ever."""
    definition = next(one for one in crds.all_crds() if one["spec"]["names"]["kind"] == kind.kind)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found = copy.deepcopy(spec)
    apply_defaults(found, compile_schema(schema["properties"]["spec"]))
    return found


class Kept:
    """Objects that a tool keeps, under an operator."""

    def __init__(self, site: RolloutSite, tool: GitOpsTool) -> None:
        self.site, self.tool = site, tool
        self.objects: dict[str, tuple[Resource[Any], Untyped, Untyped]] = {}

    async def sync(self, kind: Resource[Any], wanted: Untyped) -> None:
        """Have an object applied, and remember how it is then."""
        await self.tool.sync(kind, wanted)
        self.objects[wanted["metadata"]["name"]] = kind, wanted, await self.tool.live(kind, wanted)

    async def check(self) -> None:
        """Nothing differs, nobody else has changed anything, and to apply it again changes nothing."""
        for kind, wanted, then in self.objects.values():
            assert await self.tool.drift(kind, wanted) == {}
            live = await self.tool.live(kind, wanted)
            assert live["spec"] == defaulted(kind, wanted["spec"])  # no generated field
            for field in ("labels", "annotations", "generation"):
                assert live["metadata"].get(field) == then["metadata"].get(field)
            before = live["metadata"]
            await self.tool.sync(kind, wanted)
            after = (await self.tool.live(kind, wanted))["metadata"]
            assert after["generation"] == before["generation"]
            assert after.get("finalizers") == before.get("finalizers")

    async def finalizers(self) -> list[str]:
        found: list[str] = (await self.site.config_set("web")).metadata.finalizers
        return found


async def prepared(site: RolloutSite, tool: type[GitOpsTool]) -> Kept:
    """Have hosts with data, a default of the namespace, and a set that follows it, kept by a tool."""
    kept = Kept(site, tool(site.client, site.namespace))
    for host in HOSTS:
        labels = {**LABELS, **({"canary": "true"} if host == "a" else {})}
        await kept.sync(
            MANAGED_NODES, manifest(MANAGED_NODES, host, {"data": {"color": "blue"}}, labels=labels)
        )
        site.seen[host] = []
    policy = {"strategy": "Staged", "stages": ["1"], "soak": "0"}
    await kept.sync(ROLLOUT_POLICIES, manifest(ROLLOUT_POLICIES, "default", policy))
    follower = {
        "nodeSelector": {"matchLabels": {"role": "nobody"}},
        "files": [{"path": "/x", "content": "x"}],
    }
    await kept.sync(CONFIG_SETS, manifest(CONFIG_SETS, "follower", follower))
    await kept.sync(CONFIG_SETS, web("one"))
    return kept


@pytest.mark.parametrize("tool", TOOLS)
async def test_nothing_differs_whatever_the_operator_does(site: RolloutSite, tool: type[GitOpsTool]) -> None:
    kept = await prepared(site, tool)
    async with site.operator(entries=assembly.ENTRIES):
        await site.until("web", lambda status: status.phase == STABLE)
        await asyncio.wait_for(finalized(kept), PATIENCE)
        await kept.check()
        site.broken = {2, 3}
        await kept.sync(CONFIG_SETS, web("two"))
        await site.until("web", lambda status: status.phase == UNDONE)
        await kept.check()  # what is undone stays in spec
        await kept.sync(CONFIG_SETS, web("three", onFailure="pause"))
        await site.until("web", lambda status: status.phase == PAUSED)
        await kept.check()
        site.broken = set()
        await site.until("web", lambda status: status.counts and status.counts.failed == 0)
        restart = MergePatch({"metadata": {"annotations": {RESTART: "now"}}})
        await site.client.patch(CONFIG_SETS, "web", site.namespace, restart)
        await site.until("web", lambda status: status.phase == STABLE)
        kind, wanted, _ = kept.objects["web"]
        assert await kept.tool.drift(kind, wanted) == {}  # of the annotation, too
        assert await kept.finalizers() == [FINALIZER]


async def finalized(kept: Kept) -> None:
    while await kept.finalizers() != [FINALIZER]:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_pause_by_hand_stays_and_an_undo_by_hand_is_seen(
    site: RolloutSite, tool: type[GitOpsTool]
) -> None:
    """What a manifest does not say is nobody's business; what it says is put back."""
    kept = await prepared(site, tool)
    kind, wanted, _ = kept.objects["web"]

    async def by_hand(**spec: Any) -> Untyped:
        patch = MergePatch({"spec": spec})
        await site.client.patch(CONFIG_SETS, "web", site.namespace, patch)
        return await kept.tool.drift(kind, wanted)

    assert await by_hand(rollout={"paused": True}) == {}
    assert await by_hand(files=[{"path": "/motd", "content": "zero"}]) != {}
    await kept.tool.sync(kind, wanted)
    live = await site.config_set("web")
    assert (live.spec.files[0].content, live.spec.rollout and live.spec.rollout.paused) == ("one", True)
    said = web("one", paused=False)
    await kept.tool.sync(kind, said)
    live = await site.config_set("web")
    assert live.spec.rollout is not None
    assert not live.spec.rollout.paused


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_set_that_a_tool_deletes_goes_when_its_hosts_were_waited_for(
    site: RolloutSite, tool: type[GitOpsTool]
) -> None:
    """It is pending until then; to apply it meanwhile neither brings it back nor takes the finalizer off."""
    kept = await prepared(site, tool)
    kind, wanted, _ = kept.objects["web"]
    async with site.operator(entries=assembly.ENTRIES):
        await site.until("web", lambda status: status.phase == STABLE)
        await asyncio.wait_for(finalized(kept), PATIENCE)
    await site.client.delete(CONFIG_SETS, "web", site.namespace)
    live = await kept.tool.live(kind, wanted)
    assert live["metadata"]["deletionTimestamp"]
    assert await kept.tool.drift(kind, wanted) == {}
    await kept.tool.sync(kind, wanted)
    assert await kept.finalizers() == [FINALIZER]
    async with site.operator(entries=assembly.ENTRIES), asyncio.timeout(PATIENCE):
        while await is_there(site):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await kept.tool.sync(kind, wanted)  # from now on it is a new one
    assert (await site.config_set("web")).metadata.uid != live["metadata"]["uid"]


async def is_there(site: RolloutSite) -> bool:
    try:
        await site.config_set("web")
    except errors.NotFound:
        return False
    return True

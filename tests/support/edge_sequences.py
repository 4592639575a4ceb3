"""Random histories of a site, before a real API: what the world has is written there, and goes wrong.

The truth is in `EdgeWorld`; the operator reads it by HTTP, is replaced by another one, has its clock set, and
meets answers that are cut off, refused or never come. After every look, what it says is held against that.

What the DaemonSet leaves is written here, and not by the script of `support.daemonset`: a thousand histories
are tens of thousands of writes, each of which would be a process there, and many of them are texts that no
script would write, as a state that is named twice or is 70,000 characters long.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from nodemanager.api.edge.edgecluster import (
    BOOTSTRAP,
    EDGE_CLUSTERS,
    MISSING,
    REFUSED,
    UNANSWERED,
    UNKNOWN,
    EdgeClusterStatus,
)
from nodemanager.api.edge.edgeprofile import EDGE_PROFILES, SIGNATURE
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.edge_clusters.reading import DAEMON_SETS
from nodemanager.kube import errors
from nodemanager.kube.core import CONFIG_MAPS, EVENTS
from nodemanager.kube.objects import ObjectKey
from support import broken_answers, edge_profiles
from support.edge_site import EdgeSite
from support.edge_world import JUMPS, EdgeWorld, Troubles
from support.scripted_server import until

STEPS = 10
FORGET, FORGET_TIME = "1m", timedelta(minutes=1)
SPANS = (10, 10, 11, 25, 89, 400)


@dataclass
class Sequence:
    """One history; `seed` tells it from all others."""

    site: EdgeSite
    seed: int
    with_set: bool
    world: EdgeWorld = field(default_factory=EdgeWorld)
    offset: timedelta = timedelta(0)
    furthest: int = 1
    troubles: Troubles = field(default_factory=lambda: Troubles(FORGET_TIME))
    disturbed: bool = False
    """Something happened to the operator since its last look: it was replaced, or its clock was set."""
    signed: bool = True
    told: list[str] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    """The version of each object of the DaemonSet after its own last write."""
    contents: dict[str, dict[str, str]] = field(default_factory=dict)
    """What is in its ConfigMaps."""
    status: EdgeClusterStatus = field(default_factory=EdgeClusterStatus)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    async def run(self) -> None:
        """Have things happen, look, and compare; in the end, all is well again, and that is said."""
        await self._begin()
        for _ in range(STEPS):
            if self.chance.random() < 0.4:  # else most of it could not be read most of the time
                self.world.state_text, self.world.state_answer, self.world.beats_answer = None, "", ""
            for _ in range(self.chance.choice([0, 0, 1, 1, 2])):
                self.world.mishap(self.chance)
            if not self.with_set:
                self.world.daemon_sets, self.world.unready = ("vx-rail-node-init",), 0
            await self._disturb()
            await self._look(self.chance.choice(SPANS))
            self._compare()
        await self._recover()
        await self._unnoticed()

    async def _begin(self) -> None:
        site, bridge = self.site, self.world.bridge
        for name in (bridge.state.config_map, bridge.heartbeats.config_map):
            await self._delete(name)
        await site.api.client.create(EDGE_CLUSTERS, _cluster(site), site.place.namespace)
        await until(lambda: site.clusters.get(site.key) is not None)

    async def _look(self, seconds: float) -> None:
        self.world.pass_time(seconds)
        jump = self.chance.choice(JUMPS)
        self.offset, self.disturbed = self.offset + timedelta(seconds=jump), self.disturbed or bool(jump)
        await self._publish()
        was = self.status
        self.site.now = self.world.now + self.offset
        self.status = await self.site.look(0)
        self.told.append(self.status.phase)
        if self.signed and self.world.state_text is None and not self.world.state_answer:
            number = self.world.number
            self.furthest = 1 if number == 1 else max(self.furthest, number)
        assert self.status.phase != BOOTSTRAP or not was.bootstrapped, self._about()

    async def _disturb(self) -> None:
        """Have something happen to the operator, to its profile, or to what else writes the same object."""
        match self.chance.randrange(12):
            case 0 | 1:
                self.site.restart()
                self.disturbed = True
            case 2 if self.signed:
                await self._sign(signed=False)
            case 2 | 3 | 5 | 6 | 7 | 8 if not self.signed:
                await self._sign(signed=True)
            case 4:
                note = MergePatch({"metadata": {"annotations": {"note": str(self.chance.random())}}})
                await self.site.api.client.patch(EDGE_CLUSTERS, "site", self.site.place.namespace, note)

    async def _sign(self, *, signed: bool) -> None:
        """Take the signature from the profile; or have it edited, and signed again."""
        site, name = self.site, self.site.profile["metadata"]["name"]
        if signed:
            *_, last = site.profile["spec"]["version"].split(".")
            site.profile["spec"] |= {"version": f"1.0.{int(last) + 1}", "description": f"by {self.seed}"}
            text = edge_profiles.signed(site.profile)["metadata"]["annotations"][SIGNATURE]
            body: dict[str, Any] = {"spec": site.profile["spec"]}
        else:
            text, body = None, {}
        change = MergePatch({**body, "metadata": {"annotations": {SIGNATURE: text}}})
        found = await site.api.client.patch(EDGE_PROFILES.untyped(), name, "", change)
        version = found["metadata"]["resourceVersion"]
        self.signed, self.disturbed = signed, True
        await until(lambda: _version(site, name) == version)

    async def _publish(self) -> None:
        """Write what the world has where the operator reads it, or keep it from being read."""
        facts, bridge, faults = self.world.facts(), self.world.bridge, self.site.faults
        faults.clear()
        for name, read in (
            (bridge.state.config_map, facts.state), (bridge.heartbeats.config_map, facts.heartbeats)
        ):  # fmt: skip
            if read.answer == MISSING:
                await self._delete(name)
            elif read.answer in (REFUSED, UNANSWERED):
                faults[f"/configmaps/{name}"] = (
                    broken_answers.refusing
                    if read.answer == REFUSED
                    else self.chance.choice(broken_answers.UNANSWERABLE)
                )
            else:
                await self._put(name, read.data)
        if self.with_set:
            await self._deploy()

    async def _deploy(self) -> None:
        """Have the DaemonSets that the world has, with as many pods."""
        client, where = self.site.api.client, self.site.daemon_set.bridge.namespace
        there = {one.metadata.name for one in (await client.list(DAEMON_SETS, Selection(where))).items}
        wanted = {one.name: one for one in self.world.facts().daemon_sets}
        for name in there - wanted.keys():
            await client.delete(DAEMON_SETS, name, where)
            self.written.pop(f"DaemonSet {name}", None)
        for name, one in wanted.items():
            if name not in there:
                await self.site.daemon_set.deploy(name)
            counts = {"desiredNumberScheduled": one.desired, "numberReady": one.ready}
            body = MergePatch({"status": counts})
            found = await client.patch(DAEMON_SETS.untyped(), name, where, body, subresource="status")
            self.written[f"DaemonSet {name}"] = found["metadata"]["resourceVersion"]

    async def _put(self, name: str, data: Mapping[str, str]) -> None:
        client, where = self.site.api.client, self.site.daemon_set.bridge.namespace
        if name in self.contents and self.chance.random() < 0.1:  # as some programs replace things
            await self._delete(name)
        before = self.contents.get(name)
        if before is None:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(data)}
            found = await client.create(CONFIG_MAPS.untyped(), body, where)
        elif before != data:
            change = MergePatch({"data": {**dict.fromkeys(before), **data}})
            found = await client.patch(CONFIG_MAPS.untyped(), name, where, change)
        else:
            return
        self.contents[name] = dict(data)
        self.written[name] = found["metadata"]["resourceVersion"]

    async def _delete(self, name: str) -> None:
        self.written.pop(name, None)
        self.contents.pop(name, None)
        with contextlib.suppress(errors.NotFound):
            await self.site.api.client.delete(CONFIG_MAPS, name, self.site.daemon_set.bridge.namespace)

    def _compare(self) -> None:
        """Hold what is said against the truth."""
        status, world = self.status, self.world
        true = world.truth(self.furthest, self.offset) if self.signed else {UNKNOWN}
        allowed = self.troubles.allowed(world, true, disturbed=self.disturbed)
        self.disturbed = False
        assert status.phase in allowed, self._about()
        assert not world.lies(status), (world.lies(status), self._about())
        if not self.signed:
            shown = status.observed.raw_state if status.observed else ""
            assert (shown, status.storage) == ("", None), self._about()

    async def _recover(self) -> None:
        """All is well again, on one node: within a few looks, that is what is said, and nothing else then."""
        if not self.signed:
            await self._sign(signed=True)
        self.world = EdgeWorld(now=self.world.now)
        self.offset, self.disturbed, self.furthest = timedelta(0), True, 1
        for seconds in (30, 10, 65, 10, 10, 60, 10, 80):
            self.world.pass_time(seconds)
            await self._publish()
            self.site.now = self.world.now
            self.status = await self.site.look(0)
            self.told.append(self.status.phase)
            self._compare()
        assert not self.troubles.excused(self.world)
        assert self.status.phase == "SingleNode", self._about()

    async def _unnoticed(self) -> None:
        """Nothing of the DaemonSet is other than as it left it, and nothing is beside it."""
        client, where = self.site.api.client, self.site.daemon_set.bridge.namespace
        found = (await client.list(CONFIG_MAPS.untyped(), Selection(where))).items
        versions = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in found}
        versions.pop("kube-root-ca.crt", None)
        if self.with_set:
            sets = (await client.list(DAEMON_SETS, Selection(where))).items
            versions |= {f"DaemonSet {one.metadata.name}": one.metadata.resource_version for one in sets}
        assert versions == self.written, self._about()
        assert (await client.list(EVENTS.untyped(), Selection(where))).items == []
        ours = f"/namespaces/{self.site.place.namespace}/"
        for one in self.site.asked:
            verb, _, path = one.partition(" ")
            if verb not in ("GET", "WATCH"):
                kind = path.partition(ours)[2].partition("/")[0]
                assert kind in ("edgeclusters", "events"), one
                assert kind == "events" or path.endswith("/status"), one
            assert verb == "GET" or f"/namespaces/{where}/" not in path, one
        self.site.asked.clear()
        await self.site.api.client.delete(EDGE_CLUSTERS, "site", self.site.place.namespace)
        await until(lambda: self.site.clusters.get(self.site.key) is None)
        await self.site.reconcile(self.site.key)

    def _about(self) -> str:
        """Return what somebody needs who looks for the mistake."""
        message = f"{self.status.phase}: {self.status.reason}: {self.status.message}"
        world = dataclasses.replace(self.world, bridge=None)  # type: ignore[arg-type]
        return f"seed {self.seed}: {self.told} {message} {world} signed={self.signed} {self.offset}"


def _cluster(site: EdgeSite) -> dict[str, Any]:
    trust = {"policy": "require", "keys": [edge_profiles.public_key()]}
    spec = {"profile": site.profile["metadata"]["name"], "signature": trust}
    return {"metadata": {"name": "site"}, "spec": spec}


def _version(site: EdgeSite, name: str) -> str:
    found = site.profiles.get(ObjectKey("", name))
    return found.metadata.resource_version if found else ""

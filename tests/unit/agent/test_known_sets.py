"""What a host takes for gone: what the API says is gone, and not what it does not say."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from nodemanager.agent.declared.known_sets import CONFIRM_SECONDS, KnownSets
from nodemanager.api.common.configset import FINALIZER, ConfigSet
from nodemanager.host.state.ownership_ledger import OwnershipLedger
from nodemanager.host.state.vault import Vault
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.plan.ownership import Prune, SetRecord, SetsTold, Sighting
from nodemanager.plan.resources import file_id

NODE = ObjectMeta(name="a", uid="node", labels={"role": "web"})


def config_set(name: str, uid: str = "", **more: Any) -> ConfigSet:
    meta = {"name": name, "uid": uid or f"uid of {name}", "labels": {"role": "web"}, **more.pop("meta", {})}
    return msgspec.convert({"metadata": meta, "spec": {"prune": True}, **more}, ConfigSet)


WEB, OTHER = config_set("web"), config_set("other")


class World:
    """An API, and a host that has a file of each of some sets."""

    def __init__(self, folder: Path, *had: ConfigSet) -> None:
        self.cache = SimpleNamespace(refused="", malformed={})
        self.reachability = SimpleNamespace(offline=False)
        self.sources = SimpleNamespace(live=True, config_sets=self.cache, reachability=self.reachability)
        self.ledger = OwnershipLedger(Vault(str(folder)))
        self.listed: set[str] | errors.KubeError = set()
        self.now = 0.0
        self.again: list[float] = []
        for one in had:
            name = one.metadata.name
            self.ledger.note([Sighting(file_id(f"/{name}"), (name,), {"kind": "absent"}, {"kind": "file"})])
        records = {one.metadata.name: SetRecord(one.metadata.uid, 1) for one in had}
        self.ledger.begin(records, NODE.uid, ())
        sources: Any = self.sources
        self.known = KnownSets(sources, self.ledger, self.names, self.again.append, lambda: self.now)

    async def names(self) -> frozenset[str]:
        if isinstance(self.listed, errors.KubeError):
            raise self.listed
        return frozenset(self.listed)

    async def told(self, *sets: ConfigSet, node: ObjectMeta = NODE) -> SetsTold | None:
        here = [one for one in sets if not one.metadata.deletion_timestamp]
        return await self.known.ask(sets, here, node)

    async def doubt(self, *sets: ConfigSet, node: ObjectMeta = NODE) -> str:
        found = await self.told(*sets, node=node)
        assert found is not None
        return found.doubt


@pytest.mark.parametrize("what", ["offline", "refused", "never listed"])
async def test_a_host_that_hears_nothing_takes_nothing_back(tmp_path: Path, what: str) -> None:
    world = World(tmp_path, WEB)
    world.reachability.offline = what == "offline"
    world.cache.refused = "configsets is forbidden" if what == "refused" else ""
    world.sources.live = what != "never listed"
    assert await world.told() is None


async def test_a_set_is_gone_at_once_where_another_one_that_was_known_is_left(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER)
    assert await world.doubt(OTHER) == ""


async def test_all_sets_gone_at_once_is_doubted_until_a_second_list_says_so_too(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER)
    said = await world.doubt(config_set("strange"))
    assert said.startswith("none of the ConfigSets that this host had is left; if that is still so at 20")
    assert world.again == [CONFIRM_SECONDS + 1]
    world.now = CONFIRM_SECONDS - 1
    assert await world.doubt()
    world.now = CONFIRM_SECONDS + 1
    world.listed = errors.Forbidden("configsets is forbidden")
    assert "the API does not confirm it" in await world.doubt()
    world.listed = {"web"}
    assert await world.doubt() == "ConfigSet web is there after all"
    world.listed = set()
    assert await world.doubt() == ""


async def test_an_outage_begins_the_wait_anew(tmp_path: Path) -> None:
    world = World(tmp_path, WEB)
    assert await world.doubt()
    world.reachability.offline = True
    assert await world.told() is None
    world.reachability.offline, world.now = False, CONFIRM_SECONDS + 1
    assert await world.doubt()


async def test_sets_that_came_back_end_the_doubt(tmp_path: Path) -> None:
    world = World(tmp_path, WEB)
    assert await world.doubt()
    assert await world.doubt(config_set("web", "made anew")) == ""


async def test_a_set_that_waits_for_its_end_says_so_itself(tmp_path: Path) -> None:
    world = World(tmp_path, WEB)
    leaving = config_set("web", meta={"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER]})
    found = await world.told(leaving)
    assert found is not None
    assert (found.doubt, found.leaving, found.here) == ("", frozenset({"web"}), frozenset())
    assert found.policies == {"web": Prune.RESOURCES}


async def test_a_host_that_was_registered_anew_may_lack_labels(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER)
    anew = ObjectMeta(name="a", uid="another")
    found = await world.known.ask([WEB, OTHER], [], anew)
    assert found is not None
    assert found.doubt.startswith("the ManagedNode of this host is another one than before")
    assert found.node == NODE.uid  # until it is meant
    found = await world.known.ask([WEB, OTHER], [WEB, OTHER], anew)
    assert found is not None
    assert (found.doubt, found.node) == ("", "another")


async def test_what_cannot_be_read_and_what_nobody_has_decided_about_is_not_gone(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER)
    world.cache.malformed = {ObjectKey("ns", "web"): "spec.files is a number"}
    staged = config_set("staged", spec={"prune": True, "rollout": {"strategy": "Staged"}})
    found = await world.known.ask([OTHER, staged], [OTHER], NODE)
    assert found is not None
    assert found.unsure == {
        "web": "cannot be read: spec.files is a number",
        "staged": "has a revision for this host that is not known yet",
    }

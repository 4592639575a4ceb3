"""What a host takes for gone: what the API says is gone, and not what it does not say."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from nodemanager.agent.declared import known_sets
from nodemanager.agent.declared.known_sets import CONFIRM_SECONDS, KnownSets, owner
from nodemanager.api.common.configset import FINALIZER, ConfigSet
from nodemanager.api.common.managednode import TAKE_BACK
from nodemanager.host.state import ownership_ledger
from nodemanager.host.state.ownership_ledger import OwnershipLedger
from nodemanager.host.state.vault import Vault
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.plan import set_doubts
from nodemanager.plan.ownership import Sighting
from nodemanager.plan.resources import file_id
from nodemanager.plan.set_doubts import Prune, SetPresence, SetRecord, SetsTold

NODE = ObjectMeta(name="a", uid="node", labels={"role": "web"})
FILES = [{"path": "/x", "content": "x"}]


def config_set(name: str, uid: str = "", **more: Any) -> ConfigSet:
    meta = {"name": name, "uid": uid or f"uid of {name}", "labels": {"role": "web"}, **more.pop("meta", {})}
    return msgspec.convert({"metadata": meta, "spec": {"prune": True, "files": FILES}, **more}, ConfigSet)


def leaving(name: str, *finalizers: str, **more: Any) -> ConfigSet:
    meta = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": list(finalizers or (FINALIZER,))}
    return config_set(name, meta=meta, **more)


FOLLOWS = {"rollout": {"policy": {"name": "default"}}}  # the default of its namespace
WEB, OTHER, THIRD = config_set("web"), config_set("other"), config_set("third")


class World:
    """An API, and a host that has a file of each of some sets."""

    def __init__(self, folder: Path, *had: ConfigSet) -> None:
        self.cache = SimpleNamespace(refused="", malformed={}, interrupted=False, steady_since=-math.inf)
        self.reachability = SimpleNamespace(offline=False)
        self.sources = SimpleNamespace(live=True, config_sets=self.cache, reachability=self.reachability)
        self.ledger = OwnershipLedger(Vault(str(folder)))
        self.listed: set[str] | errors.KubeError = set()
        self.lists = 0
        self.now = self.skew = 0.0
        self.again: list[float] = []
        self.ledger.begin(known_sets.told(had, had, NODE).records, ())
        for one in had:
            at = file_id(f"/{one.metadata.name}")
            self.ledger.note([Sighting(at, (owner(one),), {"kind": "absent"}, {"kind": "file"})])
        sources: Any = self.sources
        self.known = KnownSets(
            sources,
            self.ledger,
            self.relist,
            self.again.append,
            lambda: self.now,
            lambda: self.now + self.skew,
        )

    async def relist(self) -> frozenset[str]:
        self.lists += 1
        if isinstance(self.listed, errors.KubeError):
            raise self.listed
        return frozenset(self.listed)

    async def told(self, *sets: ConfigSet, node: ObjectMeta = NODE) -> SetsTold | None:
        """Do what a pass does with these sets, which are all that there are."""
        here = [one for one in sets if not one.metadata.deletion_timestamp]
        return self.noted(await self.known.ask(sets, here, node))

    def noted(self, found: SetsTold | None) -> SetsTold | None:
        if found is not None:
            self.ledger.begin(found.records, ())
        return found

    async def doubts(self, *sets: ConfigSet, node: ObjectMeta = NODE) -> dict[str, str]:
        """Return what is doubted, by name of the set."""
        found = await self.told(*sets, node=node)
        assert found is not None
        return {one.partition("@")[0]: why for one, why in found.doubts.items()}


@pytest.mark.parametrize("what", ["offline", "refused", "never listed"])
async def test_a_host_that_hears_nothing_takes_nothing_back(tmp_path: Path, what: str) -> None:
    world = World(tmp_path, WEB)
    world.reachability.offline = what == "offline"
    world.cache.refused = "configsets is forbidden" if what == "refused" else ""
    world.sources.live = what != "never listed"
    assert await world.told() is None


async def test_a_host_that_may_have_missed_something_of_sets_waits_anew(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER)
    assert set(await world.doubts(OTHER)) == {"web"}
    world.now, world.cache.interrupted = CONFIRM_SECONDS + 1, True  # of ConfigSets only: the API answers
    assert await world.told(OTHER) is None
    assert world.again[-1] == known_sets.AGAIN_SECONDS
    assert set(world.ledger.sets) == {owner(WEB), owner(OTHER)}
    world.cache.interrupted, world.cache.steady_since = False, world.now
    assert await world.told(OTHER) is None  # what was missed is on its way
    assert set(await world.doubts(OTHER)) == {"web"}
    world.now += CONFIRM_SECONDS
    assert await world.doubts(OTHER) == {}


async def test_a_set_that_nobody_saw_leaving_is_doubted_until_a_second_list_says_so_too(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, WEB, OTHER)
    said = (await world.doubts(OTHER))["web"]
    assert said.startswith("ConfigSet web is gone, and this host has not seen it being deleted; if that is")
    assert world.again == [CONFIRM_SECONDS + 1]
    world.now, world.skew = CONFIRM_SECONDS - 1, 1.7
    assert await world.doubts(OTHER) == {"web": said}  # in the same words: it is written once
    world.now = CONFIRM_SECONDS + 1
    world.listed = errors.Forbidden("configsets is forbidden")
    assert "the API does not confirm it" in (await world.doubts(OTHER))["web"]
    world.listed = {owner(WEB)}
    assert await world.doubts(OTHER) == {"web": "ConfigSet web is there after all"}
    world.listed = {"web"}  # it cannot be read
    assert await world.doubts(OTHER) == {"web": "ConfigSet web is there after all"}
    world.listed, lists = set(), world.lists
    assert await world.doubts(OTHER) == {}
    assert await world.doubts(OTHER) == {}
    assert world.lists == lists + 1  # it is not asked for each pass


async def test_sets_that_come_back_one_by_one_end_no_doubt_about_the_others(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER, THIRD)
    assert set(await world.doubts()) == {"web", "other", "third"}
    anew = config_set("web", "made anew")
    assert set(await world.doubts(anew)) == {"web", "other", "third"}
    world.ledger.note([Sighting(file_id("/web"), (owner(anew),), {"kind": "file"}, {"kind": "file"})])
    assert set(await world.doubts(anew)) == {"other", "third"}
    assert set(await world.doubts(anew, config_set("other", "made anew"))) == {"other", "third"}


async def test_an_outage_begins_the_wait_anew(tmp_path: Path) -> None:
    world = World(tmp_path, WEB)
    assert await world.doubts()
    world.reachability.offline = True
    assert await world.told() is None
    world.reachability.offline, world.now = False, CONFIRM_SECONDS + 1
    assert await world.doubts()


@pytest.mark.parametrize("finalizer", [FINALIZER, "foregroundDeletion"])
async def test_a_set_that_the_host_saw_leaving_is_gone(tmp_path: Path, finalizer: str) -> None:
    world = World(tmp_path, WEB, OTHER)
    found = await world.told(leaving("web", finalizer), OTHER)
    assert found is not None
    assert (found.doubts, found.standing(owner(WEB))) == ({}, SetPresence.LEAVING)
    assert found.sets[owner(WEB)].policy is Prune.RESOURCES
    assert await world.doubts(OTHER) == {}


async def test_all_sets_that_leave_together_are_doubted_also_when_they_are_gone(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER)
    said = await world.doubts(leaving("web"), leaving("other"))
    assert said["web"].startswith("none of the ConfigSets that this host had is for it any more")
    assert set(said) == {"web", "other"}
    world.now = CONFIRM_SECONDS - 1
    assert set(await world.doubts(config_set("web", "made anew"))) == {"web", "other"}
    world.now = CONFIRM_SECONDS + 1  # this is another doubt, which begins its own half hour
    assert set(await world.doubts(config_set("web", "made anew"))) == {"web", "other"}
    world.now = 2 * CONFIRM_SECONDS
    assert await world.doubts(config_set("web", "made anew")) == {}
    assert world.lists == 1  # for both


@pytest.mark.parametrize("away", ["leaving", "elsewhere"])
async def test_a_set_that_prunes_no_longer_is_remembered_so_whomever_it_is_for(
    tmp_path: Path, away: str
) -> None:
    world = World(tmp_path, WEB, OTHER)

    def going(**more: Any) -> ConfigSet:
        if away == "leaving":
            return leaving("web", **more)
        return config_set("web", meta={"labels": {"role": "db"}}, **more)

    world.noted(await world.known.ask([going(), OTHER], [OTHER], NODE))
    brake = going(spec={"prune": False, "files": FILES})
    world.noted(await world.known.ask([brake, OTHER], [OTHER], NODE))
    assert world.ledger.sets[owner(WEB)].prune == Prune.NOTHING
    for world.now in (1.0, CONFIRM_SECONDS + 2, 3 * CONFIRM_SECONDS):
        found = await world.told(OTHER)
        assert found is not None
        assert set_doubts.policies([owner(WEB)], world.ledger.sets, found) == {owner(WEB): Prune.NOTHING}


async def test_what_a_namesake_says_once_against_it_counts_for_good(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER)
    await world.told(config_set("web", "anew", spec={"prune": False, "files": FILES}), OTHER)
    await world.told(config_set("web", "anew"), OTHER)
    assert world.ledger.sets[owner(WEB)].prune == Prune.NOTHING


async def test_sets_that_are_deleted_one_after_the_other_are_deleted_together(tmp_path: Path) -> None:
    """Who sees one leaving before the others, and one come back after it, has seen no orderly deletion."""
    world = World(tmp_path, WEB, OTHER, THIRD)
    assert await world.doubts(leaving("web"), OTHER, THIRD) == {}
    assert world.ledger.sets[owner(WEB)].leaving
    assert set(await world.doubts(*map(leaving, ("web", "other", "third")))) == {"web", "other", "third"}
    assert not world.ledger.sets[owner(WEB)].leaving
    anew = config_set("web", "made anew")
    world.ledger.note([Sighting(file_id("/web"), (owner(anew),), {"kind": "file"}, {"kind": "file"})])
    world.now = 60
    assert set(await world.doubts(anew, leaving("other"))) == {"other", "third"}  # as it was doubted
    world.now = CONFIRM_SECONDS + 1
    assert set(await world.doubts(anew, leaving("other"))) == {"third"}  # its half hour began later


async def test_all_sets_of_an_api_leave_and_this_host_had_only_one(tmp_path: Path) -> None:
    world = World(tmp_path, WEB)
    assert "all ConfigSets are being deleted" in (await world.doubts(leaving("web"), leaving("x")))["web"]


async def test_another_api_whose_sets_of_the_same_name_prune_nothing_is_another_one_for_good(
    tmp_path: Path,
) -> None:
    world, anew = World(tmp_path, WEB, OTHER), ObjectMeta(name="a", uid="another", labels={"role": "web"})
    mild = [config_set(name, "b", spec={"prune": False, "files": FILES}) for name in ("web", "other")]
    assert await world.doubts(*mild, node=anew) == {}  # nothing is taken back anyway
    assert world.ledger.sets[owner(WEB)].node == NODE.uid
    world.ledger.begin({owner(WEB): SetRecord(1, node=NODE.uid)}, ())
    strict = [config_set(name, "b") for name in ("web", "other")]
    for world.now in (1.0, 2 * CONFIRM_SECONDS):
        assert "another one than before" in (await world.doubts(*strict, node=anew))["web"]


async def test_an_api_that_went_back_in_time_is_not_believed_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, config_set("web", meta={"generation": 7}), config_set("other"))
    older = config_set("web", meta={"generation": 5}), config_set("other")
    said = (
        "ConfigSet web is older than this host knew it, so an older backup of the API may have been restored"
    )
    for world.now in (0.0, CONFIRM_SECONDS - 1):
        assert [one.partition(";")[0] for one in (await world.doubts(*older)).values()] == [said, said]
        assert world.ledger.sets[owner(WEB)].generation == 7
    world.now = CONFIRM_SECONDS + 1
    assert await world.doubts(*older) == {}
    assert world.ledger.sets[owner(WEB)].generation == 5


async def test_a_host_whose_managednode_is_being_deleted_takes_nothing_back(tmp_path: Path) -> None:
    """That is what becomes of a namespace that is deleted, if somebody's finalizer keeps the ManagedNode."""
    world = World(tmp_path, WEB)
    going = msgspec.structs.replace(NODE, deletion_timestamp="2026-01-01T00:00:00Z")
    for world.now in (0.0, CONFIRM_SECONDS + 1):
        said = (await world.doubts(leaving("web"), node=going))["web"]
        assert said == "the ManagedNode of this host is being deleted"


async def test_a_host_that_was_registered_anew_waits_for_a_person(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER)
    anew = ObjectMeta(name="a", uid="another")
    for world.now in (0.0, CONFIRM_SECONDS + 1):
        found = world.noted(await world.known.ask([WEB, OTHER], [], anew))
        assert found is not None
        assert set(found.doubts) == {owner(WEB), owner(OTHER)}
        assert "run nodemanager orphans NODE --take-back" in found.doubts[owner(WEB)]
        assert world.ledger.sets[owner(WEB)].node == NODE.uid  # until it is meant
    for said in (NODE.uid, "true"):  # about another ManagedNode, or about none
        stale = msgspec.structs.replace(anew, annotations={TAKE_BACK: said})
        found = await world.known.ask([WEB, OTHER], [], stale)
        assert found is not None
        assert found.doubts
    meant = msgspec.structs.replace(anew, annotations={TAKE_BACK: "another"})
    found = world.noted(await world.known.ask([WEB, OTHER], [OTHER], meant))
    assert found is not None
    assert found.doubts == {}  # that it is for other hosts was so for long enough meanwhile


async def test_a_host_that_got_its_labels_back_is_the_host_that_it_was(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER)
    found = await world.known.ask([WEB, OTHER], [WEB, OTHER], ObjectMeta(name="a", uid="another"))
    assert found is not None
    assert found.doubts == {}
    assert {one.node for one in found.records.values()} == {"another"}


async def test_a_set_that_gives_up_everything_at_once_is_doubted(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER)
    typo = config_set("web", spec={"prune": True, "file": FILES})
    assert "ConfigSet web declares not a single file any more" in (await world.doubts(typo, OTHER))["web"]


async def test_what_cannot_be_read_and_what_nobody_has_decided_about_is_not_gone(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER)
    world.cache.malformed = {ObjectKey("ns", "web"): "spec.files is a number"}
    staged = config_set("staged", spec={"prune": True, "rollout": {"strategy": "Staged"}})
    adopted = config_set("adopted", meta={"labels": {"role": "web", "app.kubernetes.io/instance": "x"}})
    stripped = config_set("stripped", meta={"labels": {}})
    following = config_set("following", status=FOLLOWS)
    braked = config_set("braked")
    found = await world.known.ask([OTHER, staged, adopted, stripped, following, braked], [OTHER], NODE)
    assert found is not None
    assert found.unsure == {
        "web": "cannot be read: spec.files is a number",
        "staged": "has a revision for this host that is not known yet",
        "following": "has a revision for this host that is not known yet",
        "braked": "is for this host, and nobody has decided yet what of it",
        "adopted": "has label app.kubernetes.io/instance of a GitOps tool, which no host has; give it a"
        " nodeSelector",
        "stripped": "has neither labels nor a nodeSelector, so it is for no host at all",
    }


@pytest.mark.parametrize(
    "by", [{"spec": {"prune": True, "rollout": {"strategy": "Staged"}}}, {"status": FOLLOWS}]
)
def test_what_no_host_has_taken_of_a_set_in_stages_does_not_make_its_deletion_worse(
    by: dict[str, Any],
) -> None:
    gone = known_sets.told([leaving("web", **by)], [], NODE)
    kept = {owner(WEB): SetRecord(Prune.NOTHING, here=True)}
    assert set_doubts.policies(kept.keys(), kept, gone)[owner(WEB)] is Prune.NOTHING


def test_of_a_set_in_stages_no_more_goes_than_its_spec_and_its_revision_say() -> None:
    staged = {"rollout": {"strategy": "Staged"}, "files": FILES}
    brake = config_set("web", spec={"prune": False, **staged})
    found = known_sets.told([brake], [WEB], NODE)
    assert found.sets[owner(WEB)].policy is Prune.NOTHING
    assert found.records[owner(WEB)].prune == Prune.NOTHING  # also when it is gone
    found = known_sets.told([WEB], [brake], NODE)
    assert found.sets[owner(WEB)].policy is Prune.NOTHING


def test_what_a_set_declares_in_a_revision_that_is_not_here_yet_is_on_its_way() -> None:
    spec = {"rollout": {"strategy": "Staged"}, "files": [*FILES, {"path": "/y", "content": "y"}]}
    new = config_set("web", spec=spec)
    coming = {file_id("/x"): {"web"}, file_id("/y"): {"web"}}
    assert known_sets.told([new, OTHER], [WEB, OTHER], NODE).coming == coming
    assert known_sets.told([new, OTHER], [OTHER], NODE).coming == coming  # nobody has decided about it
    assert known_sets.told([new, OTHER], [new, OTHER], NODE).coming == {}
    away = config_set("web", meta={"labels": {"role": "db"}}, spec=spec)
    assert known_sets.told([away, OTHER], [WEB, OTHER], NODE).coming == {}
    assert known_sets.told([leaving("web", spec=spec), OTHER], [OTHER], NODE).coming == {}


async def test_while_one_set_cannot_be_read_no_other_is_known_to_give_up_anything(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER)
    world.cache.malformed = {ObjectKey("ns", "new"): "spec.files is a number"}
    found = await world.told(WEB, OTHER)
    assert found is not None
    assert found.unreadable == {"new"}


async def test_a_brake_counts_also_if_the_set_is_gone_before_the_next_look(tmp_path: Path) -> None:
    world = World(tmp_path, WEB, OTHER)
    braked = config_set("web", spec={"files": FILES})
    assert world.known.heard(WEB, braked)  # somebody has to look
    assert not world.known.heard(braked, None)
    assert not world.known.heard(THIRD, config_set("third", spec={}))  # the host has nothing of it
    found = await world.known.ask([OTHER], [OTHER], NODE)
    assert found is not None
    assert found.records[owner(WEB)].prune == Prune.NOTHING
    assert set_doubts.policies([owner(WEB)], found.records, found) == {owner(WEB): Prune.NOTHING}
    assert world.known.heard(braked, WEB)
    found = await world.known.ask([OTHER, WEB], [OTHER, WEB], NODE)
    assert found is not None
    assert found.records[owner(WEB)].prune == Prune.RESOURCES  # what it says counts while it is there


async def test_the_window_of_a_set_outlives_it(tmp_path: Path) -> None:
    span = {"start": "1970-01-01T01:00:00Z", "end": "1970-01-01T02:00:00Z"}
    spec = {"prune": True, "enforcement": {"openings": [span]}, "files": FILES}
    world = World(tmp_path, config_set("web", spec=spec), OTHER)
    gone = leaving("web", spec=spec)
    assert world.known.concerned([gone, OTHER], [OTHER]) == [OTHER, gone]
    assert await world.doubts(gone, OTHER) == {}  # its own window holds it back
    said = {"web": "the window of ConfigSet web, which is gone, opens at 1970-01-01T01:00:00Z"}
    assert await world.doubts(OTHER) == said
    assert world.again == [3601]
    world.now = 3600
    assert await world.doubts(OTHER) == {}
    world.now = 7200
    assert await world.doubts(OTHER) == {
        "web": "the window of ConfigSet web, which is gone, does not open any more"
    }


async def test_what_was_doubted_long_enough_hides_no_other_doubt(tmp_path: Path) -> None:
    world = World(tmp_path, config_set("web", meta={"generation": 7}), OTHER)
    less = {"prune": True, "services": [{"name": "x", "ensure": "running"}]}
    assert await world.doubts(config_set("web", spec=less, meta={"generation": 8}), OTHER)
    world.now = CONFIRM_SECONDS + 1
    assert await world.doubts(config_set("web", spec=less, meta={"generation": 8}), OTHER) == {}
    said = await world.doubts(config_set("web", spec=less, meta={"generation": 5}), OTHER)
    assert said["web"].startswith("ConfigSet web is older than this host knew it")


async def test_a_record_that_cannot_be_read_takes_nothing_back_and_is_known_to_matter(tmp_path: Path) -> None:
    world = World(tmp_path)
    mild = config_set("mild", spec={"prune": False, "files": FILES})
    (tmp_path / "var/lib/nodemanager" / ownership_ledger.NAME).mkdir(parents=True)
    world.ledger.reload()
    assert await world.told(WEB, mild) is None
    assert (world.ledger.prunes(["web"]), world.ledger.prunes(["mild"])) == (True, False)


async def test_several_doubts_about_a_set_are_waited_for_together(tmp_path: Path) -> None:
    world = World(tmp_path, config_set("web", meta={"generation": 7}), OTHER)
    older = config_set("web", meta={"generation": 5, "labels": {"role": "db"}})
    for world.now in (0.0, CONFIRM_SECONDS - 1, CONFIRM_SECONDS + 1):
        found = world.noted(await world.known.ask([older, OTHER], [OTHER], NODE))
        assert found is not None
        assert bool(found.doubts) == (world.now < CONFIRM_SECONDS)

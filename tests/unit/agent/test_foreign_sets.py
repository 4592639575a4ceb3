"""What a host keeps of sets for other hosts. Aspects: what is decided by it, its size, when it is whole."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from nodemanager.agent.declared import foreign_sets
from nodemanager.agent.declared.declarations import Declarations
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.foreign_sets import ForeignSet
from nodemanager.agent.declared.sources import DeclaredSources
from nodemanager.api.common import choosing, configsetrevision, matching
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey, ObjectMeta, key_of
from support import staged
from support.staged import all_at_once, config_set, revision, undecided

OURS, OTHERS = {"role": "web"}, {"role": "db"}
ONE, TWO = revision(1, "one"), revision(2, "two")
NEXT = msgspec.to_builtins(configsetrevision.reference(TWO))
SETS = {
    "all at once": all_at_once(config_set(ONE)),
    "nothing published": config_set(None),
    "stable": config_set(ONE),
    "undecided": undecided(config_set(ONE)),
    "next": config_set(ONE, next=NEXT, threshold=500_000_000, startedAt="2026-01-01T00:00:00Z"),
    "canary": config_set(ONE, next=NEXT, canary={"matchLabels": OTHERS}),
    "told at length": config_set(ONE, next=NEXT, message="x" * 900, turns=[{"threshold": 1}] * 24),
}


@pytest.mark.parametrize("name", SETS)
def test_what_is_for_a_host_is_whole_and_the_rest_decides_as_before(name: str) -> None:
    one = SETS[name]
    assert foreign_sets.trimmed(one, OURS) is one
    cut = foreign_sets.trimmed(one, OTHERS)
    assert isinstance(cut, ForeignSet)
    assert foreign_sets.trimmed(cut, OURS) is cut  # nobody makes it whole but who reads it
    assert not cut.spec.files
    assert (cut.spec.rollout, matching.ways(cut)) == (one.spec.rollout, matching.ways(one))
    for host in (staged.HOST, ObjectMeta(name="b", uid="u2", labels=OTHERS)):
        for kept in (None, one, all_at_once(one)):
            assert choosing.for_host(cut, kept, host) == choosing.for_host(one, kept, host)
    meta = msgspec.structs.replace(one.metadata, annotations={})
    assert cut.metadata == meta


def test_a_set_that_is_being_deleted_still_says_so() -> None:
    meta = ObjectMeta(name="x", labels=OURS, deletion_timestamp="2026-01-01T00:00:00Z", finalizers=["a/b"])
    cut = foreign_sets.trimmed(ConfigSet(metadata=meta), OTHERS)
    assert (cut.metadata.deletion_timestamp, cut.metadata.finalizers) == ("2026-01-01T00:00:00Z", ["a/b"])


def test_500_large_sets_of_others_take_less_than_a_mebibyte() -> None:
    def read(number: int) -> ConfigSet:
        files = [{"path": f"/srv/{number}/{one}", "content": f"{number}" * 300} for one in range(26)]
        uid = f"0e4bb9ab-aa2f-47c3-9ee1-1f6b{number:08}"
        meta = {"name": f"set-{number}", "namespace": "nodemanager", "uid": uid, "labels": OTHERS,
                "resourceVersion": str(10_000 + number), "annotations": {"last-applied": "x" * 26_000},
                "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}  # fmt: skip
        text = msgspec.json.encode({"metadata": meta, "spec": {"files": files, "nodeSelector": {
            "matchExpressions": [{"key": "tier", "operator": "In", "values": [str(number)]}]}}})  # fmt: skip
        return foreign_sets.trimmed(msgspec.json.decode(text, type=ConfigSet), OURS)

    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        kept = [read(number) for number in range(500)]
        assert tracemalloc.get_traced_memory()[0] - before <= 1024 * 1024
        assert len(kept) == 500
    finally:
        tracemalloc.stop()


@dataclass
class Sets:
    """A cache of sets as `DeclaredSources` uses it, and the API that it reads whole ones from."""

    known: dict[str, ConfigSet]
    whole: dict[str, ConfigSet]
    malformed: dict[ObjectKey, str] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)
    has_synced: bool = True

    def values(self) -> list[ConfigSet]:
        return list(self.known.values())

    def trim_by(self, trim: Any) -> None:
        self.known = {name: trim(one) for name, one in self.known.items()}

    async def read_whole(self, key: ObjectKey) -> None:
        self.read.append(key.name)
        if key.name not in self.whole:
            raise errors.Unreachable("cannot reach the API")
        self.known[key.name] = self.whole[key.name]


def named(name: str, labels: dict[str, str]) -> ConfigSet:
    return ConfigSet(metadata=ObjectMeta(name=name, labels=labels), spec=SETS["all at once"].spec)


def sources(*sets: ConfigSet, lost: str = "") -> tuple[DeclaredSources, Sets]:
    """What a host that was `OURS` until now has of these sets; one of them cannot be read."""
    whole = {one.metadata.name: one for one in sets}
    known = {name: foreign_sets.trimmed(one, OURS) for name, one in whole.items()}
    whole.pop(lost, None)
    cache, nothing = Sets(known, whole), SimpleNamespace(has_synced=True, values=list)
    references = SimpleNamespace(secrets=lambda known: known, config_maps=lambda known: known)
    before = ManagedNode(metadata=ObjectMeta(name="a", labels=OURS))
    remembered = DeclaredInputs((named("ours", OURS),), (before,))
    memory = SimpleNamespace(node=before, inputs=lambda: remembered)
    reachability = SimpleNamespace(offline=False, withheld=lambda: "")
    parts: Any = (cache, nothing, references, memory, reachability)
    return DeclaredSources(*parts), cache


async def test_only_what_has_become_ours_is_read_and_what_was_is_let_go() -> None:
    here, cache = sources(named("ours", OURS), named("theirs", OTHERS), named("nobody's", {"role": "x"}))
    await here.complete(OURS)
    assert cache.read == []
    await here.complete(OTHERS)
    assert cache.read == ["theirs"]
    node = ManagedNode(metadata=ObjectMeta(name="a", labels=OTHERS))
    [found] = here.inputs().matching(node)
    assert found.spec.files == SETS["all at once"].spec.files
    assert [name for name, one in cache.known.items() if isinstance(one, ForeignSet)] == ["ours", "nobody's"]
    await here.complete(OTHERS)
    assert cache.read == ["theirs"]


async def test_one_that_does_not_decode_any_more_counts_as_unknown() -> None:
    here, cache = sources(named("theirs", OTHERS))
    cache.malformed[key_of(cache.known["theirs"])] = "spec.files: expected an array"
    await here.complete(OTHERS)
    assert cache.read == []
    assert here.inputs().matching(ManagedNode(metadata=ObjectMeta(name="a", labels=OTHERS))) == []


@pytest.mark.parametrize("offline", [False, True])
async def test_while_it_cannot_be_read_nothing_is_made_of_half_of_it(offline: bool) -> None:
    here, _ = sources(named("ours", OURS), named("theirs", OTHERS), lost="theirs")
    cast("Any", here.reachability).offline = offline
    declared = Declarations(cast("Any", None), cast("Any", None), here, cast("Any", None), cast("Any", None),
                            cast("Any", None))  # fmt: skip
    node = ManagedNode(metadata=ObjectMeta(name="a", labels=OTHERS))
    if not offline:
        with pytest.raises(errors.Unreachable):  # the pass is made again
            await declared._known(node)
        return
    known, inputs = await declared._known(node)
    assert known.metadata.labels == OURS  # it stays what it was
    assert [one.metadata.name for one in inputs.matching(known)] == ["ours"]

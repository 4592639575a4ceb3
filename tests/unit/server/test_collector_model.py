"""Random ownership, random deletions and random crashes against a model that fits on a screen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from nodemanager.kube.objects import Untyped
from nodemanager.server.collection.collector import Collector
from nodemanager.server.hub import Hub
from nodemanager.server.kinds.builtin_kinds import BUILTIN
from nodemanager.server.kinds.resources import Catalogue
from nodemanager.server.verbs import deletion, internal_requests, read
from nodemanager.server.verbs.delete_options import DeleteOptions
from nodemanager.store.base import StoreClosed, StoreRecord
from nodemanager.store.state import StoreChange
from support import examples
from support.memory_store import MemoryStore
from support.owned import collected

KIND = next(kind for kind in BUILTIN if kind.plural == "configmaps")
COUNT = 7
ABSENT, UNKNOWN = COUNT, COUNT + 1
"""An owner that never was, and one of a kind that nobody serves."""


@dataclass
class Model:
    """What must be true when everything is collected: each object with its owners, in order."""

    owners: dict[int, list[int]]

    def delete(self, number: int, policy: str) -> None:
        if policy == "Orphan":
            for named in self.owners.values():
                named[:] = [one for one in named if one != number]
        self.owners.pop(number, None)
        self.settle()

    def settle(self) -> None:
        changed = True
        while changed:
            changed = False
            for number, named in list(self.owners.items()):
                alive = [one for one in named if one in self.owners]
                if UNKNOWN in named or alive == named:
                    continue
                changed = True
                if alive:
                    self.owners[number] = alive
                else:
                    del self.owners[number]


class FragileStore(MemoryStore):
    """A store that takes so many changes more, and then none until it is mended."""

    changes_left: int | None = None

    def _change(self, change: StoreChange) -> StoreRecord:
        if self.changes_left is not None:
            if not self.changes_left:
                raise StoreClosed("cannot change anything: the machine has lost power")
            self.changes_left -= 1
        return super()._change(change)


@dataclass(frozen=True)
class Deletion:
    number: int
    policy: str
    survives: int | None
    """After how many changes of the collector there is a crash, or None for never."""


@dataclass
class Plan:
    owners: dict[int, list[tuple[int, bool]]] = field(default_factory=dict)
    deletions: list[Deletion] = field(default_factory=list)


edges = st.lists(
    st.tuples(st.integers(0, UNKNOWN), st.booleans()), max_size=3, unique_by=lambda edge: edge[0]
)
plans = st.builds(
    Plan,
    st.fixed_dictionaries(dict.fromkeys(range(COUNT), edges)),
    st.lists(
        st.builds(
            Deletion,
            st.integers(0, COUNT - 1),
            st.sampled_from(["", "Background", "Foreground", "Orphan"]),
            st.none() | st.integers(0, 6),
        ),
        max_size=4,
    ),
)


def stored_object(number: int, owners: list[tuple[int, bool]]) -> bytes:
    """Return an object as it is kept; one with an unknown owner blocks nobody, since it never goes."""
    known = all(owner != UNKNOWN for owner, _ in owners)
    references = [
        {
            "apiVersion": "nobody.test/v1" if owner == UNKNOWN else "v1", "kind": "ConfigMap",
            "name": f"o{owner}", "uid": f"u{owner}", "blockOwnerDeletion": blocks and known,
        }
        for owner, blocks in owners
    ]  # fmt: skip
    meta: Untyped = {"name": f"o{number}", "namespace": "default", "uid": f"u{number}"}
    meta |= {"ownerReferences": references} if references else {}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


@contextlib.asynccontextmanager
async def collecting(store: MemoryStore) -> AsyncIterator[Hub]:
    """A server's life: from its start until it stops or crashes."""
    hub = Hub(store, Catalogue(BUILTIN))
    task = asyncio.create_task(Collector(hub).run())
    try:
        yield hub
    finally:
        task.cancel()
        await asyncio.wait({task})


def left(store: MemoryStore) -> dict[int, list[int]]:
    """Return the objects that are there, with their owners."""
    found: dict[int, list[int]] = {}
    for record in store.list(KIND.prefix()).records:
        meta: Untyped = msgspec.json.decode(record.value)["metadata"]
        assert not meta.get("deletionTimestamp"), "something waits forever"
        named = [int(one["uid"][1:]) for one in meta.get("ownerReferences", [])]
        found[int(meta["name"][1:])] = named
    return found


async def carry_out(plan: Plan) -> None:
    store = FragileStore()
    for number, owners in plan.owners.items():
        await store.create(KIND.key("default", f"o{number}"), stored_object(number, owners))
    model = Model({number: [owner for owner, _ in owners] for number, owners in plan.owners.items()})
    async with collecting(store) as hub:
        await collected(hub)
    model.settle()
    assert left(store) == model.owners
    for one in plan.deletions:
        if one.number not in model.owners:
            continue
        async with collecting(store) as hub:
            await collected(hub)
            call = internal_requests.call("delete", KIND, "default", f"o{one.number}")
            await deletion.delete_one(hub, call, read.find(hub, call), DeleteOptions(policy=one.policy))
            store.changes_left = one.survives
            await collected(hub)
        event("crashed" if store.changes_left == 0 else "not crashed")
        store.changes_left = None
        async with collecting(store) as hub:
            await collected(hub)
        model.delete(one.number, one.policy)
        assert left(store) == model.owners


@settings(max_examples=examples.some(75), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans)
def test_exactly_what_the_model_keeps_is_left(plan: Plan) -> None:
    asyncio.run(carry_out(plan))

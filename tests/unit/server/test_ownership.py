"""The index of owners: however it came about, it says the same as one built from what is there now."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.server.collection import ownership
from nodemanager.server.collection.ownership import Graph
from nodemanager.store.base import EventType, StoreEvent, StoreRecord

FOREGROUND = "foregroundDeletion"


def record(name: str, owners: list[tuple[str, bool]], waits: str = "") -> StoreRecord:
    """Return an object whose uid is its name with a `u` before it."""
    references = [
        {"apiVersion": "v1", "kind": "K", "name": one, "uid": f"u{one}", "blockOwnerDeletion": blocks}
        for one, blocks in owners
    ]
    meta: dict[str, Any] = {"name": name, "uid": f"u{name}", "ownerReferences": references}
    if waits:
        meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [waits]}
    return StoreRecord(f"/core/ks/{name}", msgspec.json.encode({"metadata": meta}), 1, 1)


def facts(graph: Graph) -> Any:
    """Return everything a graph knows, in no order."""
    return {
        name: value if name != "_dependents" else {uid: dict(sorted(of.items())) for uid, of in value.items()}
        for name, value in ((name, copy.copy(vars(graph)[name])) for name in vars(graph))
    }


NAMES = ["a", "b", "c", "d"]
records = st.builds(
    record,
    st.sampled_from(NAMES),
    st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=3),
    st.sampled_from(["", FOREGROUND, "orphan", "other/finalizer"]),
)


@given(st.lists(st.tuples(records, st.booleans()), max_size=25))
def test_an_index_that_followed_equals_one_built_anew(changes: list[tuple[StoreRecord, bool]]) -> None:
    followed, present = Graph(), dict[str, StoreRecord]()
    for one, is_deletion in changes:
        if is_deletion and one.key in present:
            followed.apply(StoreEvent(EventType.DELETED, present.pop(one.key)))
        else:
            kind = EventType.UPDATED if one.key in present else EventType.CREATED
            followed.apply(StoreEvent(kind, one, present.get(one.key)))
            present[one.key] = one
    anew = Graph()
    for one in present.values():
        anew.add(one)
    assert facts(followed) == facts(anew)
    for one in present.values():
        followed.apply(StoreEvent(EventType.DELETED, one))
    assert facts(followed) == facts(Graph()), "something is remembered that is gone"


def test_what_a_change_decides() -> None:
    graph = Graph()
    assert graph.add(record("a", [])) == []
    assert graph.add(record("b", [("a", True)])) == ["/core/ks/b"]
    assert graph.add(record("b", [("a", True)])) == [], "nothing has changed"
    assert graph.add(record("c", [("a", False)])) == ["/core/ks/c"]
    assert graph.add(record("a", [], FOREGROUND)) == ["/core/ks/a", "/core/ks/b", "/core/ks/c"]
    assert graph.is_blocked("ua")
    assert graph.add(record("b", [("a", False)])) == ["/core/ks/a", "/core/ks/b"]
    gone = graph.apply(StoreEvent(EventType.DELETED, record("a", [], FOREGROUND)))
    assert sorted(gone) == ["/core/ks/b", "/core/ks/c"]


def test_circles_are_found_from_every_place_in_them_and_from_nowhere_else() -> None:
    graph = Graph()
    for name, owner in (("a", "c"), ("b", "a"), ("c", "b"), ("tail", "c"), ("head", "tail")):
        graph.add(record(name, [(owner, True)], FOREGROUND))
    graph.add(record("c", [("b", True), ("free", True)], FOREGROUND))
    assert graph.deadlocked("/core/ks/a") == {"uc"}
    assert graph.deadlocked("/core/ks/c") == {"ub"}
    assert graph.deadlocked("/core/ks/tail") == graph.deadlocked("/core/ks/head") == set()
    graph.add(record("b", [("a", False)], FOREGROUND))
    assert graph.deadlocked("/core/ks/a") == set()


def test_events_and_what_cannot_be_read_are_left_alone(caplog: Any) -> None:
    graph = Graph()
    owned = record("b", [("a", True)])
    assert graph.add(StoreRecord("/core/events/default/b", owned.value, 1, 1)) == []
    odd = StoreRecord("/core/ks/odd", b'{"metadata":{"uid":"u","ownerReferences":[{"uid":7}]}}', 1, 1)
    assert graph.add(odd) == []
    assert "cannot read the owners of /core/ks/odd, so it is never collected" in caplog.text
    assert ownership.read(odd).metadata.uid == ""
    assert len(graph) == 0

"""The text of an object is what reading and writing it again would give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.server.kinds.builtin_kinds import BUILTIN
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import stored
from nodemanager.store.base import StoreRecord

MAPS = next(kind for kind in BUILTIN if kind.plural == "configmaps")
THINGS = replace(MAPS, group="example.org", version="v1", kind="Thing", plural="things", custom=True)
HEAD = ("apiVersion", "kind", "metadata")
EVENTS = [kind for kind in BUILTIN if kind.plural == "events"]
TEXTS = st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
METADATA = st.dictionaries(TEXTS | st.sampled_from(["name", "resourceVersion"]), VALUES, max_size=4)
OBJECTS = st.builds(
    lambda first, meta, rest: {**first, "metadata": meta, **{k: v for k, v in rest.items() if k not in HEAD}},
    st.sampled_from([{}, {"kind": "Thing", "apiVersion": "example.org/v1"}, {"spec": {"metadata": {}}}]),
    METADATA,
    st.dictionaries(TEXTS | st.just("metadata"), VALUES, max_size=3),
)


def shown(kind: ServedKind, record: StoreRecord) -> Any:
    return msgspec.json.decode(stored.text(kind, record))


@given(obj=OBJECTS, revision=st.integers(1, 2**63))
def test_the_text_says_what_loading_says(obj: dict[str, Any], revision: int) -> None:
    record = StoreRecord("/k", stored.dump(THINGS, obj), 1, revision)
    assert shown(THINGS, record) == stored.load(THINGS, record)
    assert shown(THINGS, record)["metadata"]["resourceVersion"] == str(revision)


@pytest.mark.parametrize("kind", [MAPS, THINGS, *EVENTS], ids=lambda kind: kind.api_version)
@given(obj=OBJECTS, revision=st.integers(1, 2**63))
def test_the_text_of_an_item_says_what_the_item_says(
    kind: ServedKind, obj: dict[str, Any], revision: int
) -> None:
    record = StoreRecord("/k", stored.dump(kind, obj), 1, revision)
    item = msgspec.json.decode(stored.item_text(kind, record))
    assert item == stored.item(kind, record)
    assert ("kind" in item, "apiVersion" in item) == (kind.custom, kind.custom)


def test_another_version_than_the_stored_one_is_shown_as_asked_for() -> None:
    record = StoreRecord("/k", stored.dump(THINGS, {"metadata": {"name": "a"}, "spec": 1}), 1, 7)
    newer = replace(THINGS, version="v2")
    assert shown(newer, record) == {
        "apiVersion": "example.org/v2",
        "kind": "Thing",
        "metadata": {"name": "a", "resourceVersion": "7"},
        "spec": 1,
    }


def test_a_value_that_was_stored_in_another_order_is_shown_all_the_same() -> None:
    value = b'{"spec":1,"kind":"Thing","metadata":{"name":"a"},"apiVersion":"example.org/v1"}'
    record = StoreRecord("/k", value, 1, 7)
    assert shown(THINGS, record) == stored.load(THINGS, record)


@pytest.mark.parametrize("written", EVENTS, ids=lambda kind: kind.api_version)
@pytest.mark.parametrize("read", EVENTS, ids=lambda kind: kind.api_version)
def test_both_groups_of_events_show_the_same_record(written: ServedKind, read: ServedKind) -> None:
    obj = (
        {"metadata": {"name": "a"}, "note": "n"}
        if written.group
        else {"metadata": {"name": "a"}, "message": "n"}
    )
    record = StoreRecord("/k", stored.dump(written, obj), 1, 7)
    assert shown(read, record) == stored.load(read, record)
    assert shown(read, record)["note" if read.group else "message"] == "n"

"""Server-side apply: who owns what, who wins, and what goes away."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.kube import errors
from nodemanager.kube.json_values import same
from nodemanager.kube.patching import last_applied
from nodemanager.kube.patching.field_sets import FieldSet
from nodemanager.kube.patching.managed_fields import UNMANAGED, decode
from nodemanager.kube.patching.merge_types import object_type
from nodemanager.kube.patching.server_side_apply import (
    ApplyResult,
    Writer,
    apply,
    keep_times,
    update_managers,
)
from nodemanager.kube.patching.typed_values import fields_of
from support.patch_steps import SCHEMA, WidgetSteps

OF = object_type(SCHEMA)
VERSION, EARLY, LATE = "patches.example.com/v1", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
HEAD = {"apiVersion": VERSION, "kind": "Widget"}


def who(manager: str, now: str = EARLY, **more: Any) -> Writer:
    return Writer(manager, VERSION, "Widget", now, is_custom=True, **more)


def widget(**spec: Any) -> dict[str, Any]:
    return {**HEAD, "metadata": {"name": "w", "namespace": "n"}, "spec": spec}


def stored(result: ApplyResult) -> dict[str, Any]:
    meta = {**result.object["metadata"], "managedFields": result.managed_fields}
    return {**result.object, "metadata": meta}


def applied(
    live: dict[str, Any] | None, writer: Writer, *, force: bool = False, **spec: Any
) -> dict[str, Any]:
    return stored(apply(live, widget(**spec), writer, OF, force=force))


def updated(live: dict[str, Any], writer: Writer, **spec: Any) -> dict[str, Any]:
    after = {**live, "spec": {**live["spec"], **spec}}
    entries = update_managers(live, {**after, "metadata": {"name": "w"}}, writer, OF)
    return {**after, "metadata": {"name": "w", "namespace": "n", "managedFields": entries}}


def owner_of(live: dict[str, Any], name: str) -> list[str]:
    path = ("f:spec", f"f:{name}")
    return [
        i.manager
        for i, owned in decode(live["metadata"]["managedFields"]).owned.items()
        if path in owned.fields
    ]


def test_whoever_applies_first_owns() -> None:
    live = applied(None, who("one"), size=1)
    assert live["spec"] == {"size": 1}
    assert live["metadata"]["managedFields"] == [
        {
            "manager": "one",
            "operation": "Apply",
            "apiVersion": VERSION,
            "time": EARLY,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:size": {}}},
        }
    ]


def test_another_value_conflicts_and_force_wins() -> None:
    live = applied(None, who("one"), size=1)
    with pytest.raises(errors.Conflict) as conflict:
        applied(live, who("two"), size=2)
    assert conflict.value.message == 'Apply failed with 1 conflict: conflict with "one": .spec.size'
    cause = conflict.value.causes[0]
    assert (cause.field, cause.reason) == (".spec.size", "FieldManagerConflict")
    assert cause.message == 'conflict with "one"'
    won = applied(live, who("two"), force=True, size=2)
    assert won["spec"] == {"size": 2}
    assert owner_of(won, "size") == ["two"]
    assert [entry["manager"] for entry in won["metadata"]["managedFields"]] == ["two"]


def test_conflicts_with_several_managers_are_grouped() -> None:
    live = applied(None, who("one"), size=1, name="a")
    live = updated(live, who("two"), ports=[{"port": 80, "protocol": "TCP", "name": "x"}])
    live = updated(live, who("three", subresource="scale"), either=1)
    with pytest.raises(errors.Conflict) as conflict:
        applied(live, who("four"), size=2, name="b", either=2, ports=[{"port": 80, "name": "y"}])
    assert conflict.value.message.split("\n") == [
        'Apply failed with 4 conflicts: conflicts with "one":',
        "- .spec.name",
        "- .spec.size",
        f'conflicts with "three" with subresource "scale" using {VERSION}:',
        "- .spec.either",
        f'conflicts with "two" using {VERSION}:',
        '- .spec.ports[port=80,protocol="TCP"].name',
    ]
    assert len(conflict.value.causes) == 4


def test_the_same_value_is_shared() -> None:
    live = applied(applied(None, who("one"), size=1), who("two", LATE), size=1)
    assert sorted(owner_of(live, "size")) == ["one", "two"]
    # Nothing changed, so that the second owner has no time, as in Kubernetes.
    assert [entry.get("time") for entry in live["metadata"]["managedFields"]] == [None, EARLY]


def test_what_is_applied_no_more_goes_away_unless_shared() -> None:
    live = applied(None, who("one"), size=1, name="a", tags=["a", "b"], labels={"x": "1", "y": "2"})
    live = applied(live, who("two"), name="a", tags=["b"])
    live = applied(live, who("one"), labels={"y": "2"})
    assert live["spec"] == {"name": "a", "tags": ["b"], "labels": {"y": "2"}}
    assert owner_of(live, "size") == []


def test_what_an_updater_set_stays() -> None:
    live = applied(None, who("one"), size=1, name="a")
    live = updated(live, who("two"), size=2)
    assert owner_of(live, "size") == ["two"]
    live = applied(live, who("one"), name="a")
    assert live["spec"] == {"size": 2, "name": "a"}


def test_atomic_values_are_owned_as_a_whole() -> None:
    live = applied(None, who("one"), list=["a"], selector={"a": "x"})
    with pytest.raises(errors.Conflict, match=r"\.spec\.list(?s:.*)\.spec\.selector"):
        applied(live, who("two"), list=["b"], selector={"b": "x"})
    won = applied(live, who("two"), force=True, list=["b"], selector={"b": "x"})
    assert won["spec"] == {"list": ["b"], "selector": {"b": "x"}}


def test_items_keep_the_order_of_the_applier() -> None:
    live = applied(None, who("one"), tags=["a", "b", "c"])
    assert applied(live, who("two"), tags=["c", "a", "d"])["spec"]["tags"] == ["b", "c", "a", "d"]


def test_time_changes_only_with_the_object() -> None:
    live = applied(None, who("one"), size=1)
    again = applied(live, who("one", LATE), size=1)
    assert again == live
    assert applied(live, who("one", LATE), size=2)["metadata"]["managedFields"][0]["time"] == LATE
    assert updated(live, who("two", LATE)) == live


def test_applying_nothing_ends_ownership() -> None:
    live = applied(None, who("one"), size=1)
    result = apply(live, {**HEAD, "metadata": {"name": "w"}}, who("one"), OF, force=False)
    assert result.managed_fields == []
    assert result.changed


def test_what_was_there_before_the_first_apply_has_an_owner() -> None:
    live = widget(size=1, name="a")
    with pytest.raises(errors.Conflict, match='"before-first-apply" using'):
        applied(live, who("one"), size=2)
    assert owner_of(applied(live, who("one"), size=1), "name") == ["before-first-apply"]


def test_doors_own_only_what_they_let_through() -> None:
    door = who("one", subresource="status", reset_fields=FieldSet.of(("f:metadata",), ("f:spec",)))
    live = applied(None, who("two"), size=1)
    body = {**widget(size=2), "status": {"phase": "x"}}
    result = apply(live, body, door, OF, force=False)
    entry = next(e for e in result.managed_fields if e["manager"] == "one")
    assert (entry["subresource"], entry["fieldsV1"]) == ("status", {"f:status": {"f:phase": {}}})
    assert owner_of(stored(result), "size") == ["two"]


@pytest.mark.parametrize(
    ("wish", "custom", "kept"),
    [
        (None, True, True),
        ([], True, True),
        ([], False, False),
        ([{}], True, False),
        ([{"manager": ""}], True, False),
    ],
)
def test_managed_fields_can_be_reset(wish: Any, custom: bool, kept: bool) -> None:
    live = applied(None, who("one"), size=1)
    after = {**live, "spec": {"size": 2}, "metadata": {"name": "w", "managedFields": wish}}
    writer = Writer("two", VERSION, "Widget", LATE, is_custom=custom)
    assert bool(update_managers(live, after, writer, OF)) == kept


def test_managed_fields_can_be_rewritten_but_not_with_nonsense() -> None:
    live = applied(None, who("one"), size=1, name="a")
    entry = {**live["metadata"]["managedFields"][0], "manager": "renamed"}
    renamed = update_managers(live, {**live, "metadata": {"managedFields": [entry]}}, who("two"), OF)
    assert [one["manager"] for one in renamed] == ["renamed"]
    for nonsense in ([{"operation": "Eat"}], [{**entry, "fieldsV1": {"f": {}}}], [1], 5):
        after = {**live, "metadata": {"managedFields": nonsense}}
        kept = update_managers(live, after, who("two"), OF)
        assert [one["manager"] for one in kept] == ["one"]
    # A subresource cannot touch them at all.
    after = {**live, "metadata": {"managedFields": [{}]}}
    assert update_managers(live, after, who("two", subresource="status"), OF)


def test_creation_owns_everything_but_the_name() -> None:
    made = widget(size=1, labels={"a": "x"})
    entries = update_managers(None, made, who(""), OF)
    assert entries[0]["manager"] == "unknown"
    assert entries[0]["fieldsV1"] == {"f:spec": {".": {}, "f:labels": {".": {}, "f:a": {}}, "f:size": {}}}


def test_values_that_do_not_fit() -> None:
    with pytest.raises(errors.InternalError) as refusal:
        applied(None, who("one"), size="x", unknown=1)
    assert refusal.value.status.reason == ""
    assert refusal.value.message == (
        "failed to create typed patch object (n/w; patches.example.com/v1, Kind=Widget): errors:\n"
        "  .spec.size: expected numeric (int or float), got string\n"
        "  .spec.unknown: field not declared in schema"
    )
    assert update_managers(None, widget(size="x"), who("one"), OF) == []
    with pytest.raises(errors.InternalError, match="typed live object"):
        applied(widget(size="x"), who("one"), size=1)


def test_broken_entries_of_the_live_object_stop_an_apply() -> None:
    live = {**widget(), "metadata": {"managedFields": [{"operation": "Apply"}]}}
    with pytest.raises(
        errors.InternalError, match="failed to decode managed fields: apiVersion must not be empty"
    ):
        applied(live, who("one"), size=1)


def test_an_unchanged_object_keeps_its_times() -> None:
    live = applied(None, who("one"), size=1)
    newer = [{**live["metadata"]["managedFields"][0], "time": LATE}]
    again = {**live, "metadata": {**live["metadata"], "managedFields": newer}}
    keep_times(live, again)
    assert again == live
    changed = {**widget(size=2), "metadata": {**live["metadata"], "managedFields": newer}}
    keep_times(live, changed)
    assert changed["metadata"]["managedFields"] == newer
    bare = {**live, "metadata": {**live["metadata"], "managedFields": []}}
    keep_times(live, bare)
    assert bare["metadata"]["managedFields"] == []


def test_client_side_apply_is_taken_over_by_kubectl_only() -> None:
    said = widget(size=1, name="a")
    note = {last_applied.ANNOTATION: json.dumps(said)}
    first = {**said, "metadata": {"name": "w", "namespace": "n", "annotations": note}}
    live = {
        **first,
        "metadata": {**first["metadata"], "managedFields": update_managers(None, first, who("csa"), OF)},
    }
    with pytest.raises(errors.Conflict):
        applied(live, who("other"), size=2)
    taken = applied(live, who("kubectl"), size=2)
    assert json.loads(taken["metadata"]["annotations"][last_applied.ANNOTATION]) == widget(size=2)
    live["spec"] = {**live["spec"], "size": 5}
    with pytest.raises(errors.Conflict, match=r"1 conflict: .*\.spec\.size"):
        applied(live, who("kubectl"), size=2)
    live["metadata"] = {**live["metadata"], "annotations": {last_applied.ANNOTATION: "{"}}
    with pytest.raises(errors.Conflict):
        applied(live, who("kubectl"), size=2)


def without_empty(value: Any) -> Any:
    """Leave out empty lists and maps, for which Kubernetes itself may need a second apply."""
    if isinstance(value, dict):
        found = {name: without_empty(inner) for name, inner in value.items()}
        return {name: inner for name, inner in found.items() if inner not in ({}, [], None)}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_any_forced_apply_is_idempotent_and_leaves_its_inputs_alone(seed: int) -> None:
    steps = WidgetSteps(seed)
    live = {**widget(), "metadata": {"name": "w", "namespace": "n", "resourceVersion": "1"}}
    live["metadata"]["managedFields"] = update_managers(None, live, who("first"), OF)
    for _ in range(6):
        step = steps.step(live)
        if step.kind not in ("apply", "force"):
            continue
        filled = without_empty(step.body)
        body = {**filled, **HEAD, "metadata": {**filled.get("metadata", {}), "name": "w"}}
        before = copy.deepcopy((live, body))
        try:
            once = apply(live, body, who(step.manager), OF, force=True)
        except errors.InternalError:
            continue
        assert before == (live, body)
        again = apply(stored(once), body, who(step.manager, LATE), OF, force=True)
        assert not again.changed
        assert same(again.object, once.object)
        assert again.managed_fields == once.managed_fields
        mine = decode(once.managed_fields).owned.get(who(step.manager).identity("Apply"))
        assert (mine.fields if mine else FieldSet()) == fields_of(body, OF).difference(UNMANAGED)
        live = stored(once)

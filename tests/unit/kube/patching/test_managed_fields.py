"""The entries of managedFields: identities, order, the cap, and what cannot be decoded."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.kube.patching import managed_fields
from nodemanager.kube.patching.field_sets import FieldSet
from nodemanager.kube.patching.managed_fields import (
    ANCIENT,
    MAX_UPDATE_MANAGERS,
    ManagerFields,
    ManagerIdentity,
    Managers,
)


def entry(manager: str, operation: str = "Update", time: str = "", version: str = "v1", **more: Any) -> Any:
    known = {"manager": manager, "operation": operation, "apiVersion": version}
    fields = {"fieldsType": "FieldsV1", "fieldsV1": {f"f:{manager}": {}}}
    return {**known, **({"time": time} if time else {}), **fields, **more}


def test_entries_are_decoded_and_encoded_in_kubernetes_order() -> None:
    late, early = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"
    ordered = [
        entry("b", "Apply"),
        entry("z", "Apply", early),
        entry("a", "Apply", late),
        entry("c", "Update", early),
        entry("d", "Update", early, subresource="status"),
        entry("b", "Update", late),
        entry("b", "Update", late, version="v2"),
    ]
    assert managed_fields.decode(ordered[::-1]).encode() == ordered
    assert list(managed_fields.decode(ordered).encode()[4]) == list(ordered[4])


def test_an_applier_is_the_same_in_every_version() -> None:
    managers = managed_fields.decode([entry("a", "Apply"), entry("a", "Apply", version="v2")])
    assert list(managers.owned) == [ManagerIdentity("a", "Apply")]
    assert managers.encode()[0]["apiVersion"] == "v2"


def test_identities_have_the_text_of_kubernetes() -> None:
    identity = ManagerIdentity("a<b", "Update", "v1", "status")
    expected = '{"manager":"a\\u003cb","operation":"Update","apiVersion":"v1","subresource":"status"}'
    assert str(identity) == expected
    assert identity.describe() == '"a\\u003cb" with subresource "status" using v1'
    assert ManagerIdentity("a", "Apply").describe() == '"a"'


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"operation": "Delete"}, "operation must be `Apply` or `Update`"),
        ({"operation": "Apply"}, "apiVersion must not be empty"),
        (entry("a", fieldsType=""), "missing fieldsType in managed fields entry 1"),
        (entry("a", fieldsType="FieldsV2"), 'invalid fieldsType "FieldsV2" in managed fields entry 1'),
        (entry("a", fieldsV1={"f": {}}), "fieldsV1"),
        ("x", "operation must be"),
    ],
    ids=str,
)
def test_broken_entries_are_refused(broken: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        managed_fields.decode([entry("ok"), broken])


@pytest.mark.parametrize(
    ("entries", "is_reset"),
    [
        ([], True),
        ([{}], True),
        ([{"manager": ""}], True),
        (None, False),
        ([{}, {}], False),
        ([1], False),
        ({}, False),
    ],
)
def test_a_reset_is_an_empty_list_or_entry(entries: Any, is_reset: bool) -> None:
    assert managed_fields.is_reset(entries) == is_reset


def updaters(count: int, version: str = "v1", minute: int = 0) -> dict[ManagerIdentity, ManagerFields]:
    return {
        ManagerIdentity(f"m{number:02}", "Update", version): ManagerFields(
            FieldSet.of((f"f:{version}-{number}",)), version, f"2026-01-01T00:{minute:02}:{number:02}Z"
        )
        for number in range(count)
    }


def test_the_oldest_updaters_are_merged() -> None:
    managers = Managers(
        {**updaters(MAX_UPDATE_MANAGERS + 2), ManagerIdentity("a", "Apply"): ManagerFields(FieldSet(), "v1")}
    )
    managers.cap()
    ancient = managers.owned[ManagerIdentity(ANCIENT, "Update", "v1")]
    assert set(ancient.fields) == {("f:v1-0",), ("f:v1-1",), ("f:v1-2",)}
    assert ancient.time == "2026-01-01T00:00:02Z"
    assert sum(identity.operation == "Update" for identity in managers.owned) == MAX_UPDATE_MANAGERS
    before = dict(managers.owned)
    managers.cap()
    assert managers.owned == before


def test_versions_are_not_mixed() -> None:
    managers = Managers({**updaters(1, "v2"), **updaters(MAX_UPDATE_MANAGERS + 1, "v1", 1)})
    managers.cap()
    assert ManagerIdentity("m00", "Update", "v2") in managers.owned
    assert ManagerIdentity(ANCIENT, "Update", "v1") in managers.owned
    assert len(managers.owned) == MAX_UPDATE_MANAGERS

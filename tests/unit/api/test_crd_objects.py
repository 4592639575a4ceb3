"""The CRD objects: complete, the same every time, and small enough to apply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodemanager.api import crds

BY_KIND = {crd["spec"]["names"]["kind"]: crd for crd in crds.all_crds()}


def columns(kind: str, *, wide: bool) -> list[str]:
    listed: list[dict[str, Any]] = BY_KIND[kind]["spec"]["versions"][0]["additionalPrinterColumns"]
    return [column["name"] for column in listed if wide or not column.get("priority")]


@pytest.mark.parametrize(
    ("kind", "name", "short"),
    [
        pytest.param("ConfigSet", "configsets.common.nodemanager", "cs", id="configset"),
        pytest.param("ManagedNode", "managednodes.common.nodemanager", "mn", id="managednode"),
    ],
)
def test_names(kind: str, name: str, short: str) -> None:
    crd = BY_KIND[kind]
    assert crd["metadata"]["name"] == name
    assert crd["spec"]["scope"] == "Namespaced"
    assert crd["spec"]["names"]["listKind"] == f"{kind}List"
    assert crd["spec"]["names"]["singular"] == kind.lower()
    assert short in crd["spec"]["names"]["shortNames"]
    assert crd["spec"]["names"]["categories"] == ["nodemanager"]
    version = crd["spec"]["versions"][0]
    assert (version["name"], version["served"], version["storage"]) == ("v1", True, True)
    assert version["subresources"] == {"status": {}}


def test_columns() -> None:
    assert columns("ManagedNode", wide=False) == [
        "OS",
        "Agent",
        "Ready",
        "Drift",
        "Held",
        "Last Seen",
        "Age",
    ]
    assert columns("ConfigSet", wide=False) == [
        "Nodes",
        "Applied",
        "Failed",
        "Unknown",
        "Held",
        "Conflicted",
        "Age",
    ]
    assert {"System", "Release", "Repaired"} <= set(columns("ManagedNode", wide=True))
    assert {"Priority", "Message"} <= set(columns("ConfigSet", wide=True))


def empty(value: Any) -> None:
    """Clear every list and map there is, from the inside out."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            empty(inner)
        value.clear()


def test_all_crds_are_the_same_every_time_and_nobody_shares_them() -> None:
    first = crds.all_crds()
    text = json.dumps(first)
    empty(first)
    assert json.dumps(crds.all_crds()) == text


@pytest.mark.parametrize("kind", sorted(BY_KIND))
def test_kubectl_can_keep_it_in_its_annotation(kind: str) -> None:
    assert len(json.dumps(BY_KIND[kind])) < 262144 / 2

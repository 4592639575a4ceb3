"""Columns: paths, cells and ages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube import errors, times
from nodemanager.server.kinds.builtin_kinds import BUILTIN
from nodemanager.server.kinds.resources import PrinterColumn, ServedKind
from nodemanager.server.verbs import jsonpath, tables

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OBJ: dict[str, Any] = {
    "kind": "Widget",
    "metadata": {
        "name": "a", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"ex.io/os": "linux"},
        "resourceVersion": "5",
    },
    "spec": {"size": 3, "ratio": 2, "on": True, "list": [{"n": 1}, {"n": 2}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.size", [3]),
        (r".metadata.labels.ex\.io/os", ["linux"]),
        (".metadata.labels['ex.io/os']", ["linux"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        (".spec.list[*].n", [1, 2]),
        (".spec.list[-1].n", [2]),
        (".spec.list[?(@.n==2)].n", [2]),
        (".spec.list[9].n", []),
        ("{.spec.size}", [3]),
        (".spec.nothing.at.all", []),
    ],
)
def test_paths(path: str, expected: list[Any]) -> None:
    assert jsonpath.find(OBJ, path) == expected


@pytest.mark.parametrize("path", ["", "spec", ".spec[", ".spec[?(@.x>1)]", "." * 3000])
def test_paths_that_are_refused(path: str) -> None:
    with pytest.raises(jsonpath.PathError, match="cannot read JSONPath"):
        jsonpath.compile_path(path)


@given(st.text(".[]?@()'\"\\*ab=! ", max_size=40))
def test_any_path_is_read_or_refused(path: str) -> None:
    try:
        found = jsonpath.find(OBJ, path)
    except jsonpath.PathError:
        return
    assert isinstance(found, list)


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("integer", ".spec.size", 3),
        ("number", ".spec.ratio", 2.0),
        ("boolean", ".spec.on", True),
        ("string", ".spec.list[*].n", "1 2"),
        ("date", ".metadata.creationTimestamp", "24h"),
        ("integer", ".spec.on", None),
        ("string", ".spec.nope", None),
    ],
)
def test_cells(kind: str, path: str, expected: Any) -> None:
    assert tables.cell(OBJ, PrinterColumn("X", kind, path), NOW) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (660, "11m"), (10800, "3h"),
        (11000, "3h3m"), (86400, "24h"), (172800, "2d"), (180000, "2d2h"), (864000, "10d"), (63072000, "2y"),
        (315360000, "10y"),
    ],
)  # fmt: skip
def test_ages(seconds: int, text: str) -> None:
    assert times.human_duration(seconds) == text


def test_a_table_of_a_custom_kind() -> None:
    kind = ServedKind(
        "ex.io",
        "v1",
        "Widget",
        "widgets",
        custom=True,
        columns=(PrinterColumn("Size", "integer", ".spec.size"),),
    )
    table = tables.table(kind, OBJ, "None", NOW)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
    assert table["rows"] == [{"cells": ["a", 3], "object": None}]
    assert table["metadata"] == {"resourceVersion": "5"}
    with pytest.raises(errors.BadRequest, match="unrecognized includeObject"):
        tables.table(kind, OBJ, "Everything", NOW)


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.qualified_name)
def test_every_builtin_kind_prints_a_bare_object(kind: ServedKind) -> None:
    bare = {"kind": kind.kind, "metadata": {"name": "a"}}
    table = tables.table(kind, bare, "", NOW)
    assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])

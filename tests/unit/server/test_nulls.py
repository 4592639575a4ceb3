"""Null in built-in kinds is the value that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.kube.schemas import structural
from nodemanager.server.kinds import builtin_schemas, nulls


@pytest.mark.parametrize(
    ("kind", "given", "left"),
    [
        pytest.param("Secret", {"data": None, "type": "x"}, {"type": "x"}, id="field"),
        pytest.param("ConfigMap", {"data": {"a": None}}, {"data": {"a": ""}}, id="text-in-a-map"),
        pytest.param(
            "Node",
            {"spec": {"taints": None}, "status": {"conditions": [{"type": "a", "lastHeartbeatTime": None}]}},
            {"spec": {}, "status": {"conditions": [{"type": "a"}]}},
            id="nested",
        ),
        pytest.param("Node", {"spec": {"nope": None}}, {"spec": {"nope": None}}, id="unknown-is-for-pruning"),
        pytest.param("ConfigMap", {"data": [None]}, {"data": [None]}, id="wrong-type-is-for-validation"),
    ],
)
def test_leaving_out(kind: str, given: dict[str, Any], left: dict[str, Any]) -> None:
    schema = builtin_schemas.structural("", "v1", kind)
    assert schema is not None
    nulls.leave_out(given, structural.compile_schema(schema))
    assert given == left

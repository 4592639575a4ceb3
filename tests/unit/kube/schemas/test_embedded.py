"""Resources inside resources that cannot be decoded; the texts are those of a kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.kube.schemas.embedded import embedded_malformed, metadata_fault
from nodemanager.kube.schemas.structural import compile_schema

EMBEDDED = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}


def faults(value: Any) -> list[str]:
    schema = {"type": "array", "items": {"type": "object", "additionalProperties": EMBEDDED}}
    node = compile_schema({"type": "object", "properties": {"spec": schema}})
    found = embedded_malformed({"spec": [{"key": value}]}, node)
    return [f"{cause.field}: {cause.message}" for cause in found]


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"apiVersion": 1}, "spec[0][key].apiVersion: Invalid value: 1: must be a string"),
        ({"kind": None}, "spec[0][key].kind: Invalid value: null: must be a string"),
        (
            {"metadata": 3},
            f"spec[0][key].metadata: Invalid value: 3: {metadata_fault(3)}",
        ),
    ],
)
def test_what_cannot_be_decoded(value: Any, fault: str) -> None:
    assert faults(value) == [fault]


@pytest.mark.parametrize("value", [{}, {"apiVersion": "", "kind": "x"}, {"metadata": None}, [], 1])
def test_what_can_be_decoded(value: Any) -> None:
    assert faults(value) == []


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        (3, "number into Go value of type v1.ObjectMeta"),
        ({"name": True}, "bool into Go struct field ObjectMeta.name of type string"),
        ({"uid": {}}, "object into Go struct field ObjectMeta.uid of type types.UID"),
        ({"labels": []}, "array into Go struct field ObjectMeta.labels of type map[string]string"),
        ({"finalizers": "x"}, "string into Go struct field ObjectMeta.finalizers of type []string"),
        ({"finalizers": [1]}, "number into Go struct field ObjectMeta.finalizers of type string"),
        ({"generation": 1.5}, "number 1.5 into Go struct field ObjectMeta.generation of type int64"),
        ({"generation": True}, "bool into Go struct field ObjectMeta.generation of type int64"),
        (
            {"generation": 2**70},
            "number 1.1805916207174113e+21 into Go struct field ObjectMeta.generation of",
        ),
    ],
)
def test_metadata_of_a_wrong_shape(meta: Any, why: str) -> None:
    assert metadata_fault(meta).startswith(f"json: cannot unmarshal {why}")


@pytest.mark.parametrize("meta", [None, {}, {"name": None, "labels": {"a": None}, "generation": 1.0}])
def test_metadata_of_the_right_shape(meta: Any) -> None:
    assert metadata_fault(meta) == ""

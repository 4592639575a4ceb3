"""The protobuf form of the v2 document, read back with a decoder that knows only the wire format."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodemanager.server.openapi import proto
from nodemanager.server.openapi.documents import Documents
from support.openapi_stand_in import SERVED


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def wire(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of every field of a message."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        match tag & 7:
            case 0:
                value, at = varint(data, at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, struct.unpack("<d", data[at : at + 8])[0]
                at += 8
            case 2:
                length, at = varint(data, at)
                assert at + length <= len(data)
                yield tag >> 3, data[at : at + length]
                at += length
            case other:
                raise AssertionError(f"wire type {other}")


def one(data: bytes, number: int) -> Any:
    (found,) = [value for name, value in wire(data) if name == number]
    return found


def entries(data: bytes, number: int = 1) -> dict[str, bytes]:
    """Return a map: a repeated message of name (1) and value (2)."""
    return {one(entry, 1).decode(): one(entry, 2) for name, entry in wire(data) if name == number}


def definitions(document: dict[str, Any]) -> dict[str, bytes]:
    return entries(one(proto.encode(document), 9))


def schema(value: dict[str, Any]) -> bytes:
    return definitions({"definitions": {"X": value}})["X"]


def test_document_has_all_its_parts() -> None:
    documents = Documents(SERVED)
    message, document = documents.v2_protobuf(), json.loads(documents.v2().body)
    assert one(message, 1) == b"2.0"
    assert one(one(message, 2), 1) == b"Kubernetes"
    assert set(entries(one(message, 8), 2)) == set(document["paths"])
    assert set(entries(one(message, 9))) == set(document["definitions"])


def test_operation() -> None:
    documents = Documents(SERVED)
    pods = entries(one(documents.v2_protobuf(), 8), 2)["/api/v1/namespaces/{namespace}/pods/{name}"]
    patch = one(pods, 8)
    assert one(patch, 5) == b"patchCoreV1NamespacedPod"
    parameters = [one(item, 1) for number, item in wire(patch) if number == 8]
    assert one(one(parameters[0], 1), 2) == b"body"
    names = [one(one(one(item, 2), 3), 4) for item in parameters[1:]]
    assert names == [b"dryRun", b"fieldManager", b"fieldValidation", b"force"]
    answers = entries(one(patch, 9))
    assert one(one(one(one(answers["200"], 1), 2), 1), 1) == b"#/definitions/io.k8s.api.core.v1.Pod"
    extensions = entries(patch, 13)
    kind = json.loads(one(extensions["x-kubernetes-group-version-kind"], 2))
    assert kind == {"group": "", "version": "v1", "kind": "Pod"}
    in_path = [one(one(item, 1), 2) for number, item in wire(pods) if number == 9]
    assert [one(one(item, 4), 4) for item in in_path[:2]] == [b"name", b"namespace"]


def test_what_the_message_has_no_field_for_is_left_out() -> None:
    assert schema({"nullable": True, "type": "string"}) == schema({"type": "string"})


@given(
    text=st.text(),
    number=st.integers(-(2**63), 2**63 - 1),
    fraction=st.floats(allow_nan=False),
    flag=st.booleans(),
    value=st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
)
def test_values_come_back(text: str, number: int, fraction: float, flag: bool, value: Any) -> None:
    found = schema(
        {
            "description": text,
            "maxLength": number,
            "maximum": fraction,
            "uniqueItems": flag,
            "default": value,
            "enum": [value, text],
            "required": [text, "b"],
            "x-any": value,
            "type": "object",
        }
    )
    assert one(found, 4).decode() == text
    assert one(found, 11) == number % 2**64
    assert one(found, 7) == fraction
    assert one(found, 16) == int(flag)
    assert json.loads(one(one(found, 5), 2)) == value
    assert [json.loads(one(item, 2)) for name, item in wire(found) if name == 20] == [value, text]
    assert [item.decode() for name, item in wire(found) if name == 19] == [text, "b"]
    assert json.loads(one(entries(found, 31)["x-any"], 2)) == value
    assert one(one(found, 22), 1) == b"object"


SCHEMAS = st.recursive(
    st.builds(lambda text: {"description": text}, st.text()),
    lambda inner: (
        st.builds(lambda part: {"items": part}, inner)
        | st.builds(lambda part: {"additionalProperties": part}, inner)
        | st.builds(lambda parts: {"properties": parts}, st.dictionaries(st.text(), inner))
    ),
)


def read(data: bytes) -> dict[str, Any]:
    """Return the parts of a schema that contain schemas."""
    found: dict[str, Any] = {}
    for number, value in wire(data):
        match number:
            case 4:
                found["description"] = value.decode()
            case 23:
                found["items"] = read(one(value, 1))
            case 21:
                found["additionalProperties"] = read(one(value, 1))
            case 25:
                found["properties"] = {name: read(part) for name, part in entries(value).items()}
    return found


@given(SCHEMAS)
def test_nested_schemas_come_back(value: dict[str, Any]) -> None:
    assert read(schema(value)) == value


def test_additional_properties_may_be_a_flag() -> None:
    assert one(one(schema({"additionalProperties": True}), 21), 2) == 1

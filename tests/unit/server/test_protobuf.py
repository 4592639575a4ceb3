"""Protobuf as kubectl sends it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodemanager.server.openapi import protobuf


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    if value < 0x80:
        return bytes([value])
    return bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def envelope(kind: str, raw: bytes) -> bytes:
    return protobuf.MAGIC + field(1, field(1, b"v1") + field(2, kind.encode())) + field(2, raw)


def test_a_config_map() -> None:
    meta = (
        field(1, b"c")
        + field(2, b"")
        + field(7, 0)
        + field(8, b"")
        + field(11, field(1, b"k") + field(2, b"v"))
    )
    raw = (
        field(1, meta)
        + field(2, field(1, b"a") + field(2, b"b"))
        + field(3, field(1, b"x") + field(2, b"\x00"))
    )
    assert protobuf.decode(envelope("ConfigMap", raw)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"k": "v"}},
        "data": {"a": "b"},
        "binaryData": {"x": "AA=="},
    }


def test_numbers_times_and_either() -> None:
    spec = field(1, field(1, 1) + field(3, b"50%")) + field(3, field(2, 2))
    meta = field(1, b"p") + field(8, field(1, 86400)) + field(10, 0)
    found = protobuf.decode(envelope("PodDisruptionBudget", field(1, meta) + field(2, spec)))
    assert found["spec"] == {"minAvailable": "50%", "maxUnavailable": 2}
    assert found["metadata"] == {
        "name": "p", "creationTimestamp": "1970-01-02T00:00:00Z", "deletionGracePeriodSeconds": 0,
    }  # fmt: skip
    options = protobuf.decode(envelope("DeleteOptions", field(1, 0) + field(5, b"All")))
    assert (options["gracePeriodSeconds"], options["dryRun"]) == (0, ["All"])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{}", "does not appear to be a protobuf message"),
        (envelope("Pod", b""), "kind 'Pod' is not read"),
        (envelope("ObjectMeta", b""), "kind 'ObjectMeta' is not read"),
        (envelope("ConfigMap", field(99, b"x")), "field 99 of ConfigMap is not known"),
        (envelope("ConfigMap", field(1, b"\x0a\x7f")), "ends in the middle of a field"),
        (envelope("ConfigMap", field(1, 3)), "a number where bytes belong"),
        (protobuf.MAGIC + b"\xff" * 12, "a number that never ends"),
    ],
)
def test_what_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        protobuf.decode(body)


@given(st.sampled_from(["ConfigMap", "Role", "Lease", "DeleteOptions"]), st.binary(max_size=200))
@example("ConfigMap", b"\x10\x00")  # a number where an entry of a map belongs
def test_any_bytes_are_read_or_refused(kind: str, raw: bytes) -> None:
    try:
        found = protobuf.decode(envelope(kind, raw))
    except ValueError:  # UnicodeDecodeError and msgspec's errors are ValueErrors, too
        return
    assert found["kind"] == kind

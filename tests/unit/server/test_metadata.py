"""Names, labels and what a client may change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube import errors
from nodemanager.server.http import bodies, negotiation
from nodemanager.server.http.negotiation import Form, Shape
from nodemanager.server.kinds import kind_schema
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import metadata

WIDGETS = ServedKind("ex.io", "v1", "Widget", "widgets", custom=True)


@pytest.mark.parametrize(
    ("name", "rule", "fits"),
    [
        ("a.b-c", "subdomain", True),
        ("a..b", "subdomain", False),
        ("a\n", "subdomain", False),
        ("a" * 254, "subdomain", False),
        ("a.b", "label", False),
        ("a" * 64, "label", False),
        ("system:node", "path", True),
        ("a/b", "path", False),
        ("..", "path", False),
    ],
)
def test_names(name: str, rule: str, fits: bool) -> None:
    assert (not metadata.name_faults(name, rule)) is fits


@given(st.text(min_size=1, max_size=70))
def test_generated_names_keep_their_base(base: str) -> None:
    name = metadata.generated(base)
    assert name.startswith(base[:58])
    assert len(name) == min(len(base), 58) + 5


@pytest.mark.parametrize(
    "meta", [{"labels": {"a": 1}}, {"finalizers": "x"}, {"name": 3}, {"generation": True}, []]
)
def test_metadata_of_other_types_is_refused(meta: Any) -> None:
    with pytest.raises(errors.BadRequest, match=r"Widget in version .* cannot be handled as a Widget"):
        metadata.check_shape({"metadata": meta}, WIDGETS)


def test_nulls_in_metadata_count_as_absent() -> None:
    obj = {"metadata": {"name": "a", "labels": None}}
    metadata.check_shape(obj, WIDGETS)
    kind_schema.of(WIDGETS).prune(obj)
    assert obj == {"metadata": {"name": "a"}}


def test_owners_must_be_complete_and_controlled_by_one() -> None:
    owner = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": True}
    obj = {
        "metadata": {
            "name": "a",
            "ownerReferences": [owner, owner, {**owner, "uid": "", "controller": False}],
        }
    }
    fields = [cause.field for cause in metadata.faults(obj, WIDGETS)]
    assert fields == ["metadata.ownerReferences", "metadata.ownerReferences.uid"]


def test_duplicates_are_found_where_they_are() -> None:
    assert bodies.duplicates(b'{"a":1,"b":[{"c":1,"c":2}],"a":2}') == ["a", "b[0].c"]
    assert bodies.duplicates(b'{"a":{"b":1}}') == []


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 100_000, b"\xff", b"a: &x [*x]", b"---\na: 1\n---\nb: 2\n"]
)
def test_hostile_yaml_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        bodies.decode_yaml(body)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form()),
        ("*/*", Form()),
        ("application/vnd.kubernetes.protobuf, application/json", Form()),
        ("application/yaml", Form(yaml=True)),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form(Shape.TABLE)),
        ("application/json;as=Table;v=v1beta9;g=meta.k8s.io,application/json", Form()),
    ],
)
def test_forms(accept: str, form: Form) -> None:
    assert negotiation.choose(accept) == form


@pytest.mark.parametrize("accept", ["text/html", "application/json;as=Nope;v=v1;g=meta.k8s.io"])
def test_forms_that_nobody_speaks(accept: str) -> None:
    with pytest.raises(errors.NotAcceptable, match="application/json, application/yaml"):
        negotiation.choose(accept)

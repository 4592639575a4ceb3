"""Manifests: reading with file, document and line in every error, and writing what reads the same."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube import manifests

HEAD = "apiVersion: v1\nkind: ConfigMap\n"


@pytest.fixture(params=["libyaml", "pure-python"])
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pure-python":
        monkeypatch.delattr(yaml, "CSafeLoader")


both_parsers = pytest.mark.usefixtures("_parser")


def load_one(body: str) -> Any:
    (obj,) = manifests.load_all(HEAD + body, "test.yaml")
    return obj["data"]


@both_parsers
@pytest.mark.parametrize(
    ("body", "value"),
    [
        pytest.param("data: 1e3", 1000, id="exponent"),
        pytest.param("data: 0o17", 15, id="octal"),
        pytest.param("data: 1:30", "1:30", id="sexagesimal"),
        pytest.param("data: 2020-01-01", "2020-01-01", id="date"),
        pytest.param("data: y", True, id="y"),
        pytest.param("data: {n: 1}", {"false": 1}, id="n-as-key"),
        pytest.param("data: =", "=", id="equals"),
        pytest.param("data: [<<]", ["<<"], id="merge-as-value"),
        pytest.param("data: !!binary aGVsbG8=", "hello", id="binary"),
        pytest.param("data: '1e3'", "1e3", id="quoted"),
        pytest.param("data: !!str 1e3", "1e3", id="tagged-text"),
        pytest.param("data: ! 1e3", "1e3", id="non-specific-tag"),
        pytest.param("data: !!int '7'", 7, id="tagged-int"),
        pytest.param("data: {1: a, 1.5: b, on: c}", {"1": "a", "1.5": "b", "true": "c"}, id="keys-are-text"),
        pytest.param("x: &x {a: 1, b: 2}\ndata: {<<: *x, a: 3}", {"a": 3, "b": 2}, id="merge-then-override"),
        pytest.param("x: &x {a: 1}\ndata: {a: 3, <<: *x}", {"a": 1}, id="a-merge-below-overrides"),
        pytest.param(
            "x: &x {a: 1}\ny: &y {a: 2, b: 2}\ndata: {<<: [*x, *y]}",
            {"a": 1, "b": 2},
            id="first-of-many-merges",
        ),
        pytest.param("data: {'<<': 1}", {"<<": 1}, id="quoted-merge-is-a-key"),
        pytest.param("data: |\n  a\n  b\n", "a\nb\n", id="literal-block"),
        pytest.param('data: "\\u00e9"', "\u00e9", id="escape"),
    ],
)
def test_values(body: str, value: object) -> None:
    found = load_one(body)
    assert (type(found), found) == (type(value), value)


@both_parsers
@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        pytest.param(HEAD + "a: [", "document 1, line", "while parsing a flow node", id="unclosed"),
        pytest.param(
            HEAD + "---\n" + HEAD + "a: {b: 1,\n  b: 2}",
            "document 2, line 7",
            "'b' is given twice",
            id="twice",
        ),
        pytest.param(
            HEAD + "a: {on: 1, true: 2}", "line 3", "'true' is given twice", id="twice-when-converted"
        ),
        pytest.param(HEAD + "a: *b", "line 3", "alias *b is used before", id="unknown-alias"),
        pytest.param(HEAD + "a: &a\n- *a", "line 4", "alias *a is used before", id="self-reference"),
        pytest.param(
            HEAD + "b: &b 1\n---\n" + HEAD + "a: *b", "document 2, line 7", "alias *b", id="alias-of-before"
        ),
        pytest.param(HEAD + "a: .inf", "line 3", "cannot be written in JSON", id="inf"),
        pytest.param(HEAD + "a: !foo x", "line 3", "tag !foo is not known", id="tag"),
        pytest.param(HEAD + "a: !!set {x}", "line 3", "set is not known", id="set"),
        pytest.param(HEAD + "a: !!binary /w==", "line 3", "not UTF-8", id="binary-not-text"),
        pytest.param(HEAD + "a: !!binary a", "line 3", "base64", id="binary-not-base64"),
        pytest.param(HEAD + "? [a]\n: b", "line 3", "a key must be text", id="list-as-key"),
        pytest.param(HEAD + "~: b", "line 3", "a key must be text", id="null-as-key"),
        pytest.param(HEAD + "<<: 1", "line 3", "can only merge maps", id="merge-of-a-number"),
        pytest.param("\tx: 1", "document 1, line 1", "cannot start any token", id="tab"),
        pytest.param(HEAD + "---\n- a", "document 2, line 4", "an object was expected", id="not-an-object"),
        pytest.param("kind: X", "document 1, line 1", "apiVersion is missing", id="no-api-version"),
        pytest.param(
            "\n\napiVersion: v1\nkind: 7", "document 1, line 3", "kind is missing, or is not text", id="kind"
        ),
        pytest.param("apiVersion: v1\nkind: List\nitems: 7", "line 1", "items of the List", id="bad-list"),
        pytest.param(HEAD + "a: \x01", "line 3", "is not allowed in YAML", id="control-character"),
        pytest.param("[" * 50000, "line 1", "nested deeper than 100", id="deep-flow"),
        pytest.param("- " * 500, "line 1", "nested deeper than 100", id="deep-block"),
    ],
)
def test_errors_name_the_place(text: str, where: str, why: str) -> None:
    with pytest.raises(manifests.ManifestError) as caught:
        manifests.load_all(text, "host.yaml")
    message = str(caught.value)
    assert message.startswith("cannot read host.yaml: ")
    assert where in message
    assert why in message


def _bomb(levels: int, merge: bool) -> str:
    lines = ["x0: &x0 {k0: vvvvvvvvvv}"]
    for level in range(1, levels):
        alias = f"*x{level - 1}"
        inner = f"{{<<: [{alias}, {alias}], k{level}: {alias}}}" if merge else f"[{', '.join([alias] * 9)}]"
        lines.append(f"x{level}: &x{level} {inner}")
    return HEAD + "\n".join(lines)


@pytest.mark.parametrize("merge", [pytest.param(False, id="lists"), pytest.param(True, id="merges")])
def test_an_alias_bomb_does_not_go_off(merge: bool) -> None:
    with pytest.raises(manifests.ManifestError, match="aliases repeat more than"):
        manifests.load_all(_bomb(40, merge), "bomb.yaml")


def test_a_text_too_large_is_refused_unread() -> None:
    with pytest.raises(manifests.ManifestError, match=r"cannot read big\.yaml: longer than .* split it"):
        manifests.load_all("#" * (manifests.MAX_TEXT + 1), "big.yaml")


def test_documents_empty_ones_and_lists() -> None:
    listed = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A}\n"
    text = f"# only a comment\n---\n{HEAD}\n---\n---\n{listed}"
    assert [obj["kind"] for obj in manifests.load_all(text, "x")] == ["ConfigMap", "A"]
    assert manifests.load_all("", "x") == []
    assert manifests.load_all("apiVersion: v1\nkind: List\nitems:\n", "x") == []


def test_an_alias_is_a_copy() -> None:
    data = load_one("data: {a: &a [1], b: *a}")
    data["a"].append(2)
    assert data["b"] == [1]


def test_dump_reads_well() -> None:
    obj = {
        "kind": "X",
        "apiVersion": "v1",
        "b": ["y", "1e3", 1, None, True],
        "a": "one\ntwo\n",
        "c": {},
        "d": "",
    }
    assert manifests.dump(obj) == (
        "kind: X\napiVersion: v1\nb:\n- 'y'\n- '1e3'\n- 1\n- null\n- true\na: |\n  one\n  two\nc: {}\nd: ''\n"
    )


def test_dump_of_several_has_separators_and_no_aliases() -> None:
    shared = {"x": [1]}
    text = manifests.dump([{"a": shared, "b": shared}, {"c": shared}])
    assert text == "---\na:\n  x:\n  - 1\nb:\n  x:\n  - 1\n---\nc:\n  x:\n  - 1\n"


def test_the_yaml_library_is_imported_when_it_is_needed() -> None:
    code = "import sys, nodemanager.kube.manifests; sys.exit('yaml' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


TEXT = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    [
        "y",
        "No",
        "~",
        "1e3",
        "0o7",
        "1:30",
        "2020-01-01",
        "=",
        "<<",
        ".inf",
        "08",
        "1_0",
        "- a",
        "a: b",
        "#",
        " x",
        "x ",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_what_is_written_reads_the_same(content: dict[str, Any]) -> None:
    obj = {"apiVersion": "v1", "kind": "X", "data": content}
    assert manifests.load_all(manifests.dump(obj), "written") == [obj]
    assert manifests.load_all(manifests.dump([obj, obj]), "written") == [obj, obj]

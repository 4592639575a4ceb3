"""The parser: what is read, what is written back, and where errors are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.kube.cel.ast import AstNode, FunctionCall, Literal
from nodemanager.kube.cel.errors import CompileError
from nodemanager.kube.cel.lexer import MAX_SOURCE, tokenize
from nodemanager.kube.cel.parser import MAX_NESTING, parse
from nodemanager.kube.cel.program import compile_expression
from nodemanager.kube.cel.values import UInt
from support.cel_text import shape, write


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        ("-42", -42),
        ("0x1f", 31),
        ("7u", UInt(7)),
        ("-9223372036854775808", -(1 << 63)),
        ("1.5e3", 1500.0),
        (".5", 0.5),
        ("true", True),
        ("null", None),
        (r"'a\n\x41\u00e9\U0001F600\101'", "a\nA\u00e9\U0001f600A"),
        (r"r'a\n'", "a\\n"),
        ("'''a'b\nc'''", "a'b\nc"),
        ('"""a"b"""', 'a"b'),
        (r"b'\xff\377a'", b"\xff\xffa"),
        ("b'\u00e9'", "\u00e9".encode()),
        (r"rb'\x'", b"\\x"),
    ],
)
def test_literals(text: str, value: object) -> None:
    node = parse(text)
    assert isinstance(node, Literal)
    assert (type(node.value), node.value) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("1 + 2 * 3", "1 + (2 * 3)"),
        ("1 - 2 - 3", "(1 - 2) - 3"),
        ("!a && b || c", "((!a) && b) || c"),
        ("a ? b : c ? d : e", "a ? b : (c ? d : e)"),
        ("a == b && c in d", "(a == b) && (c in d)"),
        ("-a.b", "-(a.b)"),
        ("a.b[c].d(e)", "((a.b)[c]).d(e)"),
        ("--a", "a"),
        ("[1, 2,]", "[1, 2]"),
        ("{'a': 1,}", "{'a': 1}"),
    ],
)
def test_precedence(text: str, same_as: str) -> None:
    assert shape(parse(text)) == shape(parse(same_as))


def test_long_chains_of_logic_stay_flat() -> None:
    node = parse(" && ".join(["a"] * 5000))
    assert isinstance(node, FunctionCall)
    assert len(node.args) == 5000


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("1 +", 1, 4),
        ("a\n  b", 2, 3),
        ("(1", 1, 3),
        ("[1, 2", 1, 6),
        ("'open", 1, 1),
        ("a.1", 1, 2),
        ("a # b", 1, 3),
        ("if", 1, 1),
        ("9223372036854775808", 1, 1),
        (r"'\q'", 1, 1),
        (r"'\ud800'", 1, 1),
        ("has(a)", 1, 4),
        ("[1].all(1, true)", 1, 9),
        ("1 ? 2", 1, 6),
    ],
)
def test_errors_have_a_place(text: str, line: int, column: int) -> None:
    with pytest.raises(CompileError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"ERROR: <input>:{line}:{column}: ")


def test_messages_are_refused_by_name() -> None:
    with pytest.raises(CompileError, match="such messages are not served"):
        parse("a.b.Message{x: 1}")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "1" + ")" * 5000,
        "[" * 5000,
        "-(" * 5000,
        "f(" * 5000,
        "1" + " + 1" * 5000,
        "a" + ".b" * 5000,
        "a" + "[0]" * 5000,
        "true ? 1 : " * 5000 + "1",
        "{1:" * 5000,
    ],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(CompileError, match="recursion limit exceeded"):
        compile_expression(text, {})


def test_the_deepest_nesting_that_is_allowed_runs() -> None:
    depth = MAX_NESTING - 1
    assert compile_expression("[" * depth + "1" + "]" * depth + ".size()", {}).evaluate({}) == 1


def test_endless_text_is_refused() -> None:
    with pytest.raises(CompileError, match="size exceeds limit"):
        tokenize(" " * (MAX_SOURCE + 1))


NAMES = st.sampled_from(["a", "b", "foo", "x1"])
LITERALS = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1).map(str),
    st.integers(0, (1 << 64) - 1).map(lambda number: f"{number}u"),
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="'\\"), max_size=5).map(
        "'{}'".format
    ),
    st.sampled_from(["true", "false", "null", "1.5", "b'x'"]),
)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||"])
    return st.one_of(
        st.tuples(inner, operators, inner).map(" ".join),
        st.tuples(inner, inner, inner).map(lambda each: "({} ? {} : {})".format(*each)),
        inner.map("({})".format),
        inner.map("!({})".format),
        st.tuples(NAMES, NAMES).map(".".join),
        st.tuples(NAMES, inner).map(lambda each: f"{each[0]}[{each[1]}]"),
        st.tuples(NAMES, inner).map(lambda each: f"{each[0]}.f({each[1]})"),
        st.tuples(NAMES, inner).map(lambda each: f"{each[0]}.all(v, {each[1]})"),
        st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
        st.tuples(inner, inner).map(lambda each: "{{{}: {}}}".format(*each)),
        st.just("has(a.b)"),
        st.just("a.?b[?c]"),
    )


@settings(deadline=None)
@given(st.recursive(st.one_of(NAMES, LITERALS), _grow, max_leaves=12))
def test_round_trip(text: str) -> None:
    """What was read and is written back reads the same."""
    tree: AstNode = parse(text)
    assert shape(parse(write(tree))) == shape(tree)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except CompileError as why:
        position = why.position
    else:
        position = 0
    assert 0 <= position <= len(text)

"""The evaluator: arithmetic, macros, limits, regular expressions, and how errors travel."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodemanager.kube.cel import times
from nodemanager.kube.cel.conversions import format_double
from nodemanager.kube.cel.errors import CelError, CompileError, CostExceeded
from nodemanager.kube.cel.library import FUNCTIONS
from nodemanager.kube.cel.program import compile_expression
from nodemanager.kube.cel.registry import Overload
from nodemanager.kube.cel.types import DYN, INT, STRING, Type, list_of
from nodemanager.kube.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    CelDuration,
    Optional,
    Timestamp,
    TypeValue,
    UInt,
    equal,
    kind_of,
)  # fmt: skip
from nodemanager.kube.go import regex
from nodemanager.kube.go.regex_syntax import RegexError

INTS = st.integers(INT_MIN, INT_MAX)
SMALL = st.integers(-5, 5)


def run(text: str, **variables: Any) -> Any:
    return compile_expression(text, dict.fromkeys(variables, DYN)).evaluate(variables)


def outcome(text: str, **variables: Any) -> Any:
    try:
        return run(text, **variables)
    except CelError as why:
        return str(why)


def go_division(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


@settings(deadline=None)
@given(INTS, INTS, st.sampled_from("+-*/%"))
def test_integer_arithmetic(left: int, right: int, operator: str) -> None:
    """Results are exact or an error; division truncates as in Go."""
    if operator in "/%" and right == 0:
        expected: Any = "division by zero" if operator == "/" else "modulus by zero"
    elif operator == "%":
        expected = left - right * go_division(left, right)
    else:
        exact = {"+": left + right, "-": left - right, "*": left * right}
        expected = exact[operator] if operator in exact else go_division(left, right)
        expected = expected if INT_MIN <= expected <= INT_MAX else "integer overflow"
    if (left, right, operator) == (INT_MIN, -1, "%"):
        expected = "integer overflow"
    assert outcome(f"a {operator} b", a=left, b=right) == expected


@settings(deadline=None)
@given(st.lists(SMALL, max_size=6))
def test_macros(items: list[int]) -> None:
    assert run("l.all(x, x > 0)", l=items) == all(x > 0 for x in items)
    assert run("l.exists(x, x > 0)", l=items) == any(x > 0 for x in items)
    assert run("l.exists_one(x, x > 0)", l=items) == (sum(x > 0 for x in items) == 1)
    assert run("l.map(x, x * 2)", l=items) == [x * 2 for x in items]
    assert run("l.map(x, x > 0, x * 2)", l=items) == [x * 2 for x in items if x > 0]
    assert run("l.filter(x, x > 0)", l=items) == [x for x in items if x > 0]
    assert run("l.transformList(i, x, i + x)", l=items) == [i + x for i, x in enumerate(items)]
    assert run("l.sort()", l=items) == sorted(items)
    assert run("l.isSorted()", l=items) == (items == sorted(items))
    assert run("l.sum()", l=items) == sum(items)
    assert run("l.distinct()", l=items) == list(dict.fromkeys(items))


@settings(deadline=None)
@given(st.text(max_size=12), st.text(max_size=3))
def test_strings(text: str, part: str) -> None:
    assert run("t.size()", t=text) == len(text)
    assert run("t.contains(p)", t=text, p=part) == (part in text)
    assert run("t.startsWith(p) || t.endsWith(p)", t=text, p=part) == (
        text.startswith(part) or text.endswith(part)
    )
    assert run("t.replace(p, '-')", t=text, p=part) == text.replace(part, "-")
    assert run("t.split('')", t=text) == list(text)
    assert run("t.split('').join()", t=text) == text


@settings(deadline=None)
@given(st.lists(st.sampled_from(["true", "false", "1 / 0 == 1"]), min_size=1, max_size=5))
def test_logic_absorbs_errors_in_any_order(parts: list[str]) -> None:
    """A decisive operand settles && and ||, wherever it stands."""
    for operator, decisive in (("&&", "false"), ("||", "true")):
        if decisive in parts:
            expected: Any = decisive == "true"
        else:
            expected = "division by zero" if "1 / 0 == 1" in parts else decisive == "false"
        assert outcome(f" {operator} ".join(parts)) == expected


def test_booleans_and_numbers_are_different_keys_and_values() -> None:
    assert run("{dyn(true): 'b', dyn(1): 'i'}[k]", k=True) == "b"
    assert run("{dyn(true): 'b', dyn(1): 'i'}[k]", k=UInt(1)) == "i"
    assert run("[k] == [1]", k=True) is False
    assert equal(float("nan"), float("nan")) is False


@pytest.mark.parametrize(
    ("text", "type_", "message"),
    [
        ("s.nope", None, "does not support field selection"),
        ("o.nope", None, "undefined field 'nope'"),
        ("l[0] + 'a'", None, "found no matching overload for '_+_' applied to '(int, string)'"),
        ("nope(1)", None, "undeclared reference to 'nope'"),
        ("s.matches('(')", None, "invalid matches argument"),
        ("l.map(x, string(x))", list_of(STRING), ""),
        ("l.filter(x, x > 1)[0]", INT, ""),
        ("has(o.a) ? o.a : 'x'", STRING, ""),
    ],
)
def test_types_are_known_before_anything_runs(text: str, type_: Type | None, message: str) -> None:
    variables = {"s": STRING, "l": list_of(INT), "o": Type("object", fields={"a": STRING})}
    if type_ is None:
        with pytest.raises(CompileError, match=re.escape(message)):
            compile_expression(text, variables)
    else:
        assert compile_expression(text, variables).type == type_


@pytest.mark.parametrize(
    "text",
    [
        "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, true)))",
        "lists.range(1000).map(a, lists.range(1000).map(b, lists.range(1000)))",
        "lists.range(1000000000)",
        "lists.range(5000).distinct()",
        "lists.range(1000).all(a, t.contains('x') || true)",
        "true || lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, true)))",
        "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, true))) || true",
    ],
)
def test_runaway_rules_end(text: str) -> None:
    began = time.process_time()
    if text.startswith("true ||"):
        assert run(text, t="") is True
    else:
        with pytest.raises(CostExceeded):
            run(text, t="a" * 100_000)
    assert time.process_time() - began < 20


@pytest.mark.parametrize("text", ["t.replace('', t)", "t.split('').join(t)"])
def test_texts_cannot_be_multiplied(text: str) -> None:
    with pytest.raises(CelError, match="cannot build the text"):
        run(text, t="a" * 20_000)


PATTERNS = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\b", "^", "$", "(?:)"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join).map("(?:{})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "{2}", "{0,2}"])).map(
            lambda each: f"(?:{each[0]}){each[1]}"
        ),
    ),
    max_leaves=5,
)


@settings(deadline=None)
@given(PATTERNS, st.text("ab\n ", max_size=6))
def test_regular_expressions_match_as_perl_does(pattern: str, text: str) -> None:
    python = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    found = python.search(text)
    compiled = regex.Regex(pattern)
    assert compiled.search(text) is (found is not None)
    begin_and_end = compiled.find(text)
    assert (begin_and_end is None) is (found is None)
    if begin_and_end is not None and found is not None:
        assert begin_and_end[0] == found.start()


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a*)*b", "(.*)*x", "((a{0,30}){0,30})b"])
def test_no_pattern_is_expensive(pattern: str) -> None:
    began = time.process_time()
    assert outcome(f"t.matches({pattern!r})", t="a" * 2000 + "!") in (False, str(CostExceeded()))
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    "pattern",
    [r"(a)\1", "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "a**", "[b-a]", "[a", "(a", "a)", "a{1001}", r"\p{Xx}"],
)
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError, match="error parsing regexp"):
        regex.compile_pattern(pattern)
    assert "error parsing regexp" in outcome("t.matches(p)", t="a", p=pattern)


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_are_written_so_that_they_read_the_same(value: float) -> None:
    assert float(format_double(value)) == value


@settings(deadline=None)
@given(st.integers(-62135596800, 253402300799), st.integers(0, 999_999_999))
def test_timestamps_are_written_so_that_they_read_the_same(seconds: int, nanos: int) -> None:
    when = Timestamp(seconds * times.SECOND + nanos)
    assert times.parse_timestamp(times.format_timestamp(when)) == when


@settings(deadline=None)
@given(st.text(max_size=20))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    for read in (times.parse_duration, times.parse_timestamp, times.parse_date):
        try:
            assert isinstance(read(text).nanos, int)
        except CelError:
            continue


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "bool": st.booleans(),
    "int": st.one_of(SMALL, INTS),
    "uint": st.integers(0, 2**64 - 1).map(UInt),
    "double": st.floats(),
    "string": st.one_of(
        st.text(max_size=8), st.sampled_from(["1.2.3", "1Gi", "10.0.0.0/8", "a/b", "%s%d", "a*"])
    ),
    "bytes": st.binary(max_size=4),
    "timestamp": st.integers(-62135596800, 253402300799).map(lambda seconds: Timestamp(seconds * 10**9)),
    "duration": INTS.map(CelDuration),
    "list": st.lists(st.one_of(SMALL, st.text(max_size=2), st.none(), st.floats()), max_size=4),
    "map": st.dictionaries(st.text(max_size=2), SMALL, max_size=3),
    "optional_type": st.one_of(st.just(NONE), SMALL.map(lambda value: Optional(True, value))),
    "type": st.just(TypeValue("int")),
}
ANYTHING = st.one_of(*VALUES.values())
EVERY = [
    pytest.param(each, id=f"{name}-{number}")
    for name, overloads in sorted(FUNCTIONS.items())
    for number, each in enumerate(overloads)
    if all(param.is_parameter or param.name in {*VALUES, "dyn"} for param in each.signature.params)
]


@pytest.mark.parametrize("overload", EVERY)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_functions_return_or_fail_as_cel_does(overload: Overload, data: st.DataObject) -> None:
    """No value makes a function fail in a way that && and || could not absorb."""
    args = [data.draw(VALUES.get(param.name, ANYTHING)) for param in overload.signature.params]
    try:
        result = overload.call(*args)
    except CelError:
        return
    assert kind_of(result) != "unknown"
    assert not isinstance(result, int) or isinstance(result, bool) or INT_MIN <= result < 2**64

"""Selectors: matching, and the text form both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube import selectors
from nodemanager.kube.selectors import LabelSelector, Requirement

LABELS = {"role": "web", "zone": "a", "empty": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", True, id="empty-matches-all"),
        pytest.param("role=web", True, id="equal"),
        pytest.param("role==web", True, id="double-equal"),
        pytest.param("role=db", False, id="not-equal"),
        pytest.param("role!=db", True, id="unequal"),
        pytest.param("missing!=db", True, id="unequal-without-label"),
        pytest.param("role in (db, web)", True, id="in"),
        pytest.param("role in(db)", False, id="not-in-list"),
        pytest.param("missing in (a)", False, id="in-without-label"),
        pytest.param("role notin (db)", True, id="notin"),
        pytest.param("missing notin (db)", True, id="notin-without-label"),
        pytest.param("role notin (web)", False, id="notin-listed"),
        pytest.param("role", True, id="exists"),
        pytest.param("missing", False, id="exists-missing"),
        pytest.param("!missing", True, id="does-not-exist"),
        pytest.param("! role", False, id="does-not-exist-but-does"),
        pytest.param("empty=", True, id="empty-value"),
        pytest.param("missing=", False, id="empty-value-is-not-missing"),
        pytest.param("role=web,zone=a", True, id="and"),
        pytest.param("role=web,zone=b", False, id="and-fails"),
        pytest.param("role=web,role=db", False, id="contradiction"),
        pytest.param(" role = web , zone in ( a , b ) , !x ", True, id="spaces"),
    ],
)
def test_matches(text: str, expected: bool) -> None:
    assert selectors.matches(selectors.parse_selector(text), LABELS) is expected


def test_parse_gives_the_typed_form() -> None:
    assert selectors.parse_selector("a=b,c in (x,y),!d,e.example/f,g!=h") == LabelSelector(
        match_labels={"a": "b"},
        match_expressions=[
            Requirement(key="c", operator="In", values=["x", "y"]),
            Requirement(key="d", operator="DoesNotExist"),
            Requirement(key="e.example/f", operator="Exists"),
            Requirement(key="g", operator="NotIn", values=["h"]),
        ],
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param("a=b,", "nothing follows the last comma", id="trailing-comma"),
        pytest.param(",a", "'' is none of", id="leading-comma"),
        pytest.param("a b", "'a b' is none of", id="two-words"),
        pytest.param("a in x", "'a in x' is none of", id="in-without-list"),
        pytest.param("a in (x", "'a in (x' is none of", id="unclosed"),
        pytest.param("a=b=c", "'a=b=c' is none of", id="two-equals"),
        pytest.param("cpu>4", "'cpu>4' is not a label key", id="greater"),
        pytest.param("a=b c", "'a=b c' is none of", id="space-in-value"),
        pytest.param("-a=b", "'-a' is not a label key", id="bad-key"),
        pytest.param("A.b/c/d", "'A.b/c/d' is not a label key", id="bad-prefix"),
        pytest.param("a=" + "x" * 64, "is not a label value", id="long-value"),
        pytest.param("a in (x,-y)", "'-y' is not a label value", id="bad-value-in-list"),
        pytest.param("a," * 20000, "longer than", id="too-long"),
    ],
)
def test_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(ValueError, match="cannot read selector") as caught:
        selectors.parse_selector(text)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    "requirement",
    [
        pytest.param(Requirement(key="role", operator="Near", values=["web"]), id="operator-of-the-future"),
        pytest.param(Requirement(key="role", operator="NotIn"), id="notin-without-values"),
        pytest.param(Requirement(key="role", operator="In"), id="in-without-values"),
    ],
)
def test_what_is_not_understood_matches_nothing(requirement: Requirement) -> None:
    assert not selectors.matches(LabelSelector(match_expressions=[requirement]), LABELS)


def test_an_unknown_operator_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="'Near' of label 'role' is unknown"):
        selectors.format_selector(LabelSelector(match_expressions=[Requirement(key="role", operator="Near")]))


KEYS = st.sampled_from(["a", "in", "notin", "example.com/role", "B_c.d"])
VALUES = st.sampled_from(["", "x", "in", "1.2", "X_y-z"])
REQUIREMENTS = st.one_of(
    st.builds(
        Requirement,
        key=KEYS,
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(VALUES, min_size=1, max_size=3),
    ),
    st.builds(Requirement, key=KEYS, operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
SELECTORS = st.builds(
    LabelSelector,
    match_labels=st.dictionaries(KEYS, VALUES, max_size=3),
    match_expressions=st.lists(REQUIREMENTS, max_size=3),
)


@given(SELECTORS, st.dictionaries(KEYS, VALUES, max_size=4))
def test_round_trip_through_text(selector: LabelSelector, labels: dict[str, str]) -> None:
    again = selectors.parse_selector(selectors.format_selector(selector))
    assert again == selector
    assert selectors.matches(again, labels) == selectors.matches(selector, labels)

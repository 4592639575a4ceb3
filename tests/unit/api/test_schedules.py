"""The rules of the schema and the agent agree on which schedules there are."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.schedules import ScheduleError, parse
from nodemanager.kube.cel.rules import RuleSet
from nodemanager.kube.schemas import derivation
from support import schedule_cases

RULES = RuleSet(derivation.of_kind(MANAGED_NODES.type))
NUMBERS = ["0", "1", "2", "4", "7", "08", "12", "13", "23", "24", "30", "31", "59", "60", "2026", "2100", "x"]
NAMES = ["jan", "FEB", "March", "sept", "Sun", "mon", "FRIDAY", "L", "LW", "15W", "*", "?", ""]
WORDS = st.sampled_from(NUMBERS) | st.sampled_from(NAMES)


def refusals(schedule: str) -> list[str]:
    """Return what the schema says about a schedule."""
    faults = RULES.evaluate({"spec": {"upgrade": {"schedule": schedule}}})
    assert {fault.field for fault in faults} <= {"spec.upgrade.schedule"}
    return [fault.message for fault in faults]


def is_read(schedule: str) -> bool:
    try:
        parse(schedule)
    except ScheduleError:
        return False
    return True


@pytest.mark.parametrize("schedule", schedule_cases.accepted())
def test_accepted(schedule: str) -> None:
    assert refusals(schedule) == []
    assert is_read(schedule)


@pytest.mark.parametrize(("schedule", "said"), schedule_cases.refused().items())
def test_refused_by_one_rule_that_names_the_field(schedule: str, said: str) -> None:
    (message,) = refusals(schedule)
    assert f'"{schedule}": ' in message
    assert said in message
    assert not is_read(schedule)


@st.composite
def terms(draw: st.DrawFn) -> str:
    """Draw something that looks like a part of a field."""
    first, form = draw(WORDS), draw(st.sampled_from(["", "", "", "-", "/", "-/", "L", "#"]))
    step = draw(st.sampled_from(["1", "2", "5", "7", "0", "00", "99999999999", ""]))
    if form == "L":
        return f"{first}L"
    second = f"-{draw(WORDS)}" if "-" in form else ""
    return f"{first}{second}" + (f"/{step}" if "/" in form else "") + (f"#{step}" if form == "#" else "")


FIELDS = st.lists(terms(), min_size=1, max_size=3).map(",".join)
SCHEDULES = st.lists(FIELDS | st.just("*"), min_size=4, max_size=8).map(" ".join)
ENDS_OF_MONTHS = st.tuples(FIELDS, FIELDS).map(lambda fields: f"0 4 {fields[0]} {fields[1]} *")


@given(SCHEDULES | ENDS_OF_MONTHS | st.text("0123456789*/,-?#LWsunja@ \t\n\v\xa0\u017f", max_size=30))
@example("* * * * \u017fun")  # to some, a long s is an s
@example("* * * * *\v")
@example("* * * *\xa0*")
def test_schema_and_agent_agree(schedule: str) -> None:
    # That steps and ranges leave out every month that has this day is more than the schema can tell.
    assume(not re.search(r"3[01]\S*\s+\S*[-/]\S*\s+[*?]|3[01]/\S*\s+\S+\s+[*?]", schedule))
    assert is_read(schedule) == (schedule != "" and refusals(schedule) == [])

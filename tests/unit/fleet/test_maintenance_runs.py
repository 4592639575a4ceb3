"""When operations are due, by cases that are a data file, and how one-shots are told apart."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from nodemanager.api.maintenance.operations import Operation
from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.fleet.maintenance import runs
from nodemanager.fleet.maintenance.runs import Moment, OperationMemory
from nodemanager.fleet.windows.calendar import Calendar

FILE = Path(__file__).resolve().parents[2] / "cases" / "maintenance" / "runs.yaml"
CASES = yaml.safe_load(FILE.read_text(encoding="utf-8"))
STEPS = [{"name": "touch", "execution": {"argv": ["touch", "/x"]}}]


def operation(**fields: Any) -> Operation:
    return msgspec.convert({"name": "it", "steps": STEPS, **fields}, Operation)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_what_is_due(case: dict[str, Any]) -> None:
    one = operation(**case["operation"])
    calendar = Calendar(msgspec.convert(case["window"], WindowSpec))
    memory = OperationMemory()
    for look in case["looks"]:
        running = frozenset(look.get("running", ()))
        now, created = datetime.fromisoformat(look["at"]), datetime.fromisoformat(case["created"])
        moment = Moment(now, "uid", created, calendar, running)
        (found,) = runs.judge([one], {"it": memory}, moment)
        due = look.get("due", "")
        if due == "once":
            due = runs.one_shot_id("uid", one)
        elif due:
            due = datetime.fromisoformat(due).isoformat()
        assert found.due == due, look
        if "skipped" in look or "minutes" not in case["name"]:
            assert Counter(str(one.reason) for one in found.skipped) == look.get("skipped", {}), look
        assert found.replaces == look.get("replaces", False), look
        if "next" in look:
            assert found.next_run == (look["next"] and datetime.fromisoformat(look["next"])), look
        if "last" in look:
            assert found.last_slot == (look["last"] and datetime.fromisoformat(look["last"])), look
        if "reason" in look:
            assert found.reason == look["reason"], look
        memory = OperationMemory(found.last_slot or memory.last_slot, memory.done)
        if due and one.type == "cron":  # as a run that begins does
            memory = OperationMemory(datetime.fromisoformat(due), memory.done)
        elif due:
            memory = OperationMemory(memory.last_slot, due)


def test_a_one_shot_is_another_by_its_run_id_or_by_what_it_does() -> None:
    plain = operation(type="one-shot")
    assert runs.one_shot_id("uid", plain) == runs.one_shot_id("uid", operation(type="one-shot", suspend=True))
    edited = operation(type="one-shot", steps=[{"name": "touch", "execution": {"argv": ["touch", "/y"]}}])
    assert runs.one_shot_id("uid", plain) != runs.one_shot_id("uid", edited)
    assert runs.one_shot_id("uid", plain) != runs.one_shot_id("other", plain)
    named = operation(type="one-shot", runID="1")
    also = operation(type="one-shot", runID="1", steps=edited.steps)
    assert runs.one_shot_id("uid", named) == runs.one_shot_id("uid", also)
    assert runs.one_shot_id("uid", named) != runs.one_shot_id("uid", operation(type="one-shot", runID="2"))


def test_all_that_is_due_together_is_one_run_with_one_id() -> None:
    calendar = Calendar(msgspec.convert({"always": True}, WindowSpec))
    now = datetime.fromisoformat("2026-11-16T06:00:10Z")
    moment = Moment(now, "uid", datetime.fromisoformat("2026-11-15T12:00:00Z"), calendar)
    cron, once = operation(type="cron", schedule="0 6 * * *"), operation(name="note", type="one-shot")
    due = runs.together(runs.judge([cron, once], {}, moment))
    assert list(due) == ["it", "note"]
    assert runs.run_id("uid", due) == runs.run_id("uid", dict(reversed(due.items())))
    assert runs.run_id("uid", due) != runs.run_id("other", due)
    assert len(runs.run_id("uid", due)) <= 63


def test_what_hosts_do_by_themselves_is_no_part_of_a_run() -> None:
    calendar = Calendar(msgspec.convert({"always": True}, WindowSpec))
    now = datetime.fromisoformat("2026-11-16T06:00:10Z")
    assert runs.judge([operation(type="realtime")], {}, Moment(now, "uid", now, calendar)) == []


def test_nothing_is_made_up_for_that_was_remembered_of_one_that_is_gone() -> None:
    """A maintenance that is made anew may find the status of the one before it."""
    calendar = Calendar(msgspec.convert({"always": True}, WindowSpec))
    now, created = (
        datetime.fromisoformat("2026-11-16T06:30:00Z"),
        datetime.fromisoformat("2026-11-16T05:30:00Z"),
    )
    old = {"it": OperationMemory(datetime.fromisoformat("2026-11-01T00:00:00Z"))}
    cron = operation(type="cron", schedule="0 * * * *")
    (found,) = runs.judge([cron], old, Moment(now, "uid", created, calendar))
    assert (found.due, found.skipped) == ("2026-11-16T06:00:00+00:00", ())


OPENS = {"start": "06:00", "duration": "1h"}
IN_TOKYO = {**OPENS, "timeZone": "Asia/Tokyo"}


@pytest.mark.parametrize(("missed", "skipped"), [(3, 2), (4, 1)])
def test_of_very_many_slots_only_the_newest_are_counted(
    missed: int, skipped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MANY", 3)
    calendar = Calendar(msgspec.convert({"always": True}, WindowSpec))
    created = datetime.fromisoformat("2026-11-16T00:30:00Z")
    cron = operation(type="cron", schedule="0 * * * *")
    (found,) = runs.judge([cron], {}, Moment(created + timedelta(hours=missed), "uid", created, calendar))
    assert found.due == f"2026-11-16T{missed:02}:00:00+00:00"
    assert len(found.skipped) == skipped


@pytest.mark.parametrize(
    ("own", "window", "expected"),
    [
        ("", {"always": True}, "UTC"),
        ("", {"always": True, "timeZone": "Europe/Paris"}, "Europe/Paris"),
        ("Asia/Tokyo", {"always": True, "timeZone": "Europe/Paris"}, "Asia/Tokyo"),
        ("", {"schedules": [IN_TOKYO]}, "Asia/Tokyo"),
        ("", {"timeZone": "Europe/Paris", "schedules": [OPENS]}, "Europe/Paris"),
        ("", {"timeZone": "Europe/Paris", "schedules": [IN_TOKYO, OPENS]}, "Europe/Paris"),
    ],
)  # fmt: skip
def test_a_schedule_is_meant_in_its_own_zone_or_in_the_one_of_its_window(
    own: str, window: dict[str, Any], expected: str
) -> None:
    zone = runs.zone_of(operation(type="cron", timeZone=own), msgspec.convert(window, WindowSpec))
    assert str(zone) == expected

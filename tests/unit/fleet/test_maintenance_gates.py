"""What gates ask, and what answers mean, by cases that are a data file."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from nodemanager.api.maintenance.health_gates import HealthGate
from nodemanager.fleet.maintenance import questions
from nodemanager.fleet.maintenance.questions import GateAnswer, NoAnswer
from nodemanager.fleet.maintenance.reasons import Reason

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FILE = Path(__file__).resolve().parents[2] / "cases" / "maintenance" / "gates.yaml"
CASES = yaml.safe_load(FILE.read_text(encoding="utf-8"))


def gate(fields: dict[str, Any]) -> HealthGate:
    return msgspec.convert(fields, HealthGate)


def judged(case: dict[str, Any]) -> str:
    asked, status = gate(case["gate"]), case.get("status", 200)
    if asked.object is not None:
        return questions.of_object(asked.object, case["object"])
    if asked.http is not None:
        return questions.of_status(asked.http, status)
    assert asked.prometheus is not None
    body = case.get("text", "").encode() or json.dumps(case["body"]).encode()
    return questions.of_prometheus(asked.prometheus, status, body)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_what_an_answer_means(case: dict[str, Any]) -> None:
    assert questions.fault(gate(case["gate"])) == ""
    if "none" in case:
        with pytest.raises(NoAnswer) as caught:
            judged(case)
        assert str(caught.value) == case["none"]
    elif case["why"]:
        assert case["why"] in judged(case)
    else:
        assert judged(case) == ""


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"object": {"cel": "object.x >"}}, "object.cel: Syntax error"),
        ({"object": {"cel": "self.x == 1"}}, "object.cel: undeclared reference to 'self'"),
        ({"object": {"cel": "1 + 1"}}, "object.cel: must be true or false, and is int"),
        ({"object": {"kind": "Secret", "cel": "true"}}, "object.kind: must not be Secret"),
        ({"http": {"url": "http://"}}, "http.url: must be an address such as"),
        ({"http": {"url": "http://web:99999/"}}, "http.url: must be an address such as"),
        ({"http": {"url": "http://web/a b"}}, "http.url: must be an address such as"),
        ({"prometheus": {"url": "ftp://web"}}, "prometheus.url: must be an address such as"),
        ({"prometheus": {"url": "https://me:word@web"}}, "prometheus.url: must have neither user nor"),
        ({"alive": True}, ""),
    ],
)
def test_a_gate_that_can_never_be_asked_is_named(fields: dict[str, Any], said: str) -> None:
    found = questions.fault(gate(fields))
    assert found.startswith(said) if said else found == ""


def test_a_question_is_about_the_host_and_the_same_for_all_without() -> None:
    of_host = gate({"http": {"url": "http://$(host):8080/"}})
    assert questions.question(of_host, "web1", "ns") != questions.question(of_host, "web2", "ns")
    shared = gate({"prometheus": {"url": "http://p", "query": "up"}})
    assert len({questions.question(shared, host, "ns") for host in ("web1", "web2")}) == 1
    named = questions.question(gate({"object": {"kind": "Lease", "name": "$(host)"}}), "web1", "ns")
    assert named is not None
    assert questions.label(named) == "Lease ns/web1"
    elsewhere = {"kind": "Lease", "name": "$(host)", "namespace": "leases"}
    named = questions.question(gate({"object": elsewhere}), "web1", "ns")
    assert named is not None
    assert questions.label(named) == "Lease leases/web1"
    assert questions.question(gate({"alive": True}), "web1", "ns") is None
    asked = questions.question(of_host, "web1", "ns")
    assert asked is not None
    assert questions.label(asked) == "http http://web1:8080/"
    series = questions.question(
        gate({"prometheus": {"url": "http://p", "query": "up{a='$(host)'}"}}), "w", "ns"
    )
    assert series is not None
    assert questions.label(series) == "prometheus up{a='w'}"


@pytest.mark.parametrize(
    "url", ["http://w\u00e4b/", "http://web/\t", "http://web/ a", "ftp://web/", "http://web:0/"]
)
def test_an_address_is_plain(url: str) -> None:
    assert questions.fault(gate({"http": {"url": url}})).startswith("http.url: must be an address such as")


def test_yes_counts_for_a_moment_and_no_until_it_is_asked_again() -> None:
    yes, no = GateAnswer(NOW), GateAnswer(NOW, "no result", Reason.GATE_UNANSWERED)
    for late in (-1, 0, 9):
        assert questions.before(yes, NOW + late * SECOND) is None
    for stale in (10, -6):  # the clock was set back
        found = questions.before(yes, NOW + stale * SECOND)
        assert found is not None
        assert found.is_open
    said = questions.before(no, NOW + 500 * SECOND)
    assert said is not None
    assert (said.said, said.reason, said.is_open) == ("no result", Reason.GATE_UNANSWERED, False)
    assert questions.before(None, NOW) is not None


def test_only_what_was_asked_after_the_work_proves_it() -> None:
    answer = GateAnswer(NOW)
    assert questions.after(answer, NOW, NOW + SECOND) is None
    assert questions.after(answer, None, NOW + 50 * SECOND) is None
    for found in (
        questions.after(answer, NOW + SECOND, NOW + 2 * SECOND),
        questions.after(answer, None, NOW + 70 * SECOND),
        questions.after(None, NOW, NOW),
    ):
        assert found is not None
        assert found.is_open
    bad = questions.after(GateAnswer(NOW, "answered 503, not 200"), NOW, NOW)
    assert bad is not None
    assert not bad.is_open

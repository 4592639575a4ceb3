"""Words of a newer version in a task: an older agent refuses it, and does not guess."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.kube.known_words import unknown_word
from nodemanager.plan.tasks.admission import Ledger, RefusedTask, Situation, Taken, admit

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)


def answer(step: dict[str, Any]) -> object:
    """Return what a host does about a task of one step, as a server of any version hands it out."""
    spec = {"nodeName": "web1", "fencingToken": 1, "deadline": "2026-11-17T00:00:00Z",
            "steps": [{"name": "a", **step}]}  # fmt: skip
    task = msgspec.convert({"metadata": {"name": "t", "uid": "u"}, "spec": spec}, NodeTask)
    return admit(task, Ledger(), Situation("web1", "boot", NOW))


@pytest.mark.parametrize(
    ("step", "why"),
    [
        pytest.param({"kexec": {"when": "now"}}, "step a is of a kind", id="an action"),
        pytest.param({"packages": {"upgrade": "kernel"}}, "'kernel' as packages.upgrade", id="an upgrade"),
        pytest.param({"reboot": {"when": "gently"}}, "'gently' as reboot.when", id="a reboot"),
        pytest.param(
            {"service": {"name": "x", "do": "freeze"}, "onFailure": "stop"}, "'freeze' as service.do",
            id="a verb",
        ),
        pytest.param(
            {"service": {"name": "x", "do": "stop"}, "onFailure": "ask"}, "'ask' as onFailure", id="a failure"
        ),
        pytest.param(
            {"execution": {"argv": ["x"]}, "undo": {"service": {"name": "x", "do": "freeze"}}},
            "'freeze' as undo.service.do", id="an inverse",
        ),
        pytest.param({"execution": {"argv": ["x"]}, "undo": {"kexec": {}}}, "is of a kind", id="an undo"),
    ],
)  # fmt: skip
def test_what_this_agent_does_not_know_is_refused(step: dict[str, Any], why: str) -> None:
    found = answer(step)
    assert isinstance(found, RefusedTask)
    assert found.reason == "Invalid"
    assert why in found.message
    assert found.message.endswith("; upgrade it")


def test_fields_that_it_does_not_know_are_passed_over() -> None:
    assert isinstance(answer({"reboot": {"when": "always", "gracePeriod": "1m"}, "colour": "red"}), Taken)


def test_words_in_lists_are_looked_at_too() -> None:
    spec = {"steps": [{"name": "a", "reboot": {"when": "soon"}}]}
    task = msgspec.convert({"metadata": {"name": "t"}, "spec": spec}, NodeTask)
    assert unknown_word(task.spec) == ("steps.reboot.when", "soon")

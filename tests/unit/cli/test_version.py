"""What the static program says of how it was made, beside what every other one says."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from nodemanager import native
from nodemanager.cli.commands import version


@pytest.fixture
def static(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a program that make release built."""
    monkeypatch.setattr(sys, "builtin_module_names", (*sys.builtin_module_names, "_nodemanager"))
    for name, value in {"BUILD": "ab" * 32, "COMMIT": "cd" * 20, "STATE": "clean"}.items():
        monkeypatch.setattr(native, name, value)


def said(*arguments: str) -> str:
    done = CliRunner().invoke(version.command, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_modules_that_are_files_say_nothing_of_a_build() -> None:
    assert said() == f"{version.facts().line()}\n"
    assert set(json.loads(said("-o", "json"))) == {"version", "python", "os", "arch"}


@pytest.mark.usefixtures("static")
def test_a_static_program_names_its_build_and_its_commit() -> None:
    assert said() == f"{version.facts().line()}\nbuild {'ab' * 6} of commit {'cd' * 6}\n"
    facts = json.loads(said("-o", "json"))
    assert (facts["build"], facts["commit"], facts["state"]) == ("ab" * 32, "cd" * 20, "clean")
    assert {**version.facts()._asdict(), "build": "ab" * 32, "commit": "cd" * 20, "state": "clean"} == facts


@pytest.mark.usefixtures("static")
def test_one_of_changed_sources_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "STATE", "modified")
    assert said().endswith(f"of commit {'cd' * 6} (modified)\n")

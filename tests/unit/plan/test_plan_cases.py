"""Every planner, by data files: see support.plan_cases for their form."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.plan_cases import Case, plan_cases, shown


@pytest.mark.parametrize("path", plan_cases())
def test_steps_are_as_the_case_says(path: Path) -> None:
    case = Case(path)
    steps = case.steps()
    wanted = case.given.get("steps", [])
    assert [
        shown(step, row[3] if len(row) > 3 else {}) for step, row in zip(steps, wanted, strict=True)
    ] == wanted
    conflicts = {name: list(said) for name, said in case.desired().conflicts.items()}
    assert conflicts == case.given.get("conflicts", {})

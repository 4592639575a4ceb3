"""Each fact about LINSTOR that is said to be simulated has a test, and each test of the simulator a fact."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import cases

UNIT = Path(__file__).parents[2]
TABLE: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (cases.FOLDER / "linstor" / "facts.yaml").read_text(encoding="utf-8")
)
FACTS = [fact for part in TABLE.values() for fact in part]
NO_FACT = ("test_every_path_has_one_answer",)
"""Tests of the simulator that are about itself."""


def names_in(module: str) -> set[str]:
    (path,) = UNIT.rglob(f"{module}.py")
    return set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("fact", [pytest.param(one, id=one["fact"]) for one in FACTS])
def test_a_fact_is_proven_by_tests_that_are_there(fact: dict[str, Any]) -> None:
    assert fact["tests"]
    for module, names in fact["tests"].items():
        assert set(names) <= names_in(module)
        assert names


def test_what_the_simulator_is_tested_for_is_in_the_table() -> None:
    for module in ("test_rest_facts", "test_placement_facts", "test_protection_facts"):
        named = {name for fact in FACTS for name in fact["tests"].get(module, [])}
        assert names_in(module) - named - set(NO_FACT) == set()

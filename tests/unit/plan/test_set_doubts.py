"""What a host does not believe at once, and what not without a person's word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from nodemanager.plan import set_doubts
from nodemanager.plan.set_doubts import NodeTold, Prune, SetPresence, SetRecord, SetsTold, SetTold

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[2] / "cases" / "prune" / "doubts.yaml").read_text()
)
LACKS = {
    "empty": frozenset({"file", "service", "exec"}),
    "no file": frozenset({"file"}),
    "no exec": frozenset({"exec"}),
}


@pytest.mark.parametrize("case", [pytest.param(one, id=one["case"].replace(" ", "-")) for one in CASES])
def test_what_is_hard_to_believe(case: dict[str, Any]) -> None:
    was, *now = case.get("node", ["same", "same"])
    records = {one: msgspec.convert({"node": was, **said}, SetRecord) for one, said in case["had"].items()}
    sets = {
        one: SetTold(
            Prune(policy),
            SetPresence(at),
            LACKS.get(more[0] if more else "", frozenset()),
            generation=more[-1] if "at" in more else 0,
        )
        for one, (policy, at, *more) in case["told"].items()
    }
    node = NodeTold(now[0], "meant" in now, "leaving" in now)
    kinds = {one: frozenset({"file", "service"}) for one in records}
    found = set_doubts.doubts(kinds, records, SetsTold(sets, node=node))
    wanted = case.get("doubts", {})
    assert found.keys() == wanted.keys()
    for one, (doubt, *_) in found.items():
        assert doubt.why.startswith(wanted[one])
        person: Any = case.get("person", [])
        assert doubt.person == (person is True or one in person), one

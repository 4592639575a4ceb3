"""Which drift policy a resource has, of all that its ConfigSets say."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.plan import merge
from support.root_tree import config_set


def policy(*sets: tuple[str, str, int]) -> str:
    """Return what is done about a file of sets with these policies, of the set and of the file."""
    found = merge.merge(
        config_set(
            f"set{number}",
            priority=priority,
            drift=of_set,
            files=[{"path": "/a", "content": "x", "drift": of_file}],
        )
        for number, (of_set, of_file, priority) in enumerate(sets)
    )
    assert found.conflicts == {}
    (item,) = found.files
    assert item.declaration.drift == ""  # or a new policy would look like a new declaration
    assert item.observe == (item.policy != "repair")
    assert bool(item.turns) == (item.policy == "in-turn")
    return item.policy


@pytest.mark.parametrize(
    ("sets", "wanted"),
    [
        ([("repair", "", 0)], "repair"),
        ([("observe", "", 0)], "observe"),
        ([("observe", "repair", 0)], "repair"),
        ([("repair", "observe", 0)], "observe"),
        ([("observe", "", 0), ("observe", "", 0)], "observe"),
        ([("observe", "", 0), ("repair", "", 0)], "repair"),
        ([("repair", "observe", 1), ("repair", "", 0)], "observe"),
        ([("observe", "", 0), ("repair", "", 1)], "repair"),
        ([("in-turn", "", 0)], "in-turn"),
        ([("in-turn", "", 0), ("repair", "", 0)], "repair"),
        ([("in-turn", "", 0), ("escalate", "", 0), ("observe", "", 0)], "in-turn"),
        ([("escalate", "", 0), ("observe", "", 0)], "escalate"),
        ([("repair", "escalate", 1), ("repair", "", 0)], "escalate"),
        ([("repair", "of a newer version", 0)], "observe"),
        ([("of a newer version", "", 0)], "observe"),
    ],
)
def test_the_resource_speaks_before_its_set_and_repair_before_observe(
    sets: list[tuple[str, str, int]], wanted: str
) -> None:
    assert policy(*sets) == wanted
    assert policy(*reversed(sets)) == wanted


def test_packages_and_services_have_policies_too() -> None:
    found = merge.merge(
        [
            config_set(
                "one",
                drift="observe",
                packages=[{"name": "jq"}, {"name": "nginx", "drift": "repair"}],
                services=[{"name": "nginx", "subscribe_files": ["/a"]}],
            )
        ]
    )
    assert [item.observe for item in found.packages] == [True, False]
    assert [item.observe for item in found.services] == [True]


def test_only_sets_that_say_so_have_to_have_their_turn() -> None:
    def one(name: str, drift: str, priority: int = 0) -> Any:
        return config_set(name, drift=drift, priority=priority, files=[{"path": "/a", "content": "x"}])

    (item,) = merge.merge([one("a", "in-turn"), one("b", "observe"), one("c", "in-turn")]).files
    assert (item.sources, item.turns) == (("a", "b", "c"), ("a", "c"))
    (item,) = merge.merge([one("a", "in-turn", 1), one("b", "in-turn")]).files
    assert (item.sources, item.turns) == (("a", "b"), ("a",)), "the policy is that of the highest priority"

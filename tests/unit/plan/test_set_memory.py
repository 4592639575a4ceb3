"""What a host believes of ConfigSets, and what it remembers of them for when they are gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.api.common.enforcement import Enforcement
from nodemanager.plan import set_doubts
from nodemanager.plan.set_doubts import Doubt, NodeTold, Prune, SetPresence, SetRecord, SetsTold, SetTold

NOTHING, RESOURCES, PACKAGES = Prune.NOTHING, Prune.RESOURCES, Prune.PACKAGES
HERE, LEAVING, ELSEWHERE, GONE = (
    SetPresence.HERE,
    SetPresence.LEAVING,
    SetPresence.ELSEWHERE,
    SetPresence.GONE,
)
FILES = frozenset(("file", "service"))


def told(**sets: SetTold) -> SetsTold:
    """Return what the API says of sets, which are all of uid 1."""
    return SetsTold({f"{name}@1": one for name, one in sets.items()}, node=NodeTold("n"))


def record(prune: Prune = RESOURCES, **fields: Any) -> SetRecord:
    return SetRecord(prune, **{"here": True, "generation": 5, "node": "n", **fields})


def doubts(said: SetsTold, kinds: frozenset[str] = FILES, **records: SetRecord) -> dict[str, list[Doubt]]:
    """Return what there is to doubt of sets of which a host has files and services."""
    had = {f"{name}@1": one for name, one in records.items()}
    return set_doubts.doubts(dict.fromkeys(had, kinds), had, said)


def why(found: dict[str, list[Doubt]], name: str = "web") -> list[str]:
    return [one.why for one in found.get(f"{name}@1", [])]


def test_a_set_is_known_by_its_name_and_its_uid() -> None:
    assert [set_doubts.owner("web", uid) for uid in ("1", "")] == ["web@1", "web"]
    assert [set_doubts.name_of(one) for one in ("web@1", "web")] == ["web", "web"]
    assert [set_doubts.uid_of(one) for one in ("web@1", "web")] == ["1", ""]


@pytest.mark.parametrize(
    ("last", "now", "allowed"),
    [
        pytest.param(RESOURCES, SetTold(PACKAGES, generation=5), PACKAGES, id="it says so now"),
        pytest.param(PACKAGES, SetTold(NOTHING, generation=5), NOTHING, id="it says so no more"),
        pytest.param(RESOURCES, SetTold(PACKAGES, staged=True), RESOURCES, id="its revision here does not"),
        pytest.param(PACKAGES, SetTold(RESOURCES, staged=True), RESOURCES, id="the newest one does not"),
        pytest.param(RESOURCES, None, RESOURCES, id="what it said last"),
    ],
)
def test_what_of_a_set_is_taken_back(last: Prune, now: SetTold | None, allowed: Prune) -> None:
    said = told(web=now) if now is not None else told()
    assert set_doubts.policies(["web@1"], {"web@1": record(last)}, said) == {"web@1": allowed}
    assert set_doubts.policies(["web@1"], {}, told()) == {"web@1": NOTHING}, "nobody knows"


def test_a_set_that_is_gone_takes_back_no_more_than_one_that_has_its_name_now() -> None:
    had = {"web@0": record(PACKAGES)}
    for named, allowed in (
        ({"web@1": RESOURCES}, RESOURCES),
        ({"web@1": PACKAGES, "web@2": NOTHING}, NOTHING),
        ({"web@1": NOTHING, "web@2": PACKAGES}, NOTHING),
        ({"db@1": NOTHING}, PACKAGES),
    ):
        said = SetsTold({name: SetTold(one) for name, one in named.items()})
        assert set_doubts.policies(had, had, said) == {"web@0": allowed}, named


def test_a_set_that_is_as_it_was_is_not_doubted() -> None:
    assert doubts(told(web=SetTold(RESOURCES, generation=5)), web=record()) == {}
    assert doubts(told(web=SetTold(RESOURCES, lacks=frozenset(("exec",)))), web=record(generation=0)) == {}
    assert doubts(told(), web=record(NOTHING)) == {}, "nothing is taken back for it"


def test_a_set_that_lacks_what_the_host_has_of_it_is_doubted() -> None:
    emptied = told(web=SetTold(RESOURCES, lacks=frozenset(("service", "file", "exec")), generation=5))
    assert why(doubts(emptied, web=record())) == [
        "ConfigSet web declares not a single file or service any more"
    ]


def test_a_set_that_is_gone_is_doubted_unless_it_was_seen_being_deleted() -> None:
    others = {"db": SetTold(RESOURCES, generation=5)}
    gone = ["ConfigSet web is gone, and this host has not seen it being deleted"]
    assert why(doubts(told(**others), web=record(), db=record())) == gone
    assert doubts(told(**others), web=record(leaving=True), db=record()) == {}
    elsewhere = told(web=SetTold(RESOURCES, ELSEWHERE, generation=5), **others)
    [said] = why(doubts(elsewhere, web=record(leaving=True), db=record()))
    assert said.startswith("ConfigSet web is not for this host any more")
    leaving = told(web=SetTold(RESOURCES, LEAVING, generation=5), **others)
    assert doubts(leaving, web=record(), db=record()) == {}


def test_all_sets_that_go_at_once_are_doubted_but_not_those_that_stay() -> None:
    none = "none of the ConfigSets that this host had is for it any more"
    away = SetTold(RESOURCES, ELSEWHERE, generation=5)
    found = doubts(told(web=away, db=away), web=record(), db=record())
    assert [why(found, name)[-1] for name in ("web", "db")] == [none, none]
    here = SetTold(RESOURCES, generation=5)
    assert none not in why(doubts(told(web=away, db=here), web=record(), db=record()))
    assert none not in why(doubts(told(web=away), web=record())), "it had only one"
    every = ["all ConfigSets are being deleted"]
    last = SetTold(RESOURCES, LEAVING, generation=5)
    assert why(doubts(told(web=last), web=record())) == every
    assert doubts(told(web=last, other=here), web=record()) == {}
    assert every[0] not in why(doubts(told(), web=record())), "there is none at all"
    lacking = SetTold(RESOURCES, lacks=FILES, generation=5)
    found = doubts(told(web=lacking, db=SetTold(RESOURCES, generation=5)), web=record(), db=record())
    assert list(found) == ["web@1"]


def test_an_api_of_before_is_doubted_in_all_that_it_says() -> None:
    old = told(web=SetTold(RESOURCES, generation=4), db=SetTold(RESOURCES, generation=5))
    had = {"web@1": record(), "db@1": record()}
    assert set_doubts.rolled_back(had, old) == {"web@1"}
    found = doubts(old, web=record(), db=record())
    [said] = why(found, "db")
    assert said.startswith("ConfigSet web is older than this host knew it, so an older backup")
    assert why(found) == [said]
    assert not found["web@1"][0].person
    unknown = told(new=SetTold(RESOURCES), web=SetTold(RESOURCES, generation=6))
    assert set_doubts.rolled_back(had, unknown) == set()


@pytest.mark.parametrize(
    ("before", "node", "standing", "doubted"),
    [
        pytest.param("n", NodeTold("n"), ELSEWHERE, False, id="the same host"),
        pytest.param("n", NodeTold("m"), ELSEWHERE, True, id="another one"),
        pytest.param("n", NodeTold("m", meant=True), ELSEWHERE, False, id="another one, and that is meant"),
        pytest.param("", NodeTold("m"), ELSEWHERE, False, id="nobody knows which it was"),
        pytest.param("n", NodeTold("n", leaving=True), ELSEWHERE, True, id="it is being deleted"),
        pytest.param("n", NodeTold("n", meant=True, leaving=True), LEAVING, True, id="deleted all the same"),
        pytest.param("n", NodeTold("m", leaving=True), HERE, False, id="the set is for it"),
    ],
)
def test_a_host_that_is_another_one_waits_for_a_person(
    before: str, node: NodeTold, standing: SetPresence, doubted: bool
) -> None:
    sets = {"web": SetTold(RESOURCES, standing, generation=5), "db": SetTold(NOTHING, generation=5)}
    found = doubts(replace(told(**sets), node=node), web=record(node=before), db=record(NOTHING)).get(
        "web@1", []
    )
    assert any(one.person for one in found) is doubted


def test_what_is_told_of_a_set_of_this_host_is_remembered() -> None:
    new = record(PACKAGES, generation=7)
    said = SetsTold({"web@1": SetTold(PACKAGES, generation=7)}, records={"web@1": new})
    assert set_doubts.remembered({"web@1": record()}, said, set()) == {"web@1": new}
    assert set_doubts.remembered({}, said, set()) == {"web@1": new}


def test_of_a_set_that_is_not_for_it_a_host_remembers_what_it_says_now() -> None:
    window = Enforcement()
    before = {"web@1": record(PACKAGES, enforcement=None)}
    for standing, leaving in ((LEAVING, True), (ELSEWHERE, False)):
        said = told(web=SetTold(RESOURCES, standing, generation=6, enforcement=window))
        wanted = SetRecord(RESOURCES, here=False, leaving=leaving, generation=6, node="n", enforcement=window)
        assert set_doubts.remembered(before, said, set()) == {"web@1": wanted}


def test_of_a_set_that_is_gone_a_host_remembers_what_it_said_last() -> None:
    before = {"web@1": record(PACKAGES, leaving=True)}
    found = set_doubts.remembered(before, told(), set())
    assert found == {"web@1": record(PACKAGES, here=False, leaving=True)}
    named = SetsTold({"web@2": SetTold(RESOURCES)})
    assert set_doubts.remembered(before, named, set())["web@1"].prune == RESOURCES


def test_of_what_is_doubted_nothing_is_believed() -> None:
    before = {"web@1": record(), "db@1": record()}
    old = {"web": SetTold(RESOURCES, LEAVING, generation=3), "db": SetTold(RESOURCES, LEAVING, generation=6)}
    found = set_doubts.remembered(before, told(**old), {"web@1"})
    assert [(one.leaving, one.generation) for one in found.values()] == [(False, 5), (True, 6)]
    believed = set_doubts.remembered(before, told(**old), set())
    assert [(one.leaving, one.generation) for one in believed.values()] == [(True, 3), (True, 6)]

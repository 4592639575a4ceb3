"""What is recorded of a resource, and what becomes of it when nobody declares it any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from nodemanager.plan import file_ownership, ownership, resources
from nodemanager.plan.desired import Desired, Item
from nodemanager.plan.facts import Facts, FileFact, Kind, PackageFacts, ServiceFact
from nodemanager.plan.ownership import Owned, Sighting
from nodemanager.plan.resources import FILE, PACKAGE, SERVICE, ResourceId, file_id
from nodemanager.plan.set_doubts import Prune, SetPresence, SetRecord, SetsTold, SetTold
from nodemanager.plan.stages import KINDS

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[2] / "cases" / "prune" / "releases.yaml").read_text()
)
ONE = file_id("/etc/one")


def rank(one: ResourceId) -> Prune:
    owning = KINDS[one.kind].owning
    assert owning is not None
    return owning.rank


@pytest.mark.parametrize("case", [pytest.param(one, id=one["case"].replace(" ", "-")) for one in CASES])
def test_what_nobody_declares_is_put_back_or_left_for_a_reason(case: dict[str, Any]) -> None:
    about = {"before": {"a": "1"}, "ours": [{"a": "2"}], **case["owned"]}
    one = resources.parse_id(case.get("resource", "file:/etc/one"))
    records = {name: msgspec.convert(said, SetRecord) for name, said in case.get("records", {}).items()}
    said = case["told"]
    sets = {
        one: SetTold(Prune(value), SetPresence(at), staged=bool(staged))
        for one, (value, at, *staged) in said.get("sets", {}).items()
    }
    told = SetsTold(
        sets,
        said.get("unsure", {}),
        frozenset(said.get("unreadable", ())),
        {resources.parse_id(one): set(names) for one, names in said.get("coming", {}).items()},
        said.get("doubts", {}),
    )
    owned = {one: msgspec.convert(about, Owned)}
    (found,) = ownership.released(owned, records, Desired(), told, rank)
    assert (found.left != "") == ("left" in case), found.left
    assert case.get("left", "") in found.left
    assert case.get("cause", "") in found.cause
    assert found.waits == case.get("waits", False)


def test_what_is_declared_by_whomever_or_in_conflict_is_not_released() -> None:
    two = file_id("/etc/two")
    owned = dict.fromkeys((ONE, two), Owned(("gone",), {"a": "1"}, ({"a": "2"},)))
    desired = Desired({FILE: (Item(ONE, None, ("other",)),)}, held={two: "a conflict"})
    assert ownership.released(owned, {}, desired, SetsTold(), rank) == []


def sighting(now: str, then: str) -> Sighting:
    return Sighting(ONE, ("web",), {"is": now}, {"is": then})


@pytest.mark.parametrize(
    ("seen", "before", "ours"),
    [
        pytest.param([("v0", "v1")], "v0", ["v1"], id="first change"),
        pytest.param([("v0", "v1"), ("v1", "v2")], "v0", ["v1", "v2"], id="second change"),
        pytest.param([("v0", "v1"), ("v1", "v2"), ("v2", "v3")], "v0", ["v2", "v3"], id="third change"),
        pytest.param([("v0", "v1"), ("v0", "v1")], "v0", ["v1"], id="killed before the change"),
        pytest.param([("v0", "v1"), ("hand", "v1")], "v0", ["v1"], id="repaired"),
        pytest.param([("v1", "v1")], "v1", ["v1"], id="found as declared"),
        pytest.param([("v1", "v1"), ("hand", "v1")], "v1", ["v1"], id="found, and repaired"),
        pytest.param([("v1", "v1"), ("v1", "v2")], "v1", ["v1", "v2"], id="found, and changed"),
        pytest.param([("v1", "v1"), ("hand", "v2")], "hand", ["v2"], id="found, and changed by both"),
    ],
)
def test_the_record_has_what_was_there_first_and_what_we_left_last(
    seen: list[tuple[str, str]], before: str, ours: list[str]
) -> None:
    known: Owned | None = None
    for now, then in seen:
        known = ownership.taken(known, sighting(now, then))
    assert known == Owned(("web",), {"is": before}, tuple({"is": one} for one in ours))


def test_what_was_left_behind_and_is_declared_again_was_somebody_elses_meanwhile() -> None:
    left = Owned(("old",), {"is": "v0"}, ({"is": "v1"},), left="spec.prune is not set")
    assert ownership.taken(left, sighting("hand", "v2")) == Owned(("web",), {"is": "hand"}, ({"is": "v2"},))
    again = ownership.taken(left, sighting("v1", "v2"))
    assert (again.before, again.left) == ({"is": "v0"}, "")


@pytest.mark.parametrize(
    ("now", "then", "before", "ours"),
    [
        pytest.param("v1", "v1", None, ["v1"], id="somebody else may have done it"),
        pytest.param("v0", "v0", "v0", ["v0"], id="it is what was there before"),
        pytest.param("hand", "v1", "v0", ["v1"], id="we bring it about now"),
    ],
)
def test_what_we_could_not_bring_about(now: str, then: str, before: str | None, ours: list[str]) -> None:
    failed = Owned(("web",), {"is": "v0"}, ({"is": "v1"},), failed=True)
    found = ownership.taken(failed, sighting(now, then))
    assert found.before == (None if before is None else {"is": before})
    assert found.ours == tuple({"is": one} for one in ours)


def test_what_somebody_else_made_of_it_and_we_leave_so_is_not_ours() -> None:
    known = Owned(("web",), {"is": "v0"}, ({"is": "v1"},))
    assert ownership.taken(known, sighting("hand", "hand")) == known
    back = ownership.taken(known, sighting("v0", "v0"))  # somebody put it back, and that is declared now
    assert back == Owned(("web",), {"is": "v0"}, ({"is": "v0"},))
    assert ownership.taken(known, sighting("hand", "v2")).ours == ({"is": "v2"},)


def test_what_was_known_by_another_name_remembers_what_was_there_first() -> None:
    old = Owned(("web",), {"is": "v0"}, ({"is": "v1"},))
    assert ownership.handed_over(old, None) == old
    for new, before in (
        (Owned(("db",), {"is": "v1"}, ({"is": "v2"},)), "v0"),  # what it replaced was ours
        (Owned(("db",), {"is": "v9"}, ({"is": "v9"},)), "v0"),  # it changed nothing
        (Owned(("db",), {"is": "hand"}, ({"is": "v2"},)), "hand"),  # what it replaced was somebody else's
    ):
        found = ownership.handed_over(old, new)
        assert (found.sets, found.before, found.ours) == (("db",), {"is": before}, new.ours)


def test_what_was_before_an_older_agent_stays_unknown() -> None:
    assert ownership.taken(Owned(), sighting("v1", "v2")).before is None


def file_state(kind: str, **more: str) -> dict[str, str]:
    return {"kind": kind, "uid": "0", "gid": "0", "mode": "0644", **more}


OURS = file_state("file", digest="ours")
ABSENT = {"kind": "absent"}


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        pytest.param(ABSENT, FileFact(Kind.FILE, 0o644, digest="ours"), "absent", id="it was not there"),
        pytest.param(ABSENT, FileFact(), "", id="it is gone already"),
        pytest.param(
            file_state("file", digest="old", mode="0600"), FileFact(Kind.FILE, 0o644, digest="ours"), "file",
            id="it had other content",
        ),
        pytest.param(
            file_state("file", digest="old"), FileFact(Kind.FILE, 0o644, digest="old"), "", id="as before",
        ),
        pytest.param(
            {"kind": "symlink", "uid": "0", "gid": "0", "target": "x"},
            FileFact(Kind.FILE, 0o644, digest="ours"), "symlink", id="it was a link",
        ),
        pytest.param(
            ABSENT, FileFact(Kind.FILE, 0o644, digest="hand"), "final: it was changed since", id="by hand",
        ),
        pytest.param(
            file_state("file", digest="old"), FileFact(), "final: it was removed since", id="removed by hand",
        ),
        pytest.param(
            file_state("file"), FileFact(Kind.FILE, 0o644, digest="ours"), "final: there is no backup",
            id="no backup",
        ),
        pytest.param(
            file_state("other"), FileFact(Kind.FILE, 0o644, digest="ours"), "final: it was a device",
            id="a device",
        ),
        pytest.param(
            file_state("file", digest="ours", mode="0600"), FileFact(Kind.FILE, 0o644, digest="ours"),
            "file", id="only its mode is ours",
        ),
        pytest.param(
            file_state("file", digest="ours", mode="0600"), FileFact(Kind.FILE, 0o666, digest="ours"),
            "final: its owner or mode was changed", id="its mode is somebody else's",
        ),
        pytest.param(ABSENT, FileFact(error="cannot look"), "cannot look", id="it cannot be seen"),
    ],
)  # fmt: skip
def test_files_are_put_back(before: dict[str, str], now: FileFact, said: str) -> None:
    owning = KINDS[FILE].owning
    assert owning is not None
    owned = {ONE: Owned(("web",), before, (OURS,))}
    back = owning.put_back(owned, Facts(files={"/etc/one": now}))[ONE]
    left = f"final: {back.left}" if back.final else back.left
    found = left or (back.declaration.ensure if back.declaration is not None else "")
    assert found.startswith(said), back
    assert bool(found) == bool(said), back


def test_setuid_is_not_given_back_where_others_can_have_put_the_program() -> None:
    theirs = FileFact(Kind.FILE, 0o4755, digest="su", writer=1000)
    assert file_ownership.state_of(theirs)["mode"] == "0755"
    assert file_ownership.state_of(FileFact(Kind.FILE, 0o4755, digest="su"))["mode"] == "4755"


def test_a_directory_goes_once_it_is_empty_but_for_what_goes_with_it() -> None:
    owning = KINDS[FILE].owning
    assert owning is not None
    made = Owned(("web",), ABSENT, (file_state("directory", mode="0755"),))
    owned = {file_id("/d"): made, file_id("/d/x"): Owned(("web",), ABSENT, (OURS,))}
    files = {"/d": FileFact(Kind.DIRECTORY, 0o755), "/d/x": FileFact(Kind.FILE, 0o644, digest="ours")}
    backs = owning.put_back(owned, Facts(files=files, listings={"/d": ("x",)}))
    assert [one.declaration.ensure for one in backs.values()] == ["absent", "absent"]
    assert [one.name for one in backs] == ["/d/x", "/d"]
    backs = owning.put_back(owned, Facts(files=files, listings={"/d": ("x", "mine")}))
    assert backs[file_id("/d")].left == "the directory is not empty: it has mine"
    assert not backs[file_id("/d")].final


@pytest.mark.parametrize(
    ("before", "ours", "now", "said"),
    [
        (("false", "false"), ("true", "true"), (True, True), (False, "stopped")),
        (("true", "false"), ("true", "true"), (True, True), (False, "")),
        (("false", "true"), ("true", "true"), (True, True), None),  # it starts at boot anyway
        (("false", "true"), ("true", "false"), (True, False), (True, "")),  # it will
        (("true", "true"), ("false", "false"), (False, False), (True, "running")),
        (("false", "false"), ("true", "true"), (False, False), None),  # somebody was faster
        (("true", "true"), ("true", "true"), (False, False), None),  # by hand, and never by us
    ],
)
def test_services_get_those_parts_back_that_we_changed(
    before: tuple[str, str], ours: tuple[str, str], now: tuple[bool, bool], said: tuple[object, str] | None
) -> None:
    owning = KINDS[SERVICE].owning
    assert owning is not None
    one = ResourceId(SERVICE, "ann/app")
    states = [dict(zip(("running", "enabled"), state, strict=True)) for state in (before, ours)]
    fact = ServiceFact(known=True, running=now[0], enabled=now[1])
    back = owning.put_back({one: Owned(("web",), states[0], (states[1],))}, Facts(services={one: fact}))[one]
    if said is None:
        assert back.declaration is None
    else:
        wanted = back.declaration
        assert (wanted.enable, wanted.ensure, wanted.name, wanted.user) == (*said, "app", "ann")


def test_packages_go_that_we_installed() -> None:
    owning = KINDS[PACKAGE].owning
    assert owning is not None
    new, old = ResourceId(PACKAGE, "new"), ResourceId(PACKAGE, "old")
    yes, no = {"installed": "true"}, {"installed": "false"}
    owned = {new: Owned(("web",), no, (yes,)), old: Owned(("web",), yes, (yes,))}
    facts = Facts(packages=PackageFacts(installed={"new": "1", "old": "1"}))
    backs = owning.put_back(owned, facts)
    assert backs[new].declaration.ensure == "absent"
    assert backs[old].declaration is None
    assert owning.put_back(owned, Facts(packages=PackageFacts(error="no manager")))[new].left == "no manager"

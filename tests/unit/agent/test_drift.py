"""What is drift and what is news; and what the next process knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from nodemanager.agent.drift import drift
from nodemanager.agent.drift.drift import DriftWatch
from nodemanager.api import crds
from nodemanager.api.common import reported
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube.cel.rules import RuleSet
from nodemanager.plan.resources import ResourceId, file_id
from support.realtime import Kept
from support.root_tree import config_set, needs_root

ONE, TWO, THREE = (file_id(f"/etc/{name}") for name in ("one", "two", "three"))


class Shelf:
    """Where a process leaves what it knows to the next, on a disk that may be full."""

    def __init__(self) -> None:
        self.full = False
        self.held: dict[str, str] = {}
        self.writes = 0

    def load_held(self) -> dict[str, str]:
        return dict(self.held)

    def save_held(self, held: Mapping[str, str]) -> bool:
        self.writes += 1
        if not self.full:
            self.held = dict(held)
        return not self.full


def test_what_could_not_be_saved_is_saved_as_soon_as_it_can_be() -> None:
    shelf = Shelf()
    watch = DriftWatch(shelf)
    watch.judge({ONE: "1"}, [])
    shelf.full = True
    watch.save()
    shelf.full = False
    watch.save()
    assert shelf.held == {"file:/etc/one": "1"}
    watch.save()
    assert shelf.writes == 2  # and not again


def test_a_repair_that_ends_while_a_thread_saves_is_in_nobodys_way(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf()
    watch = DriftWatch(shelf)
    watch.judge({ONE: "1", TWO: "2"}, [])
    text = ResourceId.__str__

    def meanwhile(resource: ResourceId) -> str:
        watch.judge({THREE: "3"}, [Result(THREE, (), ResourceOutcome.UNCHANGED)], whole=False)
        return text(resource)

    with monkeypatch.context() as patched:
        patched.setattr(ResourceId, "__str__", meanwhile)
        watch.save()
    assert shelf.held == {"file:/etc/one": "1", "file:/etc/two": "2"}
    watch.save()
    assert shelf.held["file:/etc/three"] == "3"


async def test_a_newer_version_of_a_package_is_no_drift_and_its_removal_is(tmp_path: Path) -> None:
    declared = config_set("p", packages=[{"name": "jq", "ensure": "latest"}])
    async with Kept(tmp_path) as kept:
        await kept.converge(declared)
        kept.host.packages.offered["jq"] = "1.7"
        (done,) = await kept.converge(declared)
        assert (done.outcome, done.drifted, kept.outcomes()) == (ResourceOutcome.CHANGED, False, [])
        kept.host.packages.have.clear()
        await kept.converge(declared)
        assert kept.outcomes() == [("package:jq", "repaired")]


@needs_root
@pytest.mark.parametrize("policy", ["repair", "observe"])
async def test_what_a_hold_keeps_from_being_purged_is_no_drift_and_goes_when_it_ends(
    tmp_path: Path, policy: str
) -> None:
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "stray").touch()
    files = [{"path": str(folder), "ensure": "directory", "purge": True, "drift": policy}]
    async with Kept(tmp_path) as kept:
        kept.host.converger.restraints.may_act = lambda: False
        for _ in range(2):
            held = await kept.converge(config_set("p", files=files))
            assert [(one.outcome, one.drifted) for one in held] == [(ResourceOutcome.HELD, False)]
        kept.host.converger.restraints.may_act = lambda: True
        (done,) = await kept.converge(config_set("p", files=files))
        assert (done.outcome, done.drifted, kept.outcomes()) == (ResourceOutcome.CHANGED, False, [])
    assert not (folder / "stray").exists()


@pytest.mark.parametrize(
    "outcome",
    [ResourceOutcome.WAITING, ResourceOutcome.BLOCKED, ResourceOutcome.FAILED, ResourceOutcome.HELD],
)
def test_a_directory_holds_when_all_is_purged_that_has_to_be(outcome: ResourceOutcome) -> None:
    watch, folder = DriftWatch(), file_id("/etc")
    fine = Result(folder, (), ResourceOutcome.UNCHANGED)
    for _ in range(2):
        found = watch.judge({folder: "1"}, [fine, Result(ONE, (), outcome, repairs=True)])
        assert not any(one.drifted for one in found)
    watch.judge({folder: "1"}, [fine])
    found = watch.judge({folder: "1"}, [fine, Result(ONE, (), outcome, repairs=True)])
    assert [one.id for one in found if one.drifted] == [ONE]


def test_what_is_gone_is_forgotten() -> None:
    """Whoever may write into a purged directory may make up names for ever."""
    shelf, folder = Shelf(), file_id("/etc/purged.d")
    watch = DriftWatch(shelf)
    watch.judge({folder: "1", ONE: "1"}, [])
    for number in range(3):
        strays = [
            Result(file_id(f"/etc/purged.d/{number}{outcome}"), (), outcome, "no", repairs=True)
            for outcome in (ResourceOutcome.FAILED, ResourceOutcome.OBSERVED)
        ]
        told = watch.fresh(watch.judge({folder: "1", ONE: "1"}, strays))
        assert [one.id for one in told] == [one.id for one in strays]
        assert not watch.fresh(watch.judge({folder: "1", ONE: "1"}, strays))  # told once
    held = Result(folder, (), ResourceOutcome.UNCHANGED)
    assert len(watch._told) == len(watch._seen) == 1
    watch.judge({folder: "1", ONE: "1"}, [held], whole=False)
    assert not watch._told
    assert not watch._seen
    watch.fresh(watch.judge({ONE: "1"}, [Result(ONE, (), ResourceOutcome.OBSERVED, repairs=True)]))
    assert watch._seen
    watch.judge({}, [])  # nothing is declared any more
    watch.save()
    assert shelf.held == {}


@pytest.mark.parametrize("took", [0.0, 0.00004, 0.0001, 0.0009, 0.0012, 0.25, 61.5, 4000.0])
def test_the_api_takes_however_long_a_repair_took(took: float) -> None:
    """Or it would take nothing else of the host either: a status is written as a whole."""
    record = drift.record(Result(ONE, (), ResourceOutcome.CHANGED), "2026-03-01T02:03:04Z", took)
    status = reported.status({"drift": {"recent": [msgspec.to_builtins(record)]}})
    (crd,) = [one for one in crds.all_crds() if one["spec"]["names"]["kind"] == "ManagedNode"]
    rules = RuleSet(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    assert rules.evaluate({"metadata": {"name": "x"}, "status": status}) == []

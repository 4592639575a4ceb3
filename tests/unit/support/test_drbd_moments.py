"""What two real kernels with DRBD 8.4 said in the lab: kept whole, and their two ways to say it agree.

`tests/cases/edge/drbd84_lab/MOMENT.NODE.yaml` has /proc/drbd (`proc`), `drbdsetup status` (`names`) and
`drbdsetup events2` (`events`) of one side: words to test parsers with.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import yaml

from support import cases
from support.lab import figures
from support.lab.guest import Failed, Guest
from support.lab.replica import EVENTS, NAME, STATUS, Moment, Pair, Side

FOLDER = cases.FOLDER / "edge" / "drbd84_lab"
FILES = [pytest.param(path, id=path.stem) for path in sorted(FOLDER.glob("*.yaml"))]

IN_TWO_WORDS = {"Connected": ("Connected", "Established"), "WFConnection": ("Connecting", "Off")}
"""What drbdsetup says of connection and replication where /proc/drbd has one word for both."""


def read(path: Path) -> Moment:
    return Moment(**yaml.safe_load(path.read_text()))


def said(text: str, key: str) -> list[str]:
    """Return all that drbdsetup says of something, in its order: this side first."""
    return [word.partition(":")[2] for word in text.split() if word.partition(":")[0] == key]


@pytest.mark.parametrize("path", FILES)
def test_drbdsetup_and_proc_say_the_same(path: Path) -> None:
    moment = read(path)
    row = moment.row
    assert moment.names.startswith(f"{NAME} role:{row.role} ")
    assert said(moment.names, "disk") == [row.disk]
    if row.connection == "StandAlone":
        assert said(moment.names, "connection") == [], "of a peer that it has not, drbdsetup says nothing"
    else:
        there = IN_TWO_WORDS.get(row.connection, ("Connected", row.connection))
        assert (said(moment.names, "connection"), said(moment.names, "replication")) == (
            [there[0]],
            [there[1]],
        )
        assert said(moment.names, "peer-disk") == [row.peer_disk]
    assert moment.events.rstrip().endswith("exists -")


class ReplayedSide(Side):
    """Says what was recorded, and what else is in /proc/drbd at each further look."""

    def __init__(self, said: Moment, procs: list[str]) -> None:
        self.said, self.procs, self.guest = said, procs, cast("Guest", self)

    def read(self, _: str) -> str:
        return self.procs.pop(0)

    def run(self, *argv: str) -> SimpleNamespace:
        return SimpleNamespace(stdout={STATUS: self.said.names, EVENTS: self.said.events}[argv])


def pair_of(*sides: Side) -> Pair:
    made = object.__new__(Pair)
    made.sides = list(sides)
    return made


def test_what_our_agent_makes_of_a_moment_is_kept_beside_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(figures.VARIABLE, str(tmp_path))
    both = [read(FOLDER / f"paused_by_node0.node{node}.yaml") for node in (0, 1)]
    pair = pair_of(*(ReplayedSide(one, [one.proc, one.proc]) for one in both))
    assert pair.moments("paused") == both
    assert read(tmp_path / "drbd84/paused.node1.yaml") == both[1]
    kept = yaml.safe_load((tmp_path / "drbd84_model/paused.node0.yaml").read_text())
    assert kept["unclean"] == "r0/0 to peer: replication is PausedSyncS"
    assert kept["faults"] == ["its sync is paused by user with peer"]
    assert kept["model"]["peers"][0]["volumes"][0]["resyncSuspended"] == "user"


def test_a_moment_of_which_our_agent_would_tell_something_else_fails() -> None:
    said = read(FOLDER / "established.node0.yaml")
    lies = said._replace(proc=said.proc.replace("UpToDate/UpToDate", "UpToDate/Failed"))
    pair = pair_of(ReplayedSide(said, [said.proc] * 2), ReplayedSide(said, [lies.proc] * 2))
    with pytest.raises(Failed, match="broken: peer disk: drbdsetup says UpToDate, we say Failed"):
        pair.moments("broken")


def test_a_side_that_changes_while_it_is_asked_is_asked_again() -> None:
    before, said = (read(FOLDER / f"{one}.node0.yaml") for one in ("syncing", "established"))
    moving = before.proc.replace("oos:", "oos:1")
    side = ReplayedSide(said, [before.proc, said.proc, said.proc, said.proc])
    assert (side.moment(), side.procs) == (said, [])
    side = ReplayedSide(before, [before.proc, moving])
    assert (side.moment(), side.procs) == (before, []), "how far a sync is may change"


def test_each_moment_is_there_from_both_sides() -> None:
    names = {path.stem for path in FOLDER.glob("*.yaml")}
    moments = {name.partition(".")[0] for name in names}
    assert {"syncing", "paused_by_node0", "verify_found_differences", "split_brain", "cables_dead"} <= moments
    assert names == {f"{moment}.node{node}" for moment in moments for node in (0, 1)}

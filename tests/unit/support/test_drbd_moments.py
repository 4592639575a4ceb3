"""What two real kernels with DRBD 8.4 said in the lab: kept whole, and their two ways to say it agree.

`tests/cases/edge/drbd84_lab/MOMENT.NODE.yaml` has /proc/drbd (`proc`), `drbdsetup status` (`names`) and
`drbdsetup events2` (`events`) of one side: words to test parsers with.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from support import cases
from support.lab.replica import NAME, Moment

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


def test_each_moment_is_there_from_both_sides() -> None:
    names = {path.stem for path in FOLDER.glob("*.yaml")}
    moments = {name.partition(".")[0] for name in names}
    assert {"syncing", "paused_by_node0", "verify_found_differences", "split_brain", "cables_dead"} <= moments
    assert names == {f"{moment}.node{node}" for moment in moments for node in (0, 1)}

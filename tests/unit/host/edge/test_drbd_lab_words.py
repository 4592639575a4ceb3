"""DRBD 8.4 in its own words, as two real kernels said them in the lab: our model against drbdsetup's.

The model is read from /proc/drbd; drbdsetup asks the kernel over netlink. Where the two differ, we are wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.api.common.edge_state import DrbdState
from nodemanager.api.edge.edgecluster import HEALTHY, UNHEALTHY
from nodemanager.fleet.edge.hosts import replication
from nodemanager.host.edge import drbd, drbd_84
from support import cases
from support.lab import drbd_words

FOLDER = cases.FOLDER / "edge" / "drbd84_lab"
CLEAN = ("established", "corrupt_unnoticed")
"""Moments that look well: of the second one nobody can know better before a verify."""
MOMENTS = [pytest.param(path, id=path.stem) for path in sorted(FOLDER.glob("*.yaml"))]


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


@pytest.mark.parametrize("path", MOMENTS)
def test_our_model_says_what_drbdsetup_says(path: Path) -> None:
    said = read(path)
    (seen,) = drbd_84.parse(said["proc"], drbd_84.parse_names(said["names"]))
    assert seen.name == "r0"
    assert drbd_words.differences(said["names"], seen) == []
    assert (drbd.unclean(seen) == "") == (path.stem.partition(".")[0] in CLEAN), drbd.unclean(seen)


@pytest.mark.parametrize("path", MOMENTS)
def test_the_operator_finds_well_what_its_host_calls_clean_and_a_verify(path: Path) -> None:
    said = read(path)
    told = DrbdState(resources=drbd_84.parse(said["proc"], drbd_84.parse_names(said["names"])))
    verdict = replication.judge({"node": told}, copies=2, complete=False)
    well = path.stem.partition(".")[0] in (*CLEAN, "verifying")
    assert verdict.state == (HEALTHY if well else UNHEALTHY), verdict
    assert verdict.unknown == (), "8.4 tells of all that is asked"


@pytest.mark.parametrize(("moment", "done"), [("syncing", 1), ("verifying", 1), ("established", None)])
def test_how_far_it_is_is_counted_and_not_believed(moment: str, done: int | None) -> None:
    """/proc/drbd says 50 % of both where it has just begun."""
    said = read(FOLDER / f"{moment}.node0.yaml")
    (seen,) = drbd_84.parse(said["proc"], drbd_84.parse_names(said["names"]))
    assert seen.peers[0].volumes[0].done == done


def test_a_model_that_says_something_else_is_caught() -> None:
    said = read(FOLDER / "established.node0.yaml")
    (seen,) = drbd_84.parse(said["proc"].replace("oos:0", "oos:4"), drbd_84.parse_names(said["names"]))
    assert drbd_words.differences(said["names"], seen) == ["out-of-sync: drbdsetup says 0, we say 4"]

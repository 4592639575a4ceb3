"""The DaemonSet in sh, without an API: its states are those of the profile, and its names come from there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support import cli, edge_world
from support.daemonset import pods
from support.daemonset.pods import SCRIPT

FILES = (SCRIPT, SCRIPT.with_name("api.sh"))


def test_its_states_are_those_of_the_profile() -> None:
    argv = ["/bin/sh", str(SCRIPT), "states"]
    done = subprocess.run(argv, env=cli.environment(), capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == edge_world.bridge().states
    assert len(done.stdout.split()) == 21


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_plain_shell_takes_it_and_it_has_no_name_of_the_profile(file: Path) -> None:
    subprocess.run(["/bin/sh", "-n", str(file)], check=True, timeout=60)
    text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("#"))
    state, beats = edge_world.bridge().state, edge_world.bridge().heartbeats
    names = (state.config_map, state.key, state.lock_field, beats.config_map, edge_world.bridge().component)
    assert not [name for name in names if name in text], "that is said by the profile, once"


def test_all_that_a_profile_names_is_in_its_environment() -> None:
    text = SCRIPT.read_text() + SCRIPT.with_name("api.sh").read_text()
    found = pods.environment(edge_world.bridge())
    assert not [name for name in found if f"${name}" not in text]
    assert found["HEALTH"] == "storage=healthy network=healthy virtualisation=healthy"
    assert found["ROLLBACK_WORD"] == "rollback"

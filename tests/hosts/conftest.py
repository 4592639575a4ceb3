"""Tests on real machines: run by `make e2e`, as root; see tests/support/nspawn.py."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import host_python, inotify_room
from support.nspawn import Machine

_HERE = Path(__file__).parent
_SECONDS = {
    "test_release_packages.py": 900, "test_self_update.py": 600,
    "test_monday.py": 230, "test_undo.py": 215, "test_liveness.py": 165, "test_deb.py": 120,
    "test_rollout.py": 115, "test_liveness_chaos.py": 100, "test_evil_neighbour.py": 90,
    "test_agent_bad_input.py": 90, "test_chaos.py": 85, "test_agent_recovery.py": 85,
    "test_agent_hosts.py": 75, "test_realtime.py": 70, "test_own_upgrade.py": 70, "test_watchdog.py": 65,
    "test_package_managers.py": 65, "test_systemd.py": 65, "test_identity.py": 50, "test_status.py": 50,
    "test_alone.py": 50, "test_install_service.py": 50, "test_unit_watch.py": 40, "test_examples.py": 40,
    "test_evil_author.py": 40, "test_long_executions.py": 35, "test_deployment_guide.py": 35,
    "test_image.py": 35,
}  # fmt: skip
"""How long files take by the clock, of those that take long: they begin first."""


def pytest_configure(config: pytest.Config) -> None:
    """Have room for all machines; the workers have it from the process that started them."""
    if os.geteuid() == 0 and not hasattr(config, "workerinput"):
        inotify_room.make(config.stash)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the limit as it was."""
    inotify_room.give_back(config.stash)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test waits for mmdebstrap; and a machine is booted by one worker for all tests of a file."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.timeout(1500))
            if item.path.name in _SECONDS:
                item.add_marker(pytest.mark.long(_SECONDS[item.path.name]))
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.fixture(scope="module")
def shared_machine() -> Iterator[Machine]:
    """A machine for all tests of a file; each takes names of its own."""
    with Machine.boot(binds=host_python.binds()) as machine:
        yield machine


@pytest.fixture
def machine(shared_machine: Machine, request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The machine of the file; its journal is printed when a test fails."""
    failed = request.session.testsfailed
    yield shared_machine
    if request.session.testsfailed > failed:
        sys.stdout.write(shared_machine.journal())

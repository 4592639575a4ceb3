"""The lab: run by `make lab`, as root; see docs/lab.md. Whoever cannot run it is told why."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import debian_packages
from support.lab import delivery
from support.lab.agents import AgentLab
from support.lab.site import Site

_HERE = Path(__file__).parent
_PACKAGES = ("qemu-system-x86", "mmdebstrap", "cpio")
_SECONDS = 3000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without KVM a minute is soon over; and a guest takes a core, so that only one lab is up at a time."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.timeout(_SECONDS))
            item.add_marker(pytest.mark.xdist_group("lab"))


@pytest.fixture(scope="session")
def shared_site() -> Iterator[Site]:
    """Two guests for all tests; a skip that says what to do where there cannot be any."""
    if os.geteuid() != 0:
        pytest.skip("cannot boot guests: their root is made by mmdebstrap, as root; run sudo make lab")
    lacking = debian_packages.missing(_PACKAGES)
    if lacking and not shutil.which("apt-get"):
        pytest.skip(
            f"cannot boot guests: there is no {', '.join(lacking)}; install what is like it in Debian"
        )
    debian_packages.ensure(*_PACKAGES)
    with Site.up() as site:
        yield site


@pytest.fixture
def site(shared_site: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    """The two guests, with two cables and without a bond; their journals are printed when a test fails."""
    failed = request.session.testsfailed
    shared_site.reset()
    yield shared_site
    if request.session.testsfailed > failed:
        for guest in shared_site.guests:
            sys.stdout.write(f"--- {guest.name}\n{guest.journal(lines=60)}\n")


@pytest.fixture(scope="session")
def program_site(shared_site: Site) -> Site:
    """The two guests with our program; nothing of it runs."""
    delivery.deliver(shared_site.guests)
    return shared_site


@pytest.fixture(scope="session")
def agent_lab(program_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentLab]:
    """The two guests joined to an API; tests start and kill their agents."""
    with AgentLab.up(program_site, tmp_path_factory.mktemp("lab")) as found:
        yield found


@pytest.fixture(scope="module")
def shared_lab(agent_lab: AgentLab) -> Iterator[AgentLab]:
    """The same; no agent runs when the tests of a file are over: others measure what guests do alone."""
    yield agent_lab
    agent_lab.rest()


@pytest.fixture
def lab(shared_lab: AgentLab, site: Site) -> Iterator[AgentLab]:
    """The guests with no bond, and nothing left of changes of one; agents run, or not."""
    del site  # it takes away what tests left
    yield shared_lab
    shared_lab.forget()

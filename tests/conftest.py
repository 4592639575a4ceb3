"""Fixtures for all tests: a real kube-apiserver when one is given, a clear skip when not."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from support import apiserver, examples, file_limit, forks, leftovers, likeness, long_first

# How long an example takes says something about the machine, and about who else uses it.
hypothesis.settings.register_profile(
    "nodemanager", deadline=None, derandomize=examples.SAME, max_examples=examples.some(30)
)
hypothesis.settings.load_profile("nodemanager")

# In the background of a script we ignore it, and so do all programs that tests start, and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Programs that tests start find `support`, too; after what somebody else has put there.
_FOUND = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
os.environ["PYTHONPATH"] = os.pathsep.join([*_FOUND, str(Path(__file__).parent)])


def pytest_configure(config: pytest.Config) -> None:
    """Blame the test that leaves a socket open, and no test for a kube-apiserver of another version."""
    config.pluginmanager.register(long_first)
    config.pluginmanager.register(forks)
    config.pluginmanager.register(leftovers)
    config.pluginmanager.register(likeness)


def pytest_xdist_auto_num_workers() -> int:
    """Run two at a time for each core: tests of processes, hosts and outages wait half of their time."""
    return 2 * len(os.sched_getaffinity(0))


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep all tests that share the real API server in one worker process."""
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if "kube" in getattr(item, "fixturenames", ()) or (group is not None and "apiserver" in group.args):
            item.add_marker(pytest.mark.apiserver)
            item.add_marker(pytest.mark.xdist_group("apiserver"))
    if apiserver.assets() is None:
        apiserver.skip_once_a_file(config, items)
    if config.getoption("loadgroup", default=False):
        for item in items:
            _tell_group(item)


def _tell_group(item: pytest.Item) -> None:
    """Put its group into the id of a test, which is all that the scheduler of xdist sees.

    xdist 3.8 does so where pytest 9.2 does not look any more (pytest-xdist issue 1386); twice does no harm.
    """
    group = item.get_closest_marker("xdist_group")
    if group is not None and hasattr(item, "_id"):
        item._id = type(item._id).parse(f"{item.nodeid}@{group.args[0]}")


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """What is run in the process of a test logs, steps back, serves and ignores signals; no other notices."""
    signals = {number: signal.getsignal(number) for number in signal.valid_signals()}
    root, nice = logging.getLogger(), os.getpriority(os.PRIO_PROCESS, 0)
    level, handlers, raising = root.level, root.handlers[:], logging.raiseExceptions
    with file_limit.kept():
        yield
    if os.getpriority(os.PRIO_PROCESS, 0) != nice:
        os.setpriority(os.PRIO_PROCESS, 0, nice)  # only root's agent steps back, and root may step forward
    for number, handler in signals.items():
        if handler is not None and signal.getsignal(number) != handler:
            signal.signal(number, handler)
    root.setLevel(level)
    root.handlers[:] = handlers
    logging.raiseExceptions = raising


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder for sockets, whose paths have 107 bytes: those of pytest contain the name of the test."""
    with tempfile.TemporaryDirectory(prefix="nm-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apiserver.ApiServer]:
    """A real kube-apiserver, shared by all tests of one worker."""
    if apiserver.assets() is None:
        pytest.skip(
            "no kube-apiserver given: set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd"
        )
    with apiserver.running(tmp_path_factory.mktemp("kube")) as api:
        yield api

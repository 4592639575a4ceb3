"""Judged by another Kubernetes than the one that the embedded API is like, a test tells of a difference.

With the version of `nodemanager.server.kubernetes_version`, a test that fails on the given kube-apiserver has
failed. With another version it says how that one differs: the run ends with a list of these, and does not
fail. A server that does not even start is an error with any version.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from functools import cache

import pytest

from nodemanager.server.kubernetes_version import VERSION, minor_version
from support import apiserver

_DIFFERENCE = "differs from Kubernetes"
_SHOWN = 300
"""Characters of what a test said that are listed."""


@cache
def other_version() -> str:
    """Return the version of the given kube-apiserver if it is another one than ours, or an empty text."""
    binaries = apiserver.assets()
    if binaries is None:
        return ""
    argv = [str(binaries / "kube-apiserver"), "--version"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    found = said.split()[-1]  # Kubernetes v1.36.4
    return "" if minor_version(found) == minor_version(VERSION) else found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Take a failure on another kube-apiserver for what it is."""
    report = yield
    judged = item.get_closest_marker("apiserver") is not None
    if judged and report.when == "call" and report.failed and (version := other_version()):
        report.outcome = "skipped"  # with the line below, what pytest calls an expected failure
        report.wasxfail = f"{_DIFFERENCE} {version}"
        report.user_properties.append((_DIFFERENCE, version))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the differences."""
    found = [
        (version, report)
        for report in terminalreporter.getreports("xfailed")
        for name, version in report.user_properties
        if name == _DIFFERENCE
    ]
    if not found:
        return
    terminalreporter.section(f"differences to {found[0][0]}")
    for _, report in found:
        crash = getattr(report.longrepr, "reprcrash", None)
        why = crash.message.partition("\n")[0] if crash is not None else "see its output with -rx"
        terminalreporter.line(f"{report.nodeid}: {why[:_SHOWN]}")
    terminalreporter.line(f"{len(found)} tests differ: the embedded API is like Kubernetes {VERSION}")

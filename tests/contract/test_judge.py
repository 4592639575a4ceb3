"""The kube-apiserver that judges us is started once, and leaves nothing behind however a test run ends."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support import apiserver

STARTER = """
import pathlib, sys
from support import apiserver
with apiserver.running(pathlib.Path(sys.argv[1])) as api:
    print(*(process.pid for process in api.processes), flush=True)
    sys.stdin.read()
"""


@pytest.mark.usefixtures("kube")
def test_all_who_ask_for_it_are_sent_to_one_worker(request: pytest.FixtureRequest) -> None:
    by_groups = request.config.getoption("loadgroup", default=False)
    assert request.node.nodeid.endswith("@apiserver") == by_groups


@pytest.mark.apiserver
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv on PATH: install util-linux")
@pytest.mark.skipif(apiserver.assets() is None, reason="no kube-apiserver given: set KUBEBUILDER_ASSETS")
def test_both_processes_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", STARTER, str(tmp_path / "kube")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        try:
            assert run.stdout is not None
            started = [os.pidfd_open(int(pid)) for pid in run.stdout.readline().split()]
        finally:
            run.kill()
    assert len(started) == 2
    try:
        for process in started:
            assert select.select([process], [], [], 30)[0], "it still runs"
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
            os.close(process)

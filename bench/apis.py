"""The API servers that are measured side by side: ours, and kube-apiserver with etcd where they are given."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import processes
from nodemanager.client.auth import load
from nodemanager.host.process import runner

START_TIMEOUT = 600.0
STOP_TIMEOUT = 120.0
"""Guards against hanging, as is that: on a busy machine starts and ends may take minutes."""


@dataclass(frozen=True, slots=True)
class Api:
    """A running server: how to reach it, its processes, and how long it took to be ready."""

    kubeconfig: Path
    pids: Sequence[int]
    seconds: float

    def mebibytes(self) -> float:
        """Return what its processes hold in memory."""
        return sum(resident(pid) for pid in self.pids) / 1024


@contextlib.contextmanager
def ours(folder: Path) -> Iterator[Api]:
    """Run `nodemanager server` on a folder, new or used before."""
    started = time.monotonic()
    argv = [sys.executable, "-m", "nodemanager", "server", "--data-dir", str(folder)]
    argv += ["--bind-address", "127.0.0.1:0", "--log-level", "warn"]
    kubeconfig = folder / "admin.kubeconfig"
    kubeconfig.unlink(missing_ok=True)
    with subprocess.Popen(argv, cwd=processes.ROOT, env=processes.environment()) as process:
        try:
            _wait_ready(kubeconfig, process)
            yield Api(kubeconfig, [process.pid], time.monotonic() - started)
        finally:
            process.terminate()
            process.wait(timeout=STOP_TIMEOUT)


@contextlib.contextmanager
def theirs(folder: Path) -> Iterator[Api]:
    """Run etcd, as durable as it is meant to be, and kube-apiserver."""
    from support import apiserver  # only with KUBEBUILDER_ASSETS, and tests/ need not be there without

    started = time.monotonic()
    with apiserver.running(folder, durable=True) as api:
        pids = [process.pid for process in api.processes]
        yield Api(api.kubeconfig, pids, time.monotonic() - started)


def install_crds(api: Api) -> None:
    """Have a server know ManagedNodes."""
    kubeconfig = ("--kubeconfig", str(api.kubeconfig))
    processes.run([sys.executable, "-m", "nodemanager", "crds", "--install", *kubeconfig])


def _wait_ready(kubeconfig: Path, process: subprocess.Popen[bytes]) -> None:
    """Return as soon as the server says that it is ready; its kubeconfig is there a little before."""
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise processes.ChildFailed(f"cannot measure our server: it ended with {process.returncode}")
        with contextlib.suppress(OSError, urllib.error.URLError):
            if kubeconfig.exists() and _is_ready(kubeconfig):
                return
        time.sleep(0.005)  # the one place where polling another process is all there is
    raise processes.ChildFailed(f"cannot measure our server: not ready within {START_TIMEOUT:.0f} s")


def _is_ready(kubeconfig: Path) -> bool:
    config = load.discover(path=str(kubeconfig), environ={}, run=runner.run)
    context = ssl.create_default_context(cadata=(config.ca or b"").decode())
    with urllib.request.urlopen(f"{config.server}/readyz", timeout=2, context=context) as answer:
        return bool(answer.status == 200)


def resident(pid: int) -> int:
    """Return the resident set of a process in KiB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Rss:"))

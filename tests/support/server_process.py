"""`nodemanager server` as a real process."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from nodemanager.client import kubeconfig
from nodemanager.client.config import ClientConfig
from nodemanager.host import runner


class Server:
    """A server process on a data folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    def start(self) -> float:
        """Start it; return how many seconds it took until it listened."""
        self.kubeconfig.unlink(missing_ok=True)
        log = self.folder.parent / "server.log"
        argv = [sys.executable, "-m", "nodemanager", "server", "--data-dir", str(self.folder)]
        started = time.monotonic()
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [*argv, "--bind-address", "127.0.0.1:0"], stdout=file, stderr=file
            )
        while b"serving on" not in log.read_bytes():
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < started + 30, log.read_text()
            time.sleep(0.01)
        return time.monotonic() - started

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(20)

    def config(self) -> ClientConfig:
        return kubeconfig.load(path=str(self.kubeconfig), environ={}, run=runner.run)

    def cli(self, *args: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "nodemanager", *args, "--kubeconfig", str(self.kubeconfig)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Server]:
    """Start a server on a data folder; kill it at the end, however often it was restarted."""
    server = Server(folder)
    server.start()
    try:
        yield server
    finally:
        if server.process is not None:
            server.process.kill()
            server.process.wait(10)

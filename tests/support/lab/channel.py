"""How a test talks to a guest, and to the QEMU around it: two sockets with lines of JSON each way."""

from __future__ import annotations

import base64
import concurrent.futures
import itertools
import json
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

START_SECONDS = 60.0
ANSWER_SECONDS = 300.0
GRACE_SECONDS = 60.0
"""How much longer than a command may take its answer is waited for: the guest is to say so itself."""


class Answer(NamedTuple):
    """What a command in a guest came to."""

    code: int
    stdout: bytes
    stderr: bytes


class Channel:
    """To `inside.py` of a guest; commands may run beside one another."""

    def __init__(self, path: Path, process: subprocess.Popen[bytes]) -> None:
        self._socket = connect(path, process)
        self._numbers = itertools.count()
        self._asked: dict[int, concurrent.futures.Future[Answer]] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name=f"channel {path.parent.name}", daemon=True)
        self._thread.start()

    def ask(self, request: Mapping[str, Any], seconds: float) -> Answer:
        """Have something done, and wait for what comes of it; raises TimeoutError or OSError."""
        number, future = next(self._numbers), concurrent.futures.Future[Answer]()
        self._asked[number] = future
        coded = {key: _coded(value) for key, value in request.items()}
        with self._lock:
            self._socket.sendall(json.dumps({"id": number, **coded}).encode() + b"\n")
        return future.result(seconds + GRACE_SECONDS)

    def close(self) -> None:
        """Hang up."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _read(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    said = json.loads(line)
                    words = (base64.b64decode(said[one]) for one in ("stdout", "stderr"))
                    self._asked.pop(said["id"]).set_result(Answer(said["code"], *words))
        finally:
            for future in self._asked.values():
                future.set_exception(ConnectionError("the guest is gone"))


class Qmp:
    """To QEMU itself."""

    def __init__(self, path: Path, process: subprocess.Popen[bytes]) -> None:
        self._socket = connect(path, process)
        self._socket.settimeout(ANSWER_SECONDS)
        self._lines = self._socket.makefile("rb")
        self._lines.readline()  # it greets
        self.execute("qmp_capabilities")

    def execute(self, command: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Have QEMU do something, which must succeed, and return what it says."""
        asked = {"execute": command, "arguments": dict(arguments or {})}
        self._socket.sendall(json.dumps(asked).encode() + b"\n")
        while True:
            said = json.loads(self._lines.readline())
            if "return" in said:
                return dict(said["return"])
            if "error" in said:
                raise ValueError(f"cannot {command}: {said['error']['desc']}")

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._socket.close()


def connect(path: Path, process: subprocess.Popen[bytes]) -> socket.socket:
    """Connect to a socket that a process has just been started to open."""
    deadline = time.monotonic() + START_SECONDS
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    while True:
        try:
            made.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                made.close()
                said = (path.parent / "console").read_text(errors="replace")[-2000:]
                raise ConnectionError(f"cannot start QEMU: {error}: {said}") from error
            time.sleep(0.02)
        else:
            return made


def _coded(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value

"""Listens to what a watch in a test machine says; see watch_driver.py."""

from __future__ import annotations

import json
import select
import time
from collections.abc import Callable
from typing import Any

from support import host_python
from support.nspawn import Machine

SECONDS = 60.0
_DRIVER = "/opt/nodemanager/tests/support/watch_driver.py"


class Listener:
    """A watch that runs in a machine."""

    def __init__(self, machine: Machine, kind: str = "systemd", **spec: Any) -> None:
        text = json.dumps({"metadata": {"name": "test"}, "spec": spec})
        argv = (*host_python.COMMAND, _DRIVER, kind, text)
        self._process = machine.popen(*argv, env=host_python.ENVIRONMENT)
        self._rest = b""

    def wait(self, resource: str) -> dict[str, Any]:
        """Wait until a resource is touched."""
        return self.wait_for(lambda line: resource in line["touched"], resource)

    def wait_for(self, touches: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Wait until something is said that is of interest."""
        deadline = time.monotonic() + SECONDS
        while (left := deadline - time.monotonic()) > 0:
            line = self._line(left)
            if line is not None and touches(line):
                return line
        raise AssertionError(f"{what} was not touched within {SECONDS:g} s")

    def quiet(self, seconds: float = 0.6) -> None:
        """Wait until nothing more is said."""
        while self._line(seconds) is not None:
            pass

    def said(self, seconds: float) -> list[dict[str, Any]]:
        """Return all that is said until nothing more comes for so long."""
        lines = []
        while (line := self._line(seconds)) is not None:
            lines.append(line)
        return lines

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _line(self, seconds: float) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        output = self._process.stdout.buffer.raw  # type: ignore[attr-defined]  # select knows no buffers
        while b"\n" not in self._rest:
            if not select.select([output], [], [], seconds)[0]:
                return None
            data = output.read(65536)
            assert data, f"the watch ended: {self._rest.decode()}"
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\n")
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError:
            raise AssertionError(f"the watch said: {text.decode()}{self._rest.decode()}") from None
        return found

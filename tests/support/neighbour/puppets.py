"""Processes inside of the host that are told what to do, line by line, and what they cry."""

from __future__ import annotations

import contextlib
import json
import queue
import re
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

from support.nspawn import ENVIRONMENT, Machine

INSIDE: Final = "/usr/local/lib/neighbour"
"""Where this package is on the host."""
ANSWER_SECONDS: Final = 120.0


@dataclass
class Escape:
    """Something that must not be, and how it came about."""

    path: str
    what: str
    after: float
    """Seconds since the first round began."""
    number: int
    """The round."""
    tail: dict[str, list[str]] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """What it has in common with others: the words, without what is in them of this one."""
        return re.sub(r"(b['\"]|: ['\"]).*|\d+", "#", self.what)

    def __str__(self) -> str:
        did = "; ".join(f"{who}: {', '.join(what)}" for who, what in self.tail.items() if what)
        return f"{self.after:6.1f} s, round {self.number}: {self.path} {self.what}\n         [{did}]"


class Puppet:
    """A process inside of the host that is told what to do."""

    def __init__(self, machine: Machine, name: str, cries: queue.Queue[dict[str, Any]], *argv: str) -> None:
        self.name = name
        env = {**ENVIRONMENT, "PYTHONPATH": INSIDE, "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            machine.inside(*argv), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answers: queue.Queue[Any] = queue.Queue()
        self._cries = cries
        self._thread = threading.Thread(target=self._read, name=name)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "escape" in said:
                self._cries.put(said | {"at": time.monotonic()})
            else:
                self._answers.put(said["answer"])
        self._answers.put(EOFError(f"{self.name} has ended"))

    def tell(self, do: str, **more: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **more}) + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        answer = self._answers.get(timeout=ANSWER_SECONDS)
        if isinstance(answer, EOFError):
            raise answer
        return answer

    def ask(self, do: str, **more: Any) -> Any:
        self.tell(do, **more)
        return self.hear()

    def end(self) -> None:
        """Have it end, by itself: to kill nsenter would leave what it runs."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            self._process.stdin.close()
        self._process.wait(20)
        self._thread.join(20)
        assert self._process.stdout is not None
        self._process.stdout.close()

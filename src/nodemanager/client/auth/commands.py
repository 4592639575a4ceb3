"""How a client asks for a program to be run; credential plugins are programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class CommandResult(Protocol):
    """How a program ended and what it wrote."""

    @property
    def returncode(self) -> int:
        """Exit status; negative if a signal ended it."""

    @property
    def stdout(self) -> bytes:
        """What it wrote to stdout."""

    @property
    def stderr(self) -> bytes:
        """What it wrote to stderr."""


class CommandRunner(Protocol):
    """Runs a program to its end, bounded in time and output (`host.runner.run` is one).

    Raises FileNotFoundError if there is no such program, another OSError if it cannot run.
    """

    async def __call__(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float
    ) -> CommandResult:
        """Run `argv` with exactly the environment `env`."""

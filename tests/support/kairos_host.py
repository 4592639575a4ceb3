"""A folder that stands for Kairos; kairos-agent is a script that notes calls, and refuses what is bad."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Unpack

from nodemanager.agent.edge.kairos_steps import OemSteps
from nodemanager.host.base import How
from nodemanager.host.edge.oem import OemFiles
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import environment
from nodemanager.host.process.runner import Completed
from support import scripts
from support.edge_host import STATE


@contextlib.asynccontextmanager
async def alone() -> AsyncIterator[None]:
    """Have nobody else at work."""
    yield


class KairosHost:
    """One host."""

    def __init__(self, folder: Path) -> None:
        self.root, self.bin = folder / "root", folder / "bin"
        for one in (self.root / "oem", self.root / "run/cos", self.root / "var/lib/nodemanager", self.bin):
            one.mkdir(parents=True)
        (self.root / "run/cos/active_mode").touch()
        scripts.write(
            self.bin / "kairos-agent",
            f'echo "$@" >> {folder}/calls; [ "$1" != validate ] || ! grep -q bad "$2"',
        )
        self.calls_file = folder / "calls"

    async def run(self, argv: Sequence[str], **how: Unpack[How]) -> Completed:
        how["env"] = {"PATH": f"{self.bin}:{environment.ENVIRONMENT['PATH']}"}
        return await environment.host_runner()(argv, **how)

    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []

    def oem(self, changes: Any = None) -> OemSteps:
        return OemSteps(OemFiles(Tree(str(self.root)), STATE, self.run, str(self.root)), changes, alone)

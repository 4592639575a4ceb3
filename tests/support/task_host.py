"""A host in a folder on which tasks of all kinds of steps can be done, and which counts what was really done.

root/      files, and the state of the agent: what a disk is
world/     what happened: a line for each effect, which no power cut takes back
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nodemanager.agent.assembly import HostSetup, NoLocks, assemble
from nodemanager.agent.tasks.attempts import Performer
from nodemanager.agent.tasks.engine import TaskEngine
from nodemanager.agent.tasks.files import Files
from nodemanager.agent.tasks.ledger import Entry, LedgerFolder
from nodemanager.agent.tasks.packages import Packages
from nodemanager.agent.tasks.previews import PlanPreviews
from nodemanager.agent.tasks.probes import Probes
from nodemanager.agent.tasks.programs import Programs
from nodemanager.agent.tasks.reboots import Reboots
from nodemanager.agent.tasks.services import Services
from nodemanager.host.base import ServiceKey, WantedPackage
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import environment
from nodemanager.host.process.runs import Runs
from nodemanager.plan.desired import Contents, Desired
from nodemanager.plan.facts import ServiceFact
from support.root_tree import literal_contents

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
OLD, NEW = {"app": "1", "lib": "1"}, {"app": "2", "lib": "2", "extra": "1"}
BEFORE, AFTER = "before\n", "after\n"
PATH = "/etc/app.conf"


class TaskHost:
    """The folder of one host."""

    def __init__(self, folder: Path) -> None:
        self.root, self.world = folder / "root", folder / "world"

    def make(self) -> None:
        """Make it anew."""
        for one in (self.root / "etc", self.root / "db", self.world):
            one.mkdir(parents=True)
        (self.root / PATH.lstrip("/")).write_text(BEFORE)
        (self.root / "db/packages").write_text(json.dumps(OLD))
        (self.world / "boot").write_text("1")
        (self.world / "log").touch()

    def happened(self, what: str) -> None:
        """Count an effect."""
        with (self.world / "log").open("a") as file:
            file.write(f"{what}\n")

    def effects(self) -> list[str]:
        return (self.world / "log").read_text().split("\n")[:-1]

    def boot_id(self) -> str:
        return (self.world / "boot").read_text()

    def next_boot(self) -> None:
        (self.world / "boot").write_text(str(int(self.boot_id()) + 1))

    def packages(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.root / "db/packages").read_text())
        return found

    def file(self) -> str:
        return (self.root / PATH.lstrip("/")).read_text()

    def record(self) -> Entry:
        """Return what is written down of the one task."""
        tree = Tree(str(self.root))
        try:
            (entry,) = LedgerFolder(tree).entries.values()
            return entry
        finally:
            tree.close()

    async def process(self, entry: Entry) -> None:
        """Live from the start of an agent to the end of its task."""
        managed = assemble(HostSetup(root=str(self.root), hostname="web1"), NoLocks("alone"))
        ledger = LedgerFolder(Tree(str(self.root)))
        engine = TaskEngine(
            ledger, self._performers(managed.converger, ledger), self.boot_id(), lambda: NOW, _nobody
        )
        if entry.record.uid not in ledger.entries:
            ledger.claim(entry)
        for unfinished in ledger.unfinished():
            await engine.run(unfinished)
        managed.close()

    def _performers(self, converger: Any, ledger: LedgerFolder) -> dict[str, Performer]:
        run, here = environment.host_runner(), Tree("/")
        runs = Runs(here, None, run, str(self.root / "var/lib/nodemanager/task-runs"))
        manager, boot = FilePackages(self), FileBoot(self)

        @contextlib.asynccontextmanager
        async def exclusive() -> AsyncIterator[None]:
            yield

        async def contents(desired: Desired) -> Contents:
            return literal_contents(desired)

        async def nothing() -> list[Any]:
            return []

        async def settled() -> None:
            return None

        async def needed() -> str:
            return ""

        return {
            "packages": Packages(manager, tuple, exclusive, lambda one: ledger.inverse(one.task, one.step)),
            "service": Services(FileServices(self), exclusive),
            "execution": Programs(runs, self.boot_id()),
            "reboot": Reboots(boot, needed, exclusive),
            "probe": Probes(run, None, settled),
            "file": Files(converger, contents, exclusive, frozenset),
            "preview": PlanPreviews(manager, tuple, nothing, exclusive),
        }


def _nobody(_entry: Entry) -> None:
    """Report nothing."""


class FilePackages:
    """A package manager whose database is a file."""

    name = "files"
    databases = ()

    def __init__(self, host: TaskHost) -> None:
        self._host = host

    async def installed(self) -> Mapping[str, str]:
        return self._host.packages()

    async def upgrade_all(self, hold: Sequence[WantedPackage] = ()) -> None:
        self._put(NEW)

    async def install(self, wanted: Sequence[WantedPackage]) -> None:
        self._put({**self._host.packages(), **{one.name: one.version for one in wanted}})

    async def remove(self, names: Sequence[str]) -> None:
        self._put({name: one for name, one in self._host.packages().items() if name not in names})

    def _put(self, packages: dict[str, str]) -> None:
        if packages == self._host.packages():
            return
        path = self._host.root / "db/packages"
        new = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(new, json.dumps(packages).encode())
        os.fsync(new)
        os.close(new)
        os.rename(f"{path}.new", path)  # noqa: PTH104 - a point to be killed at

    async def candidates(self, names: Sequence[str]) -> Mapping[str, str]:
        raise NotImplementedError

    async def rehearse(self, install: Sequence[WantedPackage], remove: Sequence[str]) -> Mapping[str, str]:
        raise NotImplementedError

    async def reboot_needed(self) -> str:
        return ""


class FileServices:
    """A service manager that notes what it is asked for."""

    name = "files"

    def __init__(self, host: TaskHost) -> None:
        self._host = host

    async def restart(self, key: ServiceKey) -> None:
        self._host.happened(f"restart {key.name}")

    async def start(self, key: ServiceKey) -> None:
        self._host.happened(f"start {key.name}")

    async def stop(self, key: ServiceKey) -> None:
        raise NotImplementedError

    async def reload(self, key: ServiceKey) -> bool:
        raise NotImplementedError

    async def enable(self, key: ServiceKey, *, enabled: bool) -> bool:
        raise NotImplementedError

    async def refresh(self, user: str = "") -> None:
        raise NotImplementedError

    async def set_arguments(self, key: ServiceKey, arguments: str) -> None:
        raise NotImplementedError

    async def observe(self, keys: Iterable[ServiceKey]) -> Mapping[ServiceKey, ServiceFact]:
        raise NotImplementedError


class FileBoot:
    """A machine that goes down at once, and whose boot is a number in a file."""

    def __init__(self, host: TaskHost) -> None:
        self._host = host

    async def boot_id(self) -> str:
        return self._host.boot_id()

    async def reboot(self) -> None:
        self._host.happened("reboot")
        self._host.next_boot()
        os.kill(os.getpid(), signal.SIGKILL)

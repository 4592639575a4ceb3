"""Real files below a folder, packages and services in memory: whole passes without a machine."""

from __future__ import annotations

from pathlib import Path

from nodemanager.agent.passes.converge import Converger
from nodemanager.api.common.configset import ConfigSet
from nodemanager.host.apply import Tools
from nodemanager.host.files.tree import Tree
from nodemanager.host.kind_parts import HostParts
from nodemanager.host.observe import Observer
from nodemanager.host.process import environment
from nodemanager.host.process.runs import Runs
from nodemanager.host.results import Result
from nodemanager.host.stages import PARTS
from nodemanager.host.state.journal import Journal
from nodemanager.plan import merge, steps
from nodemanager.plan.facts import ServiceFact
from nodemanager.plan.stages import KINDS, HostKinds
from support.fake_tools import MemoryLocks, MemoryPackages, MemoryServices
from support.root_tree import literal_contents

UP = ServiceFact(known=True, running=True, enabled=True)
DOWN = ServiceFact(known=True, enabled=False)


class Host:
    """This machine's own files below a folder, and tools in memory."""

    def __init__(self, folder: Path, kinds: HostKinds = KINDS, parts: HostParts = PARTS) -> None:
        self.folder = folder
        self.kinds, self.parts = kinds, parts
        self.packages = MemoryPackages({"nginx": "1.22", "jq": "1.6"})
        self.services = MemoryServices(nginx=UP, app=DOWN)
        self.locks = MemoryLocks()
        self.tree = Tree("/")
        self.restart()

    def restart(self) -> None:
        """Begin anew, as a new process would."""
        state = str(self.folder / "state")
        run = environment.host_runner()
        self.journal = Journal(self.tree, state)
        runs = Runs(self.tree, self.journal, run, f"{state}/runs")
        tools = Tools(self.packages, self.services, runs, self.journal, self.locks)
        observer = Observer(self.tree, self.packages, self.services, run)
        self.converger = Converger(observer, tools, kinds=self.kinds, parts=self.parts)

    async def converge(self, *sets: ConfigSet) -> list[Result]:
        desired = merge.merge(sets, self.kinds)
        return await self.converger.run(desired, literal_contents(desired))

    async def preview(self, *sets: ConfigSet) -> list[str]:
        desired = merge.merge(sets, self.kinds)
        found = await self.converger.preview(desired, literal_contents(desired))
        return [f"{type(one).__name__} {one.id.name.partition('#')[0]}" for one in steps.changes(found)]

"""Observes the facts that plans need, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodemanager.api.common.declarations import Command, Execution
from nodemanager.host.base import HostError, PackageManager, Runner, ServiceKey, ServiceManager
from nodemanager.host.files import file_facts
from nodemanager.host.files.file_facts import DigestCache
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import users
from nodemanager.host.process.runner import RunError
from nodemanager.host.process.threads import in_thread
from nodemanager.plan.desired import Item
from nodemanager.plan.facts import Facts, Kind, PackageFacts, Pending, ServiceFact, Verdicts
from nodemanager.plan.needs import ExecutionNeeds, FileNeeds, PackageNeeds, ServiceNeeds
from nodemanager.plan.resources import ResourceId

ASK_SECONDS = 60.0
"""How long a program of `onlyIf` or `unless` may take."""


@dataclass(slots=True)
class Observer:
    """The tools that observe files, packages and services."""

    tree: Tree
    packages: PackageManager | None
    services: ServiceManager | None
    run: Runner
    digests: DigestCache = field(default_factory=DigestCache)

    async def see_packages(self, needed: PackageNeeds) -> Facts:
        """Return the facts for the stage of packages."""
        if not needed.any:
            return Facts()
        if self.packages is None:
            error = "cannot manage packages: this host has no package manager that we know"
            return Facts(packages=PackageFacts(error=error))
        try:
            installed = await self.packages.installed()
            candidates = await self.packages.candidates(needed.latest) if needed.latest else {}
        except (HostError, RunError) as error:
            return Facts(packages=PackageFacts(error=str(error)))
        return Facts(packages=PackageFacts(installed, candidates))

    async def see_files(self, needed: FileNeeds, *, whole: bool = True) -> Facts:
        """Return the facts for the stage of files; those of others are forgotten if these are the `whole`."""
        if not needed.sizes:
            return Facts()
        files, listings = await in_thread(
            lambda: file_facts.observe_all(self.tree, needed.sizes, needed.purged, self.digests, whole=whole)
        )
        await users.learn(self.tree, needed.users, needed.groups)
        return Facts(
            files=files,
            listings=listings,
            users=users.user_numbers(self.tree, needed.users),
            groups=users.group_numbers(self.tree, needed.groups),
        )

    async def see_services(self, needed: ServiceNeeds, pending: Mapping[ResourceId, Pending]) -> Facts:
        """Return the facts for the stage of services."""
        keys = {item.id: ServiceKey(item.declaration.name, item.declaration.user) for item in needed}
        if not keys:
            return Facts()
        if self.services is None:
            error = "cannot manage services: this host has no service manager that we know"
            return Facts(services=dict.fromkeys(keys, ServiceFact(error=error)))
        try:
            seen = await self.services.observe(keys.values())
        except (HostError, RunError) as error:
            return Facts(services=dict.fromkeys(keys, ServiceFact(error=str(error))))
        missing = ServiceFact(error="was not observed")
        return Facts(services={one: seen.get(key, missing) for one, key in keys.items()}, pending=pending)

    async def see_executions(self, needed: ExecutionNeeds, pending: Mapping[ResourceId, Pending]) -> Facts:
        """Return the facts for the stage of executions."""
        verdicts = {item.id: await self._ask(item) for item in needed}
        return Facts(pending=pending, verdicts=verdicts)

    async def _ask(self, item: Item[Execution]) -> Verdicts:
        execution = item.declaration
        created = None
        if execution.creates:
            fact = file_facts.observe(self.tree, execution.creates, None, self.digests)
            self.tree.forget()
            created = fact.kind is not Kind.ABSENT
        try:
            return Verdicts(
                created,
                await self._yes(execution.only_if) if execution.only_if and not created else None,
                await self._yes(execution.unless) if execution.unless and not created else None,
            )
        except RunError as error:
            return Verdicts(error=f"cannot tell whether it has to run: {error}")

    async def _yes(self, question: Command) -> bool:
        answer = await self.run([question.command, *question.args], timeout=ASK_SECONDS)
        return answer.returncode == 0

"""Installs or removes a service; parts that are right already stay unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from nodemanager.host.base import ServiceKey, ServiceManager
from nodemanager.host.files.tree import Tree
from nodemanager.host.init import executable, placing, systems
from nodemanager.host.init.systems import System

_BOOTSTRAP: Final = "run nodemanager bootstrap"
_OPERATOR: Final = "put one there that may do what config/rbac/operator.yaml says"


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The wanted properties of the service."""

    executable: str
    kubeconfig: str
    variables: Mapping[str, str] = field(default_factory=dict)
    """Flags to set; others keep their values."""
    start: bool = True
    force: bool = False
    """Whether to replace a foreign service file, and to accept a program in an unsafe place."""


@dataclass(frozen=True, slots=True)
class Installer:
    """The service of one host."""

    tree: Tree
    system: System
    manager: ServiceManager | None
    """None = the init system of these files cannot run here."""
    runs: bool
    """Whether the running system is meant, and not an image."""
    say: Callable[[str], None]

    @property
    def key(self) -> ServiceKey:
        """The service, as a service manager names it."""
        return ServiceKey(self.system.unit_name)

    async def install(self, settings: ServiceSettings) -> None:
        """Write the files, enable the service and start it."""
        unit = self.system.unit(settings.executable, settings.kubeconfig)
        if not settings.force:
            executable.check(self.tree, settings.executable)
            placing.check(self.tree, self.system)
        has = placing.read(self.tree, self.system.environment)
        variables = systems.with_variables(
            self.system.variables() if has is None else has, settings.variables
        )
        changed = self._put(self.system.environment, variables, None)
        changed = self._put(self.system.path, unit, self.system.mode) or changed
        if self.manager is None:
            self.say(f"not enabled: {self.system.name} of {self.tree.root} cannot be run here")
            return
        if changed:
            await self.manager.refresh()
        if await self.manager.enable(self.key, enabled=True):
            await self.manager.refresh()
        self.say(f"enabled: {self.key.name} starts at boot")
        await self._start(self.manager, settings, changed=changed)

    async def uninstall(self, *, force: bool = False) -> None:
        """Stop it and remove its service; all that is not the service stays."""
        if not force:
            placing.check(self.tree, self.system)
        path = self.tree.outside(self.system.path)
        if placing.read(self.tree, self.system.path) is None:
            self.say(f"nothing to remove: there is no {path}")
            return
        if self.manager is not None:
            if self.runs and (await self.manager.observe([self.key]))[self.key].running:
                await self.manager.stop(self.key)
                is_agent = self.system.service.is_agent
                self.say("stopped" + ("; what the agent was running goes on to its end" if is_agent else ""))
            await self.manager.enable(self.key, enabled=False)
        placing.take_away(self.tree, self.system.path)
        if self.manager is not None:
            await self.manager.refresh()
        self.say(f"removed {path}")
        self.say(f"left as they are: {', '.join((self.system.environment, *self.system.state))}")

    def _put(self, path: str, text: str, mode: int | None) -> bool:
        written = placing.put(self.tree, path, text, mode)
        self.say(f"{'wrote' if written else 'unchanged:'} {self.tree.outside(path)}")
        return written

    async def _start(self, manager: ServiceManager, settings: ServiceSettings, *, changed: bool) -> None:
        """Start it, or say why not."""
        start, service = self.system.start, self.system.service
        if not self.runs:
            self.say(f"not started: {self.tree.root} is not what runs here")
        elif not settings.start:
            self.say(f"not started; to start it now: {start}")
        elif service.has_kubeconfig and not placing.is_there(self.tree, settings.kubeconfig):
            remedy = _BOOTSTRAP if service.is_agent else _OPERATOR
            self.say(f"not started: there is no {settings.kubeconfig}; {remedy}, then {start}")
        elif self.system.add_user and not placing.has_user(self.tree, service.user):
            self.say(
                f"not started: there is no user {service.user}; run {self.system.add_user}, then {start}"
            )
        elif not (await manager.observe([self.key]))[self.key].running:
            await manager.start(self.key)
            self.say("started")
        elif changed:
            await manager.restart(self.key)
            self.say("restarted")
        else:
            self.say("runs already, and nothing has changed")

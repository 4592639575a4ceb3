"""A package manager and a service manager in memory, for tests of what stands above them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace

from nodemanager.host.base import Busy, HostError, ServiceKey, ToolFailed, WantedPackage
from nodemanager.plan.facts import ServiceFact


class MemoryPackages:
    """Packages that only exist in a dictionary; `offered` is what can be installed."""

    name = "memory"
    databases = ("/var/lib/memory",)

    def __init__(self, offered: Mapping[str, str], installed: Mapping[str, str] | None = None) -> None:
        self.offered = dict(offered)
        self.have = dict(installed or {})
        self.calls: list[str] = []

    async def installed(self) -> Mapping[str, str]:
        return dict(self.have)

    async def candidates(self, names: Sequence[str]) -> Mapping[str, str]:
        return {name: self.offered[name] for name in names if name in self.offered}

    async def rehearse(self, install: Sequence[WantedPackage], remove: Sequence[str]) -> Mapping[str, str]:
        del remove
        return {
            one.name: f"cannot install {one.name}: no such package"
            for one in install
            if one.name not in self.offered
        }

    async def install(self, wanted: Sequence[WantedPackage]) -> None:
        self.calls.append("install " + " ".join(one.name for one in wanted))
        unknown = [one.name for one in wanted if one.name not in self.offered]
        if unknown:
            raise ToolFailed(f"cannot install {', '.join(unknown)}: no such package")
        self.have.update({one.name: one.version or self.offered[one.name] for one in wanted})

    async def remove(self, names: Sequence[str]) -> None:
        self.calls.append("remove " + " ".join(names))
        for name in names:
            del self.have[name]

    async def upgrade_all(self, hold: Sequence[WantedPackage] = ()) -> None:
        self.have = {name: self.offered.get(name, version) for name, version in self.have.items()}

    async def reboot_needed(self) -> str:
        return ""


class MemoryServices:
    """Services that only exist in a dictionary; those in `broken` do not start."""

    name = "memory"

    def __init__(self, **services: ServiceFact) -> None:
        self.facts = {ServiceKey(name): fact for name, fact in services.items()}
        self.broken: set[str] = set()
        self.no_reload: set[str] = set()
        """Those that are restarted where they shall reload."""
        self.calls: list[str] = []

    def _do(self, deed: str, key: ServiceKey, **change: object) -> None:
        self.calls.append(f"{deed} {key.name}")
        if key.name in self.broken and deed in ("start", "restart", "reload"):
            raise ToolFailed(f"cannot {deed} {key.name}: it failed")
        self.facts[key] = replace(self.facts[key], **change)  # type: ignore[arg-type]

    async def observe(self, keys: Iterable[ServiceKey]) -> Mapping[ServiceKey, ServiceFact]:
        return {key: self.facts.get(key, ServiceFact()) for key in keys}

    async def refresh(self, user: str = "") -> None:
        self.calls.append("refresh")
        self.facts = {key: replace(fact, stale=False) for key, fact in self.facts.items()}

    async def enable(self, key: ServiceKey, *, enabled: bool) -> bool:
        changes = self.facts[key].enabled is not enabled
        self._do("enable" if enabled else "disable", key, enabled=enabled)
        return changes

    async def set_arguments(self, key: ServiceKey, arguments: str) -> None:
        self._do("arguments", key, arguments=arguments)

    async def start(self, key: ServiceKey) -> None:
        self._do("start", key, running=True)

    async def stop(self, key: ServiceKey) -> None:
        self._do("stop", key, running=False)

    async def restart(self, key: ServiceKey) -> None:
        self._do("restart", key, running=True)

    async def reload(self, key: ServiceKey) -> bool:
        self._do("reload", key)
        return key.name not in self.no_reload


class MemoryLocks:
    """Locks of which some are held by another host."""

    def __init__(self) -> None:
        self.busy: set[str] = set()
        self.lost: set[str] = set()
        """Those that go to another host while they are held."""
        self.held: list[str] = []

    @contextlib.asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        if name in self.busy:
            raise Busy(f"cannot take lock {name}: another host holds it")
        self.held.append(name)
        yield
        if name in self.lost:
            raise HostError(f"lock {name} was lost")

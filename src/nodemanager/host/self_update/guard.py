"""The guard of an upgrade, as a service of the host's init system: it outlives the agent, and a reboot."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Final

from nodemanager.host import init
from nodemanager.host.base import HostError, ServiceKey, ServiceManager
from nodemanager.host.files.tree import Tree
from nodemanager.host.init import placing, systems
from nodemanager.host.self_update.records import UpgradeRecords
from nodemanager.host.services.choose import Name
from nodemanager.host.state.journal import STATE

SCRIPT: Final = "guard.sh"
_DASHED: Final = "nodemanager-guard"
_PLAIN: Final = "nodemanager_guard"
WRITTEN: Final = "Written by nodemanager upgrade-agent; written anew by it, so do not edit."


@dataclass(frozen=True, slots=True)
class GuardService:
    """How an init system runs the guard."""

    name: Name
    service: str
    path: str
    mode: int
    template: str


SERVICES: Final = {
    one.name: one
    for one in (
        GuardService("systemd", _DASHED, f"/etc/systemd/system/{_DASHED}.service", 0o644, "guard.service"),
        GuardService("openrc", _DASHED, f"/etc/init.d/{_DASHED}", 0o755, "guard.openrc"),
        GuardService("rc.d", _PLAIN, f"/usr/local/etc/rc.d/{_PLAIN}", 0o755, "guard.rcd"),
    )
}  # fmt: skip


async def remove(tree: Tree, init: Name, manager: ServiceManager | None, *, state: str = STATE) -> bool:
    """Take the guard away from a host, if it is there; return whether it was.

    An upgrade that is under way ends with it: nobody would go on with it before the agent is there again, and
    then in vain, or with a program that nobody wants any more.
    """
    service = SERVICES[init]
    key = ServiceKey(service.service)
    there = placing.is_there(tree, service.path)
    here = tree.root == "/"  # and no image, in which nothing runs
    if there and here and manager is not None and (await manager.observe([key]))[key].running:
        await manager.stop(key)
    records = UpgradeRecords(tree, state)
    with _told("end the upgrade that is under way", records):
        records.withdraw()
    if not there:
        return False
    if manager is not None:
        await manager.enable(key, enabled=False)
    placing.take_away(tree, service.path)
    if manager is not None:
        await manager.refresh()
    return True


@dataclass(frozen=True, slots=True)
class Guard:
    """The guard of one host."""

    tree: Tree
    records: UpgradeRecords
    service: GuardService
    manager: ServiceManager

    async def check(self) -> None:
        """Raise unless the agent is a service that can be restarted: so a new one proves itself."""
        agent = ServiceKey(systems.SERVICE)
        fact = (await self.manager.observe([agent]))[agent]
        if not fact.running:
            raise HostError(
                f"cannot upgrade: the service {agent.name} of {self.manager.name} does not run"
                f" ({fact.error or fact.state}), so nothing would tell whether a new program works; start it"
                " (nodemanager install-service)"
            )

    async def install(self) -> None:
        """Put the guard in place, to be started at every boot from now on; it has nothing to do yet."""
        self.records.write(SCRIPT, self._filled(SCRIPT), 0o700)
        changed = placing.put(self.tree, self.service.path, self._filled(self.service.template),
                              self.service.mode)  # fmt: skip
        if changed:
            await self.manager.refresh()
        if await self.manager.enable(self.key, enabled=True):
            await self.manager.refresh()

    async def start(self) -> None:
        """Have it begin; one that ended is started anew."""
        await self.manager.restart(self.key)

    async def wake(self) -> None:
        """Have it go on if it does not run, also if somebody removed it; one that runs is not disturbed."""
        if not (await self.manager.observe([self.key]))[self.key].running:
            if not placing.is_there(self.tree, self.service.path):
                with _told("put back the guard of the upgrade that is under way", self.records):
                    await self.install()
            await self.start()

    @property
    def key(self) -> ServiceKey:
        """The service, as a service manager names it."""
        return ServiceKey(self.service.service)

    def _filled(self, template: str) -> str:
        text = (resources.files(init) / template).read_text(encoding="utf-8")
        values = {"WRITTEN": WRITTEN, "STATE": self.records.folder}
        return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], text)


@contextlib.contextmanager
def _told(what: str, records: UpgradeRecords) -> Iterator[None]:
    """Tell of what the disk does not let us do in our words."""
    try:
        yield
    except HostError:
        raise
    except OSError as error:
        raise HostError(f"cannot {what}: {records.folder}: {error.strerror or error}") from error

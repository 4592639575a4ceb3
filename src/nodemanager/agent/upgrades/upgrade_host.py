"""What an upgrade needs of the host, in four words: upgrade, reboot needed, boot, reboot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nodemanager.host.base import NotSupported, PackageManager, Wanted
from nodemanager.host.inventory.boot import Boot


class UpgradeHost(Boot, Protocol):
    """A host that can be upgraded."""

    async def upgrade(self) -> str:
        """Upgrade everything; return why that needs a reboot, if we know already."""
        ...

    async def reboot_needed(self) -> str:
        """Return why the host should reboot, or an empty string."""
        ...


@dataclass(slots=True)
class ToolsHost:
    """The host we run on, by its tools."""

    packages: PackageManager | None
    boot: Boot
    pins: Callable[[], Sequence[Wanted]] = tuple
    """The packages that ConfigSets want at a certain version: they stay there."""
    upgrade_base: Callable[[], Awaitable[bool]] | None = None
    """Upgrades what is no package, such as FreeBSD's base system, and tells whether there was anything."""
    upgrading: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held meanwhile: what packages stop and write in between is no drift to be put back."""

    async def upgrade(self) -> str:
        """Upgrade all packages but those that are pinned, then the base system."""
        if self.packages is None and self.upgrade_base is None:
            raise NotSupported("cannot upgrade: this host has no package manager that we know")
        async with self.upgrading:
            if self.packages is not None:
                await self.packages.upgrade_all(self.pins())
            if self.upgrade_base is not None and await self.upgrade_base():
                return "the base system was upgraded"
        return ""

    async def reboot_needed(self) -> str:
        """Ask the package manager."""
        return "" if self.packages is None else await self.packages.reboot_needed()

    async def boot_id(self) -> str:
        """Return the ID of this boot."""
        return await self.boot.boot_id()

    async def reboot(self) -> None:
        """Ask for a reboot."""
        await self.boot.reboot()

"""apk: Alpine Linux and what is derived from it.

Pins are entries `name=version` of /etc/apk/world, which is what apk itself holds to; a package
that is no longer pinned is released by installing it without a version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nodemanager.host.base import WantedPackage
from nodemanager.host.packages import common, database, kernels
from nodemanager.host.packages.common import Offer, PackageContext, Tool, listed, said, shown
from nodemanager.host.packages.indexes import Indexes
from nodemanager.host.process.threads import in_thread

DATABASES: Final = ("/lib/apk/db/installed", "/usr/lib/apk/db/installed")
WORLD: Final = "/etc/apk/world"
_LOCKED: Final = re.compile(r"Unable to lock database|unable to lock database")
_FOUND: Final = re.compile(r"^(\S+?)-([0-9][^\s-]*(?:-r[0-9]+)?)$")
_KEPT: Final = re.compile(r"not removed due to:\n((?:[ \t]+.*\n?)+)")


def parse_installed(data: bytes) -> dict[str, str]:
    """Return versions by name from apk's database: stanzas with P: for the name and V: for the version."""
    found = {}
    name = ""
    for line in data.decode("utf-8", "replace").splitlines():
        if not line:
            name = ""
        elif line.startswith("P:"):
            name = line[2:].strip()
        elif line.startswith("V:") and name and (version := line[2:].strip()):
            found[name] = version
    return found


def parse_search(text: str) -> dict[str, Offer]:
    """Return what `apk search` lists, one name-version in a line."""
    versions: dict[str, list[str]] = {}
    for line in text.splitlines():
        if row := _FOUND.match(line.strip()):
            versions.setdefault(row.group(1), []).append(row.group(2))
    return {name: Offer(found[-1], tuple(dict.fromkeys(found))) for name, found in versions.items()}


def parse_kept(text: str) -> list[str]:
    """Return which packages keep others from being removed: `  package: needed-by other-one`, wrapped."""
    kept = _KEPT.search(text)
    words = kept.group(1).split() if kept else []
    return [word for word in words if not word.endswith(":")]


def pinned(world: str, wanted: WantedPackage) -> bool:
    """Tell whether apk holds to a version already."""
    return f"{wanted.name}={wanted.version}" in world.split()


class Apk:
    """Packages by apk; what is installed is read from its database."""

    name = "apk"
    databases = DATABASES

    def __init__(self, context: PackageContext) -> None:
        self._context = context
        self._apk = ("apk", "--no-progress", "--wait", str(int(context.lock_seconds)))
        self._tool = Tool(context, _LOCKED, "see who it is with `pgrep -a apk`")
        self._installed: database.CachedValue[Mapping[str, str]] = database.CachedValue()
        self._indexes = Indexes(context.clock, self._refresh)

    async def installed(self) -> Mapping[str, str]:
        """Return the version of every installed package by name."""
        return await self._installed.get(database.stamp(self._context.tree, *DATABASES), self._read)

    async def _read(self) -> Mapping[str, str]:
        data = await in_thread(self._database)
        if data is not None:
            return parse_installed(data)
        answer = common.check("tell what is installed", await self._tool.ask("apk", "info", "-v"))
        return {name: one.newest for name, one in parse_search(said(answer)).items()}

    def _database(self) -> bytes | None:
        found = (database.read(self._context.tree, path) for path in DATABASES)
        return next((data for data in found if data is not None), None)

    async def candidates(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the newest version on offer of each of these."""
        common.check_names(names)
        return await self._indexes.newest(
            names, lambda: self._offers([WantedPackage(name) for name in names])
        )

    async def _offers(self, wanted: Sequence[WantedPackage]) -> Mapping[str, Offer]:
        offers: dict[str, Offer] = {}
        for every in (False, True):
            names = [one.name for one in wanted if bool(one.version) == every]
            if names:
                more = ["--all"] if every else []
                answer = await self._tool.ask("apk", "search", "--exact", *more, *names)
                found = parse_search(answer.stdout.decode("utf-8", "replace"))
                offers.update({name: found[name] for name in names if name in found})
        return offers

    async def install(self, wanted: Sequence[WantedPackage]) -> None:
        """Install, upgrade or downgrade all of these, or none."""
        common.check_wanted(wanted)
        common.refuse_unoffered(wanted, await self._indexes.offers(wanted, lambda: self._offers(wanted)))
        targets = [f"{one.name}={one.version}" if one.version else one.name for one in wanted]
        await self._tool.transact(f"install {shown(wanted)}", [*self._apk, "add", "--upgrade", *targets])

    async def remove(self, names: Sequence[str]) -> None:
        """Remove these packages; apk itself also removes dependencies that are no longer needed.

        apk reports success when others still need a package, so this is checked before.
        """
        names = await common.removable(names, self.installed)
        if not names:
            return
        await self._rehearse_removal(names)
        await self._tool.transact(f"remove {listed(names)}", [*self._apk, "del", *names])

    async def _rehearse_removal(self, names: Sequence[str]) -> None:
        answer = await self._tool.ask("apk", "del", "--simulate", *names)
        preview = common.check(f"remove {listed(names)}", answer)
        common.refuse_dependents(names, parse_kept(said(preview)))

    async def rehearse(self, install: Sequence[WantedPackage], remove: Sequence[str]) -> Mapping[str, str]:
        """Return by name what is not offered, and what others need."""
        common.check_wanted(install)
        unoffered = common.unoffered_reasons(install, await self._offers(install))
        return unoffered | await common.refusals(remove, str, self._rehearse_removal)

    async def upgrade_all(self, hold: Sequence[WantedPackage] = ()) -> None:
        """Upgrade everything that is installed, except what is held."""
        common.check_wanted(hold)
        have = await self.installed()
        world = (database.read(self._context.tree, WORLD) or b"").decode("utf-8", "replace")
        kept = [WantedPackage(one.name, have[one.name]) for one in hold if one.name in have]
        pins = [f"{one.name}={one.version}" for one in kept if not pinned(world, one)]
        if pins:
            await self._tool.transact(f"hold {listed(pins)}", [*self._apk, "add", *pins])
        await self._tool.transact("upgrade all packages", [*self._apk, "--update-cache", "upgrade"])

    async def reboot_needed(self) -> str:
        """Return why the host should reboot, or an empty string."""
        return kernels.reboot_reason(self._context.tree, self._context.kernel)

    async def _refresh(self) -> None:
        doing = "refresh the package indexes"
        common.check(doing, await self._tool.act(doing, [*self._apk, "update"], common.REFRESH_TIMEOUT))

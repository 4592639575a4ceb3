"""pkg: FreeBSD."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nodemanager.host.base import WantedPackage
from nodemanager.host.packages import common, database
from nodemanager.host.packages.common import Offer, PackageContext, Tool, listed, shown
from nodemanager.host.packages.indexes import Indexes

DATABASES: Final = ("/var/db/pkg/local.sqlite", "/var/db/pkg/local.sqlite-wal")
ENV: Final = {"ASSUME_ALWAYS_YES": "yes", "HANDLE_RC_SCRIPTS": "no"}
UPGRADE_LOCKED: Final = """\
pkg lock -y "$@" || exit
pkg upgrade -y -U
status=$?
pkg unlock -y "$@"
exit "$status"
"""
"""One program, which goes on without us: packages that it locked are unlocked even if we are stopped
meanwhile. A fixed text; names are passed as arguments, and are never parsed."""
_LOCKED: Final = re.compile(r"Cannot get an? (?:advisory|exclusive|read) lock|locked by another process")


def parse_pairs(text: str) -> dict[str, str]:
    """Return the second word by the first of each line of `pkg query`; the first line of a name counts."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2:
            found.setdefault(words[0], words[1])
    return found


def parse_dependents(text: str, names: Sequence[str]) -> list[str]:
    """Return which packages need one of these, from lines with a package and a dependant."""
    rows = (line.split() for line in text.splitlines())
    return [row[1] for row in rows if len(row) == 2 and row[0] in names]


def parse_offers(text: str) -> dict[str, Offer]:
    """Return what `pkg rquery` lists, by name; the first repository is the one that is preferred."""
    versions: dict[str, list[str]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2:
            versions.setdefault(words[0], []).append(words[1])
    return {name: Offer(found[0], tuple(dict.fromkeys(found))) for name, found in versions.items()}


def install_argv(wanted: Sequence[WantedPackage]) -> list[str]:
    """Return how packages are installed; -f lets a pin go back to an older version."""
    targets = [f"{one.name}-{one.version}" if one.version else one.name for one in wanted]
    force = ["-f"] if any(one.version for one in wanted) else []
    return ["pkg", "install", "-y", "-U", *force, *targets]


def upgrade_argv(held: Sequence[str]) -> list[str]:
    """Return how everything is upgraded; some packages are locked before and unlocked after."""
    if not held:
        return ["pkg", "upgrade", "-y", "-U"]
    return ["/bin/sh", "-c", UPGRADE_LOCKED, "pkg", *held]


class Pkgng:
    """Packages by pkg; it lists the installed ones in one go, and only when its database changed."""

    name = "pkg"
    databases = DATABASES

    def __init__(self, context: PackageContext) -> None:
        self._context = context
        self._tool = Tool(context, _LOCKED, "see who it is with `pgrep -lf pkg`", ENV)
        self._installed: database.CachedValue[Mapping[str, str]] = database.CachedValue()
        self._indexes = Indexes(context.clock, self._refresh)

    async def installed(self) -> Mapping[str, str]:
        """Return the version of every installed package by name."""
        return await self._installed.get(database.stamp(self._context.tree, *DATABASES), self._read)

    async def _read(self) -> Mapping[str, str]:
        return parse_pairs(await self._query("-a", "%n %v"))

    async def _query(self, *words: str) -> str:
        answer = common.check("ask pkg", await self._tool.ask("pkg", "query", *words))
        return answer.stdout.decode("utf-8", "replace")

    async def candidates(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the newest version on offer of each of these."""
        common.check_names(names)
        return await self._indexes.newest(names, lambda: self._offers(names))

    async def _offers(self, names: Sequence[str]) -> Mapping[str, Offer]:
        # It fails if it knows one of them not, and prints the others.
        answer = await self._tool.ask("pkg", "rquery", "-U", "%n %v", *names)
        offers = parse_offers(answer.stdout.decode("utf-8", "replace"))
        return {name: offers[name] for name in names if name in offers}

    async def install(self, wanted: Sequence[WantedPackage]) -> None:
        """Install, upgrade or downgrade all of these, or none."""
        common.check_wanted(wanted)
        names = [one.name for one in wanted]
        common.refuse_unoffered(wanted, await self._indexes.offers(wanted, lambda: self._offers(names)))
        await self._tool.transact(f"install {shown(wanted)}", install_argv(wanted))

    async def remove(self, names: Sequence[str]) -> None:
        """Remove these packages and no others: pkg reports dependants, and would remove them, too."""
        names = await common.removable(names, self.installed)
        if not names:
            return
        await self._rehearse_removal(names)
        await self._tool.transact(f"remove {listed(names)}", ["pkg", "delete", "-y", *names])

    async def _rehearse_removal(self, names: Sequence[str]) -> None:
        common.refuse_dependents(names, parse_dependents(await self._query("-a", "%n %rn"), names))

    async def rehearse(self, install: Sequence[WantedPackage], remove: Sequence[str]) -> Mapping[str, str]:
        """Return by name what is not offered, and what others need."""
        common.check_wanted(install)
        offers = await self._offers([one.name for one in install]) if install else {}
        unoffered = common.unoffered_reasons(install, offers)
        return unoffered | await common.refusals(remove, str, self._rehearse_removal)

    async def upgrade_all(self, hold: Sequence[WantedPackage] = ()) -> None:
        """Upgrade everything that is installed, except what is held: that is locked meanwhile."""
        common.check_wanted(hold)
        locks = parse_pairs(await self._query("-a", "%n %k"))
        held = [one.name for one in hold if locks.get(one.name) == "0"]
        await self._indexes.refresh()
        await self._tool.transact("upgrade all packages", upgrade_argv(held))

    async def reboot_needed(self) -> str:
        """Return why the host should reboot, or an empty string."""
        if self._context.tree.root != "/":
            return ""
        answer = common.check("compare kernels", await self._tool.ask("freebsd-version", "-kr"))
        installed, _, running = answer.stdout.decode("utf-8", "replace").strip().partition("\n")
        if running and installed != running:
            return f"kernel {installed} is installed, {running} is running"
        return ""

    async def _refresh(self) -> None:
        doing = "refresh the package indexes"
        common.check(doing, await self._tool.act(doing, ["pkg", "update", "-q"], common.REFRESH_TIMEOUT))

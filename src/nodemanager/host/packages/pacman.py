"""pacman: Arch Linux and what is derived from it.

Arch knows no partial upgrades: a package of today needs the libraries of today. So the database
of what is offered is refreshed in one case only, together with everything that is installed
(`-Syu`). Installing takes what that database had on the day of the last upgrade, which fits
what is installed; `latest` means the latest of that day.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nodemanager.host.base import ToolFailed, WantedPackage
from nodemanager.host.packages import common, database, kernels
from nodemanager.host.packages.common import Offer, PackageContext, Tool, listed, said, shown

LOCAL: Final = "/var/lib/pacman/local"
SYNC: Final = "/var/lib/pacman/sync"
CACHE: Final = "/var/cache/pacman/pkg"
QUIET: Final = ("--noconfirm", "--noprogressbar")
REMEDY: Final = (
    "; what came to the repositories after the last upgrade of this host can be installed after the next"
    " (spec.upgrade, or `pacman -Syu`)"
)
_LOCKED: Final = re.compile(r"unable to lock database|could not lock database")
_NEEDED: Final = re.compile(r"breaks dependency '.*?' required by (\S+)")
_STALE: Final = re.compile(r"failed retrieving file|error: 404")


def parse_local(names: Sequence[str]) -> dict[str, str]:
    """Return versions by name from the folders of the local database, `name-version-release` each."""
    found = {}
    for folder in names:
        parts = folder.rsplit("-", 2)
        if len(parts) == 3 and all(parts):
            found[parts[0]] = f"{parts[1]}-{parts[2]}"
    return found


def parse_query(text: str) -> dict[str, str]:
    """Return versions by name of `pacman -Q`; other lines are passed over."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: row[1] for row in rows if len(row) == 2}


def parse_info(text: str) -> dict[str, Offer]:
    """Return what `pacman -Si` offers; the first repository with a name is the one that counts."""
    offers: dict[str, Offer] = {}
    name = ""
    for line in text.splitlines():
        key, colon, value = line.partition(" : ")
        if not colon or line.startswith(" "):  # further lines of a value are indented
            continue
        if key.strip() == "Name":
            name = value.strip()
        elif key.strip() == "Version" and name:
            offers.setdefault(name, Offer(value.strip(), (value.strip(),)))
    return offers


def cached_file(names: Sequence[str], wanted: WantedPackage) -> str:
    """Return the file of a version that was downloaded before; an empty string if it is not there."""
    pattern = re.compile(
        re.escape(f"{wanted.name}-{wanted.version}-") + r"[a-z0-9_]+\.pkg\.tar(\.[a-z0-9]+)?"
    )
    return next((name for name in names if pattern.fullmatch(name)), "")


class Pacman:
    """Packages by pacman; what is installed is read from the folders of its database."""

    name = "pacman"
    databases = (LOCAL,)

    def __init__(self, context: PackageContext) -> None:
        self._context = context
        remedy = (
            "if no pacman runs (`pgrep -a pacman`), one was killed: remove /var/lib/pacman/db.lck"
            " and upgrade the host"
        )
        self._tool = Tool(context, _LOCKED, remedy)
        self._installed: database.CachedValue[Mapping[str, str]] = database.CachedValue()
        self._ahead = False
        """Whether our upgrade refreshed the database and then failed, so that it is ahead of what is
        installed."""

    async def installed(self) -> Mapping[str, str]:
        """Return the version of every installed package by name."""
        return await self._installed.get(database.stamp(self._context.tree, LOCAL), self._read)

    async def _read(self) -> Mapping[str, str]:
        folders = database.entries(self._context.tree, LOCAL)
        if folders is not None:
            return parse_local(folders)
        answer = common.check("tell what is installed", await self._tool.ask("pacman", "-Q"))
        return parse_query(answer.stdout.decode("utf-8", "replace"))

    async def candidates(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the version of each of these at the time of the last upgrade."""
        return {name: offer.newest for name, offer in (await self._offers(names)).items()}

    async def _offers(self, names: Sequence[str]) -> Mapping[str, Offer]:
        common.check_names(names)
        answer = await self._tool.ask("pacman", "-Si", "--", *names)  # fails if it knows one of them not
        offers = parse_info(answer.stdout.decode("utf-8", "replace"))
        return {name: offers[name] for name in names if name in offers}

    async def install(self, wanted: Sequence[WantedPackage]) -> None:
        """Install all of these; a version that is not offered any more comes from the download cache."""
        common.check_wanted(wanted)
        if self._ahead:
            raise ToolFailed(
                f"cannot install {shown(wanted)}: the last upgrade failed after it refreshed the database,"
                " so this would be a partial upgrade; upgrade the host first (spec.upgrade, or `pacman -Syu`)"
            )
        offers = await self._offers([one.name for one in wanted])
        files = self._downloaded(common.unoffered(wanted, offers))
        rest = [one for one in wanted if one.name not in files]
        common.refuse_unoffered(rest, offers, REMEDY)
        if files:
            await self._install(wanted, ["pacman", "-U", *QUIET, "--", *files.values()])
        if rest:
            await self._install(
                wanted, ["pacman", "-S", "--needed", *QUIET, "--", *(one.name for one in rest)]
            )

    def _downloaded(self, wanted: Sequence[WantedPackage]) -> dict[str, str]:
        """Return the files of those versions that were downloaded before, by name."""
        downloads = database.entries(self._context.tree, CACHE) or []
        found = {one.name: cached_file(downloads, one) for one in wanted if one.version}
        return {name: f"{CACHE}/{file}" for name, file in found.items() if file}

    async def rehearse(self, install: Sequence[WantedPackage], remove: Sequence[str]) -> Mapping[str, str]:
        """Return by name what is neither offered nor downloaded, and what others need."""
        common.check_wanted(install)
        unremovable = await common.refusals(remove, str, self._rehearse_removal)
        offers = await self._offers([one.name for one in install]) if install else {}
        files = self._downloaded(common.unoffered(install, offers))
        rest = [one for one in install if one.name not in files]
        return unremovable | common.unoffered_reasons(rest, offers, REMEDY)

    async def _rehearse_removal(self, names: Sequence[str]) -> None:
        done = await self._tool.ask("pacman", "-R", "--print", *QUIET, "--", *names)
        if done.returncode != 0:
            common.refuse_dependents(names, _NEEDED.findall(said(done)))
        common.check(f"remove {listed(names)}", done)

    async def _install(self, wanted: Sequence[WantedPackage], argv: Sequence[str]) -> None:
        doing = f"install {shown(wanted)}"
        done = await self._tool.act(doing, argv)
        if done.returncode != 0 and _STALE.search(said(done)):
            raise ToolFailed(
                f"cannot {doing}: the mirror does not have the version any more that this host knows of;"
                " upgrade the host (spec.upgrade, or `pacman -Syu`), which refreshes its database as well"
            )
        common.check(doing, done)

    async def remove(self, names: Sequence[str]) -> None:
        """Remove these and only these; pacman itself refuses what others need."""
        names = await common.removable(names, self.installed)
        if not names:
            return
        doing = f"remove {listed(names)}"
        done = await self._tool.act(doing, ["pacman", "-R", *QUIET, "--", *names])
        if done.returncode != 0:
            common.refuse_dependents(names, _NEEDED.findall(said(done)))
        common.check(doing, done)

    async def upgrade_all(self, hold: Sequence[WantedPackage] = ()) -> None:
        """Refresh the database and upgrade everything in one go, except what is held."""
        common.check_wanted(hold)
        ignored = ["--ignore", ",".join(one.name for one in hold)] if hold else []
        before = self._offered()
        try:
            await self._tool.transact("upgrade all packages", ["pacman", "-Syu", *QUIET, *ignored])
        except ToolFailed:
            self._ahead = self._ahead or self._offered() != before
            raise
        self._ahead = False

    def _offered(self) -> object:
        """Return what changes when the database of what is offered is refreshed: its files are replaced."""
        names = [name for name in database.entries(self._context.tree, SYNC) or () if name.endswith(".db")]
        return names, database.identities(self._context.tree, *(f"{SYNC}/{name}" for name in names))

    async def reboot_needed(self) -> str:
        """Return why the host should reboot, or an empty string."""
        return kernels.reboot_reason(self._context.tree, self._context.kernel)

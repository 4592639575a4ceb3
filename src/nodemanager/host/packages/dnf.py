"""dnf and rpm: Fedora, Red Hat Enterprise Linux and what is derived from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nodemanager.host.base import WantedPackage
from nodemanager.host.packages import common, database, kernels
from nodemanager.host.packages.common import Offer, PackageContext, Tool, listed, said, shown
from nodemanager.host.packages.indexes import Indexes

DATABASES: Final = tuple(
    f"{folder}/{name}"
    for folder in ("/usr/lib/sysimage/rpm", "/var/lib/rpm")
    for name in ("rpmdb.sqlite", "rpmdb.sqlite-wal", "Packages.db", "Packages")
)
INSTALLED: Final = ("rpm", "-qa", "--qf", "%{NAME}\t%{EVR}\t%{ARCH}\t%{INSTALLTIME}\n")
AT_ONCE: Final = "--setopt=exit_on_lock=True"
"""dnf would wait for a lock without end; instead we wait, with a limit."""
_OFFERED: Final = "%{name}\t%{evr}\t%{arch}\n"
_LOCKED: Final = re.compile(
    r"already locked by|Failed to obtain the \w+ lock|another copy is running", re.IGNORECASE
)
_NEEDED: Final = re.compile(r"is needed by \(installed\) (\S+)")
_NO_PLUGIN: Final = re.compile(r"No such command|Unknown argument")


def parse_installed(text: str) -> dict[str, str]:
    """Return versions by `name` and `name.arch`; of several at a time (kernels) the last installed."""
    found: dict[str, tuple[int, str]] = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != 4 or fields[0] == "gpg-pubkey" or not fields[3].isdecimal():
            continue
        name, version, arch, when = fields[0], fields[1], fields[2], int(fields[3][:18])
        for key in (name, f"{name}.{arch}"):
            found[key] = max(found.get(key, (-1, "")), (when, version))
    return {key: version for key, (_, version) in found.items()}


def parse_offers(text: str) -> dict[str, Offer]:
    """Return what repoquery lists, by `name` and `name.arch`."""
    versions: dict[str, list[str]] = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 3 and all(fields):
            for key in (fields[0], f"{fields[0]}.{fields[2]}"):
                versions.setdefault(key, []).append(fields[1].removeprefix("0:"))
    return {key: Offer(found[-1], tuple(dict.fromkeys(found))) for key, found in versions.items()}


def offers_argv(names: Sequence[str], *, every: bool) -> list[str]:
    """Return how to ask for every version on offer, or for the newest only."""
    limit = [] if every else ["--latest-limit=1"]
    return ["dnf", "-q", AT_ONCE, "repoquery", "--available", *limit, "--qf", _OFFERED, *names]


def target(wanted: WantedPackage, version: str) -> str:
    """Return a package and its version in dnf's words: name-version, and the architecture at the end."""
    name, dot, arch = wanted.name.rpartition(".")
    if dot and arch in _ARCHITECTURES:
        return f"{name}-{version}.{arch}"
    return f"{wanted.name}-{version}"


_ARCHITECTURES: Final = frozenset(
    ("noarch", "x86_64", "i686", "aarch64", "armv7hl", "ppc64le", "s390x", "riscv64")
)  # fmt: skip


class Dnf:
    """Packages by dnf; rpm lists the installed ones in one go, and only when its database changed."""

    name = "dnf"
    databases = DATABASES

    def __init__(self, context: PackageContext) -> None:
        self._context = context
        self._tool = Tool(context, _LOCKED, "see who it is with `pgrep -a 'dnf|rpm|packagekit'`")
        self._installed: database.CachedValue[Mapping[str, str]] = database.CachedValue()
        self._indexes = Indexes(context.clock, self._refresh)

    async def installed(self) -> Mapping[str, str]:
        """Return the version of every installed package by name."""
        return await self._installed.get(database.stamp(self._context.tree, *DATABASES), self._read)

    async def _read(self) -> Mapping[str, str]:
        answer = common.check("tell what is installed", await self._tool.ask(*INSTALLED))
        return parse_installed(answer.stdout.decode("utf-8", "replace"))

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
                done = await self._tool.act("look for packages", offers_argv(names, every=every))
                found = parse_offers(
                    common.check("look for packages", done).stdout.decode("utf-8", "replace")
                )
                offers.update({name: found[name] for name in names if name in found})
        return offers

    async def install(self, wanted: Sequence[WantedPackage]) -> None:
        """Install, upgrade or downgrade all of these, or none."""
        common.check_wanted(wanted)
        offers = await self._indexes.offers(wanted, lambda: self._offers(wanted))
        common.refuse_unoffered(wanted, offers)
        targets = [target(one, one.version or offers[one.name].newest) for one in wanted]
        await self._tool.transact(f"install {shown(wanted)}", ["dnf", "-y", AT_ONCE, "install", *targets])

    async def rehearse(self, install: Sequence[WantedPackage], remove: Sequence[str]) -> Mapping[str, str]:
        """Return by name what is not offered, and what others need."""
        common.check_wanted(install)
        unoffered = common.unoffered_reasons(install, await self._offers(install))
        return unoffered | await common.refusals(remove, str, self._rehearse_removal)

    async def _rehearse_removal(self, names: Sequence[str]) -> None:
        test = await self._tool.ask("rpm", "-e", "--test", *names)
        if test.returncode != 0:
            common.refuse_dependents(names, _NEEDED.findall(said(test)))
        common.check(f"remove {listed(names)}", test)

    async def remove(self, names: Sequence[str]) -> None:
        """Remove these packages and no others: rpm reports dependants, which dnf would remove, too."""
        names = await common.removable(names, self.installed)
        if not names:
            return
        await self._rehearse_removal(names)
        doing = f"remove {listed(names)}"
        alone = "--setopt=clean_requirements_on_remove=False"
        await self._tool.transact(doing, ["dnf", "-y", AT_ONCE, alone, "remove", *names])

    async def upgrade_all(self, hold: Sequence[WantedPackage] = ()) -> None:
        """Upgrade everything that is installed, except what is held."""
        common.check_wanted(hold)
        held = [f"--exclude={one.name}" for one in hold]
        argv = ["dnf", "-y", AT_ONCE, "--refresh", *held, "upgrade"]
        await self._tool.transact("upgrade all packages", argv)

    async def reboot_needed(self) -> str:
        """Return why the host should reboot, or an empty string."""
        if not self._context.tree.running:
            return ""
        done = await self._tool.ask("dnf", "needs-restarting", "-r")
        if done.returncode == 1 and not _NO_PLUGIN.search(said(done)):
            lines = (line.strip() for line in said(done).splitlines())
            names = [line.removeprefix("* ") for line in lines if line.startswith("* ")]
            return f"dnf needs-restarting says so, because of {listed(names)}"
        return kernels.reboot_reason(self._context.tree, self._context.kernel)

    async def _refresh(self) -> None:
        doing = "refresh the package indexes"
        argv = ["dnf", "-q", AT_ONCE, "--refresh", "makecache"]
        common.check(doing, await self._tool.act(doing, argv, common.REFRESH_TIMEOUT))

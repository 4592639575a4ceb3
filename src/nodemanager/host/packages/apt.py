"""apt and dpkg: Debian, Ubuntu and what is derived from them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nodemanager.host.base import ToolFailed, WantedPackage
from nodemanager.host.packages import common, database, kernels
from nodemanager.host.packages.common import Offer, PackageContext, Tool, listed, said, shown
from nodemanager.host.packages.indexes import Indexes
from nodemanager.host.process.runner import Completed
from nodemanager.host.process.threads import in_thread

log = logging.getLogger(__name__)
STATUS: Final = "/var/lib/dpkg/status"
LISTS: Final = "/var/lib/apt/lists"
_INDEXES: Final = ("_Packages", "_Packages.lz4", "_Packages.gz", "_Packages.xz", "_Packages.zst")
REBOOT: Final = "/run/reboot-required"
ENV: Final = {
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBIAN_PRIORITY": "critical",
    "APT_LISTCHANGES_FRONTEND": "none",
    "UCF_FORCE_CONFFOLD": "1",
}
KEEP_CONFFILES: Final = ("--force-confdef", "--force-confold")
"""A file that we or the administrator changed stays; the one of the package gets the suffix .dpkg-dist."""
_LOCKED: Final = re.compile(
    r"Could not get lock|Unable to (?:lock|acquire the dpkg frontend lock)|was locked by another process"
)
_INTERRUPTED: Final = re.compile(r"dpkg was interrupted|dpkg --configure -a")
_STALE: Final = re.compile(r"404 +Not Found|maybe run apt-get update")
_REMOVES: Final = re.compile(r"^The following packages will be REMOVED:\n((?:[ \t]+.*\n?)+)", re.MULTILINE)
_REMOVAL: Final = re.compile(r"^(?:Remv|Purg) (\S+)", re.MULTILINE)
_INSTALLATION: Final = re.compile(r"^Inst (\S+)", re.MULTILINE)
_UPGRADE: Final = re.compile(r"^Inst (\S+) \[([^]\s]+)\] \((\S+) ([^)]*)\)", re.MULTILINE)
_SECURITY: Final = re.compile(r"(?:^|[, ])(?:Debian-Security:|\S+-security\b|\S+-Security:)")
_FIELD: Final = re.compile(rb"^(Package|Status|Version|Architecture):[ \t]*(\S[^\n]*)$", re.MULTILINE)
_ROW: Final = re.compile(r"^(?: \*\*\*|    ) (\S+) -?\d+$")
_NO_ARCHITECTURE: Final = ("any", "native")
_NEEDED: Final = frozenset((b"Package", b"Status", b"Version", b"Architecture"))
_INSTALLED: Final = (b"installed", b"triggers-pending", b"triggers-awaited")


def parse_status(data: bytes) -> dict[str, str]:
    """Return the version of each installed package by `name` and by `name:arch`.

    Removed packages whose configuration is still there do not count, nor do half-installed and
    unconfigured ones: installing them again is what mends them. Where a name is installed for
    several architectures, `name` alone is that of dpkg itself, which is the host's.
    """
    found: dict[str, dict[str, str]] = {}
    for stanza in _stanzas(data):
        fields = dict(_FIELD.findall(stanza))
        if fields.keys() >= _NEEDED and fields[b"Status"].split()[-1] in _INSTALLED:
            name, version, arch = (
                fields[key].decode("utf-8", "replace").strip()
                for key in (b"Package", b"Version", b"Architecture")
            )
            found.setdefault(name, {})[arch] = version
    host = next(iter(found.get("dpkg", {})), "")
    plain = {name: each.get(host) or next(iter(each.values())) for name, each in found.items()}
    full = {f"{name}:{arch}": each[arch] for name, each in found.items() for arch in each}
    # What fits all architectures is what apt installs for the host's own.
    own = {f"{name}:{host}": each["all"] for name, each in found.items() if host and "all" in each}
    return plain | own | full


def _stanzas(data: bytes) -> Iterator[bytes]:
    """Yield one after the other: all of them at once would be a second copy of some mebibytes."""
    at = 0
    while at < len(data):
        end = data.find(b"\n\n", at)
        end = len(data) if end < 0 else end
        yield data[at:end]
        at = end + 2


def parse_policy(text: str) -> dict[str, Offer]:
    """Return what `apt-cache policy` says; purely virtual packages have no candidate and are left out."""
    offers: dict[str, Offer] = {}
    name = candidate = ""
    versions: list[str] = []
    for line in [*text.splitlines(), "end:"]:
        if line.endswith(":") and not line.startswith(" "):
            if name and candidate not in ("", "(none)"):
                offers[name] = Offer(candidate, tuple(versions))
            name, candidate, versions = line[:-1], "", []
        elif line.startswith("  Candidate: "):
            candidate = line.partition(": ")[2].strip()
        elif row := _ROW.match(line):
            versions.append(row.group(1))
    return offers


def options(lock_seconds: float) -> list[str]:
    """Return the options of every apt-get that changes something."""
    settings = [
        f"DPkg::Lock::Timeout={int(lock_seconds)}",
        "Dpkg::Use-Pty=0",
        "APT::Get::AutomaticRemove=false",
        *(f"Dpkg::Options::={option}" for option in KEEP_CONFFILES),
    ]
    return ["-q", "-y", *(word for setting in settings for word in ("-o", setting))]


def install_argv(wanted: Sequence[WantedPackage], lock_seconds: float) -> list[str]:
    """Return how packages are installed: nothing is removed for them, and only a pin may go back."""
    settings = [*options(lock_seconds), "--no-remove", *_back(wanted)]
    return ["apt-get", *settings, "install", *_targets(wanted)]


def _back(wanted: Sequence[WantedPackage]) -> list[str]:
    return ["--allow-downgrades"] if any(one.version for one in wanted) else []


def upgrade_argv(hold: Sequence[WantedPackage], lock_seconds: float) -> list[str]:
    """Return how everything is upgraded; a version that is named is the version that is kept."""
    argv = ["apt-get", *options(lock_seconds), "--no-remove", "--with-new-pkgs", "upgrade"]
    return [*argv, *_targets(hold)]


def remove_argv(names: Sequence[str], lock_seconds: float) -> list[str]:
    """Return how packages are removed; their configuration stays."""
    return ["apt-get", *options(lock_seconds), "remove", *names]


def parse_upgrades(text: str, *, security: bool) -> dict[str, tuple[str, str]]:
    """Return what `apt-get -s upgrade` would upgrade, with its versions before and after; pure.

    Inst libc6 [2.36-9] (2.36-9+deb12u1 Debian-Security:12/stable-security [amd64])
    """
    return {
        name: (before, after)
        for name, before, after, origin in _UPGRADE.findall(text)
        if not security or _SECURITY.search(origin)
    }


def _targets(wanted: Sequence[WantedPackage]) -> list[str]:
    return [f"{one.name}={one.version}" if one.version else one.name for one in wanted]


def _refuse_removals(doing: str, others: Sequence[str]) -> None:
    raise ToolFailed(
        f"cannot {doing}: {listed(others)} would have to be removed for it; declare that absent first, or"
        " remove it yourself"
    )


class Apt:
    """Packages by apt-get; what is installed is read from dpkg's status file."""

    name = "apt"
    databases = (STATUS,)

    def __init__(self, context: PackageContext) -> None:
        self._context = context
        remedy = "see who holds it with `fuser -v /var/lib/dpkg/lock-frontend`"
        self._tool = Tool(context, _LOCKED, remedy, ENV)
        self._installed: database.CachedValue[Mapping[str, str]] = database.CachedValue()
        self._indexes = Indexes(
            context.clock, self._refresh, lambda: database.age(context.tree, f"{LISTS}/partial")
        )  # fmt: skip

    async def installed(self) -> Mapping[str, str]:
        """Return the version of every installed package by name."""
        return await self._installed.get(database.stamp(self._context.tree, STATUS), self._read)

    async def _read(self) -> Mapping[str, str]:
        data = await in_thread(lambda: database.read(self._context.tree, STATUS))
        if data is None:
            raise ToolFailed(f"cannot tell what is installed: there is no {STATUS}")
        return await in_thread(lambda: parse_status(data))

    async def candidates(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the newest version on offer of each of these."""
        common.check_names(names)
        return await self._indexes.newest(names, lambda: self._offers(names))

    async def install(self, wanted: Sequence[WantedPackage]) -> None:
        """Install, upgrade or downgrade all of these, or none."""
        common.check_wanted(wanted)
        names = [one.name for one in wanted]
        common.refuse_unoffered(wanted, await self._indexes.offers(wanted, lambda: self._offers(names)))
        doing = f"install {shown(wanted)}"
        argv = install_argv(wanted, self._context.lock_seconds)
        done = await self._act(doing, argv)
        if done.returncode != 0 and _STALE.search(said(done)):  # the mirror has moved on since
            await self._indexes.refresh()
            done = await self._act(doing, argv)
        if done.returncode != 0 and (others := _REMOVES.search(said(done))):
            _refuse_removals(doing, others.group(1).split())
        common.check(doing, done)

    async def rehearse(self, install: Sequence[WantedPackage], remove: Sequence[str]) -> Mapping[str, str]:
        """Return by name why some of these could not be, as apt's own simulation has it."""
        common.check_wanted(install)
        common.check_names(remove)
        unremovable = await common.refusals(remove, str, self._rehearse_removal)
        gone = [name for name in remove if name not in unremovable]
        names = [one.name for one in install]
        if install and not any(name.endswith(_INDEXES) for name in self._lists()):
            log.warning(
                "cannot tell whether %s can be installed: apt has no indexes here yet; run apt-get update",
                listed(names),
            )
            return unremovable
        unknown = common.unoffered_reasons(install, await self._offers(names) if names else {})

        async def attempt(wanted: Sequence[WantedPackage]) -> None:
            await self._rehearse_installation(wanted, gone)

        offered = [one for one in install if one.name not in unknown]
        return unremovable | unknown | await common.refusals(offered, lambda one: one.name, attempt)

    async def _rehearse_installation(self, wanted: Sequence[WantedPackage], gone: Sequence[str]) -> None:
        """Raise if apt could not install these, once what is to go is gone, without removing anything."""
        doing = f"install {shown(wanted[-1:])}"  # it is tried with what can be installed before it
        targets = [*_targets(wanted), *(f"{name}-" for name in gone)]
        argv = ["apt-get", "-s", *options(0), *_back(wanted), "install", *targets]
        done = common.check(doing, await self._tool.ask(*argv))
        plain = {name.partition(":")[0] for name in gone}
        others = [name for name in _REMOVAL.findall(said(done)) if name.partition(":")[0] not in plain]
        if others:
            _refuse_removals(doing, others)

    def _lists(self) -> list[str]:
        return database.entries(self._context.tree, LISTS) or []

    async def remove(self, names: Sequence[str]) -> None:
        """Remove these and only these."""
        names = await common.removable(names, self.installed)
        if not names:
            return
        await self._rehearse_removal(names)
        doing = f"remove {listed(names)}"
        common.check(doing, await self._act(doing, remove_argv(names, self._context.lock_seconds)))

    async def _rehearse_removal(self, names: Sequence[str]) -> None:
        """Raise if something else would have to go with these."""
        doing = f"remove {listed(names)}"
        preview = common.check(doing, await self._tool.ask("apt-get", "-s", *options(0), "remove", *names))
        plain = [name.partition(":")[0] for name in names]
        removals = [name.partition(":")[0] for name in _REMOVAL.findall(said(preview))]
        common.refuse_dependents(plain, removals)

    async def substitutes(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return by name why some of these cannot go alone: apt finds others that provide the same."""
        common.check_names(names)
        return await common.refusals(names, str, self._rehearse_alone)

    async def _rehearse_alone(self, names: Sequence[str]) -> None:
        doing = f"remove {listed(names)}"
        preview = common.check(doing, await self._tool.ask("apt-get", "-s", *options(0), "remove", *names))
        if others := _INSTALLATION.findall(said(preview)):
            raise ToolFailed(
                f"cannot {doing}: others need it, and {listed(others)} would have to be installed instead"
            )

    async def upgrade_all(self, hold: Sequence[WantedPackage] = ()) -> None:
        """Upgrade everything that is installed, except what is held."""
        kept = await self._kept(hold)
        await self._indexes.refresh()
        doing = "upgrade all packages"
        common.check(doing, await self._act(doing, upgrade_argv(kept, self._context.lock_seconds)))

    async def upgrades(
        self, hold: Sequence[WantedPackage], *, security: bool
    ) -> Mapping[str, tuple[str, str]]:
        """Return what would be upgraded, as apt's own simulation has it."""
        kept = await self._kept(hold)
        await self._indexes.refresh()
        argv = ["apt-get", "-s", *upgrade_argv(kept, 0)[1:]]
        done = common.check("tell what would be upgraded", await self._tool.ask(*argv))
        return parse_upgrades(done.stdout.decode("utf-8", "replace"), security=security)

    async def _kept(self, hold: Sequence[WantedPackage]) -> list[WantedPackage]:
        """Return what is held at the version that is installed."""
        have = await self.installed()
        kept = [WantedPackage(one.name, have[one.name]) for one in hold if one.name in have]
        common.check_wanted(kept)
        return kept

    async def reboot_needed(self) -> str:
        """Return why the host should reboot, or an empty string."""
        if database.exists(self._context.tree, REBOOT):
            asked = database.read(self._context.tree, f"{REBOOT}.pkgs") or b""
            names = sorted(set(asked.decode("utf-8", "replace").split()))
            return f"{REBOOT} is there" + (f", because of {listed(names)}" if names else "")
        return kernels.reboot_reason(self._context.tree, self._context.kernel)

    async def _offers(self, names: Sequence[str]) -> Mapping[str, Offer]:
        answer = common.check("look for packages", await self._tool.ask("apt-cache", "policy", *names))
        offers = parse_policy(answer.stdout.decode("utf-8", "replace"))
        # The answer leaves out the host's own architecture, hence the name without it. `name:any` and the
        # like are offered, too, but nothing is ever installed under them: they would be missing for ever.
        known = [name for name in names if name.partition(":")[2] not in _NO_ARCHITECTURE]
        plain = {name: offers.get(name, offers.get(name.partition(":")[0])) for name in known}
        return {name: offer for name, offer in plain.items() if offer is not None}

    async def _refresh(self) -> None:
        argv = ["apt-get", "-q", "-o", f"DPkg::Lock::Timeout={int(self._context.lock_seconds)}", "update"]
        doing = "refresh the package indexes"
        common.check(doing, await self._tool.act(doing, argv, common.REFRESH_TIMEOUT))

    async def _act(self, doing: str, argv: Sequence[str]) -> Completed:
        """Run apt-get; what an interrupted dpkg left half done is finished first, once."""
        done = await self._tool.act(doing, argv)
        if done.returncode == 0 or not _INTERRUPTED.search(said(done)):
            return done
        await self._tool.transact(
            "finish what dpkg left half done", ["dpkg", *KEEP_CONFFILES, "--configure", "-a"]
        )
        return await self._tool.act(doing, argv)

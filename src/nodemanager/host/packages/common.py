"""What the adapters of all package managers share: names, offers, locks, errors."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from nodemanager.host.base import Busy, HostError, Runner, ToolFailed, WantedPackage
from nodemanager.host.files.tree import Tree
from nodemanager.host.process.runner import Completed, tail
from nodemanager.kube import hints

TRANSACTION_SECONDS: Final = 3600.0
"""How long to wait for a transaction; after that it is reported, but never killed."""
REFRESH_TIMEOUT: Final = 600.0
QUERY_SECONDS: Final = 120.0
LATEST_SECONDS: Final = 3600.0
"""How old the indexes may be when the newest version is asked for."""
UNKNOWN_SECONDS: Final = 600.0
"""How often the indexes are refreshed at most because they lack a package."""
MAX_ANSWER: Final = 32 * 1024 * 1024
_RETRY: Final = 1.0
_SEARCHED: Final = 64 * 1024
_SHOWN_NAMES: Final = 10
_NAME: Final = re.compile(hints.PACKAGE)
_VERSION: Final = re.compile(hints.PACKAGE_VERSION)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PackageContext:
    """The environment of a package manager."""

    tree: Tree
    run: Runner
    kernel: str = ""
    """The running kernel, as in uname -r; empty if none runs, as in another root."""
    clock: Callable[[], float] = time.monotonic
    lock_seconds: float = 120.0
    """How long to wait for a lock of another process."""


class Offer(NamedTuple):
    """What the repositories offer of one package."""

    newest: str
    versions: tuple[str, ...] = ()
    """All available versions, including the newest."""


class Tool:
    """Runs one package manager: waits for its lock, and lets it finish."""

    def __init__(
        self,
        context: PackageContext,
        locked: re.Pattern[str],
        remedy: str,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._context = context
        self._locked = locked
        self._remedy = remedy
        self._env = env or {}

    async def ask(self, *argv: str) -> Completed:
        """Run a program that changes nothing."""
        return await self._context.run(
            argv, env=self._env, timeout=QUERY_SECONDS, max_output=MAX_ANSWER
        )  # fmt: skip

    async def act(self, doing: str, argv: Sequence[str], timeout: float = TRANSACTION_SECONDS) -> Completed:
        """Run a program that changes something; `Busy` if the lock does not become free in time."""
        deadline = self._context.clock() + self._context.lock_seconds
        while True:
            done = await self._context.run(argv, env=self._env, timeout=timeout, finish=True)
            if done.returncode == 0 or not self._locked.search(said(done)):
                return done
            if self._context.clock() >= deadline:
                raise Busy(
                    f"cannot {doing}: another package manager is at work and did not finish within"
                    f" {self._context.lock_seconds:g} s; {self._remedy}: {tail(done.stderr or done.stdout)}"
                )
            await asyncio.sleep(_RETRY)  # no package manager tells when it lets go

    async def transact(self, doing: str, argv: Sequence[str]) -> Completed:
        """Run a program that changes something; `ToolFailed` unless it succeeds."""
        return check(doing, await self.act(doing, argv))


def said(done: Completed) -> str:
    """Return the end of everything that a program wrote, to look for words in it."""
    return "\n".join(
        stream[-_SEARCHED:].decode("utf-8", "replace") for stream in (done.stdout, done.stderr)
    )  # fmt: skip


def check(doing: str, done: Completed) -> Completed:
    """Return what is given, or raise `ToolFailed` with the end of what the program said."""
    if done.returncode != 0:
        words = tail(done.stderr) or tail(done.stdout) or "it said nothing"
        raise ToolFailed(
            f"cannot {doing}: the package manager ended with exit status {done.returncode}: {words}"
        )
    return done


def check_wanted(wanted: Iterable[WantedPackage]) -> None:
    """Refuse names and versions that a package manager could take for an option or a pattern.

    The schema refuses them as well; an older one did not.
    """
    for one in wanted:
        if len(one.name) > hints.PACKAGE_MAX or not _NAME.fullmatch(one.name):
            name = one.name[: hints.PACKAGE_MAX]
            raise HostError(f"cannot manage package {name!r}: this is not the name of a package")
        if len(one.version) > hints.PACKAGE_MAX or not _VERSION.fullmatch(one.version):
            version = one.version[: hints.PACKAGE_MAX]
            raise HostError(f"cannot install {one.name} {version!r}: this is not a version")


def check_names(names: Iterable[str]) -> None:
    """Refuse names that a package manager could take for an option or a pattern."""
    check_wanted(WantedPackage(name) for name in names)


async def removable(names: Sequence[str], installed: Callable[[], Awaitable[Mapping[str, str]]]) -> list[str]:
    """Return those that are installed under exactly this name.

    The others are absent already. Asked to remove one all the same, package managers remove something else:
    all of a group, the newest of `name-version`; and apt would install what `name+` names.
    """
    check_names(names)
    have = await installed()
    return [name for name in names if name in have]


def unoffered(wanted: Iterable[WantedPackage], offers: Mapping[str, Offer]) -> list[WantedPackage]:
    """Return what no repository has."""
    return [
        one
        for one in wanted
        if one.name not in offers or (one.version and one.version not in offers[one.name].versions)
    ]


def unoffered_reasons(
    wanted: Iterable[WantedPackage], offers: Mapping[str, Offer], remedy: str = ""
) -> dict[str, str]:
    """Return by name why packages or versions that no repository has cannot be installed."""
    reasons = {}
    for one in unoffered(wanted, offers):
        offer = offers.get(one.name)
        if offer is None:
            reasons[one.name] = (
                f"cannot install {one.name}: no such package in the configured repositories;"
                f" correct the name, or add the repository{remedy}"
            )
        else:
            reasons[one.name] = (
                f"cannot install {one.name} {one.version}: the configured repositories offer only"
                f" {listed(offer.versions)}; pin what is offered, or add the repository{remedy}"
            )
    return reasons


def refuse_unoffered(wanted: Iterable[WantedPackage], offers: Mapping[str, Offer], remedy: str = "") -> None:
    """Raise `ToolFailed` that says which packages or versions no repository has."""
    if reasons := unoffered_reasons(wanted, offers, remedy):
        raise ToolFailed("\n".join(reasons.values()))


async def refusals(
    wanted: Sequence[T], name: Callable[[T], str], attempt: Callable[[Sequence[T]], Awaitable[None]]
) -> dict[str, str]:
    """Return by name what `attempt` refuses: of all at once or else, as in a pass, of one after the other."""
    try:
        if wanted:
            await attempt(wanted)
    except HostError as error:
        if len(wanted) == 1:
            return {name(wanted[0]): str(error)}
    else:
        return {}
    taken, refused = list[T](), dict[str, str]()
    for one in wanted:
        try:
            await attempt([*taken, one])
            taken.append(one)
        except HostError as error:
            refused[name(one)] = str(error)
    return refused


def refuse_dependents(names: Sequence[str], dependents: Iterable[str]) -> None:
    """Raise `ToolFailed` if something else that is installed needs one of these."""
    others = sorted(set(dependents) - set(names))
    if others:
        raise ToolFailed(
            f"cannot remove {listed(names)}: {listed(others)} would have to go as well;"
            " declare that absent, too, or keep both"
        )


def listed(names: Sequence[str]) -> str:
    """Return names for a message, not too many."""
    if len(names) > _SHOWN_NAMES:
        return f"{', '.join(names[:_SHOWN_NAMES])} and {len(names) - _SHOWN_NAMES} more"
    return ", ".join(names) or "nothing"


def shown(wanted: Iterable[WantedPackage]) -> str:
    """Return packages for a message."""
    return listed([f"{one.name} {one.version}".rstrip() for one in wanted])

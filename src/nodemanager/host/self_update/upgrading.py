"""An upgrade of the program on this host, up to the point from which its guard goes on alone.

    stage      the new program is beside the old one, on disk, and was found good
    keep       the old program has a second name
    guard      it is in place, and would be started at boot
    intent     from here on the guard does it, whatever happens to us: nothing before has changed anything
    begin      the guard is started; if we do not get so far, the next boot does it

A power cut before the intent leaves files that the next upgrade removes. See guard.sh for what comes after.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import posixpath
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nodemanager.host.base import Busy, HostError, root_remedy
from nodemanager.host.process import runner
from nodemanager.host.process.threads import in_thread
from nodemanager.host.self_update import program_file
from nodemanager.host.self_update.records import INTENT, Intent, Outcome, UpgradeRecords
from nodemanager.host.self_update.staging import MODE, Stager, WantedProgram
from nodemanager.host.state import state_files
from nodemanager.host.state.state_lock import StateLock

if TYPE_CHECKING:
    from nodemanager.host.self_update.guard import Guard

PREVIOUS: Final = ".previous"
"""The suffix of the old program."""
DEADLINE: Final = 180.0
LEAST: Final = 30.0
MOST: Final = 3600.0
RESERVE: Final = 10.0
"""The part of the deadline that is reserved for the way back."""
POLL: Final = 0.5
SYNC_SECONDS: Final = 120.0
PIECE: Final = 256 * 1024
_NO_LINKS: Final = frozenset({
    errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV,
})  # fmt: skip
"""How filesystems answer that a file cannot have a second name."""


@dataclass(frozen=True, slots=True)
class UpgradeOrder:
    """The parameters of an upgrade."""

    id: str
    wanted: WantedProgram
    running: str
    """The running version."""
    report: bool
    """Whether the new program must reach the API, because the old one does."""
    deadline: float = DEADLINE
    """Seconds after which the host must have a working agent, the new one or the old one."""


@dataclass(frozen=True, slots=True)
class Upgrader:
    """Upgrades the program of one host."""

    records: UpgradeRecords
    stager: Stager
    guard: Guard
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def program(self) -> str:
        """The program that is replaced."""
        return self.stager.program

    async def upgrade(
        self, order: UpgradeOrder, ready: Callable[[], Awaitable[None]] | None = None
    ) -> Intent:
        """Return when the guard is at work; raises HostError, and has changed nothing, if it cannot be.

        `ready` is awaited when the new program was found good: fetching it may take long, the rest does not.
        """
        if not LEAST <= order.deadline <= MOST:
            bound = f"{LEAST:g} s is the least" if order.deadline < LEAST else f"{MOST:g} s is the most"
            raise HostError(f"cannot upgrade within {order.deadline:g} s: {bound}")
        await self.check()
        with self._alone():
            await self._check_idle()
            staged = await self.stager.stage(order.wanted, order.running)
            try:
                if ready is not None:
                    await ready()
                intent = await self._intent(order, staged.version, staged.sha256)
                await in_thread(self._keep_old)
                self.records.forget()
                await self.guard.install()
                await self._flush()
                self.records.write(INTENT, intent.text())
            except BaseException as error:
                self._withdraw()
                if isinstance(error, OSError) and not isinstance(error, HostError):
                    why = error.strerror or error
                    raise HostError(f"cannot upgrade: {self.records.folder}: {why}") from error
                raise
            try:
                await self.guard.start()
            except OSError:  # not when we are told to stop: the guard does that
                self._withdraw()
                raise
        return intent

    def _withdraw(self) -> None:
        """Take back the intent, unless the guard has begun: then the new program is in place."""
        if self.stager.discard():
            self.records.withdraw()

    async def _flush(self) -> None:
        """Have on disk what the guard needs at boot; what init systems write is nobody's to sync but ours.

        Not all there is: a network filesystem whose server is gone would never end.
        """
        folders = (posixpath.dirname(one) for one in (self.guard.service.path, self.program))
        for argv in (["sync", "-f", self.records.folder, *folders], ["sync"]):  # older ones know no -f
            done = await self.stager.run(argv, timeout=SYNC_SECONDS)
            if done.returncode == 0:
                return
        raise HostError(f"cannot upgrade: sync ends with {done.returncode}: {runner.tail(done.stderr, 200)}")

    async def check(self) -> None:
        """Raise unless the program of this host can be replaced now."""
        program_file.check_replaceable(self.program)
        await program_file.check_owner(self.program, self.stager.run)
        await self.guard.check()

    async def _check_idle(self) -> None:
        try:
            pending = self.records.pending(sure=True)
        except OSError as error:
            why = error.strerror or error
            raise HostError(f"cannot tell whether an upgrade is under way: {INTENT}: {why}") from error
        if pending is not None:
            await self.guard.wake()  # it may have been killed, or never started
            raise Busy(
                f"cannot upgrade: the upgrade from {pending.before} to {pending.after} is under way; it ends"
                f" within {pending.seconds:g} s, then try again"
            )

    async def ended(self, id_: str, seconds: float) -> Outcome | None:
        """Wait for the end of an upgrade, for so many seconds; None = the end is unknown."""
        left = seconds
        while True:
            found, pending = self.records.outcome(), self.records.pending()
            if found is not None and found.id == id_:
                return found
            if left <= 0 or pending is None or pending.id != id_:
                return None
            await self.sleep(POLL)
            left -= POLL

    async def _intent(self, order: UpgradeOrder, version: str, digest: str) -> Intent:
        old = await in_thread(lambda: program_file.sha256_of(self.program))
        if old == digest:
            raise HostError(f"cannot upgrade: {order.wanted.source} is the program that is there, {version}")
        seconds = int(order.deadline - RESERVE)
        found = Intent(order.id, self.program, seconds, order.running, version, old, digest, order.report)
        found.text()  # raises where something cannot be written down
        return found

    def _keep_old(self) -> None:
        """Give the old program a second name; where a filesystem has no such thing, a copy."""
        place = self.records.tree.place(self.program)
        try:
            name, folder = place.name + PREVIOUS, place.folder
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            try:
                os.link(place.name, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                _copy(place.name, name, folder)
            with self.records.tree.readable(folder) as opened:
                os.fsync(opened)
        except OSError as error:
            raise HostError(f"cannot keep {self.program}: {error.strerror or error}") from error
        finally:
            self.records.tree.forget()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep others from upgrading this host meanwhile, the agent and people alike."""
        try:
            self.records.make_folder()
        except OSError as error:
            why = f"{error.strerror or error}{root_remedy(error)}"
            raise HostError(f"cannot upgrade: {self.records.folder} cannot be made: {why}") from error
        lock = StateLock(self.records.tree, self.records.folder)
        if not lock.take(make=False):
            raise HostError(
                f"cannot upgrade: {self.records.folder} cannot be locked, so another upgrade may be under way"
            )
        try:
            yield
        finally:
            lock.release()


def _copy(source: str, target: str, folder: int) -> None:
    reading = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with (
        os.fdopen(os.open(source, reading, dir_fd=folder), "rb") as old,
        os.fdopen(os.open(target, state_files.NEW, 0o600, dir_fd=folder), "wb") as new,
    ):
        while piece := old.read(PIECE):
            new.write(piece)
        new.flush()
        os.fchmod(new.fileno(), MODE)
        os.fsync(new.fileno())

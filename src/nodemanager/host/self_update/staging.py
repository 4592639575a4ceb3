"""Brings a new program to a host, beside the running one, and checks whether it may replace that."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from nodemanager.host.base import HostError, Runner
from nodemanager.host.files.tree import Tree
from nodemanager.host.process.threads import in_thread
from nodemanager.host.self_update import minisign, program_file, versions
from nodemanager.host.self_update.minisign import SignatureRefused
from nodemanager.host.self_update.program_file import Digests
from nodemanager.host.state import state_files
from nodemanager.tlog.minisign import PublicKey

T = TypeVar("T")
NEW: Final = ".new"
"""The suffix of the new program, in the same folder, until it replaces the old one."""
MODE: Final = 0o755
FETCH_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class WantedProgram:
    """The program that a host should have."""

    source: str
    """A path, or an address."""
    version: str = ""
    """The version that it must report; empty = any that is not older."""
    sha256: str = ""
    """Its digest; empty = any."""
    keys: Sequence[PublicKey] = ()
    """The keys whose signatures are accepted; none = no signature is needed, by explicit choice."""
    signature: str = ""
    """Where the signature is; empty = beside the source."""
    downgrade: bool = False
    """Whether it may be older than the running one."""


@dataclass(frozen=True, slots=True)
class StagedProgram:
    """A program that passed all checks, and is on disk."""

    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Stager:
    """Brings programs to one host."""

    tree: Tree
    program: str
    """The running program."""
    run: Runner
    arch: str
    """What the program that runs is for: the kernel may be for another processor, and run both."""
    seconds: float = FETCH_SECONDS

    async def stage(self, wanted: WantedProgram, running: str) -> StagedProgram:
        """Return when the program is on disk, beside the one that runs, and may take its place.

        It is asked for its version only after digest and signature were found good.
        """
        try:
            digests = await in_thread(lambda: self._fetch(wanted.source))
            signed = await in_thread(lambda: self._judge(wanted, digests))
            version = await program_file.version_of(self.program + NEW, self.run)
            _check_version(wanted, version, signed, running)
        except BaseException:
            self.discard()
            raise
        return StagedProgram(version, digests.sha256)

    def discard(self) -> bool:
        """Remove what was brought; return whether it was still there."""
        return self._in_folder(lambda name, folder: _unlink(name + NEW, folder))

    def _fetch(self, source: str) -> Digests:
        def fetch(name: str, folder: int) -> Digests:
            _unlink(name + NEW, folder)
            descriptor = os.open(name + NEW, state_files.NEW, 0o600, dir_fd=folder)
            try:
                found = self._write(source, descriptor)
                os.fchmod(descriptor, MODE)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            return found

        return self._in_folder(fetch)

    def _write(self, source: str, descriptor: int) -> Digests:
        sha256, blake2b, head = hashlib.sha256(), hashlib.blake2b(), b""
        from nodemanager.host.self_update import sources  # here: an agent at rest has no use for urllib

        for piece in sources.pieces(source, self.seconds):
            head = head if len(head) >= program_file.HEAD else (head + piece)[: program_file.HEAD]
            sha256.update(piece)
            blake2b.update(piece)
            state_files.write_all(descriptor, piece)
        program_file.check_head(head, self.arch)
        return Digests(sha256.hexdigest(), blake2b.digest())

    def _judge(self, wanted: WantedProgram, digests: Digests) -> str:
        """Check digest and signature; return the version that was signed, empty if none was."""
        if wanted.sha256 and wanted.sha256 != digests.sha256:
            raise HostError(
                f"cannot use {wanted.source}: its SHA-256 is {digests.sha256}, and not {wanted.sha256}"
            )
        if not wanted.keys:
            return ""
        from nodemanager.host.self_update import sources

        where = wanted.signature or sources.signature_of(wanted.source)
        try:
            found = minisign.parse_signature(sources.text(where, sources.ANSWER_SECONDS, minisign.MAX_BYTES))
            return minisign.verify(wanted.keys, found, digests.blake2b).get("version", "")
        except SignatureRefused as error:
            raise SignatureRefused(f"cannot use {wanted.source}: {error}") from error

    def _in_folder(self, work: Callable[[str, int], T]) -> T:
        """Do something with a name in the folder of the program, through no link."""
        place = self.tree.place(self.program)
        try:
            return work(place.name, place.folder)
        except HostError:
            raise
        except OSError as error:
            raise HostError(f"cannot write beside {self.program}: {error.strerror or error}") from error
        finally:
            self.tree.forget()


def _check_version(wanted: WantedProgram, version: str, signed: str, running: str) -> None:
    if wanted.version and version != wanted.version:
        raise HostError(f"cannot use {wanted.source}: it is version {version}, and not {wanted.version}")
    if signed and version != signed:
        raise HostError(f"cannot use {wanted.source}: it is version {version}, and was signed as {signed}")
    if not wanted.version and not wanted.downgrade and versions.is_older(version, running):
        raise HostError(
            f"cannot use {wanted.source}: version {version} is older than {running}, which runs; an old"
            " program with a good signature is what an attacker would offer, so say if it is meant"
            " (--downgrade)"
        )


def _unlink(name: str, folder: int) -> bool:
    """Remove a file, and return whether it was there."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True

"""Files in /oem of Kairos, made of what is committed for a bond; checked, and written only if different."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from nodemanager.host.base import HostError, NotSupported, Runner
from nodemanager.host.edge import boot_writes, networkd_files
from nodemanager.host.edge.boot_writes import OEM
from nodemanager.host.edge.networkd_files import Found
from nodemanager.host.files.tree import Tree
from nodemanager.host.init import placing
from nodemanager.host.process.runner import CommandNotFound
from nodemanager.host.state import state_files

STAGE: Final = "initramfs"
"""This stage comes before networkd begins."""
MODE: Final = 0o600
REPLACED: Final = "\ufffd"
"""Stands for a byte that is no text."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_ODD: Final = re.compile("[\x7f-\uffff]")
"""Some of these end a line in YAML, others are not allowed there."""
_TIMEOUT: Final = 60.0


class BootFile(NamedTuple):
    """A file that is written at boot."""

    path: str
    text: str
    mode: int
    uid: int
    gid: int


class BootMode(NamedTuple):
    """The mode of a bond after the next boot."""

    by: str
    """The file that decides it."""
    mode: str
    """Empty: unknown."""


@dataclass(frozen=True, slots=True)
class OemFiles:
    """/oem of one host."""

    tree: Tree
    state: str
    run: Runner
    prefix: str = ""
    """What a program has to put before a path of the host."""

    def read(self, name: str) -> str | None:
        """Return what a file contains; None = it is not there."""
        if not _NAME.fullmatch(name):
            raise HostError(f"cannot write {name[:64]!r}: that is no name of a file in {OEM}")
        if not Path(self.tree.outside(OEM)).is_dir():
            raise NotSupported(f"cannot write {OEM}/{name}: this host has no {OEM}, so it is no Kairos")
        found = placing.read(self.tree, f"{OEM}/{name}")
        if found is not None and (REPLACED in found or len(found) >= placing.MAX_BYTES):
            raise HostError(
                f"cannot replace {OEM}/{name}: it could not be put back, as it is no text or too long; remove"
                " it first"
            )
        return found

    async def put(self, name: str, content: str) -> bool:
        """Write a file that kairos-agent finds good; return whether it was another one before."""
        if self.read(name) == content:
            return False
        await self._check(name, content)
        return self.put_back(name, content)

    def put_back(self, name: str, content: str) -> bool:
        """Write a file that was there, whatever kairos-agent thinks of it; permissions stay as they are."""
        mode = MODE if self.read(name) is None else None
        return placing.put(self.tree, f"{OEM}/{name}", content, mode)

    def remove(self, name: str) -> None:
        """Take a file away; one that is not there is."""
        if self.read(name) is not None:
            placing.take_away(self.tree, f"{OEM}/{name}")

    async def _check(self, name: str, content: str) -> None:
        folder = f"{self.state}/oem"
        state_files.prepare_below(self.tree, folder)
        state_files.write(self.tree, f"{folder}/{name}", content.encode())
        try:
            argv = ["kairos-agent", "validate", f"{self.prefix}{folder}/{name}"]
            (await self.run(argv, timeout=_TIMEOUT)).check()
        except CommandNotFound as error:
            raise NotSupported(f"cannot check {name}: this host has no kairos-agent") from error
        finally:
            placing.take_away(self.tree, f"{folder}/{name}")


def files_of_bond(tree: Tree, bond: str, mode: str) -> list[BootFile]:
    """Return the files in /etc that make a bond, as they are now; raises HostError unless they say this mode.

    All of them, whatever was changed last: a change that found nothing to do, or changed less than the one
    before it, is no reason to boot with less.
    """
    found = networkd_files.of_bond(networkd_files.read(tree.root), bond)
    if (said := networkd_files.mode_of(found)) != mode:
        raise HostError(f"cannot write files of {bond} at boot: they say {said or 'no mode'}, and not {mode}")
    return [
        _boot_file(tree, bond, one) for one in found.values() if one.path.startswith(f"{networkd_files.ETC}/")
    ]


def at_boot(tree: Tree, bond: str) -> BootMode | None:
    """Return what makes a bond at the next boot; None = what is there now, or no file says."""
    if not Path(tree.outside(OEM)).is_dir():
        return None
    files = networkd_files.of_bond(networkd_files.read(tree.root), bond).values()
    path = next(one.path for one in files if one.path.endswith(".netdev"))
    last = max(boot_writes.on_host(tree, [path]), key=lambda one: one.when, default=None)
    if last is None:
        return None
    modes = networkd_files.values(last.text or "", "Bond", "Mode")
    return BootMode(last.by, modes[-1] if modes else "")


def _boot_file(tree: Tree, bond: str, file: Found) -> BootFile:
    if REPLACED in file.text:
        raise HostError(f"cannot write files of {bond} at boot: {file.path} is no text")
    seen = Path(tree.outside(file.path)).stat()
    return BootFile(file.path, file.text, seen.st_mode & 0o777, seen.st_uid, seen.st_gid)


def of_bond(bond: str, files: Sequence[BootFile], name: str = "", before: str | None = None) -> str:
    """Return what writes the files of a bond at every boot; JSON is YAML, and needs no quoting; pure.

    What a file of that name had besides, such as the VLANs that `nodemanager edge bond` prints, stays in it.
    But for a character of 17 bits and more: what JSON makes two halves of is none in YAML, so it stays.
    """
    if not files:
        raise HostError(f"cannot write files of {bond} at boot: none of them is in {networkd_files.ETC}")
    written = [
        {"path": one.path, "permissions": one.mode, "owner": one.uid, "group": one.gid, "content": one.text}
        for one in sorted(files)
    ]
    ours = f"files of {bond}"
    found = boot_writes.document(before or "", f"{OEM}/{name}")
    stages = _besides(found.get("stages"), ours, {one.path for one in files})
    stages[STAGE] = [*stages.get(STAGE, []), {"name": ours, "files": written}]
    whole = json.dumps(found | {"stages": stages}, indent=2, ensure_ascii=False)
    text = _ODD.sub(lambda found: f"\\u{ord(found[0]):04x}", whole)
    return f"#cloud-config\n{text}\n"


def _besides(stages: Any, ours: str, paths: Collection[str]) -> dict[str, list[Any]]:
    """Return the steps of a file without those that we wrote, and without files that are ours now."""
    left: dict[str, list[Any]] = {}
    for stage, steps in stages.items() if isinstance(stages, dict) else ():
        for step in boot_writes.dicts(steps):
            files = [
                one for one in boot_writes.dicts(step.get("files")) if boot_writes.where(one) not in paths
            ]
            kept = {**step, "files": files} if "files" in step else step
            if step.get("name") != ours and (files or set(kept) - {"name", "files"}):
                left.setdefault(stage, []).append(kept)
    return left

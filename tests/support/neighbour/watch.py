"""Root's process on the host, beside her: looks all the while, and clears up when she rests.

-> {"do": "race", "targets": [...]}   what is declared from now on
-> {"do": "clear"}                    take away what the agent leaves to people; put back what she moved
-> {"do": "check"}                    <- {"answer": {"path": "how it differs", ...}}
-> {"do": "struck"}                   the same, of files that are not hers: nobody else wrote to them
-> {"do": "health", "pid": 7}         <- {"answer": {"rss": ..., "apparent": ..., "allocated": ...}}
-> {"do": "left"}                     <- {"answer": [...]}: temporary files of the agent's
-> {"do": "tidy"}                     remove all that is not declared
<- {"escape": "...", "path": "/x"}
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

from support.neighbour import kernel, places, rules
from support.neighbour.mallory import say
from support.neighbour.places import Target

NAP = 0.05
"""Between two looks."""
MARK = "trusted.nodemanager.path"
"""For which path the agent made a directory."""


class Watch:
    """What is declared, and what was there in the beginning."""

    def __init__(self) -> None:
        self.declared: dict[str, Target] = {}
        self.known = rules.canaries()
        self._inner = {one: Path(f"{one}/inner").read_bytes() for one in places.VAULTS}
        self.roots = os.lstat(places.BELOW).st_ino
        self._said: set[rules.Escape] = set()

    def look(self) -> None:
        """Tell what is wrong now, each thing once."""
        for one in (*rules.never(self.declared), *rules.vaults(self.known), *self._canaries()):
            if one not in self._said:
                self._said.add(one)
                say({"escape": one.what, "path": one.path})

    def _canaries(self) -> list[rules.Escape]:
        found = rules.canaries()
        wrong = [
            rules.Escape(path, f"was {self.known.get(path)}, is {inode}")
            for path, inode in found.items()
            if inode != self.known.get(path) and not path.startswith(places.VAULTS)
        ]
        gone = [one for one in self.known.keys() - found.keys() if not one.startswith(places.VAULTS)]
        return wrong + [rules.Escape(one, "is gone") for one in gone]

    def clear(self) -> None:
        """Do what an administrator is asked to do: move away what is in the way, by its kind."""
        self._put_back(places.OWN, places.BELOW, self.roots)
        for one in places.VAULTS:
            self._put_back(one.rpartition("/")[0], one, self.known[one].number)
            with contextlib.suppress(OSError):
                Path(f"{one}/inner").write_bytes(self._inner[one])
        for target in self.declared.values():
            with contextlib.suppress(OSError):
                if not is_place(target.place):
                    continue
                if in_the_way(target, os.lstat(target.path)):
                    discard(target.path)

    def _put_back(self, folder: str, path: str, number: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            if os.lstat(path).st_ino == number:
                return
        for above in (folder, *(one.path for one in self.declared.values() if one.place == folder)):
            for name in all_names(above):
                moved = f"{above}/{name}"
                with contextlib.suppress(OSError):
                    if os.lstat(moved).st_ino == number and moved != path:
                        change_places(moved, path)
                        os.chown(path, 0, 0)
                        return

    def check(self) -> dict[str, str]:
        found = {path: rules.fault(one) for path, one in self.declared.items()}
        for one in self.declared.values():
            found |= dict.fromkeys(rules.strays(one), "is not purged")
        return {path: fault for path, fault in found.items() if fault}

    def struck(self) -> dict[str, str]:
        theirs = {path: one for path, one in self.declared.items() if not one.hers}
        found = {path: rules.fault(one) for path, one in theirs.items()}
        return {path: fault for path, fault in found.items() if fault}

    def left(self) -> list[str]:
        """Return temporary files that are the agent's; those under such a name that are hers are not."""
        found = [f"{place}/{name}" for place in places.PLACES for name in rules.names(place)]
        return [
            one
            for one in found
            if one.rpartition("/")[2].startswith(places.STAGED) and os.lstat(one).st_uid not in places.SHES
        ]

    def tidy(self) -> None:
        """Remove what nobody declares, so that the next round begins anew."""
        kept = {*self.declared, *places.PLACES, *places.VAULTS, f"{places.BELOW}/.keep"}
        for place in filter(is_place, places.PLACES):
            with contextlib.suppress(OSError):
                os.removexattr(place, "system.posix_acl_default")
            for name in rules.names(place):
                if f"{place}/{name}" not in kept:
                    discard(f"{place}/{name}")


def is_place(path: str) -> bool:
    """Tell whether a place is a directory: where she made a link of it, nothing must be removed."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def change_places(moved: str, path: str) -> None:
    """Put something back in one step: the agent makes anew what is missing for a moment."""
    if not os.path.lexists(path):
        with contextlib.suppress(OSError):
            Path(moved).rename(path)
            return
    kernel.exchange(moved, path)
    discard(moved)


def all_names(folder: str) -> list[str]:
    """Return the entries of a directory, however many she has put there."""
    try:
        return [one.name for one in Path(folder).iterdir()]
    except OSError:
        return []


def in_the_way(target: Target, found: os.stat_result) -> bool:
    """Tell whether the agent may leave this to people.

    A directory, pipe or socket is never replaced; of files with several names, and of directories of
    somebody else, it may be careful.
    """
    if target.free:
        return False
    folder, plain = stat.S_ISDIR(found.st_mode), stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)
    if target.ensure == "directory":
        foreign = found.st_uid != target.uid or (found.st_uid == 0 and is_closed(target, found))
        return not folder or foreign or (target.purge and is_strange(target.path, found))
    return folder or not plain or found.st_nlink > 1


def is_closed(target: Target, found: os.stat_result) -> bool:
    """Tell whether a directory of root's would have to be opened: she may have moved it there."""
    return found.st_gid != target.gid or bool((target.mode or 0) & ~stat.S_IMODE(found.st_mode))


def is_strange(path: str, found: os.stat_result) -> bool:
    """Tell whether a directory may have been moved to its path, by another user than the one who owns it.

    One that was made for another path has changed places with this one.
    """
    if os.lstat(path.rpartition("/")[0]).st_uid == found.st_uid:
        return False
    try:
        return os.getxattr(path, MARK, follow_symlinks=False) != os.fsencode(path)
    except OSError:
        return True


def discard(path: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).unlink()
    shutil.rmtree(path, ignore_errors=True)


def health(pid: int) -> dict[str, int]:
    """Return what the agent takes, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    rss = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))
    taken = []
    for above, _, names in os.walk(places.STATE):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # the agent is at work
                taken.append(os.lstat(f"{above}/{name}"))
    return {
        "rss": rss,
        "apparent": sum(one.st_size for one in taken),
        "allocated": sum(one.st_blocks * 512 for one in taken),
        "foreign": sum(one.st_uid != 0 for one in taken),
    }


def answer(watch: Watch, command: dict[str, Any]) -> Any:
    """Do what was asked for, and return what to say to it."""
    if command["do"] == "race":
        made = [Target(**one) for one in command["targets"]]
        watch.declared = {one.path: one for one in made}
        return None
    if command["do"] == "health":
        return health(command["pid"])
    acts = {"clear": watch.clear, "check": watch.check, "struck": watch.struck, "tidy": watch.tidy}
    return watch.left() if command["do"] == "left" else acts[command["do"]]()


def main() -> None:
    watch = Watch()
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], NAP)
        if not ready:
            watch.look()
            continue
        line = sys.stdin.readline()
        if not line:
            return
        say({"answer": answer(watch, json.loads(line))})


if __name__ == "__main__":
    main()

"""Her processes: python3 -m support.neighbour.mallory ROLE SEED, told what to do by lines on standard input.

racer    plays tricks on declared paths, as quickly as it can
swapper  hears of what the agent stages, and puts something else under that name
reader   opens whatever it can, and looks for what it must never see

-> {"do": "race", "targets": [...]}    <- {"answer": ...}
-> {"do": "rest"}                      <- {"answer": {"tricks": {...}}}; she gives back leases, and waits
-> {"do": "strike"}                    <- {"answer": 7}: so many descriptors and mappings written through
-> {"do": "tail", "path": "/x"}        <- {"answer": [...]}: what she did to that path lately
<- {"escape": "...", "path": "/x"}     whenever she saw something
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import stat
import sys
import time
from pathlib import Path
from typing import Any

from support.neighbour import kernel, places, tricks
from support.neighbour.rules import names

LOOK = re.compile(places.MARKER)
NAP = 0.002
"""Between two tricks, at most: the agent shall have some of the processor, too."""
PAUSE = 0.05
"""Between two looks at everything."""


class Racer:
    """Plays tricks."""

    def __init__(self, seed: str) -> None:
        self.tricks = tricks.Tricks(seed)

    def prepare(self) -> None:
        """Get ready for a round."""

    def step(self) -> None:
        """Do something."""
        self.tricks.play()
        time.sleep(self.tricks.dice.random() * NAP)


class Swapper(Racer):
    """Takes the place of what is staged."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self._inotify = kernel.Inotify()

    def prepare(self) -> None:
        for folder in {one.place for one in self.tricks.targets}:
            with contextlib.suppress(OSError):
                self._inotify.follow(folder)

    def step(self) -> None:
        select.select([self._inotify, sys.stdin], [], [], 0.05)
        for path in self._inotify.names():
            name = path.rpartition("/")[2]
            if name.startswith(places.STAGED):
                self._swap(path)
            elif name.startswith("purged-"):
                with contextlib.suppress(OSError):
                    self._inotify.follow(path)

    def _swap(self, staged: str) -> None:
        if self.tricks.dice.random() < 0.4:
            return  # or the agent would never get anything done
        ways = (self._swap_file, self._swap_folder, self._swap_link, self._steal, self._promote, self._peek)
        way = self.tricks.dice.choice(ways)
        with contextlib.suppress(OSError, ValueError):
            way(staged)
            self.tricks.count(f"staged{way.__name__}", staged)

    def _swap_file(self, staged: str) -> None:
        target = places.Target(staged, "staged")
        self._place(self.tricks.make(target, self.tricks.dice.choice((0o4777, 0o755))), staged)

    def _swap_folder(self, staged: str) -> None:
        aside = self.tricks.aside(staged.rpartition("/")[0])
        Path(aside).mkdir(mode=0o777)
        self._place(aside, staged)

    def _swap_link(self, staged: str) -> None:
        aside = self.tricks.aside(staged.rpartition("/")[0])
        Path(aside).symlink_to(self.tricks.dice.choice((places.SHADOW, *places.CANARIES[1:3], places.HOME)))
        self._place(aside, staged)

    def _place(self, mine: str, staged: str) -> None:
        """Put something of hers under the name: in its place, or so that the two change places."""
        act = self.tricks.dice.choice((os.rename, kernel.exchange, kernel.exchange))
        act(mine, staged)

    def _steal(self, staged: str) -> None:
        """Take it away, and sometimes bring it back in time."""
        away = self.tricks.aside(staged.rpartition("/")[0])
        Path(staged).rename(away)
        if self.tricks.dice.random() < 0.3:
            Path(away).rename(staged)

    def _promote(self, staged: str) -> None:
        """Have it in the place of something else that is declared."""
        near = [one.path for one in self.tricks.targets if one.place == staged.rpartition("/")[0]]
        if near:
            self.tricks.put(staged, self.tricks.dice.choice(near))

    def _peek(self, staged: str) -> None:
        look(staged)
        with contextlib.suppress(OSError):
            os.link(staged, self.tricks.aside(staged.rpartition("/")[0]), follow_symlinks=False)
        for name in names(staged):
            look(f"{staged}/{name}")
        self.tricks.grip.hold(staged)


class Reader(Racer):
    """Reads what it can."""

    def step(self) -> None:
        for folder in (*places.PLACES, *places.VAULTS, places.STATE, "/proc/self"):
            for name in names(folder):
                look(f"{folder}/{name}")
                self.tricks.done["look"] += 1
        for target in self.tricks.targets:
            for name in names(target.path) if target.ensure == "directory" else ():
                look(f"{target.path}/{name}")
        for process in filter(str.isdecimal, names("/proc")):
            look(f"/proc/{process}/cmdline")
            look(f"/proc/{process}/environ")
        look(places.SHADOW)
        time.sleep(PAUSE)


def look(path: str) -> None:
    """Read a file, and cry when something is in it that she must not see."""
    with contextlib.suppress(OSError):
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode):
                return
            seen = LOOK.search(os.pread(opened, 65536, 0))
        finally:
            os.close(opened)
        if seen:
            what = (
                f"she read {seen[1].decode()} content, mode {found.st_mode & 0o7777:o}, owner {found.st_uid}"
            )
            say({"escape": what, "path": path})


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def answer(player: Racer, command: dict[str, Any]) -> Any:
    """Do what was asked for, and return what to say to it."""
    played = player.tricks
    if command["do"] == "race":
        played.targets = [places.Target(**one) for one in command["targets"]]
        player.prepare()
    elif command["do"] == "rest":
        played.grip.let_go()
        for place, (owner, _, mode) in places.PLACES.items():
            with contextlib.suppress(OSError):
                if owner == places.MALLORY:
                    Path(place).chmod(mode)
        return {"tricks": dict(played.done)}
    elif command["do"] == "strike":
        return played.grip.strike()
    elif command["do"] == "tail":
        folder = command["path"].rpartition("/")[0]
        return [
            trick
            for trick, path in played.told
            if path == command["path"] or (trick.startswith("staged") and path.startswith(f"{folder}/."))
        ][-12:]
    return None


def main() -> None:
    role, seed = sys.argv[1:]
    player = {"racer": Racer, "swapper": Swapper, "reader": Reader}[role](f"{seed}/{role}")
    racing = False
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], 0.0 if racing else None)
        if ready:
            line = sys.stdin.readline()
            if not line:
                return
            command = json.loads(line)
            say({"answer": answer(player, command)})
            if command["do"] in ("race", "rest"):
                racing = command["do"] == "race"
        elif racing:
            player.step()


if __name__ == "__main__":
    main()

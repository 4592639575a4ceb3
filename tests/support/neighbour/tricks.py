"""What she does to a declared path: one function each, chosen by a seeded dice.

A trick may fail (the path is root's, the agent was faster, the filesystem does not have it): that is no news.
What she cannot do as this user is the kernel's to forbid; what the agent does for her is what is tested.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from support.neighbour import kernel, places
from support.neighbour.grip import Grip
from support.neighbour.places import Target

SPARSE = 16 * 1024 * 1024
"""The largest file that is kept when it is removed, unless somebody says otherwise."""
PROGRAM = f"""\
#!/usr/bin/perl
BEGIN {{ if ($> == 0) {{ open(my $proof, ">", "{places.PROOF}"); print $proof "as root\\n"; }} }}
"""


Trick = Callable[["Tricks", Target], None]


class Tricks:
    """Everything she can do; `play` does one of it."""

    def __init__(self, seed: str) -> None:
        self.dice = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.told: deque[tuple[str, str]] = deque(maxlen=4000)
        """The newest tricks, and to which path."""
        self.grip = Grip()
        self.targets: list[Target] = []
        self._number = 0
        self._seed = seed.replace("/", "-")
        signal.signal(signal.SIGIO, signal.SIG_IGN)  # what a lease tells by

    def play(self, among: tuple[Trick, ...] = ()) -> None:
        """Do something to some path."""
        target = self.dice.choice(self.targets)
        trick = self.dice.choice(among or TRICKS)
        with contextlib.suppress(OSError, ValueError):
            trick(self, target)
            self.count(trick.__name__, target.path)

    def seldom(self, times: int) -> None:
        """Go on once in so many times."""
        if self.dice.randrange(times):
            raise ValueError("not now")

    def count(self, trick: str, path: str) -> None:
        self.done[trick] += 1
        self.told.append((trick, path))

    def aside(self, folder: str) -> str:
        """Return a name that nobody has."""
        self._number += 1
        return f"{folder}/.m-{self._seed}-{self._number}"

    def make(self, target: Target, mode: int, text: str = "") -> str:
        """Make a file of hers beside a path, held, and return where it is."""
        aside = self.aside(target.place)
        Path(aside).write_text(text or self.words(target), encoding="utf-8")
        Path(aside).chmod(mode | 0o600)
        self.grip.hold(aside)
        return aside

    def words(self, target: Target) -> str:
        """Return the declared content, where she knows it, or a program of hers."""
        return target.content if target.content and self.dice.random() < 0.6 else PROGRAM

    def put(self, aside: str, path: str) -> None:
        """Put something in the place of a path, whatever is there."""
        try:
            Path(aside).rename(path)
        except OSError:
            try:
                Path(path).rename(self.aside(path.rpartition("/")[0]))
                Path(aside).rename(path)
            except OSError:
                discard(aside)
                raise


def discard(path: str) -> None:
    """Remove something, whatever it is."""
    with contextlib.suppress(OSError):
        Path(path).unlink()
    shutil.rmtree(path, ignore_errors=True)


def powers(self: Tricks, target: Target) -> None:
    """A file of hers with all bits that a mode has."""
    self.put(self.make(target, self.dice.choice((0o4777, 0o6777, 0o2777, 0o7777, 0o666))), target.path)


def twin(self: Tricks, target: Target) -> None:
    """The very file that is wanted, except that it is hers."""
    mode = target.mode if target.mode is not None else 0o644
    self.put(self.make(target, mode, target.content), target.path)


def access(self: Tricks, target: Target) -> None:
    """A file with an ACL that lets her in."""
    aside = self.make(target, 0o670)
    os.setxattr(aside, kernel.ACCESS, kernel.acl(places.MALLORY))
    self.put(aside, target.path)


def inherited(self: Tricks, target: Target) -> None:
    """An ACL for everything that is made in a directory of hers from now on, or none."""
    if self.dice.random() < 0.7:
        os.setxattr(target.place, kernel.DEFAULT, kernel.acl(places.MALLORY))
    else:
        os.removexattr(target.place, kernel.DEFAULT)


def attribute(self: Tricks, target: Target) -> None:
    aside = self.make(target, 0o644)
    os.setxattr(aside, "user.evil", b"x" * 100)
    self.put(aside, target.path)


def link(self: Tricks, target: Target) -> None:
    """A link to something that she may not touch."""
    others = (*places.CANARIES, places.SHADOW, "/root/canary/new", "/proc/self/environ", "/proc/1/mem")
    goal = self.dice.choice((*others, self.dice.choice(self.targets).path))
    aside = self.aside(target.place)
    Path(aside).symlink_to(goal)
    self.put(aside, target.path)


def hard_link(self: Tricks, target: Target) -> None:
    """Another name for a file of root's, or for what is there."""
    goal = self.dice.choice((places.SHADOW, "/etc/canary.d/open", target.path))
    aside = self.aside(target.place)
    os.link(goal, aside, follow_symlinks=False)
    self.put(aside, self.dice.choice(self.targets).path)


def fifo(self: Tricks, target: Target) -> None:
    aside = self.aside(target.place)
    os.mkfifo(aside)
    self.put(aside, target.path)


def listener(self: Tricks, target: Target) -> None:
    aside = self.aside(target.place)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(aside)
    self.put(aside, target.path)


def folder(self: Tricks, target: Target) -> None:
    """A directory of hers, with something in it, and sometimes deep."""
    aside = Path(self.aside(target.place))
    deep = aside.joinpath(*["d"] * self.dice.choice((0, 1, 40)))
    deep.mkdir(parents=True)
    (deep / "kept").write_text(PROGRAM, encoding="utf-8")
    self.grip.hold(str(deep / "kept"))
    aside.chmod(0o7777)
    self.put(str(aside), target.path)


def vault(self: Tricks, target: Target) -> None:
    """A directory of root's, where the agent expects one that shall be hers."""
    one = self.dice.choice(places.VAULTS)
    near = [other for other in self.targets if one.startswith(f"{other.place}/")]
    self.put(one, self.dice.choice([other for other in near if other.kind in ("folder-hers", "purged")]).path)


def remove(self: Tricks, target: Target) -> None:
    Path(target.path).unlink()


def shuffle(self: Tricks, target: Target) -> None:
    """What the agent wrote for one path, at another."""
    near = [one for one in self.targets if one.place == target.place]
    other = self.dice.choice(near).path
    act: Callable[[str, str], object] = self.dice.choice((os.rename, kernel.exchange))
    act(target.path, other)


def scribble(self: Tricks, target: Target) -> None:
    self.grip.hold(target.path)
    with Path(target.path).open("r+b") as file:
        file.write(b"SCRIBBLE")


def stall(self: Tricks, target: Target) -> None:
    """A file whose readers have to wait for her."""
    aside = self.make(target, 0o644)
    self.grip.lease()
    self.put(aside, target.path)


def sparse(self: Tricks, target: Target) -> None:
    """Very large files that take no space, where they are removed and kept."""
    inside = self.dice.choice([one.path for one in self.targets if one.purge])
    self.seldom(5)
    for number in range(6):
        with Path(f"{inside}/sparse-{number}").open("wb") as file:
            file.truncate(SPARSE - 16)
            file.seek(SPARSE - 16)
            file.write(self.dice.randbytes(16))
    with Path(f"{inside}/huge").open("wb") as file:
        file.truncate(1 << 40)


def flood(self: Tricks, target: Target) -> None:
    """Very many entries, with names that are hard to print."""
    inside = target.path if target.ensure == "directory" else target.place
    for number in range(2000 if self.dice.random() < 0.03 else 30):
        name = f"{inside}/\x1b[2J\n\u2028flood-{number}"
        Path(name).touch()
        Path(name).unlink()
    for number in range(20 if target.purge else 0):
        Path(f"{inside}/line\n\x9b\udcff{number}").write_text("x", encoding="ascii")


def closed(self: Tricks, target: Target) -> None:
    """A directory that nobody but root can enter, for a moment."""
    place = self.dice.choice((places.OWN, places.HOME))
    Path(place).chmod(0)
    Path(place).chmod(places.PLACES[place][2])


def moved(self: Tricks, target: Target) -> None:
    """Root's directory away, another one or a link in its place, and often back again."""
    self.seldom(20)
    away = f"{places.OWN}/.away"
    Path(places.BELOW).rename(away)
    with contextlib.suppress(OSError):
        if self.dice.random() < 0.5:
            Path(places.BELOW).symlink_to(self.dice.choice(("/etc/canary.d", "/root/canary", places.HOME)))
        else:
            Path(places.BELOW).mkdir()
    if self.dice.random() < 0.8:
        self.put(away, places.BELOW)


def namespace(self: Tricks, target: Target) -> None:
    """As root of a namespace of her own: capabilities of a file, and mounts over what is managed."""
    self.seldom(5)  # a process each
    aside = self.make(target, 0o755)
    child = os.fork()
    if not child:
        with contextlib.suppress(OSError):
            kernel.own_namespaces()
            os.setxattr(aside, kernel.CAPABILITY, kernel.ALL_CAPABILITIES)
            self.put(aside, target.path)
            kernel.mount("none", target.place, "tmpfs")
            kernel.mount("/etc", target.place, "", 0x1000)
        os._exit(0)
    os.waitpid(child, 0)
    discard(aside)


TRICKS = (
    powers, powers, twin, twin, access, access, inherited, attribute, link, hard_link, fifo, listener, folder,
    vault, remove, remove, shuffle, scribble, stall, sparse, flood, closed, moved, namespace,
)  # fmt: skip

"""Numbers of users and groups: of this system by its own rules, of another root by its files.

A static program reads the files of this system, but no other source in nsswitch.conf(5) (LDAP, sssd):
for those it asks the host's own `getent` beforehand (`learn`).
"""

from __future__ import annotations

import asyncio
import grp
import logging
import pwd
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

from nodemanager import native
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import environment, runner
from nodemanager.host.state import state_files

log = logging.getLogger(__name__)
MAX_BYTES = 16 * 1024 * 1024
MAX_LINE = 1024 * 1024
"""A group is one line with all its members."""
LEARN_SECONDS: Final = 10.0
"""The time for all questions of one look: a directory server may be away."""
VALID_SECONDS: Final = 60.0
"""How long an answer counts, also a negative one, so that a pass asks once."""


def user_numbers(tree: Tree, names: Collection[str]) -> dict[str, int]:
    """Return the numbers of those users that exist."""
    if tree.root != "/":
        return _from_file(tree, "/etc/passwd", names)
    return _learned("passwd", names) | _known(names, lambda name: pwd.getpwnam(name).pw_uid)


def group_numbers(tree: Tree, names: Collection[str]) -> dict[str, int]:
    """Return the numbers of those groups that exist."""
    if tree.root != "/":
        return _from_file(tree, "/etc/group", names)
    return _learned("group", names) | _known(names, lambda name: grp.getgrnam(name).gr_gid)


class _Answers:
    """The answers of `getent` with their times, by database and name."""

    said: Final[dict[tuple[str, str], tuple[float, int | None]]] = {}


async def learn(tree: Tree, users: Collection[str] = (), groups: Collection[str] = ()) -> None:
    """Ask the host for users and groups that this program cannot look up, for the lookups that follow."""
    if native.HAS_NSS or tree.root != "/":
        return
    now = time.monotonic()
    for key in [key for key, (when, _) in _Answers.said.items() if now - when > VALID_SECONDS]:
        del _Answers.said[key]
    unknown = [("passwd", name) for name in set(users) - user_numbers(tree, users).keys()]
    unknown += [("group", name) for name in set(groups) - group_numbers(tree, groups).keys()]
    asked = [key for key in unknown if key not in _Answers.said and not _is_no_name(key[1])]
    _Answers.said.update(dict.fromkeys(asked, (now, None)))
    try:
        async with asyncio.timeout(LEARN_SECONDS):
            for key in asked:
                _Answers.said[key] = now, await _ask(*key)
    except (TimeoutError, runner.RunError) as error:
        why = str(error) or f"no answer in {LEARN_SECONDS:g} s"
        log.warning("cannot ask getent for %s of %s: %s", key[0], key[1], why)


def _is_no_name(name: str) -> bool:
    """Tell whether no database holds it: a number, which `getent` would take for one, or an option."""
    return name.isdecimal() or name.startswith("-") or ":" in name


async def _ask(database: str, name: str) -> int | None:
    """Return the number of a name; the entry may spell it otherwise: some directories ignore case."""
    done = await environment.host_runner()(
        ["getent", database, name], timeout=LEARN_SECONDS, max_output=MAX_LINE
    )
    return next(iter(parse(done.stdout.decode(errors="replace")).values()), None)


def _learned(database: str, names: Iterable[str]) -> dict[str, int]:
    found = {name: _Answers.said.get((database, name), (0.0, None))[1] for name in names}
    return {name: number for name, number in found.items() if number is not None}


def _known(names: Iterable[str], look_up: Callable[[str], int]) -> dict[str, int]:
    found = {}
    for name in names:
        try:
            found[name] = look_up(name)
        except KeyError:
            continue
    return found


def _from_file(tree: Tree, path: str, names: Iterable[str]) -> dict[str, int]:
    wanted = set(names)
    if not wanted:
        return {}
    try:
        data = state_files.read(tree, path, MAX_BYTES)
    except OSError:
        return {}
    known = {"root": 0} if data is None else parse(data.decode(errors="replace"))  # a folder still has a root
    return {name: number for name, number in known.items() if name in wanted}


def parse(text: str) -> dict[str, int]:
    """Return the numbers in a passwd or group file; lines that are none are passed over."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[0] and fields[2].isdecimal():
            found.setdefault(fields[0], int(fields[2]))
    return found

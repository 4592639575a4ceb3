"""The records of an upgrade of the agent on disk: the intent, its progress, and the last result.

    intent    there is an upgrade that has not ended; the guard alone removes it
    proof     the new program says by it that it works
    tried     the guard is about to have the service restarted; how often the host went down since
    restarted the guard has had the service restarted, and need not do so again
    outcome   how the last upgrade ended

They are lines of `name=value`, as the guard, which reads and writes them too, is a shell script.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files
from nodemanager.host.state.journal import STATE
from nodemanager.kube import wording

FOLDER: Final = "agent-upgrade"
"""Below the folder of the state."""
INTENT: Final = "intent"
PROOF: Final = "proof"
TRIED: Final = "tried"
RESTARTED: Final = "restarted"
OUTCOME: Final = "outcome"
MAX_BYTES: Final = 4096
PROVEN: Final = "proven"
STRANDED: Final = "stranded"
_WORD: Final = re.compile(r"[A-Za-z0-9/._+@:=-]+")
"""A text that a shell reads as one unchanged word."""


@dataclass(frozen=True, slots=True)
class Intent:
    """An upgrade that will begin, or is under way."""

    id: str
    """The id of this upgrade, unique on this host."""
    program: str
    seconds: int
    """How many seconds the new program has to prove itself."""
    before: str
    """The version of the program that runs now."""
    after: str
    old: str
    """SHA-256 of the present program."""
    new: str
    report: bool
    """Whether the new program must reach the API, because the old one does."""

    def text(self) -> str:
        """Return it as it is kept."""
        values = {
            "id": self.id, "program": self.program, "seconds": str(self.seconds), "before": self.before,
            "after": self.after, "old": self.old, "new": self.new, "report": "yes" if self.report else "no",
        }  # fmt: skip
        for name, value in values.items():
            if not _WORD.fullmatch(value):
                raise HostError(
                    f"cannot upgrade: {name} {value!r} has characters that no shell takes as they are"
                )
        return "".join(f"{name}={value}\n" for name, value in values.items())


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an upgrade ended."""

    id: str
    result: str
    """proven, returned (to the old program), failed (before anything was replaced), or stranded (with the new
    program, which did not prove itself, because the old one was deleted)."""
    message: str = ""


class UpgradeRecords:
    """The records about upgrades of one host."""

    def __init__(self, tree: Tree, state: str = STATE) -> None:
        self.tree = tree
        self.folder = f"{state}/{FOLDER}"

    def pending(self, *, sure: bool = False) -> Intent | None:
        """Return the upgrade that has not ended; one that makes no sense is as good as none.

        So is one that cannot be read, unless it has to be `sure`: then OSError is raised.
        """
        found = self._read(INTENT, sure=sure)
        try:
            return Intent(
                found["id"], found["program"], int(found["seconds"]), found["before"], found["after"],
                found["old"], found["new"], found["report"] == "yes",
            )  # fmt: skip
        except (KeyError, ValueError):
            return None

    def outcome(self) -> Outcome | None:
        """Return how the last upgrade ended; None = there was none yet."""
        found = self._read(OUTCOME)
        if "id" not in found:
            return None
        return Outcome(found["id"], found.get("result", ""), wording.flat(found.get("message", ""), 512))

    def make_folder(self) -> None:
        """Make the folder that all of this is in."""
        state_files.prepare_below(self.tree, self.folder)

    def forget(self) -> None:
        """Forget what an earlier upgrade left that would be taken for one of the next."""
        for name in (PROOF, TRIED, RESTARTED):
            self._remove(name)

    def withdraw(self) -> None:
        """Forget an upgrade that the guard has not begun."""
        self._remove(INTENT)

    def write(self, name: str, text: str, mode: int = 0o600) -> None:
        """Write a file, and return when it is on disk."""
        try:
            state_files.write(self.tree, f"{self.folder}/{name}", text.encode(), mode)
        finally:
            self.tree.forget()

    def prove(self, intent: Intent) -> None:
        """Say that the new program works."""
        self.write(PROOF, f"{intent.id}\n")

    def _remove(self, name: str) -> None:
        try:
            place = self.tree.place(f"{self.folder}/{name}")
            os.unlink(place.name, dir_fd=place.folder)
        except FileNotFoundError:
            return
        finally:
            self.tree.forget()

    def _read(self, name: str, *, sure: bool = False) -> dict[str, str]:
        try:
            data = state_files.read(self.tree, f"{self.folder}/{name}", MAX_BYTES)
        except OSError:
            if sure:
                raise
            return {}
        finally:
            self.tree.forget()
        lines = (line.partition("=") for line in (data or b"").decode("utf-8", "replace").splitlines())
        return {key: value for key, equals, value in lines if equals}

"""What of a plan may leave the host. Everybody who looks at NodeTasks reads it, and hosts look as root.

made of Secrets                       digests, which only those can compare who may read the Secrets
not readable by everybody on the host  that it would be written, and no byte of what is there
everything else                       a diff, as `nodemanager plan` shows it
"""

from __future__ import annotations

import difflib
import hashlib
import hmac
import os
import stat
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from nodemanager.api.common import reported
from nodemanager.api.maintenance.task_previews import PreviewedChange
from nodemanager.host.files import file_facts
from nodemanager.host.files.tree import Tree, TreeError
from nodemanager.plan.facts import Kind
from nodemanager.plan.resources import EXEC, file_id
from nodemanager.plan.steps import Blocked, RemovePath, Step, Waiting, WriteFile

MAX_READ: Final = 256 * 1024
"""Files beyond this are compared by size only."""
DIGITS: Final = 16
UNTOLD: Final = "its conditions are programs, and a preview runs none"


@dataclass(frozen=True, slots=True)
class Disclosure:
    """Tells steps, on one host. It reads files, so it is not for the event loop."""

    tree: Tree
    literal: AbstractSet[str] = frozenset()
    """Paths whose proposed content is in the proposal itself, which others may read, too."""
    secret: AbstractSet[str] = frozenset()
    """Paths whose content is made of Secrets now, or may have been."""
    known: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of what ConfigSets say now, word for word, by path: others may read that, too."""
    keys: Mapping[str, bytes] = field(default_factory=dict)
    """For digests of what is made of Secrets, by path: what only their readers know. A bare digest would let
    everybody try out passwords."""

    def change(self, step: Step) -> PreviewedChange:
        """Return what would become of a resource, as others may know it."""
        # What only waits for a Secret may well be there once the host may read that.
        blocked = isinstance(step, Blocked) and not isinstance(step, Waiting)
        verb, reason = step.words.verb, step.reason
        if isinstance(step, Blocked) and step.id.kind == EXEC and step.lack is not None:
            verb, reason, blocked = step.lack.then, UNTOLD, False
        said = self._written(step) if isinstance(step, WriteFile) else "\n".join(step.details)
        return PreviewedChange(
            resource=reported.line(self._name(step)),
            verb=reported.line(verb),
            reason=reported.line(reason),
            details=reported.text(said),
            blocked=blocked,
        )

    def _name(self, step: Step) -> str:
        """Return what a step is about; what is in a directory is nobody's business that not all may list."""
        if isinstance(step, RemovePath) and step.purged:
            folder = step.path.rpartition("/")[0] or "/"
            if not self._is_open(folder, stat.S_IROTH | stat.S_IXOTH):
                return f"{file_id(folder)}/(not shown)"
        return str(step.id)

    def _written(self, step: WriteFile) -> str:
        new, mode = step.content, f"mode {step.mode:04o}"
        if new.secret:
            return f"(made of Secrets, not shown: {self._keyed(step)}{mode})"
        if step.path not in self.literal and not step.mode & stat.S_IROTH:
            return f"(not shown, as not everybody may read it: {mode})"
        wanted = f"{new.size} bytes, SHA-256 {new.digest[:DIGITS]}, {mode}"
        there = self._there(step)
        if there is None:
            return f"(what is there is not shown, as not everybody may read it; to be {wanted})"
        old, text = _text(there), _text(new.data)
        if old is None or text is None:
            return f"(binary or large: {wanted})"
        before = step.path if step.before.kind is Kind.FILE else "/dev/null"
        lines = difflib.unified_diff(old.splitlines(), text.splitlines(), before, step.path, lineterm="")
        return "\n".join(lines)

    def _keyed(self, step: WriteFile) -> str:
        """Return digests of what is there and of what would be."""
        key = self.keys.get(step.path)
        if not key:
            return ""
        there, _ = self._read(step) if step.before.kind is Kind.FILE else (None, False)
        now = "nothing" if there is None else _digest(key, there)
        return f"digest {now} -> {_digest(key, step.content.data)}, "

    def _there(self, step: WriteFile) -> bytes | None:
        """Return what is at a path; None = not for others."""
        if step.before.kind is not Kind.FILE:
            return b""
        if step.path in self.secret:
            return None
        data, is_open = self._read(step)
        if data is None:
            return None
        declared = self.known.get(step.path) == hashlib.sha256(data).hexdigest()
        return data if is_open or declared else None

    def _read(self, step: WriteFile) -> tuple[bytes | None, bool]:
        """Return the beginning of a file, and whether everybody may read it."""
        try:
            descriptor = file_facts.open_file(self.tree.place(step.path))
            try:
                public = bool(os.fstat(descriptor).st_mode & stat.S_IROTH)
                data = os.read(descriptor, MAX_READ + 1)
            finally:
                os.close(descriptor)
        except (OSError, TreeError):
            return None, False
        return data, public and self._is_open(step.path.rpartition("/")[0] or "/")

    def _is_open(self, folder: str, wanted: int = stat.S_IXOTH) -> bool:
        """Tell whether everybody gets into a directory; behind a link, nobody does as far as we know."""
        names = [name for name in folder.split("/") if name]
        for length in range(1, len(names) + 1):
            try:
                place = self.tree.place("/" + "/".join(names[:length]))
                found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode
            except (OSError, TreeError):
                return False
            needed = wanted if length == len(names) else stat.S_IXOTH
            if not stat.S_ISDIR(found) or found & needed != needed:
                return False
        return True


def _digest(key: bytes, data: bytes) -> str:
    return hmac.new(key, data, hashlib.sha256).hexdigest()[:DIGITS]


def _text(data: bytes) -> str | None:
    if len(data) > MAX_READ or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None

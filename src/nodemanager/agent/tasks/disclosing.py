"""What of a plan may leave the host: everybody can read NodeTasks, but the agent looks as root.

made of Secrets                       a digest of what would be, for those who may read the Secrets
not readable by everybody on the host  that it would be written, and nothing of what is there
everything else                       a diff, as `nodemanager plan` shows it

What nobody could look at but root is not even named: what is in a directory, where a link points to.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import hmac
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from nodemanager.agent.declared.desired_state import DesiredState
from nodemanager.api.common import reported
from nodemanager.api.maintenance.task_previews import PreviewedChange
from nodemanager.host.files import file_facts
from nodemanager.host.files.tree import NEW_PARENT, Tree, TreeError
from nodemanager.plan import attributes
from nodemanager.plan.desired import Content, Desired, Failure
from nodemanager.plan.facts import Kind
from nodemanager.plan.resources import EXEC, FILE, file_id, shown
from nodemanager.plan.steps import (
    Blocked,
    FileStep,
    RemovePath,
    RestartService,
    RunCommand,
    Step,
    Waiting,
    WriteFile,
    command_line,
)
from nodemanager.plan.subscribers import because
from nodemanager.plan.templates import references

MAX_READ: Final = 256 * 1024
"""Larger files are compared by size only."""
MAX_LINES: Final = 1000
"""Longer texts are compared by their number of lines: the time of a diff grows with its square."""
DIGITS: Final = 16
PSEUDO: Final = ("/proc/", "/sys/", "/dev/")
"""File modes mean little there, and reading may consume data."""
HIDDEN: Final = "(not shown)"
UNTOLD: Final = "its conditions are programs, and a preview runs none"
UNSEEN: Final = "why is not shown, as not everybody may look there: see `nodemanager plan` on the host"


@dataclass(frozen=True)
class Disclosure:
    """Discloses steps on one host. It reads files, so it must not run on the event loop."""

    tree: Tree
    proposed: DesiredState
    now: DesiredState
    keys: Mapping[str, bytes] = field(default_factory=dict)
    """Keys for digests of contents made of Secrets, by path: only readers of the Secrets know them. A bare
    digest would let everybody try out passwords."""

    def change(self, step: Step) -> PreviewedChange:
        """Return what would become of a resource, as others may know it."""
        # What only waits for a Secret may well be there once the host may read that.
        blocked = isinstance(step, Blocked) and not isinstance(step, Waiting)
        verb, reason, said = step.words.verb, self._reason(step), self._details(step)
        if isinstance(step, Blocked) and step.id.kind == EXEC and step.lack is not None:
            verb, reason, blocked = step.lack.then, UNTOLD, False
            said = "\n".join(
                command_line(one.declaration) for one in self.proposed.desired.executions if one.id == step.id
            )
        return PreviewedChange(
            resource=reported.line(self._name(step)),
            verb=reported.line(verb),
            reason=reported.line(reason),
            details=reported.text(said),
            blocked=blocked,
        )

    def _name(self, step: Step) -> str:
        """Return what a step is about; what is in a directory is nobody's business that not all may list."""
        if isinstance(step, RemovePath) and step.purged and not self._is_listed(step.path):
            return f"{file_id(_above(step.path))}/{HIDDEN}"
        return str(step.id)

    def _is_public(self, step: Step) -> bool:
        return self.proposed.kinds[step.id.kind].public

    def _details(self, step: Step) -> str:
        """Return what a step is about, as far as others may know it."""
        if isinstance(step, WriteFile):
            return self._written(step)
        return "\n".join(step.details) if self._is_public(step) or step.id.kind == FILE else ""

    def _reason(self, step: Step) -> str:
        """Return why, without names that only root could know."""
        if isinstance(step, RestartService | RunCommand) and step.causes:
            return because([one if self._may_name(one) else f"a path {HIDDEN}" for one in step.causes])
        if step.id.kind != FILE:
            return step.reason if self._is_public(step) else UNSEEN
        if self._is_open(_above(step.id.name), then=True):
            return step.reason
        if isinstance(step, FileStep) and step.before.target:
            return step.reason.replace(shown(step.before.target), HIDDEN)
        if isinstance(step, Blocked) and not isinstance(step, Waiting) and not self._is_declared(step):
            return UNSEEN
        return step.reason

    def _may_name(self, path: str) -> bool:
        return path in self._declared or self._is_listed(path)

    def _is_declared(self, step: Blocked) -> bool:
        """Tell whether what is in the way follows from declarations, and from nothing on the host."""
        made = self.proposed.contents.get(step.id.name)
        return step.id in self.proposed.desired.held or isinstance(made, Failure)

    @functools.cached_property
    def _declared(self) -> frozenset[str]:
        return self.proposed.paths | self.now.paths

    @functools.cached_property
    def _literal(self) -> frozenset[str]:
        """Paths whose proposed content is in the proposal itself, which others may read, too."""
        return literal(self.proposed.desired)

    @functools.cached_property
    def _known(self) -> Mapping[str, str]:
        """SHA-256 of what ConfigSets say now, word for word, by path: others may read that, too."""
        contents = self.now.contents
        made = ((path, contents.get(path)) for path in literal(self.now.desired))
        return {path: one.digest for path, one in made if isinstance(one, Content)}

    @functools.cached_property
    def _modes(self) -> Mapping[str, int]:
        """Modes that directories would have, by path; nobody gets into one that is in conflict."""
        desired = self.proposed.desired
        files = (item.declaration for item in desired.files)
        modes = {
            one.path: attributes.mode_of(one.mode) for one in files if one.ensure == "directory" and one.mode
        }
        return modes | {one.name: 0 for one in desired.held if one.kind == FILE}

    def _may_be_secret(self, path: str) -> bool:
        """Tell whether what is at a path may be made of Secrets: also if these are not to be had just now."""
        made = self.now.contents.get(path)
        if isinstance(made, Content):
            return made.secret
        return isinstance(made, Failure) or file_id(path) in self.now.desired.held

    def _written(self, step: WriteFile) -> str:
        new, mode = step.content, f"mode {step.mode:04o}"
        if new.secret:
            key = self.keys.get(step.path)
            digest = f"digest {_digest(key, new.data)}, " if key else ""
            return f"(made of Secrets, not shown: {digest}{mode})"
        if step.path not in self._literal and not (
            step.mode & stat.S_IROTH and self._is_open(_above(step.path), then=True)
        ):
            return f"(not shown, as not everybody may read it: {mode})"
        wanted = f"{new.size} bytes, SHA-256 {new.digest[:DIGITS]}, {mode}"
        there = self._there(step)
        if there is None:
            return f"(what is there is not shown, as not everybody may read it; to be {wanted})"
        old, text = _lines(there), _lines(new.data)
        if old is None or text is None:
            return f"(binary or large: {wanted})"
        if max(len(old), len(text)) > MAX_LINES:
            return f"({len(old)} lines become {len(text)}: {wanted})"
        before = step.path if step.before.kind is Kind.FILE else "/dev/null"
        return "\n".join(difflib.unified_diff(old, text, before, step.path, lineterm=""))

    def _there(self, step: WriteFile) -> bytes | None:
        """Return what is at a path, or its beginning; None = not for others. What is not is not read."""
        path = step.path
        if step.before.kind is not Kind.FILE:
            return b""
        if self._may_be_secret(path) or path.startswith(PSEUDO):
            return None
        try:
            descriptor = file_facts.open_file(self.tree.place(path))
            try:
                about = os.fstat(descriptor)
                is_open = about.st_mode & stat.S_IROTH and self._is_open(_above(path))
                if not is_open and path not in self._known:
                    return None
                data = os.read(descriptor, min(about.st_size, MAX_READ + 1))
            finally:
                os.close(descriptor)
        except (OSError, TreeError):
            return None
        declared = self._known.get(path) == hashlib.sha256(data).hexdigest()
        return data if is_open or declared else None

    def _is_listed(self, path: str) -> bool:
        """Tell whether everybody may list the directory that a path is in."""
        return self._is_open(_above(path), stat.S_IROTH | stat.S_IXOTH)

    def _is_open(self, folder: str, wanted: int = stat.S_IXOTH, *, then: bool = False) -> bool:
        """Tell whether everybody gets into a directory, and `then` still does.

        Behind a link, nobody does as far as we know.
        """
        names = [name for name in folder.split("/") if name]
        for length in range(1, len(names) + 1):
            modes = self._modes_of("/" + "/".join(names[:length]), then=then)
            needed = wanted if length == len(names) else stat.S_IXOTH
            if not modes or any(mode & needed != needed for mode in modes):
                return False
        return True

    def _modes_of(self, path: str, *, then: bool) -> list[int]:
        """Return the modes that a directory has, and would have; none = it is not known."""
        told = [self._modes[path]] if then and path in self._modes else []
        try:
            place = self.tree.place(path)
            there = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return (told or [NEW_PARENT]) if then else []
        except (OSError, TreeError):
            return []
        return [*told, there] if stat.S_ISDIR(there) else []


def literal(desired: Desired) -> frozenset[str]:
    """Return the files whose content is in their declaration."""
    files = (item.declaration for item in desired.files)
    return frozenset(one.path for one in files if not references.refers(one))


def _above(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _digest(key: bytes, data: bytes) -> str:
    return hmac.new(key, data, hashlib.sha256).hexdigest()[:DIGITS]


def _lines(data: bytes) -> list[str] | None:
    if len(data) > MAX_READ or b"\0" in data:
        return None
    try:
        return data.decode().splitlines()
    except UnicodeDecodeError:
        return None

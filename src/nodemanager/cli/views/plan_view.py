"""A plan for people and for programs: what would change, why, and a diff of every file."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from nodemanager.cli.views import output
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files
from nodemanager.plan.facts import Kind
from nodemanager.plan.steps import Noop, Step, WriteFile

MAX_SHOWN: Final = 256 * 1024
"""Files beyond this are compared by size only."""
_DIGITS: Final = 16
"""How much of a digest is shown: enough to compare it by eye with the output of sha256sum."""
MAX_REASON: Final = 400
_COLOURS: Final = {
    "remove": "red", "cannot": "yellow", "cannot yet": "yellow", "keep": "", "run": "cyan", "restart": "cyan",
}  # fmt: skip


def lines(
    found: Iterable[Step], tree: Tree, style: output.Style, *, everything: bool = False
) -> Iterator[str]:
    """Yield the plan line by line; with `everything`, also what is as declared."""
    count = {"to change": 0, "that cannot be": 0, "as declared": 0}
    for step in found:
        verb = step.words.verb
        count[_fate(step)] += 1
        if isinstance(step, Noop) and not everything:
            continue
        colour = _COLOURS.get(verb, "green")
        yield (
            style.paint(output.one_line(str(step.id)), colour)
            + f"  {verb}: {output.one_line(step.reason, MAX_REASON)}"
        )
        yield from (f"    {line}" for line in details(step, tree, style))
    said = (f"{number} {fate}" for fate, number in count.items() if number or fate != "that cannot be")
    yield f"{', '.join(said)}."


def _fate(step: Step) -> str:
    if step.ACTS:
        return "to change"
    return "as declared" if isinstance(step, Noop) else "that cannot be"


def details(step: Step, tree: Tree, style: output.Style) -> Iterator[str]:
    """Yield what a step is about, beyond its reason."""
    if isinstance(step, WriteFile):
        yield from _diff(step, tree, style)
    yield from map(output.one_line, step.details)


def _diff(step: WriteFile, tree: Tree, style: output.Style) -> Iterator[str]:
    if step.content.secret:
        yield f"(made of Secrets, not shown: {len(step.content.data)} bytes, mode {step.mode:04o})"
        return
    there = _old(step, tree)
    old, new = _text(there), _text(step.content.data)
    if old is None or new is None:
        wanted = f"{step.content.size} bytes, SHA-256 {step.content.digest[:_DIGITS]}, mode {step.mode:04o}"
        yield f"(binary or large: {wanted}{_replaced(step, there)})"
        return
    before = step.path if step.before.kind is Kind.FILE else "/dev/null"
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), before, step.path, lineterm=""):
        yield style.paint(output.printable(line), colours.get(line[0], ""))


def _old(step: WriteFile, tree: Tree) -> bytes | None:
    if step.before.kind is not Kind.FILE:
        return b""
    try:
        return state_files.read(tree, step.path, MAX_SHOWN + 1) or b""
    except OSError:
        return None


def _replaced(step: WriteFile, there: bytes | None) -> str:
    """Say what is there now, if it is a file."""
    if step.before.kind is not Kind.FILE or there is None:
        return ""
    if len(there) > MAX_SHOWN:
        return f"; now more than {MAX_SHOWN} bytes"
    return f"; now {len(there)} bytes, SHA-256 {hashlib.sha256(there).hexdigest()[:_DIGITS]}"


def _text(data: bytes | None) -> str | None:
    if data is None or len(data) > MAX_SHOWN or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def plain(found: Iterable[Step], tree: Tree) -> list[dict[str, Any]]:
    """Return the plan for programs; secrets are masked here, too."""
    return [
        {
            "resource": str(step.id),
            "step": type(step).__name__,
            "configSets": list(step.sources),
            "reason": step.reason,
            "details": list(details(step, tree, output.PLAIN)),
        }
        for step in found
    ]

"""The shell blocks of the documentation, and what is said about each in a comment right above it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r"(?:^<!-- ([^\n]*?) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELL = {"sh", "bash", "shell", "console"}
_ILLUSTRATION = "illustration: "
_BACKGROUND = "in the background"


@dataclass(frozen=True, slots=True)
class Block:
    """Commands as they are printed, and whether a test runs them."""

    page: str
    script: str
    mark: str

    @property
    def runs(self) -> bool:
        """Whether it is run: everything is that does not say why it is not."""
        return not self.mark.startswith(_ILLUSTRATION)

    @property
    def in_background(self) -> bool:
        """Whether the next block comes while this one still runs."""
        return self.mark == _BACKGROUND


def shell_blocks(page: str) -> list[Block]:
    """Return the shell blocks of a page, in order: `shell_blocks("docs/joining.md")`."""
    found = _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    return [Block(page, script, mark) for mark, language, script in found if language in _SHELL]


def known(mark: str) -> bool:
    """Whether a comment above a block is one of ours, with a reason where it needs one."""
    return mark in ("", _BACKGROUND) or (len(mark) > len(_ILLUSTRATION) and mark.startswith(_ILLUSTRATION))


def indented_commands(page: str) -> list[str]:
    """Return commands that are code by four spaces, which no test would find."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"\n\n    ((?:make|nodemanager|kubectl|helm|systemctl|sudo) .*)", text)

"""The name by which the user started this program, so that commands in messages can be typed unchanged."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

import click

NAME: Final = "nodemanager"


def called(argv0: str, path: str) -> str:
    """Return how to call the program again: by its name alone if PATH leads to it, or by its own path."""
    name = os.path.basename(argv0)  # noqa: PTH119 - pathlib would forget the ./ in front
    if name == "__main__.py":
        return f"python3 -m {NAME}"
    places = (os.path.join(folder, name) for folder in path.split(os.pathsep) if folder)  # noqa: PTH118
    first = next((place for place in places if os.access(place, os.X_OK)), "")
    return name if first and os.path.realpath(first) == os.path.realpath(argv0) else argv0


def current() -> str:
    """Return what the program was called in the command line that is being done."""
    context = click.get_current_context(silent=True)
    return (context.find_root().info_name if context else None) or NAME


class Speaker:
    """Puts the program's name as it was called into texts that are written with its usual one."""

    def __init__(self, commands: Iterable[str]) -> None:
        words = "|".join(map(re.escape, commands))
        self._ours = re.compile(rf"(?<![\w./-]){NAME} (?=(?:{words})\b|--?[a-z]|COMMAND)")

    def say(self, text: str, name: str) -> str:
        """Return a text in which our own commands are called as we were."""
        return text if name == NAME else self._ours.sub(lambda _: f"{name} ", text)

"""`-o`: what people read, or the same as JSON or YAML for programs; alike in every command that has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

PROGRAMS: Final = ("json", "yaml")


def option(people: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command -o; what people read is called `people`, and is the default."""
    return click.option(
        "-o", "--output", "form", type=click.Choice([people, *PROGRAMS]), default=people, show_default=True,
        help="For people, or for programs.",
    )  # fmt: skip


def dump(value: Any, form: str) -> str:
    """Return a value as one document in JSON or YAML, with a line break at its end."""
    if form == "yaml":  # neither is imported before somebody asks for it: `version` is to be quick
        from nodemanager.kube import manifests

        return manifests.dump([value])
    import json

    return json.dumps(value, indent=2) + "\n"  # ASCII, which is the same in every locale

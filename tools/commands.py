"""The reference of all commands, in Markdown: what each says when it is asked with --help."""

from __future__ import annotations

from collections.abc import Iterator

import click

from nodemanager.cli import program
from nodemanager.cli.main import cli
from nodemanager.cli.subcommands import COMMANDS

WIDTH = 100
_HEAD = """\
<!-- Generated from the commands in src/nodemanager/cli, do not edit: make generate -->

# All options

What `nodemanager COMMAND --help` prints, of every command. What they are for: [commands](../commands.md).
"""


def page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *(_section(ctx) for ctx in contexts())])


def contexts() -> Iterator[click.Context]:
    """Yield the program, its commands, and theirs, as if each had been typed."""
    settings = {**cli.context_settings, "terminal_width": WIDTH, "color": False}
    top = click.Context(cli, info_name=program.NAME, **settings)
    yield top
    for name in COMMANDS:
        command = cli.get_command(top, name)
        if command is None:
            raise LookupError(f"cannot document {name}: it cannot be loaded")
        ctx = click.Context(command, top, name, **settings)
        yield ctx
        if isinstance(command, click.Group):
            for inner, one in sorted(command.commands.items()):
                yield click.Context(one, ctx, inner, **settings)


def _section(ctx: click.Context) -> str:
    return f"## {ctx.command_path}\n\n```text\n{ctx.get_help().rstrip()}\n```\n"

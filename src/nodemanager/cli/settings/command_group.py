"""A command with commands of its own, whose help tells what each of them does in whole sentences."""

from __future__ import annotations

from typing import Final

import click

_WHOLE: Final = 1000
"""More than any first sentence has: it is wrapped, where click would cut it short with dots."""


class CommandGroup(click.Group):
    """Lists its commands in the order in which they were added: that is the order of their use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order to show them."""
        del ctx
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        names = self.list_commands(ctx)
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.commands[name].get_short_help_str(_WHOLE)) for name in names])

"""Durations on the command line."""

from __future__ import annotations

import click

from nodemanager.api import durations


class Duration(click.ParamType[float]):
    """A duration as Go writes it: 3s, 2m, 168h."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        if isinstance(value, int | float):
            return float(value)
        try:
            return durations.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)

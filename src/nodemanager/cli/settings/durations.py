"""Durations on the command line."""

from __future__ import annotations

import math

import click

from nodemanager.kube.go import durations


class Duration(click.ParamType[float]):
    """A duration as Go writes it: 3s, 2m, 168h."""

    name = "duration"

    def __init__(self, least: float = -math.inf, most: float = math.inf) -> None:
        """Accept `least` seconds or more, and `most` or less."""
        self._least = least
        self._most = most

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        if isinstance(value, int | float):
            return float(value)
        try:
            seconds = durations.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds < self._least:
            self.fail(f"{value} is too short; {self._least:g}s is the least", param, ctx)
        if seconds > self._most:
            self.fail(f"{value} is too long; {self._most / 3600:g}h is the most", param, ctx)
        return seconds

"""An option that says where to listen."""

from __future__ import annotations

import click

from nodemanager.kube import errors
from nodemanager.runtime import probes


class BindAddress(click.ParamType[probes.ListenAddress]):
    """`127.0.0.1:6443`, `[::1]:6443`, or `:6443` for loopback; anything else is wrong usage."""

    name = "address"

    def convert(
        self, value: str | probes.ListenAddress, param: click.Parameter | None, ctx: click.Context | None
    ) -> probes.ListenAddress:
        """Read it, or fail with what is wrong."""
        if isinstance(value, probes.ListenAddress):
            return value
        try:
            address = probes.parse_address(value) if ":" in value else None
        except errors.ConfigError as error:
            self.fail(str(error), param, ctx)
        if address is None:  # also for 0, which turns off listeners that one can do without
            self.fail(f"{value!r} has no port; write it like 127.0.0.1:6443", param, ctx)
        return address

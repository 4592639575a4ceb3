"""Options that say where to listen, and how others get there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from nodemanager.kube import errors
from nodemanager.runtime import probes
from nodemanager.server.http.endpoint import Advertised, Endpoint, name_fault


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


class AdvertiseAddress(click.ParamType[Advertised]):
    """`10.0.0.5`, `api.example.org:443` or `[fd00::5]:443`; without a port it is the one listened on."""

    name = "address"

    def convert(
        self, value: str | Advertised, param: click.Parameter | None, ctx: click.Context | None
    ) -> Advertised:
        """Read it, or fail with what is wrong."""
        if isinstance(value, Advertised):
            return value
        host, port = value, 0
        if value.startswith("[") or value.count(":") == 1:  # more of them are a bare IPv6 address
            try:
                address = probes.parse_address(
                    f"{value}:0" if value.endswith("]") else value, default_host=""
                )
            except errors.ConfigError as error:
                self.fail(str(error).replace("listen on", "advertise"), param, ctx)
            if address is not None:
                host, port = address
        if fault := name_fault(host, wildcard=False):
            self.fail(fault, param, ctx)
        return Advertised(host, port)


def _names(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if fault := name_fault(value, wildcard=True):
            raise click.BadParameter(fault)
    return values


def endpoint_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of an embedded API's address; it gets them as one argument, `endpoint`."""

    @functools.wraps(command)
    def with_endpoint(
        *args: Any,
        bind_address: probes.ListenAddress,
        advertise_address: Advertised | None,
        san: tuple[str, ...],
        **others: Any,
    ) -> None:
        command(*args, endpoint=Endpoint(*bind_address, advertise_address, san), **others)

    decorated: Callable[..., None] = with_endpoint
    for option in (
        click.option("--san", multiple=True, metavar="NAME", callback=_names,
                     help="Another name or IP address that the server's certificate is good for. May be given"
                     " again."),
        click.option("--advertise-address", type=AdvertiseAddress(), default=None, metavar="HOST[:PORT]",
                     help="What admin.kubeconfig says, and the certificate is good for. Default: where it"
                     " listens; 127.0.0.1 if that is 0.0.0.0."),
        click.option("--bind-address", type=BindAddress(), default="127.0.0.1:6443", show_default=True,
                     metavar="HOST:PORT", help="Where the embedded API listens; port 0 takes a free one."),
    ):  # fmt: skip
        decorated = option(decorated)
    return decorated

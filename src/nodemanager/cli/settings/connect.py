"""From options and environment to a client: what every command that talks to a cluster begins with."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import click

from nodemanager.cli.views import waiting
from nodemanager.client.auth import kubeconfig, load
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http import tls
from nodemanager.client.http.transport import HttpTransport, Transport
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.kube import errors

DEFAULT_NAMESPACE: Final = "nodemanager"
"""The namespace of our objects by default."""


def host_kubeconfig_path() -> Path:
    """Return where a host that joined has its own kubeconfig, by operating system."""
    if os.uname().sysname == "FreeBSD":
        return Path("/usr/local/etc/nodemanager/kubeconfig")
    return Path("/etc/nodemanager/kubeconfig")


@dataclass(frozen=True, slots=True)
class Settings:
    """The cluster, the user, and the namespace; read once, with the command line."""

    kubeconfig: str = ""
    """A file; empty = what the environment says, or the pod we are in."""
    context: str = ""
    """A context of the kubeconfig; empty = its current one."""
    namespace: str = DEFAULT_NAMESPACE
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)  # it may hold secrets


def options(*, namespaced: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that choose a cluster; it gets them as one argument, `settings`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_settings(
            *args: Any, kubeconfig: str, context: str, namespace: str = DEFAULT_NAMESPACE, **others: Any
        ) -> None:
            settings = Settings(kubeconfig, context, namespace, dict(os.environ))
            command(*args, settings=settings, **others)

        added = _CLUSTER + ([NAMESPACE] if namespaced else [])
        decorated: Callable[..., None] = with_settings
        for option in reversed(added):
            decorated = option(decorated)
        return decorated

    return decorate


def of_context(ctx: click.Context) -> Settings:
    """Return the settings of a command line that is still being typed."""
    given = {name: ctx.params.get(name) for name in ("kubeconfig", "context", "namespace")}
    return Settings(environ=dict(os.environ), **{name: value for name, value in given.items() if value})


def client_config(settings: Settings) -> ClientConfig:
    """Return the address of the API and our identity there, or raise ConfigError."""
    tls.set_buffer_size()
    try:
        return load.discover(
            path=settings.kubeconfig, context=settings.context, environ=settings.environ, run=runner.run
        )
    except errors.ConfigError as error:
        own = host_kubeconfig_path()
        if settings.kubeconfig or settings.environ.get("KUBECONFIG") or _is_absent(own):
            raise
        sudo = "" if os.access(own, os.R_OK) else ", which only root can read: run it with sudo"
        raise errors.ConfigError(f"{error}; the one that this host joined with is {own}{sudo}") from error


def _is_absent(path: Path) -> bool:
    try:
        return not path.exists()
    except PermissionError:  # a folder that only root may look into is one that a host joined with
        return False


def as_this_host(settings: Settings) -> Settings:
    """Return settings with the credential that this host joined with, unless another one was named."""
    named = settings.kubeconfig or settings.context or settings.environ.get("KUBECONFIG")
    own = host_kubeconfig_path()
    return settings if named or not os.access(own, os.R_OK) else replace(settings, kubeconfig=str(own))


@contextlib.asynccontextmanager
async def connect(
    settings: Settings, wrap: Callable[[Transport], Transport] | None = None, *, aloud: bool = True
) -> AsyncIterator[Client]:
    """Be a client of the chosen cluster; `wrap` may put something between it and the wire.

    On a terminal it says so, unless it is not to be `aloud`, when the API does not answer at once.
    """
    config = client_config(settings)
    transport: Transport = HttpTransport(config)
    if aloud:
        transport = waiting.TellingTransport(transport, config.server)
    client = Client(transport if wrap is None else wrap(transport))
    try:
        yield client
    except errors.Unauthorized as error:
        raise errors.ConfigError(
            f"{error}: {config.server} does not accept the credential of {config.source}; it may have"
            " expired, or be another cluster's"
        ) from error
    finally:
        await client.close()


def _complete_context(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    try:
        found = kubeconfig.read(path=str(ctx.params.get("kubeconfig") or ""), environ=os.environ)
    except (errors.KubeError, OSError):
        return []  # not while a user is typing
    return [name for name in found.contexts if name.startswith(incomplete)]


def _not_empty(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if not value:  # in the API, no namespace means all of them
        raise click.BadParameter("it is empty; name a namespace, or leave the option out")
    return value


_CLUSTER: Final = [
    click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False),
        default="",
        help="Kubeconfig file. Default: those in $KUBECONFIG, the pod's service account, ~/.kube/config.",
    ),
    click.option(
        "--context",
        default="",
        shell_complete=_complete_context,
        help="Context of the kubeconfig. Default: its current one.",
    ),
]
NAMESPACE: Final = click.option(
    "-n",
    "--namespace",
    default=DEFAULT_NAMESPACE,
    show_default=True,
    envvar="NODEMANAGER_NAMESPACE",
    show_envvar=True,
    callback=_not_empty,
    help="Namespace of the objects.",
)
"""For commands that need no cluster, too: what one prints, the next one must find."""

"""`nodemanager agent`, or just `nodemanager`: makes this host what its ConfigSets say, and keeps it so."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from nodemanager import __version__
from nodemanager.agent import service
from nodemanager.agent.assembly import BodyOptions
from nodemanager.agent.token_renewal import TokenRenewal, publish_expiry
from nodemanager.agent.upgrade import UpgradeSettings
from nodemanager.api import host_access
from nodemanager.cli import agent_config, connect, logs
from nodemanager.cli.durations import Duration
from nodemanager.cli.host_options import host_options
from nodemanager.client.config import ClientConfig
from nodemanager.client.credentials import BearerToken
from nodemanager.client.exchanged_token import ExchangedToken
from nodemanager.client.http import Client
from nodemanager.client.renewed_token import RenewedToken
from nodemanager.client.transport import HttpTransport
from nodemanager.host.bucket import MAX_AGE, MAX_SIZE, Limits
from nodemanager.runtime import metrics, probes, process_metrics
from nodemanager.runtime.manager import StopTimedOut

log = logging.getLogger("nodemanager.agent")


GO_OPTIONS: Final = (
    "leader-elect", "enable-http2", "metrics-secure", "gomplate-path", "configset.file-bucket.enabled",
)  # fmt: skip
"""Options of the Go program that have nothing to say here; unit files that give them go on working."""


def _go_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for name in GO_OPTIONS:
        command = click.option(
            f"--{name}", hidden=True, expose_value=False, is_flag=False, flag_value="true", default=None,
            callback=_ignore,
        )(command)  # fmt: skip
    return command


def _ignore(_ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        click.echo(f"option {param.opts[0]} has no meaning here and is ignored", err=True)


@agent_config.options
@click.command(
    epilog="""\b
Examples:
  nodemanager --kubeconfig /etc/nodemanager/kubeconfig    as the service does
  nodemanager agent --hostname web1 --root /mnt/image     another name, another root
  nodemanager --config.file /etc/nodemanager/agent.yaml   flags from a file; variables and flags beat it
  kill -HUP PID                                           look at everything again, now
""",
)
@connect.options(namespaced=True)
@host_options
@click.option("--metrics-bind-address", default=":8080", show_default=True, metavar="ADDRESS",
              help="Where to serve /metrics; ':8080' is loopback only, '0' is nowhere.")  # fmt: skip
@click.option("--health-probe-bind-address", default=":8081", show_default=True, metavar="ADDRESS",
              help="Where to serve /healthz and /readyz; '0' is nowhere.")  # fmt: skip
@click.option("--configset.reconcile-period", "period", type=Duration(), default="10m", show_default=True,
              metavar="TIME",
              help="When to look again although nothing happened; 0 = never. A ManagedNode may say"
              " otherwise.")  # fmt: skip
@click.option("--configset.start-verify-delay", "start_delay", type=Duration(), default="3s",
              show_default=True, metavar="TIME", envvar="NODEMANAGER_CONFIGSET_START_VERIFY_DELAY",
              help="When to look again whether a service that was started still runs.")  # fmt: skip
@click.option("--configset.file-bucket.max-age", "max_age", type=Duration(), default=MAX_AGE, metavar="TIME",
              envvar="NODEMANAGER_CONFIGSET_FILE_BUCKET_MAX_AGE",
              help="How long backups of files are kept; 0 = for ever. Default: 168h.")  # fmt: skip
@click.option("--configset.file-bucket.max-file-size-bytes", "max_size", type=click.IntRange(0),
              default=MAX_SIZE, show_default=True, metavar="BYTES",
              envvar="NODEMANAGER_CONFIGSET_FILE_BUCKET_MAX_FILE_SIZE_BYTES",
              help="Files larger than this are not backed up; 0 = all are.")  # fmt: skip
@click.option("--managednode.forgiveness-period", "forgiveness", type=Duration(1), default="1m",
              show_default=True, metavar="TIME", envvar="NODEMANAGER_MANAGEDNODE_FORGIVENESS_PERIOD",
              help="How long after its slot an upgrade may start, and wait for its group.")  # fmt: skip
@click.option("--managednode.drain-timeout", "drain", type=Duration(1), default="5m", show_default=True,
              metavar="TIME", envvar="NODEMANAGER_MANAGEDNODE_DRAIN_TIMEOUT",
              help="How long pods may take to leave before an upgrade is given up.")  # fmt: skip
@click.option("--pod-identity", is_flag=True,
              help="In a DaemonSet: exchange the pod's token for that of the host it runs on.")  # fmt: skip
@_go_options
@click.option("--log-level", type=click.Choice(logs.LEVELS, case_sensitive=False), default="INFO",
              show_default=True, help="Least important lines to log.")  # fmt: skip
@click.option("--log-format", type=click.Choice(logs.FORMATS), default="text", show_default=True,
              help="Lines for people, or for a collector.")  # fmt: skip
def command(settings: connect.Settings, root: str, hostname: str, **flags: Any) -> None:
    """Make this host what its ConfigSets say, keep it so, and report what is seen.

    Runs as root until it is told to stop (Ctrl-C or SIGTERM), also across outages of the API.
    """
    for name in ("metrics_bind_address", "health_probe_bind_address"):
        probes.parse_address(flags[name])
    if flags["verify"]:
        click.echo("the configuration is valid")
        return
    logs.configure(flags["log_level"].upper(), flags["log_format"])
    limits = Limits(flags["max_size"], flags["max_age"])
    body = BodyOptions(root, hostname, backups=limits, start_delay=flags["start_delay"])
    options = service.AgentOptions(
        settings.namespace,
        body,
        flags["metrics_bind_address"],
        flags["health_probe_bind_address"],
        flags["period"],
        UpgradeSettings(timedelta(seconds=flags["forgiveness"]), flags["drain"]),
        flags["pod_identity"],
    )
    asyncio.run(run(settings, options))


async def run(settings: connect.Settings, options: service.AgentOptions, *, signals: bool = True) -> None:
    """Run an agent until it is told to stop: by a signal, or else by being cancelled."""
    registry = metrics.Registry()
    process_metrics.register(registry)
    config, token = _with_own_token(connect.client_config(settings), settings)
    if options.pod_identity:
        name = options.body.hostname or os.uname().nodename
        own = ExchangedToken(config, name, options.namespace)
        publish_expiry(registry, name, lambda: own.life)
        config, token = replace(config, credentials=own), None
    client = Client(HttpTransport(config))
    agent = service.build(client, options, registry)
    hostname = agent.body.identity.hostname
    if token is not None and is_own(token, hostname, options.namespace):
        path = Path(os.path.realpath(settings.kubeconfig))  # noqa: ASYNC240 - once; links are followed now
        agent.manager.add(
            TokenRenewal(client, config, token, path, hostname, options.namespace, registry, agent.warn)
        )
    log.info(
        "nodemanager %s agent of %s, namespace %s, %s",
        __version__, hostname, options.namespace, config.source,
    )  # fmt: skip
    if not agent.body.tree.running:
        log.info("%s is an image, not the root of a running host: its services stay off", options.body.root)
    gc.freeze()
    try:
        await agent.manager.run(install_signals=signals, on_hangup=agent.reconciler.trigger)
    except StopTimedOut as error:
        log.critical("%s", error)
        os._exit(1)  # the event loop would wait for the part that does not end
    finally:
        await client.close()
        agent.body.close()


def _with_own_token(
    config: ClientConfig, settings: connect.Settings
) -> tuple[ClientConfig, RenewedToken | None]:
    """Return the configuration with a token that can be replaced, if a kubeconfig was named that has one."""
    if not settings.kubeconfig or not isinstance(config.credentials, BearerToken):
        return config, None
    token = RenewedToken(config.credentials.token)
    return replace(config, credentials=token), token


def is_own(token: RenewedToken, hostname: str, namespace: str) -> bool:
    """Tell whether a token is the host's own: nobody else's is renewed, and no other kubeconfig rewritten."""
    account = f"system:serviceaccount:{namespace}:{host_access.account_name(hostname)}"
    return token.life is not None and token.life.subject == account

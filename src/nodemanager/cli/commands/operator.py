"""`nodemanager operator`: decides everything that concerns more than one host. Unprivileged."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import click

from nodemanager import __version__
from nodemanager.cli.settings import connect, logs
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport, Request, Response, Transport
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly
from nodemanager.controllers.assembly import Dependencies, Operator
from nodemanager.host.process import runner
from nodemanager.kube import errors
from nodemanager.runtime import metrics, probes, process_metrics
from nodemanager.runtime.manager import StopTimedOut

log = logging.getLogger("nodemanager.operator")
SIZES: Final = (64, 256, 1024, 4096, 16384, 65536, 262144, 1048576)
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of the operator."""

    metrics_address: str
    probe_address: str
    leader_elect: bool


@click.command(
    epilog="""\b
Examples:
  nodemanager operator                              the current context of your kubeconfig
  nodemanager operator --no-leader-elect            the only one, no lease needed
  nodemanager operator --metrics-bind-address 0     no metrics
""",
)
@connect.options(namespaced=True)
@click.option("--metrics-bind-address", default=":8082", show_default=True, metavar="ADDRESS",
              help="Where to serve /metrics; ':8082' is loopback only, '0' is nowhere.")  # fmt: skip
@click.option("--health-probe-bind-address", default=":8083", show_default=True, metavar="ADDRESS",
              help="Where to serve /healthz and /readyz; '0' is nowhere.")  # fmt: skip
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True,
              help="Work only while holding the lease, so that several may run.")  # fmt: skip
@logs.LEVEL_OPTION
@click.option("--log-format", type=click.Choice(logs.FORMATS), default="text", show_default=True,
              help="Lines for people, or for a collector.")  # fmt: skip
def command(
    settings: connect.Settings,
    metrics_bind_address: str,
    health_probe_bind_address: str,
    leader_elect: bool,
    log_level: str,
    log_format: str,
) -> None:
    """Run the control plane: roll up what the hosts report, and let them read what they need.

    Each host may read the Secrets and ConfigMaps that its ConfigSets refer to, and no other.

    Runs until it is told to stop (Ctrl-C or SIGTERM). One that leads and loses its lease, because the API is
    gone for long, ends with an error, to be started again by whoever started it.
    """
    logs.configure(log_level.upper(), log_format)
    options = Options(metrics_bind_address, health_probe_bind_address, leader_elect)
    asyncio.run(run(settings, options))


async def run(settings: connect.Settings, options: Options) -> None:
    """Wire the operator together and run it."""
    registry = metrics.Registry()
    process_metrics.register(registry)
    config = connect.client_config(settings)
    transport = _Measured(HttpTransport(config), registry, config.server)
    client = Client(transport, observe=_request_counter(registry, config.server))
    try:
        await _check_kinds(client, settings.namespace)
        given = Dependencies(client, settings.namespace, registry, runner.companion, options.leader_elect)
        operator = assembly.assemble(given)
        _add_servers(operator, options, registry)
        log.info("nodemanager %s operator, namespace %s, %s", __version__, settings.namespace, config.source)
        await operator.manager.run(install_signals=True)
    except StopTimedOut as error:
        log.critical("%s", error)
        os._exit(1)  # the event loop would wait for the part that does not end
    finally:
        await client.close()


def _add_servers(operator: Operator, options: Options, registry: metrics.Registry) -> None:
    manager = operator.manager
    if address := probes.parse_address(options.metrics_address):
        manager.add_server(probes.ProbeServer("metrics", address, probes.Routes(metrics=registry)))
    if address := probes.parse_address(options.probe_address):
        routes = probes.Routes(health=operator.health, readiness={"manager": manager.not_ready})
        manager.add_server(probes.ProbeServer("health probes", address, routes))


async def _check_kinds(client: Client, namespace: str) -> None:
    """Fail early and clearly where waiting would not help: our kinds are not there."""
    for resource in assembly.own_kinds():
        try:
            await client.page(resource.untyped(), Selection(namespace), limit=1)
        except errors.NotFound as error:
            raise errors.ConfigError(
                f"cannot run the operator: the cluster does not know {resource.qualified_name};"
                " install our kinds first: nodemanager crds --install"
            ) from error
        except errors.TransportError as error:
            log.warning("%s; going on, the API may come back", error)
            return


class _Measured:
    """A transport that counts the bytes of what is sent."""

    def __init__(self, inner: Transport, registry: metrics.Registry, server: str) -> None:
        self._inner = inner
        self._host = server.partition("://")[2]
        self._bytes = registry.histogram(
            "rest_client_request_size_bytes", "Bodies of requests to the API.", ("verb", "host"), SIZES
        )

    async def send(self, request: Request) -> Response:
        self._bytes.labels(request.method, self._host).observe(len(request.body))
        return await self._inner.send(request)

    async def reauthenticate(self) -> bool:
        return await self._inner.reauthenticate()

    async def close(self) -> None:
        await self._inner.close()


def _request_counter(registry: metrics.Registry, server: str) -> Callable[[str, str, float], None]:
    host = server.partition("://")[2]
    total = registry.counter(
        "rest_client_requests_total", "Requests to the API by answer.", ("code", "method", "host")
    )
    seconds = registry.histogram(
        "rest_client_request_duration_seconds", "Time to the header of the answer.", ("verb", "host")
    )

    def observe(method: str, code: str, duration: float) -> None:
        total.labels(code, method, host).inc()
        seconds.labels(method, host).observe(duration)

    return observe

"""`nodemanager operator`: decides everything that concerns more than one host. Unprivileged."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import click

from nodemanager import __version__
from nodemanager.cli.settings import connect, logs, operator_account
from nodemanager.cli.settings.log_options import log_options
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport, Request, Response, Transport
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly
from nodemanager.controllers.assembly import Dependencies, Operator
from nodemanager.controllers.registration import Entry
from nodemanager.fleet.audit.settings import AuditSettings
from nodemanager.host.process import allocator, runner
from nodemanager.kube import errors
from nodemanager.runtime import metrics, probes, process_metrics, unelected_lease
from nodemanager.runtime.manager import PartFailed, StopTimedOut
from nodemanager.runtime.parts import LeadershipLost
from nodemanager.runtime.unelected_lease import UnelectedLease

YOUNG: Final = 50_000
"""How many new objects there may be before Python looks for cycles: the static program begins with more."""
log = logging.getLogger("nodemanager.operator")
CHECK_SECONDS = 10.0
"""How long the first question to the API may take; its caches then wait as long as it takes."""
_OUTAGES = errors.TooManyRequests, errors.InternalError, errors.ServiceUnavailable, errors.ServerTimeout
"""Answers of an API that is not well, as while it starts."""
SIZES: Final = (64, 256, 1024, 4096, 16384, 65536, 262144, 1048576)
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of the operator."""

    metrics_address: str
    probe_address: str
    leader_elect: bool
    audit: AuditSettings = field(default_factory=AuditSettings)
    edge: bool = False
    """Look at edge sites, too."""
    as_itself: bool = False
    """Be the operator's account to the API, with all rights: for who has these themselves."""


@click.command(
    epilog="""\b
Examples:
  nodemanager operator                              the current context of your kubeconfig
  nodemanager operator --no-leader-elect            the only one, works without the lease
  nodemanager operator --metrics-bind-address 0     no metrics
  nodemanager operator --audit-export /var/lib/nodemanager/audit
  AWS_REGION=eu-central-1 nodemanager operator --audit-export s3://evidence/prod
""",
)
@connect.options(namespaced=True)
@click.option("--metrics-bind-address", default=":8082", show_default=True, metavar="ADDRESS",
              help="Where to serve /metrics; ':8082' is loopback only, '0' is nowhere.")  # fmt: skip
@click.option("--health-probe-bind-address", default=":8083", show_default=True, metavar="ADDRESS",
              help="Where to serve /healthz and /readyz; '0' is nowhere.")  # fmt: skip
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True,
              help="Work only while holding the lease, so that several may run.")  # fmt: skip
@log_options
@click.option("--edge", is_flag=True,
              help="Look at edge sites (EdgeClusters), too: config/rbac/operator-edge.yaml.")  # fmt: skip
@logs.LEVEL_OPTION
@click.option("--log-format", type=click.Choice(logs.FORMATS), default="text", show_default=True,
              help="Lines for people, or for a collector.")  # fmt: skip
def command(
    settings: connect.Settings,
    metrics_bind_address: str,
    health_probe_bind_address: str,
    leader_elect: bool,
    edge: bool,
    log_level: str,
    log_format: str,
    audit: AuditSettings,
) -> None:
    """Run the control plane: roll up what the hosts report, and let them read what they need.

    Each host may read the Secrets and ConfigMaps that its ConfigSets refer to, and no other.

    Runs until it is told to stop (Ctrl-C or SIGTERM), also across outages of the API: it waits, /readyz says
    for what, and where it has lost its lease meanwhile it stops its work and stands for election again.
    """
    allocator.keep_little()
    logs.configure(log_level.upper(), log_format)
    options = Options(metrics_bind_address, health_probe_bind_address, leader_elect, audit, edge)
    asyncio.run(run(settings, options))


async def run(settings: connect.Settings, options: Options) -> None:
    """Run the operator, and another one in its place whenever it has lost the lease.

    Nothing is carried over: what the old one knew may not hold under the leader in between.
    """
    while True:
        try:
            await _run_until_deposed(settings, options)
        except PartFailed as error:
            if not isinstance(error.__cause__, LeadershipLost):
                raise
            log.warning("all work has ended; standing for election again")
        else:
            return


async def _run_until_deposed(settings: connect.Settings, options: Options) -> None:
    """Wire the operator together and run it."""
    registry = metrics.Registry()
    process_metrics.register(registry)
    config = connect.client_config(settings)
    if options.as_itself:
        config = operator_account.as_itself(config, settings.namespace)
    requests = _Requests(registry, config.server)
    transport = _Measured(HttpTransport(config), registry, config.server)
    client = Client(transport, observe=requests.observe)
    try:
        entries = assembly.entries_for(edge=options.edge)
        await _check_kinds(client, settings.namespace, entries)
        given = Dependencies(
            client, settings.namespace, registry, runner.companion, options.leader_elect, options.audit
        )
        operator = assembly.assemble(given, entries)
        _add_servers(operator, options, registry, {"api": requests.unanswered})
        if not options.leader_elect:  # else nobody could tell that it is there, and judges who is alive
            sign = assembly.lease(client, settings.namespace, unelected_lease.TIMINGS)
            operator.manager.add(UnelectedLease(sign))
        log.info("nodemanager %s operator, namespace %s, %s", __version__, settings.namespace, config.source)
        gc.freeze()  # what is imported stays: full collections that skip it are several times shorter
        gc.set_threshold(min(gc.get_threshold()[0], YOUNG))
        await operator.manager.run(install_signals=True)
    except StopTimedOut as error:
        log.critical("%s", error)
        os._exit(1)  # the event loop would wait for the part that does not end
    finally:
        await client.close()


def _add_servers(
    operator: Operator, options: Options, registry: metrics.Registry, readiness: probes.Checks
) -> None:
    manager = operator.manager
    if address := probes.parse_address(options.metrics_address):
        manager.add_server(probes.ProbeServer("metrics", address, probes.Routes(metrics=registry)))
    if address := probes.parse_address(options.probe_address):
        routes = probes.Routes(health=operator.health, readiness={"manager": manager.not_ready, **readiness})
        manager.add_server(probes.ProbeServer("health probes", address, routes))


async def _check_kinds(client: Client, namespace: str, entries: Iterable[Entry]) -> None:
    """Fail early and clearly where waiting would not help: our kinds are not there."""
    for resource in assembly.own_kinds(entries):
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await client.page(resource.untyped(), Selection(namespace), limit=1)
        except errors.NotFound as error:
            raise errors.ConfigError(
                f"cannot run the operator: the cluster does not know {resource.qualified_name};"
                " install our kinds first: nodemanager crds --install"
            ) from error
        except (errors.TransportError, *_OUTAGES, TimeoutError) as error:
            log.warning("cannot look for our kinds: %s; waiting for the API", str(error) or "no answer")
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


class _Requests:
    """Counts requests to the API, and remembers whether the last one was answered."""

    def __init__(self, registry: metrics.Registry, server: str) -> None:
        self._host = server.partition("://")[2]
        self._total = registry.counter(
            "rest_client_requests_total", "Requests to the API by answer.", ("code", "method", "host")
        )
        self._seconds = registry.histogram(
            "rest_client_request_duration_seconds", "Time to the header of the answer.", ("verb", "host")
        )
        self._answered = True

    def observe(self, method: str, code: str, duration: float) -> None:
        """Count a request that was answered with a code, or not at all."""
        self._answered = code.isdigit()
        self._total.labels(code, method, self._host).inc()
        self._seconds.labels(method, self._host).observe(duration)

    def unanswered(self) -> str | None:
        """Return that the API is away, or None: a check for /readyz."""
        return None if self._answered else f"no answer from {self._host}"

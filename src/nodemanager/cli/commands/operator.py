"""`nodemanager operator`: decides everything that concerns more than one host. Unprivileged."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from nodemanager import __version__
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.rights import host_references
from nodemanager.cli.settings import connect, logs
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.controllers.configsets import ConfigSetRollup
from nodemanager.controllers.host_roles import HostRoles, Seen
from nodemanager.host.process import runner
from nodemanager.kube import errors, times
from nodemanager.kube.core import ROLE_BINDINGS, ROLES
from nodemanager.kube.objects import ObjectKey
from nodemanager.rendering import limits
from nodemanager.rendering.renderer import Renderer
from nodemanager.runtime import metrics, probes, process_metrics
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.controller import Controller
from nodemanager.runtime.election import LeaderElector
from nodemanager.runtime.lease import LeaseLock
from nodemanager.runtime.manager import Manager, StopTimedOut
from nodemanager.runtime.queue import WorkQueue

log = logging.getLogger("nodemanager.operator")
LEASE = "nodemanager-operator"
STUCK_SECONDS = 600.0


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
    client = Client(HttpTransport(config), observe=_request_counter(registry, config.server))
    try:
        await _check_kinds(client, settings.namespace)
        manager = assemble(client, settings.namespace, options, registry)
        log.info("nodemanager %s operator, namespace %s, %s", __version__, settings.namespace, config.source)
        await manager.run(install_signals=True)
    except StopTimedOut as error:
        log.critical("%s", error)
        os._exit(1)  # the event loop would wait for the part that does not end
    finally:
        await client.close()


def assemble(client: Client, namespace: str, options: Options, registry: metrics.Registry) -> Manager:
    """Return a manager with all parts of the operator."""
    elector = None
    writer = client
    if options.leader_elect:
        lock = LeaseLock(client, LEASE, namespace, f"{socket.gethostname()}_{uuid.uuid4()}")
        elector = LeaderElector(lock)
        writer = client.guarded(lock.check)
        status = registry.gauge("leader_election_master_status", "1 while this process leads.", ("name",))
        status.labels(LEASE).set_function(lambda: float(lock.held))
    manager = Manager(log=log, elector=elector)
    here = Selection(namespace)
    config_sets = Cache(client, CONFIG_SETS, here)
    nodes = Cache(client, MANAGED_NODES, here)
    queue: WorkQueue[ObjectKey] = WorkQueue("configset", metrics=registry)
    rollup = ConfigSetRollup(writer, config_sets, nodes, queue, _now)
    controller = Controller("configset", rollup.reconcile, queue=queue, metrics=registry, log=log, timeout=60)
    ours = Selection(namespace, labels=host_references.LABEL)
    roles, bindings = Cache(client, ROLES, ours), Cache(client, ROLE_BINDINGS, ours)
    host_queue: WorkQueue[ObjectKey] = WorkQueue("hostrole", metrics=registry)
    renderer = Renderer(runner.companion, limits.NAMES)
    keeper = HostRoles(writer, Seen(config_sets, nodes, roles, bindings), host_queue, renderer)
    host_roles = Controller(
        "hostrole", keeper.reconcile, queue=host_queue, metrics=registry, log=log, timeout=60
    )
    manager.add_cache(config_sets, nodes, roles, bindings)
    manager.add_server(renderer)
    manager.add_leader_only(controller, host_roles)
    _add_servers(manager, options, registry, controller)
    return manager


def _add_servers(
    manager: Manager, options: Options, registry: metrics.Registry, controller: Controller
) -> None:
    checks = {"reconcile": lambda: controller.check(STUCK_SECONDS)}
    if address := probes.parse_address(options.metrics_address):
        manager.add_server(probes.ProbeServer("metrics", address, probes.Routes(metrics=registry)))
    if address := probes.parse_address(options.probe_address):
        routes = probes.Routes(health=checks, readiness={"manager": manager.not_ready})
        manager.add_server(probes.ProbeServer("health probes", address, routes))


async def _check_kinds(client: Client, namespace: str) -> None:
    """Fail early and clearly where waiting would not help: our kinds are not there."""
    for resource in (CONFIG_SETS.untyped(), MANAGED_NODES.untyped()):
        try:
            await client.page(resource, Selection(namespace), limit=1)
        except errors.NotFound as error:
            raise errors.ConfigError(
                f"cannot run the operator: the cluster does not know {resource.qualified_name};"
                " install our kinds first: nodemanager crds --install"
            ) from error
        except errors.TransportError as error:
            log.warning("%s; going on, the API may come back", error)
            return


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


def _now() -> str:
    return times.rfc3339(datetime.now(UTC))

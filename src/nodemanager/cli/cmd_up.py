"""`nodemanager up`: everything that exists so far in one process, on a cluster or without one."""

from __future__ import annotations

import asyncio
import gc
import logging
from dataclasses import replace
from pathlib import Path

import click

from nodemanager.api import errors
from nodemanager.cli import cmd_operator, connect, logs, server_metrics
from nodemanager.cli.cmd_server import default_data_dir
from nodemanager.runtime.manager import Manager
from nodemanager.runtime.tasks import end
from nodemanager.server.embedded import EmbeddedServer, Options

log = logging.getLogger("nodemanager.up")
NEXT = """
The API is ready. In another shell:

  export KUBECONFIG={kubeconfig}
  kubectl get mn,cs -n {namespace}
  kubectl apply -n {namespace} -f examples/01-clock/

Ctrl-C stops everything; the data stays in {data}.
"""


@click.command(
    epilog="""\b
Examples:
  nodemanager up                          your cluster if you have one, otherwise a server of its own
  nodemanager up --data-dir ./data        with the data in this folder
""",
)
@connect.options(namespaced=True)
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), default=None, metavar="DIR",
              help="Where the embedded server keeps its data.")  # fmt: skip
@click.option("--bind-address", default="127.0.0.1:6443", show_default=True, metavar="HOST:PORT",
              help="Where the embedded server listens.")  # fmt: skip
def command(settings: connect.Settings, data_dir: Path | None, bind_address: str) -> None:
    """Run the operator on the current cluster, or on an embedded API where there is none.

    Nothing on this host is changed.
    """
    logs.configure("INFO", "text")
    asyncio.run(_run(settings, data_dir or default_data_dir(), bind_address))


def _has_cluster(settings: connect.Settings) -> bool:
    try:
        connect.client_config(settings)
    except errors.ConfigError:
        if settings.kubeconfig or settings.context or settings.environ.get("KUBECONFIG"):
            raise  # somebody named one: that it cannot be used is not the same as having none
        return False
    return True


async def _run(settings: connect.Settings, data_dir: Path, bind_address: str) -> None:
    # No fixed ports of its own: who wants metrics and probes runs `nodemanager operator`.
    options = cmd_operator.Options("0", "0", leader_elect=True)
    if _has_cluster(settings):
        await cmd_operator.run(settings, options)
        return
    await _run_alone(settings, data_dir, bind_address, options)


async def _run_alone(
    settings: connect.Settings, data_dir: Path, bind_address: str, options: cmd_operator.Options
) -> None:
    """Run server and operator; the server starts first and ends last."""
    host, _, port = bind_address.rpartition(":")
    options_ = Options(data_dir, host.strip("[]"), int(port), settings.namespace)
    server = EmbeddedServer(options_, server_metrics.instrument())
    manager = Manager(log=log)
    manager.add_server(server)
    gc.freeze()  # what is imported stays: full collections that skip it are several times shorter
    running = asyncio.create_task(manager.run(), name="embedded API")  # the operator takes the signals
    ready = asyncio.create_task(server.ready(), name="wait for the API")
    try:
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
            return
        click.echo(NEXT.format(kubeconfig=server.kubeconfig, namespace=settings.namespace, data=data_dir))
        await cmd_operator.run(replace(settings, kubeconfig=str(server.kubeconfig)), options)
    finally:
        await end([running, ready])

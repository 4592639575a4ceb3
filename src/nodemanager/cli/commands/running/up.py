"""`nodemanager up`: everything in one process, on a cluster or without one."""

from __future__ import annotations

import asyncio
import logging
import shlex
from dataclasses import replace
from pathlib import Path

import click

from nodemanager.agent.assembly import HostSetup
from nodemanager.agent.options import AgentOptions
from nodemanager.cli import first_touch, program
from nodemanager.cli.commands.running import agent as cmd_agent
from nodemanager.cli.commands.running import operator as cmd_operator
from nodemanager.cli.commands.running.server import default_data_dir
from nodemanager.cli.embedded import embedded_api
from nodemanager.cli.settings import connect, logs, operator_account
from nodemanager.cli.settings.addresses import endpoint_options
from nodemanager.cli.settings.host_options import host_options
from nodemanager.kube import errors
from nodemanager.runtime.manager import Manager
from nodemanager.runtime.tasks import end
from nodemanager.server.embedded import EmbeddedServer
from nodemanager.server.http.endpoint import Endpoint

log = logging.getLogger("nodemanager.up")
NEXT = """
The API is ready. In another shell:

  export KUBECONFIG={kubeconfig}
  kubectl get mn,cset -n {namespace}
  {plan}      what that would change; then
  kubectl apply -n {namespace} -f examples/01-clock/

Nothing on {host} changes unless a ConfigSet asks for it.
Ctrl-C stops everything; the data of the API stays in {data}.
"""


@click.command(
    epilog="""\b
Examples:
  nodemanager up                          your cluster if you have one, otherwise a server of its own
  nodemanager up --data-dir ./data        with the data in this folder
  nodemanager up --root ./sandbox         with a folder in place of this host
  nodemanager up --yes                    with this host, and no question
""",
)
@connect.options(namespaced=True)
@host_options
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False, resolve_path=True), default=None,
              metavar="DIR",
              help="Where the embedded server keeps its data. Default: as `nodemanager server`.")  # fmt: skip
@endpoint_options
@click.option("-y", "--yes", is_flag=True,
              help="Ask nothing. Else root at a terminal is asked once, before this machine is"
              " managed.")  # fmt: skip
@logs.LEVEL_OPTION
def command(
    settings: connect.Settings, root: str, hostname: str, data_dir: Path | None, endpoint: Endpoint,
    yes: bool, log_level: str,
) -> None:  # fmt: skip
    """Run operator and agent on the current cluster, or on an embedded API where there is none.

    Nothing on this host is changed unless a ConfigSet asks for it.
    """
    first_touch.tell_and_ask(root, hostname, agreed=yes)
    logs.configure(log_level.upper(), "text")
    # They have no fixed ports: for metrics and probes, run `nodemanager operator` and `agent`.
    agent = AgentOptions(settings.namespace, HostSetup(root, hostname), "0", "0")
    asyncio.run(_run(settings, agent, data_dir or default_data_dir(), endpoint))


def _has_cluster(settings: connect.Settings) -> bool:
    try:
        connect.client_config(settings)
    except errors.ConfigError:
        if settings.kubeconfig or settings.context or settings.environ.get("KUBECONFIG"):
            raise  # the user named one: an unusable one is not the same as none
        return False
    return True


async def _run(settings: connect.Settings, agent: AgentOptions, data_dir: Path, endpoint: Endpoint) -> None:
    if _has_cluster(settings):
        await _run_both(settings, agent, as_itself=await operator_account.may_be_itself(settings))
        return
    options = embedded_api.options(data_dir, endpoint, settings.namespace)
    server = EmbeddedServer(options)
    manager = Manager(log=log)
    manager.add_server(server)
    running = asyncio.create_task(manager.run(), name="embedded API")  # the operator takes the signals
    ready = asyncio.create_task(server.ready(), name="wait for the API")
    try:
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
            return
        known = {"kubeconfig": server.kubeconfig, "namespace": settings.namespace, "data": data_dir}
        click.echo(NEXT.format(**_host_words(agent.host), **known))
        await _run_both(replace(settings, kubeconfig=str(server.kubeconfig)), agent, as_itself=True)
    finally:
        await end([running, ready])


def _host_words(host: HostSetup) -> dict[str, str]:
    """Return how to plan for the host that is managed, and what to call it."""
    root = str(Path(host.root).resolve())  # whole: the other shell may be elsewhere
    plan = [program.current(), "plan", "-f", "examples/01-clock/"]
    plan += ["--root", root] if root != "/" else []
    plan += ["--hostname", host.hostname] if host.hostname else []
    return {"plan": shlex.join(plan), "host": "this host" if root == "/" else root}


async def _run_both(settings: connect.Settings, agent: AgentOptions, *, as_itself: bool) -> None:
    """Run operator and agent; whichever ends takes the other along."""
    options = cmd_operator.Options("0", "0", leader_elect=True, as_itself=as_itself)
    operator = cmd_operator.run(settings, options)
    parts = [
        asyncio.create_task(operator, name="operator"),
        asyncio.create_task(cmd_agent.run(settings, agent, signals=False), name="agent"),
    ]
    try:
        done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for part in done:
            part.result()
    finally:
        await end(parts)

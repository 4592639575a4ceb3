"""`nodemanager demo`: the whole idea in a few seconds, in a folder that stands for a host."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from nodemanager.agent import service
from nodemanager.agent.assembly import HostSetup
from nodemanager.agent.options import AgentOptions
from nodemanager.agent.parts import Agent
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.cli import program
from nodemanager.cli.embedded import embedded_api
from nodemanager.cli.settings import connect, logs
from nodemanager.cli.views import output
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.host.files.bucket import Bucket
from nodemanager.kube import conditions
from nodemanager.kube.core import EVENTS
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.tasks import end
from nodemanager.server.embedded import EmbeddedServer
from nodemanager.server.http.endpoint import Endpoint

HOST: Final = "demo"
NAMESPACE: Final = "nodemanager"
PATIENCE = 60.0
"""Seconds that one step may take: much more than it does, for machines that are busy with other things."""


@contextlib.asynccontextmanager
async def waiting_for(what: str) -> AsyncIterator[None]:
    """Wait in here for something; if it does not come, say what it was and what to do."""
    try:
        async with asyncio.timeout(PATIENCE) as scope:
            yield
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise click.ClickException(
            f"cannot go on with the demo: {what} did not come within {PATIENCE:g} s; if this machine is "
            "busy, try again later, otherwise run nodemanager --debug demo and report what it prints"
        ) from error


def config_set(greeting: str) -> dict[str, Any]:
    """Return what the demo declares; files belong to the present user, so that root is not needed."""
    owner = {"owner": str(os.getuid()), "group": str(os.getgid())}
    template = "{{ range (ds `data`).Nodes }}{{ .Name }} runs agent {{ .Status.AgentVersion }}\n{{ end }}"
    return {
        "metadata": {"name": "welcome", "namespace": NAMESPACE, "labels": {"kubernetes.io/hostname": HOST}},
        "spec": {
            "files": [
                {"path": "/etc/motd", "content": f"{greeting}\n", "mode": "0644", **owner},
                {"path": "/etc/fleet.txt", "template": template, **owner},
                {"path": "/etc/app", "ensure": "directory", "purge": True, **owner},
            ]
        },
    }


@dataclass(slots=True)
class DemoStage:
    """Everything that plays a part."""

    root: Path
    client: Client
    agent: Agent
    style: output.Style

    def say(self, text: str) -> None:
        """Tell what happens next."""
        click.echo(self.style.paint(f"\n{text}", "cyan"))

    def show(self, command: str, shown: str) -> None:
        """Show a command and what it prints."""
        click.echo(f"  $ {command}")
        for line in shown.rstrip("\n").splitlines():
            click.echo(f"  {line}")

    async def until(self, what: str, holds: Callable[[ManagedNode], bool]) -> ManagedNode:
        """Wait until the host reports something, which is called `what`."""
        async with waiting_for(what):
            while True:
                with contextlib.suppress(LookupError):
                    node = await self.node()
                    if holds(node):
                        return node
                await asyncio.sleep(0.05)

    async def events(self, reason: str, count: int) -> list[str]:
        """Wait for so many events with a reason; they are sent in the background."""
        async with waiting_for(f"{count} events {reason}"):
            while True:
                found = (await self.client.list(EVENTS, Selection(NAMESPACE))).items
                said = [f"{one.reason}: {one.message}" for one in found if one.reason == reason]
                if len(said) >= count:
                    return said
                await asyncio.sleep(0.05)

    async def node(self) -> ManagedNode:
        """Return the host's report."""
        found = (await self.client.list(MANAGED_NODES, Selection(NAMESPACE))).items
        return next(one for one in found if one.metadata.name == HOST) if found else ManagedNode()


@click.command(
    epilog="""\b
Examples:
  nodemanager demo              about two seconds, and nothing is left of it
  nodemanager demo --keep       look at the folder afterwards
""",
)
@click.option("--keep", is_flag=True, help="Leave the folder in place, and print where it is.")
def command(keep: bool) -> None:
    """Show in a few seconds what nodemanager does: declare, converge, drift, repair.

    A folder stands for a host; nothing outside of it is touched, and it is gone afterwards.
    """
    logs.configure("ERROR", "text")
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="nodemanager-demo-"))
    try:
        asyncio.run(_play(folder))
    finally:
        if not keep:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)
    where = f"the folder is {folder}" if keep else "the folder is gone"
    click.echo(f"\nThat took {time.monotonic() - began:.1f} s; {where}. Next: {program.current()} up --help")


async def _play(folder: Path) -> None:
    async with _stage(folder) as stage:
        await _declare(stage)
        await _drift(stage)
        await _change(stage)


@contextlib.asynccontextmanager
async def _stage(folder: Path) -> AsyncIterator[DemoStage]:
    """Start an API on SQLite, and an agent whose host is a folder."""
    root = folder / "host"
    (root / "etc" / "app").mkdir(parents=True)
    server = EmbeddedServer(embedded_api.options(folder / "api", Endpoint(port=0)))
    tasks = [asyncio.create_task(server.run(), name="embedded API")]
    try:
        async with waiting_for("the API"):
            await server.ready()
        async with connect.connect(connect.Settings(kubeconfig=str(server.kubeconfig))) as client:
            options = AgentOptions(NAMESPACE, HostSetup(str(root), HOST), "0", "0")
            agent = service.build(client, options, Registry())
            tasks.append(asyncio.create_task(agent.manager.run(), name="agent"))
            try:
                yield DemoStage(root, client, agent, output.Style.of(sys.stdout, os.environ))
            finally:
                await end(tasks[1:])
                agent.close()
    finally:
        await end(tasks)


async def _declare(stage: DemoStage) -> None:
    stage.say("1. A Kubernetes API on SQLite is up, and an agent manages a folder as if it were a host.")
    node = await stage.until(
        "the first report of the agent",
        lambda one: conditions.is_true(one.status.conditions, conditions.READY),
    )
    stage.show("kubectl get managednode", f"{node.metadata.name}: Ready, kernel {node.status.release}")
    stage.say("2. Somebody declares what the host shall have.")
    await stage.client.create(CONFIG_SETS, config_set("Welcome to the fleet"), NAMESPACE)
    await stage.until(
        "the files that were declared",
        lambda one: any(each.name == "welcome" for each in one.status.configsets),
    )
    stage.show("cat /etc/motd /etc/fleet.txt", _read(stage, "motd") + _read(stage, "fleet.txt"))


async def _drift(stage: DemoStage) -> None:
    stage.say("3. At 2 a.m. somebody edits the file by hand, and leaves another one behind.")
    (stage.root / "etc/motd").write_text("quick fix, will clean up later\n")
    (stage.root / "etc/app/leftover.conf").write_text("debug=1\n")
    stage.show("cat /etc/motd; ls /etc/app", _read(stage, "motd") + _names(stage))
    began = time.monotonic()
    if stage.agent.host_pass.host_state.shortfalls != ():  # nobody tells the agent here: as `kill -HUP` does
        stage.agent.requests.pass_now()
    async with waiting_for("the repair of the file"):
        while "quick fix" in _read(stage, "motd") or _names(stage):  # noqa: ASYNC110 - somebody else's files
            await asyncio.sleep(0.001)
    took = (time.monotonic() - began) * 1000
    stage.say(f"4. The host tells the agent, which puts it back ({took:.0f} ms later), and says so.")
    stage.show("cat /etc/motd; ls /etc/app", _read(stage, "motd") + (_names(stage) or "(empty)"))
    stage.show("kubectl get events", "\n".join(await stage.events("DriftRepaired", 2)))
    stage.say("5. Nothing is lost: what was replaced is kept.")
    kept = Bucket(stage.agent.managed_host.tree).backups()
    stage.show("nodemanager backups", "\n".join(f"{one.digest[:16]}  {one.meta.path}" for one in kept))


async def _change(stage: DemoStage) -> None:
    stage.say("6. A change of the declaration reaches the host at once.")
    began = time.monotonic()
    spec = config_set("Welcome, and mind the gap")["spec"]
    await stage.client.patch(CONFIG_SETS, "welcome", NAMESPACE, MergePatch({"spec": spec}))
    async with waiting_for("the changed file"):
        while "mind the gap" not in _read(stage, "motd"):  # noqa: ASYNC110 - it is somebody else's file
            await asyncio.sleep(0.005)
    stage.show("cat /etc/motd", _read(stage, "motd"))
    click.echo(f"  ({(time.monotonic() - began) * 1000:.0f} ms after kubectl apply)")


def _read(stage: DemoStage, name: str) -> str:
    return (stage.root / "etc" / name).read_text(encoding="utf-8")


def _names(stage: DemoStage) -> str:
    return "\n".join(sorted(path.name for path in (stage.root / "etc/app").iterdir()))

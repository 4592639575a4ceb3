"""`nodemanager install-service`: has the init system of this host start the agent, operator or server."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence

import click

from nodemanager.cli.settings.host_options import ROOT
from nodemanager.host.base import HostError, ServiceManager
from nodemanager.host.files.tree import Tree
from nodemanager.host.init import executable
from nodemanager.host.init.installing import Installer, ServiceSettings
from nodemanager.host.init.systems import AGENT, SERVICES, SYSTEMS, InstalledService, System, systems_of
from nodemanager.host.inventory import identity
from nodemanager.host.process import environment
from nodemanager.host.self_update import guard
from nodemanager.host.services import choose

START_DELAY = 1.0
"""Seconds after which it is looked whether a service that was started still runs."""
_FLAG = re.compile(r"[A-Za-z0-9/._+@:=,*\[\]-]+")
"""What systemd and shells hand on as one word, and as it is."""


@click.command(
    epilog="""\b
Examples:
  nodemanager install-service                          for the init system that is found here
  nodemanager install-service -- --log-level DEBUG     with flags of the agent
  nodemanager install-service --print                  only show what would be written
  nodemanager install-service --root /mnt/image        into an image, which starts it when it is booted
  nodemanager install-service --uninstall              stop it, and take the service away again
  nodemanager install-service operator                 the operator, as a user of its own
  nodemanager install-service server -- --bind-address 0.0.0.0:6443 --advertise-address api.example.org
""",
)
@click.argument("words", nargs=-1, metavar="[agent|operator|server] [-- FLAGS]")
@click.option("--exec", "program", default="", metavar="PATH",
              help="The program to start. Default: this one. It has to be where it stays, such as"
              " /usr/local/bin/nodemanager, and nobody but root may change it.")  # fmt: skip
@click.option("--init", type=click.Choice(list(SYSTEMS)),
              help="The init system. Default: what runs here, or is installed below --root.")  # fmt: skip
@click.option("--no-start", is_flag=True, help="Have it started at the next boot, not now.")
@click.option("--print", "only_print", is_flag=True, help="Print the service file and change nothing.")
@click.option("--uninstall", is_flag=True,
              help="Stop and remove the service; configuration, state and everything that the agent manages"
              " stay.")  # fmt: skip
@click.option("--force", is_flag=True,
              help="Replace a service file that somebody else wrote; start a program anywhere.")  # fmt: skip
@ROOT
def command(words: Sequence[str], init: str | None, root: str, program: str, **options: bool) -> None:
    """Have this host start the agent (or operator, or server) now, at every boot, and whenever it ends.

    Finds out whether that is systemd, OpenRC or FreeBSD's rc.d, writes the one file that it wants, enables
    the service and starts it. Run it again at any time, as after an upgrade: what is as it should be stays,
    and a running agent is restarted only if its service changed. What the agent is running then (packages,
    executions) goes on.

    Flags of the agent are kept as variables, in /etc/default/nodemanager (OpenRC: /etc/conf.d/nodemanager,
    FreeBSD: /usr/local/etc/nodemanager/environment), where they can be edited; other lines of that file stay.

    Without a kubeconfig (nodemanager bootstrap) the service is installed and not started.

    Operator and server run as users of their own, with no rights on this host; their flags are kept as
    NODEMANAGER_FLAGS in such a file of their own. The operator's kubeconfig is
    /etc/nodemanager/operator.kubeconfig; the server keeps its data in /var/lib/nodemanager-server.
    """
    service, flags = _service(words)
    tree = Tree(root)
    try:
        system = _system(tree, init, service)
        variables = {} if options["uninstall"] else _variables(service, flags)
        kubeconfig = variables.pop("NODEMANAGER_KUBECONFIG", system.kubeconfig)
        start, force = not options["no_start"], options["force"]
        settings = ServiceSettings(program or executable.own_path(), kubeconfig, variables, start, force)
        if options["only_print"]:
            click.echo(system.unit(settings.executable, settings.kubeconfig), nl=False)
            return
        if tree.root == "/" and os.geteuid() != 0:
            raise HostError("cannot change services: only root can; run it with sudo, or with --print")
        installer = Installer(tree, system, _manager(tree, system), tree.root == "/", click.echo)
        asyncio.run(_uninstall(installer, force) if options["uninstall"] else installer.install(settings))
    finally:
        tree.close()


async def _uninstall(installer: Installer, force: bool) -> None:
    """Remove the service, and with the agent the guard of its upgrades."""
    system = installer.system
    await installer.uninstall(force=force)
    if system.service.is_agent and await guard.remove(installer.tree, system.name, installer.manager):
        click.echo(f"removed {installer.tree.outside(guard.SERVICES[system.name].path)}")


def agent_variables(flags: Sequence[str]) -> dict[str, str]:
    """Return flags of the agent as the variables that mean the same; a wrong one ends with what is wrong."""
    from nodemanager.cli.commands.running.agent import command as agent

    context = agent.make_context("nodemanager agent", list(flags))  # says what is wrong, if something is
    given, _, _ = agent.make_parser(context).parse_args(list(flags))
    found = {}
    for param in agent.params:
        if param.name not in given:
            continue
        if not isinstance(param.envvar, str):
            raise click.UsageError(f"{param.opts[0]} cannot be kept: it is not for a service")
        found[param.envvar] = str(given[param.name])
    return found


def _service(words: Sequence[str]) -> tuple[InstalledService, Sequence[str]]:
    """Return which service is meant, and its flags; the agent where none is named."""
    if words and words[0] in SERVICES:
        return SERVICES[words[0]], words[1:]
    return AGENT, words


def _variables(service: InstalledService, flags: Sequence[str]) -> dict[str, str]:
    """Return flags as variables: of the agent one each, of the others the one that their unit hands on.

    A wrong flag, and a program without the embedded API, end with what is wrong.
    """
    if service.is_agent:
        return agent_variables(flags)
    from nodemanager.cli.main import cli

    target = cli.get_command(click.get_current_context(), service.command)
    if target is None:
        raise HostError(f"cannot find the command {service.command}")
    context = target.make_context(f"nodemanager {service.command}", list(flags))
    for name in ("kubeconfig", "data_dir"):
        if context.params.get(name):
            raise click.UsageError(f"--{name.replace('_', '-')} is fixed in a service; see --print")
    for flag in flags:
        if not _FLAG.fullmatch(flag):
            raise click.UsageError(f"{flag!r} cannot be kept: a service takes no blanks, quotes and the like")
    return {"NODEMANAGER_FLAGS": " ".join(flags)} if flags else {}


def _system(tree: Tree, init: str | None, service: InstalledService) -> System:
    systems = systems_of(service)
    if init is not None:
        return systems[init]
    found = choose.find(tree, os.uname().sysname.lower())
    if found is None:
        raise HostError(
            f"cannot tell how to start a service in {tree.root}: there is no systemd, no OpenRC and no rc.d;"
            f" have your init system run: nodemanager {_by_hand(service)}"
        )
    return systems[found.name]


def _by_hand(service: InstalledService) -> str:
    return "--kubeconfig /etc/nodemanager/kubeconfig" if service.is_agent else service.command


def _manager(tree: Tree, system: System) -> ServiceManager | None:
    """Return what runs services there, if it is the system that was asked for."""
    found = choose.find(tree, os.uname().sysname.lower())
    if found is None or found.name != system.name:
        return None
    run = environment.host_runner(tree.root)
    return choose.choose(tree, identity.identify(tree), run, START_DELAY)

"""Says which host an agent is about to manage, and asks root once before that is this very machine."""

from __future__ import annotations

import os
import sys

import click

from nodemanager.cli import program
from nodemanager.cli.views import output
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import identity
from nodemanager.host.state import state_files
from nodemanager.host.state.journal import STATE

AGREED = f"{STATE}/agreed"
"""A file that exists once the user has agreed."""
INSTEAD = 'To try it on a folder instead: {up} --root DIR, or make run ARGS="--root DIR"'


def tell_and_ask(root: str, hostname: str, *, agreed: bool) -> None:
    """Show what will be managed, and ask; without a yes the command ends. `agreed`: do not ask."""
    tree = Tree(root)
    try:
        name = identity.identify(tree, hostname).hostname
        instead = INSTEAD.format(up=f"{program.current()} up")
        if not tree.running:
            where = f"the folder {tree.root} as if it were a host called {name}"
            click.echo(output.one_line(f"The agent manages {where}, and changes nothing outside of it."))
            return
        who = "as root" if os.geteuid() == 0 else "but without root, so it can change little"
        click.echo(output.one_line(f"The agent manages this machine, {name}, {who}. {instead}"))
        if not agreed and _is_asked(tree):
            _ask(tree, name, instead)
    finally:
        tree.close()


def _is_asked(tree: Tree) -> bool:
    """Root at a terminal is asked, once; a script gets what it asked for."""
    if os.geteuid() != 0 or not sys.stdin.isatty() or not sys.stdout.isatty():
        return False
    return state_files.read(tree, AGREED, 1) is None


def _ask(tree: Tree, name: str, instead: str) -> None:
    if not click.confirm(f"Shall what ConfigSets declare for {name} be done to this machine?"):
        raise click.ClickException(f"nothing was started. {instead}")
    state_files.prepare_folder(tree, STATE)
    state_files.write(tree, AGREED, b"")

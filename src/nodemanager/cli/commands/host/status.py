"""`nodemanager status`: how this host is doing, as its agent sees it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from nodemanager.agent.report import status_sources
from nodemanager.agent.report.local_status import Owed, Snapshot
from nodemanager.cli import status_client
from nodemanager.cli.settings.host_options import ROOT
from nodemanager.cli.views import forms, output, status_view
from nodemanager.host.files.bucket import Bucket
from nodemanager.host.files.tree import Tree
from nodemanager.host.state.journal import Journal

EXIT_DOES_NOT_HOLD: Final = 2
REDRAW_SECONDS: Final = 1.0
"""How often a terminal is drawn again although nothing happened: ages grow."""
HOME: Final = "\x1b[H\x1b[J"
"""Moves to the top left of a terminal, and empties what is below."""


@click.command(
    epilog="""\b
Examples:
  nodemanager status                       how it goes
  nodemanager status --watch               and how that changes, until Ctrl-C
  nodemanager status -o json | jq .faults  what does not hold, for programs
  nodemanager status || mail -s ... root   in a cron job
\b
Exit codes:
  0  everything that is declared holds
  1  the agent cannot be asked: it does not run, hangs, or you are not root
  2  something does not hold, or nobody knows yet (also: wrong usage)
\b
Of all hosts, from anywhere: nodemanager get mn, nodemanager describe mn NAME
""",
)
@forms.option("table")
@click.option("-w", "--watch", is_flag=True,
              help="Stay and show every change at once: in place on a terminal, else one after the"
              " other.")  # fmt: skip
@ROOT
@click.pass_context
def command(ctx: click.Context, form: str, watch: bool, root: str) -> None:
    """Tell how this host is doing, as its agent sees it: what is managed, what drifted, who can be reached.

    Asks the running agent, which needs no API for the answer; only root may.
    """
    show = _Printer(form, live=watch and form == "table" and sys.stdout.isatty())
    try:
        if watch:
            _watch(root, show)
        else:
            found = status_client.ask(root)
            show(found)
            ctx.exit(EXIT_DOES_NOT_HOLD if found.faults() else 0)
    except status_client.NotRunning as error:
        _tell_from_disk(root, form)
        raise click.ClickException(_silence(root, error)) from error


def _silence(root: str, error: status_client.NotRunning) -> str:
    """Return why no agent answers, and what to do."""
    if not Path(root, "run").is_dir():
        return (
            f"cannot ask the agent: below {root} there is no folder in which it could answer; if it runs, "
            f"mkdir {Path(root, 'run')} and start it again, or ask the API: nodemanager get mn"
        )
    from nodemanager.cli.settings import connect  # a client is slow to import, and not needed otherwise

    joined = root != "/" or connect.host_kubeconfig_path().exists()
    start = "with systemctl start nodemanager or as your system does"
    join = "after nodemanager bootstrap, with nodemanager install-service (a package brings that along)"
    return (
        f"the agent of this host does not run: {error}; start it, {start if joined else join}."
        " Of other hosts: nodemanager get mn"
    )


def _watch(root: str, show: Callable[[Snapshot], None]) -> None:
    """Show every change until interrupted; an agent that is restarted meanwhile is waited for."""
    last: Snapshot | None = None
    while True:
        try:
            for found in status_client.follow(root, REDRAW_SECONDS):
                if found is not None:
                    show(last := found)
                elif last is not None and sys.stdout.isatty():
                    show(last)
        except status_client.NotRunning as error:
            if last is None:
                raise
            click.echo(output.one_line(f"{error}; waiting for it to come back"), err=True)
            last = _await_return(root)
            show(last)


def _await_return(root: str) -> Snapshot:
    import time  # the agent is gone, and nothing tells when its socket is there again

    while True:
        try:
            return status_client.ask(root)
        except status_client.NotRunning:
            time.sleep(REDRAW_SECONDS)  # noqa: TID251 - no event loop here, and Ctrl-C ends it


class _Printer:
    """Prints snapshots one after the other, or in place."""

    def __init__(self, form: str, *, live: bool) -> None:
        self._form = form
        self._live = live
        self._begun = False

    def __call__(self, snapshot: Snapshot) -> None:
        """Print one."""
        if self._form == "table":
            shown = status_view.text(snapshot, _now(), _style())
            if sys.stdout.isatty():
                shown = status_view.fitting(shown, output.terminal_width())
            before = HOME if self._live else "\n" if self._begun else ""
            click.echo(before + shown)
        else:
            before = "---\n" if self._begun and self._form == "yaml" else ""
            click.echo(before + forms.dump(plain(snapshot), self._form), nl=False)
        sys.stdout.flush()
        self._begun = True


def plain(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot for programs, with what it adds up to in front."""
    faults = snapshot.faults()
    return {"running": True, "holds": not faults, "faults": faults, **msgspec.to_builtins(snapshot)}


def _tell_from_disk(root: str, form: str) -> None:
    """Print what is known without an agent, for users who may know it."""
    try:
        owed, backups = _disk(root)
    except OSError:
        return
    if form == "table":
        click.echo(status_view.known_from_disk(owed, backups, _now(), _style()))
        return
    found = {"running": False, "holds": False, "owed": msgspec.to_builtins(owed), "backups": backups}
    click.echo(forms.dump(found, form), nl=False)


def _disk(root: str) -> tuple[list[Owed], int]:
    tree = Tree(root)
    try:
        return status_sources.owed(Journal(tree)), sum(1 for _ in Bucket(tree).backups())
    finally:
        tree.close()


def _now() -> datetime:
    return datetime.now(UTC)


def _style() -> output.Style:
    return output.Style.of(sys.stdout, os.environ)

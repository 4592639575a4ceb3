"""`nodemanager server`: a Kubernetes API of one's own, in one process on SQLite."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import click

from nodemanager import __version__
from nodemanager.cli.embedded import embedded_api, server_metrics
from nodemanager.cli.settings import logs
from nodemanager.cli.settings.addresses import endpoint_options
from nodemanager.cli.settings.audit_options import ApiAuditSettings, audit_options
from nodemanager.cli.settings.command_group import CommandGroup
from nodemanager.runtime.manager import Manager
from nodemanager.server.embedded import DATABASE, EmbeddedServer, ServerOptions
from nodemanager.server.http.endpoint import Endpoint
from nodemanager.store import backup as backups

log = logging.getLogger("nodemanager.server")


def default_data_dir() -> Path:
    """Return the default place of data: the system's place for root, else one of the user."""
    if os.geteuid() == 0:
        return Path("/var/lib/nodemanager/server")
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "nodemanager" / "server"


_DATA_DIR = click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False, resolve_path=True), default=None,
    metavar="DIR",
    help="Folder with everything the server keeps. Default: /var/lib/nodemanager/server for root,"
    " otherwise ~/.local/share/nodemanager/server.",
)  # fmt: skip


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    epilog="""\b
Examples:
  nodemanager server --data-dir ./data                  serve on 127.0.0.1:6443
  export KUBECONFIG=./data/admin.kubeconfig             then, in another shell
  nodemanager server --bind-address 0.0.0.0:6443 --advertise-address api.example.org   for other hosts
  nodemanager server backup --data-dir ./data state.bak while it runs
  nodemanager server restore --data-dir ./data state.bak   when it does not
""",
)
@_DATA_DIR
@endpoint_options
@audit_options
@logs.LEVEL_OPTION
@click.option("--log-format", type=click.Choice(logs.FORMATS), default="text", show_default=True,
              help="Lines for people, or for a collector.")  # fmt: skip
@click.option("--request-log", is_flag=True,
              help="Log every request: who, what, whence and the outcome. Implied by DEBUG.")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    data_dir: Path | None,
    endpoint: Endpoint,
    audit: ApiAuditSettings,
    log_level: str,
    log_format: str,
    request_log: bool,
) -> None:
    """Serve a Kubernetes API for people without a cluster.

    DIR/admin.kubeconfig is written before it listens. Runs until Ctrl-C or SIGTERM.
    """
    if ctx.invoked_subcommand is not None:
        return
    logs.configure(log_level.upper(), log_format)
    options = embedded_api.options(data_dir or default_data_dir(), endpoint, audit=audit)
    asyncio.run(_run(options, request_log))


async def _run(options: ServerOptions, request_log: bool) -> None:
    log.info("nodemanager %s server, data in %s", __version__, options.data_dir)
    manager = Manager(log=log)
    manager.add_server(EmbeddedServer(options, server_metrics.instrument(request_log=request_log)))
    gc.freeze()  # what is imported stays: full collections that skip it are several times shorter
    await manager.run(install_signals=True)


@command.command()
@_DATA_DIR
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def backup(data_dir: Path | None, file: Path) -> None:
    """Write a consistent copy of everything to FILE, also while the server runs."""
    folder = data_dir or default_data_dir()
    with _in_hands_of_its_owner(folder):
        summary = backups.backup(folder / DATABASE, file)
    click.echo(f"wrote {file}: {summary.objects} objects at revision {summary.revision}")


@command.command()
@_DATA_DIR
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def restore(data_dir: Path | None, file: Path) -> None:
    """Put the copy in FILE in place; the server must be stopped. What was there is kept beside it."""
    folder = data_dir or default_data_dir()
    with _in_hands_of_its_owner(folder):
        aside = backups.restore(file, folder / DATABASE)
    click.echo(f"restored {file}" + (f"; what was there is now {aside}" if aside else ""))


@contextlib.contextmanager
def _in_hands_of_its_owner(folder: Path) -> Iterator[None]:
    """Give what root leaves in a data folder to the user as whom the server of that folder runs."""
    try:
        yield
    finally:
        if os.geteuid() == 0 and folder.is_dir():
            owner = folder.stat()
            for path in folder.iterdir():
                _hand_over(path, owner)


def _hand_over(path: Path, owner: os.stat_result) -> None:
    """Give a file of root's to another user; not one that has a second name, which may be anywhere."""
    with contextlib.suppress(OSError):  # a link, or something that is gone
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid != owner.st_uid:
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
        finally:
            os.close(descriptor)

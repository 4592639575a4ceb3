"""Options of the commands that look at this host, or change it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from nodemanager.host.files.bucket import FOLDER

ROOT: Final = click.option(
    "--root", type=click.Path(exists=True, file_okay=False), default="/", show_default=True, metavar="DIR",
    help="Manage the tree below DIR as if it were /, with its own tools.",
)  # fmt: skip
HOSTNAME: Final = click.option(
    "--hostname", default="", metavar="NAME", envvar="NODEMANAGER_HOSTNAME", show_envvar=True,
    help="Name of the ManagedNode. Default: the name of this host.",
)  # fmt: skip


def manifests(words: str, *, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command -f, or --manifest-dir as the Go program calls it, as `paths`.

    Whether they exist is found out later: the exit code of wrong usage means something else in `plan`.
    """
    return click.option(
        "-f", "--filename", "--manifest-dir", "paths", multiple=True, required=required, metavar="PATH",
        type=click.Path(path_type=Path), help=f"{words} May be given again.",
    )  # fmt: skip


def whole_path(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Check the path of a file that we may have managed: a ConfigSet names it from the root."""
    if value and not value.startswith("/"):
        raise click.BadParameter(
            f"{value!r} is not the whole path; write it like /etc/motd, as ConfigSets do"
        )
    return value


BUCKET: Final = click.option(
    "--configset.file-bucket.path", "bucket", default=FOLDER, show_default=True, metavar="DIR",
    callback=whole_path, envvar="NODEMANAGER_CONFIGSET_FILE_BUCKET_PATH",
    help="Where backups of files are kept, readable by root only.",
)  # fmt: skip


def host_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --root and --hostname."""
    return ROOT(HOSTNAME(command))

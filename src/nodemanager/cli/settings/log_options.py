"""The options of `nodemanager operator` about its audit log: what goes where, and for how long."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from nodemanager.cli.settings.durations import Duration
from nodemanager.fleet.audit import settings
from nodemanager.fleet.audit.settings import AuditSettings

BUCKET: Final = "s3:"
"""How a place begins that is object storage."""


class CopyPlace(click.ParamType[str]):
    """A folder that can be written, or a bucket."""

    name = "place"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the place if it can be one."""
        if value.startswith(BUCKET):
            return value
        if not Path(value).is_dir() or not os.access(value, os.W_OK):
            self.fail(
                f"{value!r} is no folder that can be written; for object storage write s3://BUCKET/PREFIX",
                param,
                ctx,
            )
        return value

    def shell_complete(
        self, _ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Have the shell offer folders."""
        return [] if incomplete.startswith(BUCKET) else [CompletionItem(incomplete, type="dir")]


def log_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the operator's audit log, as one argument `audit`."""

    @functools.wraps(command)
    def with_log(*args: Any, **flags: Any) -> None:
        retention = timedelta(seconds=flags.pop("audit_retention"))
        audit = AuditSettings(
            flags.pop("audit_on_failure"),
            retention,
            flags.pop("audit_export") or "",
            webhook=flags.pop("audit_webhook"),
        )
        command(*args, audit=audit, **flags)

    decorated: Callable[..., None] = with_log
    for option in (
        click.option("--audit-webhook", default="", metavar="SECRET|FOLDER",
                     help="Send the records as JSON lines to the address in this Secret of the namespace, or"
                     " in this folder, which has a slash in its name: url, token, hmac, ca.crt."),
        click.option("--audit-on-failure", type=click.Choice([settings.STOP, settings.CONTINUE]),
                     default=settings.STOP, show_default=True,
                     help="Whether new work begins while the audit log is broken or behind."),
        click.option("--audit-retention", type=Duration(0), default="2160h", show_default=True,
                     metavar="DURATION",
                     help="How long the API keeps what is copied; what is not, for ever."),
        click.option("--audit-export", type=CopyPlace(), metavar="FOLDER|s3://BUCKET/PREFIX",
                     help="Copy the audit log there, as JSON lines and checkpoints. Object storage takes its"
                     " credentials from the environment (AWS_*), and nothing there is ever overwritten."),
    ):  # fmt: skip
        decorated = option(decorated)
    return decorated

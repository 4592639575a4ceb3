"""The options of an embedded API's audit log, and what it tells unless somebody says otherwise."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from nodemanager.kube import errors, manifests
from nodemanager.kube.rbac.identity import AUTHENTICATED
from nodemanager.server.audit import policy
from nodemanager.server.audit.audit_log import AuditOptions
from nodemanager.server.audit.log_file import LogLimits
from nodemanager.server.audit.policy import AuditLevel, AuditPolicy, AuditRule, Resources

FILE: Final = "audit.log"
NOWHERE: Final = "0"
_WRITES: Final = ("create", "update", "patch", "delete", "deletecollection")
_NOISE: Final = (
    Resources("coordination.k8s.io", ("leases",)),
    Resources("", ("events", "tokenreviews")),
    Resources("events.k8s.io"),
    Resources("authentication.k8s.io"),
    Resources("authorization.k8s.io"),
)
"""Signs of life, what is a record itself, and questions that change nothing."""
DEFAULT: Final = AuditPolicy(
    (
        AuditRule(AuditLevel.NONE, resources=_NOISE),
        AuditRule(AuditLevel.NONE, resources=(Resources("common.nodemanager", ("*/status",)),)),
        # Anonymous users cannot write, but could cause so many records that all others are rotated away.
        AuditRule(AuditLevel.METADATA, groups=(AUTHENTICATED,), verbs=_WRITES),
    )
)
"""Who changed what, or tried to: no reads, and no regular reports of hosts."""


@dataclass(frozen=True, slots=True)
class ApiAuditSettings:
    """The options as they were given."""

    path: str = ""
    policy_file: str = ""
    limits: LogLimits = LogLimits()  # noqa: RUF009 - it is frozen

    def options(self, data_dir: Path) -> AuditOptions | None:
        """Return the settings of the server's audit log; None = there is none."""
        if self.path == NOWHERE:
            return None
        chosen = read_policy(Path(self.policy_file)) if self.policy_file else DEFAULT
        return AuditOptions(Path(self.path) if self.path else data_dir / FILE, chosen, self.limits)


def read_policy(path: Path) -> AuditPolicy:
    """Return the policy in a file, or raise ConfigError with what is wrong."""
    try:
        found = list(manifests.documents(path.read_text(encoding="utf-8"), str(path)))
    except (OSError, UnicodeDecodeError, manifests.ManifestError) as error:
        raise errors.ConfigError(f"cannot read the audit policy {path}: {error}") from error
    if len(found) != 1:
        raise errors.ConfigError(
            f"cannot use the audit policy {path}: it has {len(found)} documents, not one"
        )
    return policy.read(found[0][1])


def audit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of an audit log, named as kube-apiserver names them."""

    @functools.wraps(command)
    def with_audit(*args: Any, **flags: Any) -> None:
        size, backups, age = (flags.pop(f"audit_log_max{what}") for what in ("size", "backup", "age"))
        limits = LogLimits(size << 20, backups, timedelta(days=age))
        settings = ApiAuditSettings(flags.pop("audit_log_path"), flags.pop("audit_policy_file"), limits)
        command(*args, audit=settings, **flags)

    number = click.IntRange(0, 1_000_000)
    decorated: Callable[..., None] = with_audit
    for option in (
        click.option("--audit-log-maxage", type=number, default=0, show_default=True, metavar="DAYS",
                     help="Remove older files of the audit log; 0 = whatever their age."),
        click.option("--audit-log-maxbackup", type=number, default=3, show_default=True, metavar="COUNT",
                     help="Files of the audit log to keep beside the one that grows; 0 = all."),
        click.option("--audit-log-maxsize", type=number, default=50, show_default=True, metavar="MB",
                     help="Size at which a file of the audit log is put aside; 0 = it grows for ever."),
        click.option("--audit-policy-file", type=click.Path(dir_okay=False), default="",
                     metavar="FILE", help="What the audit log tells (audit.k8s.io/v1 Policy). Default: who"
                     " changed what, without contents."),
        click.option("--audit-log-path", default="", metavar="FILE",
                     help="The audit log, as JSON lines. Default: audit.log in the data folder; '0' is"
                     " nowhere."),
    ):  # fmt: skip
        decorated = option(decorated)
    return decorated

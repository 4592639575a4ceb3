"""A ConfigSet in words: for whom, what, and how it went. Pure: object in, text out.

Content, templates and values never appear: files may be secret, and a terminal is no place for
them. What a file takes from Secrets and ConfigMaps is named by their names.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.declarations import Execution, File, Package, Service
from nodemanager.cli.views import describing, output
from nodemanager.cli.views.describing import ROWS_LIMIT
from nodemanager.kube import core, selectors
from nodemanager.plan.resources import EXEC, FILE, PACKAGE, SERVICE
from nodemanager.plan.stages import KINDS, HostKinds

_COMMAND_LIMIT = 60


@dataclass(frozen=True, slots=True)
class Columns:
    """How declarations of one kind are listed."""

    titles: tuple[str, ...]
    row: Callable[[Any], list[str]]
    """Returns what is in the columns for one declaration."""


def render(
    config: ConfigSet,
    events: Sequence[core.Event],
    now: datetime,
    kinds: HostKinds = KINDS,
    columns: Mapping[str, Columns] | None = None,
) -> str:
    """Return the description of a ConfigSet."""
    report = output.Report()
    describing.add_head(report, config.metadata, now)
    report.field("Priority", str(config.spec.priority))
    report.field("For hosts with", *_chosen(config))
    _add_counts(report, config)
    describing.add_conditions(report, config.status.conditions, config.metadata.generation, now)
    _add_declarations(report, config.spec, kinds, kinds.each("columns", columns or COLUMNS))
    describing.add_events(report, events, now)
    return report.text()


def _chosen(config: ConfigSet) -> list[str]:
    """Return the ways in which a host may be chosen."""
    ways = []
    if config.metadata.labels:
        ways.append(
            "labels " + ",".join(f"{name}={value}" for name, value in sorted(config.metadata.labels.items()))
        )
    if config.spec.node_selector is not None:
        try:
            text = selectors.format_selector(config.spec.node_selector)
        except ValueError as error:
            text = str(error)
        ways.append(f"nodeSelector {text}" if text else "any labels (nodeSelector {})")
    return ways or ["nothing: it has neither labels nor a nodeSelector, so it is for no host"]


def _add_counts(report: output.Report, config: ConfigSet) -> None:
    nodes = config.status.nodes
    if nodes is None:
        report.field("Hosts", "not counted yet")
        return
    more = "".join(f", {n} {word}" for n, word in ((nodes.unknown, "silent"), (nodes.held, "held")) if n)
    report.field(
        "Hosts",
        f"{nodes.matched} matched, {nodes.applied} applied, {nodes.failed} failed,"
        f" {nodes.conflicted} conflicted{more}",
    )


def _add_declarations(
    report: output.Report, spec: ConfigSetSpec, kinds: HostKinds, columns: Mapping[str, Columns]
) -> None:
    for kind in kinds:
        shown = columns[kind.name]
        rows = [shown.row(one) for one in getattr(spec, kind.declaring.field)]
        report.table(_title(kind.words[1].capitalize(), rows), shown.titles, rows, ROWS_LIMIT)
    if spec.notifies:
        notified = [[each.kind, each.name or "all", each.namespace] for each in spec.notifies]
        report.table(_title("Notifies", notified), ["KIND", "NAME", "NAMESPACE"], notified, ROWS_LIMIT)


def _title(name: str, rows: Sequence[object]) -> str:
    return f"{name} ({len(rows)})" if rows else name


def _package(package: Package) -> list[str]:
    return [package.name, package.ensure, package.version]


def _file(file: File) -> list[str]:
    owner = ":".join(part for part in (file.owner, file.group) if part)
    uses = [f"secret {name}" for name in file.secret_refs]
    uses += [f"configmap {name}" for name in file.config_map_refs]
    return [file.path, file.ensure or "file", file.mode, owner, _content(file), ", ".join(uses)]


def _content(file: File) -> str:
    if file.ensure == "symlink":
        return f"-> {file.target}"
    parts = []
    if file.template:
        parts.append(f"{file.engine} of {describing.size(file.template)}")
    if file.content:
        parts.append(f"text of {describing.size(file.content)}")
    if file.validate is not None:
        parts.append(f"checked by {file.validate.command}")
    flags = {"written once": file.create_only, "purged": file.purge}
    return ", ".join([*parts, *(name for name, is_set in flags.items() if is_set)])


def _service(service: Service) -> list[str]:
    name = f"{service.name} (of user {service.user})" if service.user else service.name
    boot = {True: "enabled", False: "disabled", None: "left alone"}[service.enable]
    verb = "reload" if service.reload else "restart"
    change = f"{verb} when {_files(service.subscribe_files)} changes" if service.subscribe_files else ""
    if service.lock_group:
        change += f", one host of {service.lock_group} at a time"
    return [name, service.ensure or "left alone", boot, change]


def _execution(execution: Execution) -> list[str]:
    reasons = []
    if execution.subscribe_files:
        reasons.append(f"when {_files(execution.subscribe_files)} changes")
    if execution.creates:
        reasons.append(f"until {execution.creates} exists")
    if execution.only_if is not None:
        reasons.append(f"if {_command(execution.only_if.command, execution.only_if.args)}")
    if execution.unless is not None:
        reasons.append(f"unless {_command(execution.unless.command, execution.unless.args)}")
    return [_command(execution.command, execution.args), ", ".join(reasons), execution.timeout]


def _files(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"one of {len(paths)} files"


def _command(command: str, args: Sequence[str]) -> str:
    return output.one_line(shlex.join([command, *args]), _COMMAND_LIMIT)


COLUMNS: Final = KINDS.each(
    "columns in cli/views/describe_configset.py",
    {
        PACKAGE: Columns(("NAME", "ENSURE", "VERSION"), _package),
        FILE: Columns(("PATH", "ENSURE", "MODE", "OWNER", "CONTENT", "USES"), _file),
        SERVICE: Columns(("NAME", "ENSURE", "AT BOOT", "ON CHANGE"), _service),
        EXEC: Columns(("COMMAND", "RUNS", "TIMEOUT"), _execution),
    },
)

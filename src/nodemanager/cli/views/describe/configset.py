"""A ConfigSet in words: for whom, what, and how it went. Pure: object in, text out.

Content, templates and values never appear: files may be secret, and a terminal is no place for
them. What a file takes from Secrets and ConfigMaps is named by their names.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from nodemanager.api.common import choosing, matching, set_reports
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.declarations import Execution, File, Package, Service
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.set_reports import SetOnHost
from nodemanager.cli.views import describing, output, rollout_view
from nodemanager.cli.views.describing import ROWS_LIMIT
from nodemanager.kube import core
from nodemanager.plan.data import layers
from nodemanager.plan.resources import EXEC, FILE, PACKAGE, SERVICE
from nodemanager.plan.stages import KINDS, HostKinds

_COMMAND_LIMIT = 60


@dataclass(frozen=True, slots=True)
class Columns:
    """How declarations of one kind are listed."""

    titles: tuple[str, ...]
    row: Callable[[Any], list[str]]
    """Returns what is in the columns for one declaration."""
    usual: Mapping[str, str] = field(default_factory=dict)
    """What goes without saying: a column in which no row says anything else is left out."""

    def of(self, declared: Sequence[Any]) -> tuple[list[str], list[list[str]]]:
        """Return titles and rows of what is declared."""
        rows = [self.row(one) for one in declared]
        shown = [
            at
            for at, title in enumerate(self.titles)
            if title not in self.usual or any(row[at] != self.usual[title] for row in rows)
        ]
        return [self.titles[at] for at in shown], [[row[at] for at in shown] for row in rows]


def render(
    config: ConfigSet,
    events: Sequence[core.Event],
    now: datetime,
    kinds: HostKinds = KINDS,
    columns: Mapping[str, Columns] | None = None,
    *,
    nodes: Sequence[ManagedNode] | None = None,
) -> str:
    """Return the description of a ConfigSet; `nodes` are all hosts, if they could be read."""
    report = output.Report()
    describing.add_head(report, config.metadata, now)
    report.field("Priority", str(config.spec.priority))
    report.field("For hosts with", *_chosen(config))
    if config.spec.prune:
        what = "everything, packages too" if config.spec.prune_packages else "everything but packages"
        report.field("Prunes", f"{what}; its deletion waits {config.spec.prune_timeout} for hosts")
    _add_counts(report, config)
    if choosing.in_stages(config):
        report.field("Rollout", output.one_line(rollout_view.words(config), describing.MESSAGE_LIMIT))
    describing.add_conditions(report, config.status.conditions, config.metadata.generation, now)
    if nodes is not None:
        _add_hosts(report, set_reports.on_hosts(config, nodes), now)
    _add_declarations(report, config, kinds, kinds.each("columns", columns or COLUMNS))
    describing.add_events(report, events, now)
    return report.text()


def _chosen(config: ConfigSet) -> list[str]:
    """Return the ways in which a host may be chosen."""
    first, *others = matching.ways(config) or [
        "nothing: it has neither labels nor a nodeSelector, so it is for no host"
    ]
    return [first, *(f"OR {way}" for way in others)]


def _add_counts(report: output.Report, config: ConfigSet) -> None:
    nodes = config.status.nodes
    if nodes is None:
        where = config.metadata.namespace
        report.field("Hosts", f"not counted yet: no operator of namespace {where} has looked at it")
        return
    counts = {"applied": nodes.applied, "failed": nodes.failed, "conflicted": nodes.conflicted}
    counts |= {"silent": nodes.unknown} if nodes.unknown else {}
    counts |= {"held": nodes.held} if nodes.held else {}
    said = "".join(f", {count} {state}" for state, count in counts.items())
    report.field("Hosts", f"{nodes.matched} matched{said}")


def _add_hosts(report: output.Report, hosts: Sequence[SetOnHost], now: datetime) -> None:
    """Say how it goes on each host, and since when; the worst first."""
    rows = [
        [
            one.host,
            one.state,
            output.age(one.since, now) if one.since else "",
            output.one_line(one.reason, describing.MESSAGE_LIMIT),
        ]
        for one in hosts
    ]
    report.table(_title("On hosts", rows), ["HOST", "STATE", "SINCE", "REASON"], rows, ROWS_LIMIT)


def _add_declarations(
    report: output.Report, config: ConfigSet, kinds: HostKinds, columns: Mapping[str, Columns]
) -> None:
    spec = config.spec
    for kind in kinds:
        titles, rows = columns[kind.name].of(getattr(spec, kind.declaring.field))
        report.table(_title(kind.words[1].capitalize(), rows), titles, rows, ROWS_LIMIT)
    if spec.data or spec.data_from:
        said = [
            [one.kind, one.name, (chosen and matching.selector_words(chosen)) or "any labels"]
            for chosen, one in layers.of_set(config)
        ]
        report.table(_title("Data", said), ["KIND", "NAME", "FOR HOSTS WITH"], said, ROWS_LIMIT)
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
    if file.content_from is not None and (secret := file.content_from.secret_key_ref) is not None:
        uses.append(f"secret {secret.name}, key {secret.key}")
    if file.content_from is not None and (config_map := file.content_from.config_map_key_ref) is not None:
        uses.append(f"configmap {config_map.name}, key {config_map.key}")
    return [file.path, file.ensure or "file", file.mode, owner, _content(file), ", ".join(uses)]


def _content(file: File) -> str:
    if file.ensure == "symlink":
        return f"-> {file.target}"
    parts = []
    if file.template:
        parts.append(f"{file.engine} of {describing.size(file.template)}")
    if file.content:
        parts.append(f"text of {describing.size(file.content)}")
    if file.content_base64:
        parts.append(f"base64 of {describing.size(file.content_base64)}")
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
    "columns in cli/views/describe/configset.py",
    {
        PACKAGE: Columns(("NAME", "ENSURE", "VERSION"), _package),
        FILE: Columns(
            ("PATH", "ENSURE", "MODE", "OWNER", "CONTENT", "USES"),
            _file,
            {"ENSURE": "file", "MODE": "", "USES": ""},
        ),
        SERVICE: Columns(("NAME", "ENSURE", "AT BOOT", "ON CHANGE"), _service),
        EXEC: Columns(("COMMAND", "RUNS", "TIMEOUT"), _execution),
    },
)

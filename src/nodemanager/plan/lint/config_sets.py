"""Mistakes that one ConfigSet alone shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

import msgspec

from nodemanager.api.common import matching
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.declarations import File
from nodemanager.plan.lint import host_data
from nodemanager.plan.lint.findings import Finding, Severity, Step
from nodemanager.plan.stages import KINDS

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?")
_ID_MAX: Final = 2**32 - 2
_FLEETING: Final = {
    "/proc": "is the kernel's, and holds no files",
    "/sys": "is the kernel's, and holds no files",
    "/dev": "is made anew at every boot",
    "/run": "is empty after every boot",
    "/tmp": "is emptied at boot, and anybody may write there",  # noqa: S108
}
_READABLE, _WRITABLE = 0o4, 0o2
_FIELDS: Final = msgspec.structs.fields(File)


def findings(config_set: ConfigSet) -> Iterator[Finding]:
    """Yield everything that is wrong with a set."""
    yield from _hosts(config_set)
    yield from _twice(config_set)
    for place, file in enumerate(config_set.spec.files):
        where: tuple[Step, ...] = ("spec", "files", place)
        yield from _path(config_set, where, file)
        yield from _owners(config_set, where, file)
        yield from _openness(config_set, where, file)
        yield from _idle(config_set, where, file)
    yield from _shell_lines(config_set)
    yield from host_data.findings([config_set], [], {}, {})
    for place, service in enumerate(config_set.spec.services):
        asked = service.ensure or service.enable is not None or service.arguments or service.subscribe_files
        if not asked:
            message = f"{service.name}: without ensure, enable and subscribe_files nothing is done about it"
            yield finding(config_set, "no-effect", ("spec", "services", place), message)


def finding(
    config_set: ConfigSet, rule: str, path: tuple[Step, ...], message: str, severity: Severity = "warning"
) -> Finding:
    """Return a finding about a set."""
    return Finding(rule, severity, CONFIG_SETS.kind, config_set.metadata.name, path, message)


def _hosts(one: ConfigSet) -> Iterator[Finding]:
    if foreign := matching.gitops_labels(one):
        yield finding(
            one,
            "gitops-labels",
            ("metadata", "labels"),
            f"{', '.join(foreign)}: labels of a GitOps tool, which no host has, keep the set from matching "
            "by label; use spec.nodeSelector",
        )
    elif not matching.ways(one):
        message = "it has neither labels nor spec.nodeSelector, so it is for no host; {} chooses every host"
        yield finding(one, "no-host", ("metadata",), message)


def _twice(one: ConfigSet) -> Iterator[Finding]:
    for kind in KINDS:
        declaring = kind.declaring
        seen: dict[object, object] = {}
        for place, declaration in enumerate(getattr(one.spec, declaring.field)):
            resource = declaring.identify(one.metadata.name, declaration)
            plain = declaring.plain(declaration)
            if resource in seen:
                same = seen[resource] == plain
                message = (
                    f"{resource} is declared twice in this set{'' if same else ', differently'}; remove one"
                )
                path = ("spec", declaring.field, place)
                yield finding(one, "declared-twice", path, message, "warning" if same else "error")
            seen.setdefault(resource, plain)


def _path(one: ConfigSet, where: tuple[Step, ...], file: File) -> Iterator[Finding]:
    solid = {other.path: other.ensure or "file" for other in one.spec.files if other.ensure != "directory"}
    for parent in PurePosixPath(file.path).parents:
        if (what := solid.get(str(parent))) is not None and file.ensure != "absent" and what != "symlink":
            message = f"{file.path} is below {parent}, which this set declares as {what}"
            yield finding(one, "below-a-file", (*where, "path"), message, "error")
        if (why := _FLEETING.get(str(parent))) is not None and file.ensure != "absent":
            yield finding(one, "path", (*where, "path"), f"{file.path}: {parent} {why}")


def _owners(one: ConfigSet, where: tuple[Step, ...], file: File) -> Iterator[Finding]:
    for field in ("owner", "group"):
        said = getattr(file, field)
        fits = int(said) <= _ID_MAX if said.isascii() and said.isdigit() else _NAME.fullmatch(said)
        if said and not fits:
            message = f"{file.path}: no {field} can be called {said!r}; write a name or a number"
            yield finding(one, "owner", (*where, field), message, "error")


def _openness(one: ConfigSet, where: tuple[Step, ...], file: File) -> Iterator[Finding]:
    if not file.mode or file.ensure == "symlink":
        return
    mode = int(file.mode.lower().replace("o", ""), 8)
    if mode & _WRITABLE and not (mode & 0o1000 and file.ensure == "directory"):
        message = f"{file.path}: mode {file.mode} lets everybody on the host change it"
        yield finding(one, "open-to-others", (*where, "mode"), message)
    elif file.secret_refs and file.template and mode & _READABLE:
        message = f"{file.path}: mode {file.mode} lets everybody on the host read what is made of Secrets"
        yield finding(one, "open-to-others", (*where, "mode"), message)


def _idle(one: ConfigSet, where: tuple[Step, ...], file: File) -> Iterator[Finding]:
    """Yield fields without effect."""
    kind = file.ensure or "file"
    unread: tuple[str, ...]
    if kind != "file":
        unread = ("content", "template", "secret_refs", "config_map_refs", "validate", "create_only")
    else:
        unread = () if file.template else ("secret_refs", "config_map_refs")
    unread += ("target",) if kind != "symlink" else ()
    unread += ("purge",) if kind != "directory" else ()
    for field in unread:
        if getattr(file, field):
            name = next(each.encode_name for each in _FIELDS if each.name == field)
            why = (
                "is read by templates only"
                if kind == "file" and field.endswith("_refs")
                else f"means nothing for ensure: {kind}"
            )
            yield finding(one, "no-effect", (*where, name), f"{file.path}: {name} {why}")


def _shell_lines(one: ConfigSet) -> Iterator[Finding]:
    """Yield commands that only a shell would understand; a path may have spaces, a name hardly."""
    commands: list[tuple[tuple[Step, ...], str]] = []
    for place, file in enumerate(one.spec.files):
        if file.validate is not None:
            commands.append((("files", place, "validate"), file.validate.command))
    for place, execution in enumerate(one.spec.executions):
        commands.append((("executions", place), execution.command))
        for name, guard in (("onlyIf", execution.only_if), ("unless", execution.unless)):
            if guard is not None:
                commands.append((("executions", place, name), guard.command))
    for where, command in commands:
        if len(command.split()) > 1:
            severity: Severity = "warning" if command.startswith("/") else "error"
            message = f"{command!r} is looked for as one program; its name belongs here, the rest into args"
            yield finding(one, "shell-line", ("spec", *where, "command"), message, severity)

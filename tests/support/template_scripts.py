"""Scripts of the shipped templates, run with scripts in place of tools, in a folder in place of the host."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.agent.tasks import programs
from nodemanager.api import manifest_checks
from nodemanager.api.maintenance import shipped_templates
from nodemanager.api.maintenance.nodeoperationtemplate import (
    NODE_OPERATION_TEMPLATES,
    NodeOperationTemplateSpec,
)
from nodemanager.api.maintenance.operations import ONE_SHOT, REALTIME, LocalReference, Operation
from nodemanager.api.maintenance.task_steps import ExecutionAction
from nodemanager.fleet.maintenance import steps

CASES = Path(__file__).resolve().parent.parent / "cases" / "operation_templates"
PLAIN = (
    "cat", "chmod", "cp", "grep", "mkdir", "mv", "printf", "rm", "sed", "sh", "sha256sum", "sort", "tail",
    "tr",
)  # fmt: skip
"""Tools that every host has; whatever else a script calls is in its case, or missing."""
REQUIRED = {
    "agent-upgrade": {"version": "0.2.0", "url": "https://example.org/nodemanager-{version}-{target}"},
    "k3s-upgrade": {"version": "v1.33.4+k3s1"},
    "kubeadm-upgrade": {"version": "v1.34.1"},
    "kairos-upgrade": {"image": "quay.io/kairos/debian:v3@sha256:" + "0" * 64},
}
"""Parameters without a default, by template."""
_HOST_PATH = re.compile(r"(?<![\w.}])/(?=(?:etc|proc|run|var)/)")


@functools.cache
def shipped() -> dict[str, NodeOperationTemplateSpec]:
    """Return the specs of all templates, checked as `nodemanager lint` would."""
    return {
        obj["metadata"]["name"]: manifest_checks.typed(obj, NODE_OPERATION_TEMPLATES, "shipped").spec
        for obj in shipped_templates.templates("nodemanager")
    }


def operation(template: str, parameters: dict[str, str]) -> Operation:
    """Return an operation that uses a template."""
    kind = REALTIME if shipped()[template].config_set else ONE_SHOT
    return Operation(name="op", type=kind, template_ref=LocalReference(name=template), parameters=parameters)


def programs_of(template: str, parameters: dict[str, str]) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the shell programs of a template by what they are for, each with its environment."""
    if shipped()[template].config_set is None:
        return dict(_of_steps(steps.of_operation(operation(template, parameters), shipped())))
    return dict(_of_set(steps.config_set_of(operation(template, parameters), shipped())))


def _of_steps(found: Any) -> Iterator[tuple[str, tuple[list[str], dict[str, str]]]]:
    for step in found:
        if step.execution:
            yield step.name, _execution(step.execution)
        if step.undo and step.undo.execution:
            yield f"{step.name} undo", _execution(step.undo.execution)
        if step.probe and step.probe.argv:
            yield step.name, (list(step.probe.argv), {})


def _execution(action: ExecutionAction) -> tuple[list[str], dict[str, str]]:
    return programs.argv_of(action), dict(action.env)


def _of_set(found: Any) -> Iterator[tuple[str, tuple[list[str], dict[str, str]]]]:
    for file in found.files:
        if file.validate:
            yield "validate", ([file.validate.command, *file.validate.args], {})
    for one in found.executions:
        yield "execution", ([one.command, *one.args], {})
        if one.unless:
            yield "unless", ([one.unless.command, *one.unless.args], {})


@dataclass(frozen=True, slots=True)
class ScriptCase:
    """What a program of a template is given, and what comes of it."""

    template: str
    program: str
    parameters: dict[str, str]
    tools: dict[str, str]
    files: dict[str, str]
    expect: dict[str, Any]


def cases() -> list[Any]:
    """Return all cases, as parameters named by file and case."""
    found = []
    for path in sorted(CASES.glob("*.yaml")):
        for name, raw in yaml.safe_load(path.read_text(encoding="utf-8")).items():
            case = ScriptCase(
                path.stem, raw["program"], raw.get("parameters", {}), raw.get("tools", {}),
                raw.get("files", {}), raw["expect"],
            )  # fmt: skip
            found.append(pytest.param(case, id=f"{path.stem}: {name}"))
    return found


class ScriptHost:
    """A folder that stands for a host."""

    def __init__(self, folder: Path) -> None:
        """`folder` is empty."""
        self.root = folder / "root"
        self._bin = folder / "bin"
        self._calls = folder / "calls"
        self._bin.mkdir()
        self._calls.touch()
        for name in PLAIN:
            (self._bin / name).symlink_to(shutil.which(name) or f"/bin/{name}")
        for name in ("etc", "proc", "run", "var"):
            (self.root / name).mkdir(parents=True)

    def tool(self, path: Path, body: str) -> None:
        """Put a script in place of a program, which notes how it is called."""
        path.parent.mkdir(parents=True, exist_ok=True)
        note = f'printf "%s\\n" "${{0##*/}} $*" >>"{self._calls}"\n'
        path.write_text(f"#!/bin/sh\n{note}{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def give(self, case: ScriptCase) -> None:
        """Have what a case wants: a path with `/` is a program there, a file that ends in `/` a folder."""
        for name, body in case.tools.items():
            self.tool(self.root / name[1:] if name.startswith("/") else self._bin / name, body)
        for name, text in case.files.items():
            path = self.root / name[1:]
            (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
            if not name.endswith("/"):
                path.write_text(text, encoding="utf-8")

    def run(self, case: ScriptCase) -> subprocess.CompletedProcess[str]:
        """Run a program with paths of this host."""
        given = {name: self._here(value) for name, value in case.parameters.items()}
        argv, env = programs_of(case.template, case.parameters)[case.program]
        argv = [_HOST_PATH.sub(f"{self.root}/", text) for text in argv]
        argv = [self._here(text) if text in case.parameters.values() else text for text in argv]
        changed = {f"PARAM_{name.upper()}": value for name, value in given.items()}
        everything = {**env, **{k: v for k, v in changed.items() if k in env}, "PATH": str(self._bin)}
        return subprocess.run(
            [shutil.which("dash") or "/bin/sh", *argv[1:]],
            env=everything, capture_output=True, text=True, check=False, cwd=self.root, timeout=30,
        )  # fmt: skip

    def _here(self, value: str) -> str:
        return f"{self.root}{value}" if value.startswith("/") else value

    @property
    def calls(self) -> list[str]:
        """What was called, with its arguments, in this order."""
        text = self._calls.read_text(encoding="utf-8").replace(f"{self.root}{os.sep}", "/")
        return text.splitlines()

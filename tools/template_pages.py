"""The reference of the templates that we ship, in Markdown, from their files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

FILE: Final = "docs/reference/templates.md"
_HEADER: Final = """\
<!-- Generated from src/nodemanager/api/maintenance/templates, do not edit: make generate -->

# Shipped templates

These NodeOperationTemplates come with our kinds. [Operation templates](../operation-templates.md) says how to
use them, how they are installed and upgraded, and how to write your own. Parameters are texts: write numbers
and booleans in quotes.

| Template | Type | Version | Parameters |
|---|---|---|---|
"""
_ACTIONS: Final = ("packages", "service", "execution", "reboot", "probe", "file", "preview")
Object = dict[str, Any]


def page(templates: list[Object]) -> str:
    """Return the page of all templates."""
    rows = "".join(_row(one["metadata"]["name"], one["spec"]) for one in templates)
    sections = "".join("\n" + "\n\n".join(_section(one)) + "\n" for one in templates)
    return _HEADER + rows + sections


def _row(name: str, spec: Object) -> str:
    parameters = ", ".join(f"`{one['name']}`" for one in spec.get("parameters", []))
    return f"| [{name}](#{name}) | {spec['type']} | {spec['version']} | {parameters} |\n"


def _section(template: Object) -> Iterator[str]:
    spec = template["spec"]
    yield f"## {template['metadata']['name']}"
    yield spec["description"]
    rows = ["| Parameter | Type | Default | Description |", "|---|---|---|---|"]
    yield "\n".join(rows + [_parameter(one) for one in spec.get("parameters", [])])
    if "steps" in spec:
        yield "\n".join(
            ["| Step | Is | At most | If it fails |", "|---|---|---|---|", *map(_step, spec["steps"])]
        )
    else:
        yield "It declares:"
        yield "\n".join(f"- {text}" for text in _declared(spec["configSet"]))


def _parameter(one: Object) -> str:
    default = "required" if one.get("required") else f"`{one['default']}`" if one["default"] else "empty"
    allowed = ""
    if "enum" in one:
        allowed = "<br>One of " + ", ".join(f"`{value}`" for value in one["enum"]) + "."
    elif "pattern" in one:
        allowed = f"<br>As `{one['pattern']}`."
    cells = (f"`{one['name']}`", one["type"], default, one["description"] + allowed)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _step(step: Object) -> str:
    action = next(name for name in _ACTIONS if name in step)
    undone = " (it has an undo)" if "undo" in step else ""
    cells = (f"`{step['name']}`", action + undone, step["timeout"], step.get("onFailure", "stop"))
    return "| " + " | ".join(cells) + " |"


def _declared(config_set: Object) -> Iterator[str]:
    for file in config_set.get("files", []):
        checked = ", which a program has to approve" if "validate" in file else ""
        yield f"the file `{file['path']}`, mode {file['mode']}{checked}"
    for service in config_set.get("services", []):
        yield f"the service `{service['name']}`: {service['ensure']}, enabled"
    if config_set.get("executions"):
        yield "a script that brings a change into effect"

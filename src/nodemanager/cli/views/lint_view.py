"""Findings of `lint`: for people, for programs, and as annotations of a review on GitHub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nodemanager.cli.linting.sources import Located
from nodemanager.cli.views import output

_COLOURS = {"error": "red", "warning": "yellow"}


def lines(found: Sequence[Located], objects: int, files: int, style: output.Style) -> Iterator[str]:
    """Yield the findings for people, and how many there are at the end."""
    for one in found:
        finding = one.finding
        about = f"{finding.kind} {finding.name}: " if finding.kind else ""
        severity = style.paint(finding.severity, _COLOURS[finding.severity])
        text = output.one_line(f"{about}{finding.text} ({finding.rule})")
        yield f"{output.printable(str(one.file))}:{one.line}: {severity}: {text}"
    errors = sum(one.finding.severity == "error" for one in found)
    counted = (
        f"{_count(errors, 'error')}, {_count(len(found) - errors, 'warning')}" if found else "nothing found"
    )
    yield f"{counted} in {_count(objects, 'object')} of {_count(files, 'file')}"


def plain(found: Sequence[Located]) -> list[dict[str, Any]]:
    """Return the findings for programs."""
    return [
        {
            "file": str(one.file),
            "line": one.line,
            "severity": one.finding.severity,
            "rule": one.finding.rule,
            "kind": one.finding.kind,
            "name": one.finding.name,
            "field": one.finding.field,
            "templateLine": one.finding.line,
            "templateColumn": one.finding.column,
            "message": one.finding.message,
        }
        for one in found
    ]


def github(found: Sequence[Located]) -> Iterator[str]:
    """Yield the findings as commands of a GitHub workflow, which shows them beside the lines."""
    for one in found:
        finding = one.finding
        file, title = _property(str(one.file)), _property(f"nodemanager {finding.rule}")
        about = f"{finding.kind} {finding.name}: " if finding.kind else ""
        message = _data(f"{about}{finding.text}")
        yield f"::{finding.severity} file={file},line={one.line},title={title}::{message}"


def _data(text: str) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return output.printable(text)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

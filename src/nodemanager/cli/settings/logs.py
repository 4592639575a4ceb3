"""Where log lines go and what they look like: one line each, text for people or JSON for collectors."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Final

import click

LEVELS: Final = ("DEBUG", "INFO", "WARN", "ERROR")
FORMATS: Final = ("text", "json")
_STEPS: Final = re.compile("([A-Za-z]+)([-+][0-9]{1,2})")
_STEP: Final = 2.5
"""Between two names there are four steps, as the Go program counts, and ten of ours."""
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters but the tab, ends of lines, and what turns the direction of a text."""


class Level(click.Choice[str]):
    """How important a line must be: a name, or a name and steps up or down from it, such as `INFO+2`."""

    def __init__(self) -> None:
        super().__init__(LEVELS, case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return it in capitals."""
        found = _STEPS.fullmatch(str(value))
        name = super().convert(found[1] if found else value, param, ctx)
        return f"{name}{found[2]}" if found else str(name)


LEVEL_OPTION: Final = click.option(
    "--log-level", type=click.Choice(LEVELS, case_sensitive=False), default="INFO", show_default=True,
    help="Least important lines to log.",
)  # fmt: skip
"""For commands whose lines the Go program did not have: names only."""


class TextFormatter(logging.Formatter):
    """`2026-01-02T03:04:05.678Z INFO  runtime.cache: message`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows on lines of its own."""
        level = "WARN" if record.levelname == "WARNING" else record.levelname
        line = f"{_time(record)} {level:<5} {_source(record)}: {_one_line(record.getMessage())}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        level = "WARN" if record.levelname == "WARNING" else record.levelname
        fields: dict[str, Any] = {"time": _time(record), "level": level, "source": _source(record)}
        fields["msg"] = record.getMessage()
        fields.update(getattr(record, "fields", {}))  # what `extra` gave: the message in parts
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return _UNPRINTABLE.sub(
            lambda found: f"\\u{ord(found[0]):04x}", json.dumps(fields, ensure_ascii=False)
        )


def configure(level: str, style: str) -> None:
    """Send everything at or above `level` to stdout, as a service manager expects it."""
    logging.raiseExceptions = False  # a full disk must not answer every line with a page of traceback
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(level=_number(level), handlers=[handler], force=True)


def _number(level: str) -> int:
    found = _STEPS.fullmatch(level)
    name, steps = (found[1], int(found[2])) if found else (level, 0)
    base: int = logging.WARNING if name == "WARN" else getattr(logging, name)
    return max(1, round(base + _STEP * steps))


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _source(record: logging.LogRecord) -> str:
    return record.name.removeprefix("nodemanager.")


def _one_line(text: str) -> str:
    """Keep what others wrote from looking like lines of ours, or from steering a terminal."""
    return _UNPRINTABLE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()

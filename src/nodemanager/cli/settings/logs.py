"""Where log lines go and what they look like: one line each, text for people or JSON for collectors."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
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

    def __init__(self, *, timed: bool = True, coloured: bool = False) -> None:
        super().__init__()
        self._timed = timed
        """Whether lines have a time; the reader of the log may add it by itself."""
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows on lines of its own."""
        time = f"{_time(record)} " if self._timed else ""
        line = f"{time}{self._level(record)} {_source(record)}: {_one_line(record.getMessage())}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line

    def _level(self, record: logging.LogRecord) -> str:
        name = f"{'WARN' if record.levelname == 'WARNING' else record.levelname:<5}"
        if not self._coloured or record.levelno < logging.WARNING:
            return name
        return click.style(name, fg="red" if record.levelno >= logging.ERROR else "yellow")


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


class JournalFormatter(logging.Formatter):
    """Begins every line with its priority, for systemd's journal: `journalctl -p warning` finds it."""

    def __init__(self, lines: logging.Formatter) -> None:
        super().__init__()
        self._lines = lines

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, or lines: the journal keeps each for itself."""
        found = next(priority for level, priority in _PRIORITIES if record.levelno >= level)
        return "\n".join(f"<{found}>{line}" for line in self._lines.format(record).split("\n"))


_PRIORITIES: Final = (
    (logging.CRITICAL, 2),
    (logging.ERROR, 3),
    (logging.WARNING, 4),
    (logging.INFO, 6),
    (logging.NOTSET, 7),
)
"""The priorities of syslog, by the least important level that has each."""


def configure(level: str, style: str, *, syslog: bool = False) -> None:
    """Send everything at or above `level` to stdout, as a service manager expects it, or else to syslog."""
    logging.raiseExceptions = False  # a full disk must not answer every line with a page of traceback
    handler: logging.Handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_formatter(style, in_journal=_is_journal(sys.stdout.fileno)))
    if syslog:
        plain = TextFormatter(timed=False, coloured=False)
        handler = SyslogHandler(JsonFormatter() if style == "json" else plain)
    logging.basicConfig(level=_number(level), handlers=[handler], force=True)


SYSLOGS: Final = ("/var/run/log", "/dev/log")
"""The sockets of syslog, on FreeBSD and on Linux."""


class SyslogHandler(logging.Handler):
    """Writes to syslog as soon as that is there: when a host boots, it may come after us."""

    def __init__(self, formatter: logging.Formatter, places: Sequence[str] = SYSLOGS) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._places = places
        self._syslog: logging.Handler | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; without a reader it is lost."""
        if self._syslog is None:
            self._syslog = self._connected()
        if self._syslog is not None:
            self._syslog.emit(record)

    def close(self) -> None:
        """Give back what is held open."""
        if self._syslog is not None:
            self._syslog.close()
        super().close()

    def _connected(self) -> logging.Handler | None:
        from logging.handlers import SysLogHandler  # only where we went into the background by ourselves

        for path in self._places:
            try:
                found = SysLogHandler(path, SysLogHandler.LOG_DAEMON)
            except OSError:
                continue
            found.ident = f"nodemanager[{os.getpid()}]: "
            found.setFormatter(self.formatter)
            return found
        return None


def _formatter(style: str, *, in_journal: bool) -> logging.Formatter:
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    text = TextFormatter(timed=not in_journal, coloured=coloured)
    lines = JsonFormatter() if style == "json" else text
    return JournalFormatter(lines) if in_journal else lines


def _is_journal(descriptor: Callable[[], int]) -> bool:
    """Tell whether the journal reads what we write: systemd names its file, and ours may be another."""
    try:
        found = os.fstat(descriptor())
    except (OSError, ValueError):  # closed, or no file at all
        return False
    return os.environ.get("JOURNAL_STREAM", "") == f"{found.st_dev}:{found.st_ino}"


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

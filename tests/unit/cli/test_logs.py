"""Log lines: for people on a terminal, for the journal of systemd, for files."""

from __future__ import annotations

import logging
import os
import socket
import sys
from pathlib import Path

import pytest

from nodemanager.cli.settings import logs

LINES = """
import logging, sys
from nodemanager.cli.settings import logs
logs.configure("DEBUG", sys.argv[1])
log = logging.getLogger("nodemanager.some.part")
log.debug("small"); log.info("plain"); log.warning("odd"); log.error("bad"); log.critical("worst")
try:
    raise ValueError("oops")
except ValueError:
    log.exception("mistake")
"""


def printed(style: str, *, journal: bool) -> list[str]:
    """Return what a process writes to a pipe that is, or is not, the journal's."""
    read, write = os.pipe()
    found = os.fstat(write)
    stream = f"{found.st_dev}:{found.st_ino}" if journal else "8:4711"
    environ = {**os.environ, "JOURNAL_STREAM": stream}
    pid = os.posix_spawn(
        sys.executable, [sys.executable, "-c", LINES, style], environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read)],
    )  # fmt: skip
    os.close(write)
    with os.fdopen(read) as lines:
        text = lines.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return text.splitlines()


def test_the_journal_learns_how_important_each_line_is_and_adds_the_time_itself() -> None:
    lines = printed("text", journal=True)
    assert lines[:5] == [
        "<7>DEBUG some.part: small",
        "<6>INFO  some.part: plain",
        "<4>WARN  some.part: odd",
        "<3>ERROR some.part: bad",
        "<2>CRITICAL some.part: worst",
    ]
    assert all(line.startswith("<3>") for line in lines[5:]), "a traceback is as important as its message"
    assert lines[-1] == "<3>ValueError: oops"


def test_json_stays_json_behind_its_priority() -> None:
    lines = printed("json", journal=True)
    assert lines[2].startswith('<4>{"time": ')
    assert lines[2].endswith('"msg": "odd"}')


def test_a_file_that_is_not_the_journal_gets_times_and_no_priorities() -> None:
    """A service may send its output elsewhere, and the processes that it starts inherit the variable."""
    lines = printed("text", journal=False)
    assert lines[1].endswith("Z INFO  some.part: plain")
    assert not [line for line in lines if line.startswith("<")]


@pytest.mark.parametrize(
    ("level", "shown"),
    [("INFO", "INFO  x"), ("WARNING", "\x1b[33mWARN \x1b[0m x"), ("ERROR", "\x1b[31mERROR\x1b[0m x")],
)
def test_only_what_is_odd_has_a_colour_on_a_terminal(level: str, shown: str) -> None:
    record = logging.makeLogRecord(
        {"name": "x", "levelname": level, "levelno": getattr(logging, level), "msg": "m"}
    )
    assert logs.TextFormatter(timed=False, coloured=True).format(record) == f"{shown}: m"


def test_a_pipe_has_no_colours() -> None:
    assert "\x1b" not in "".join(printed("text", journal=False))


def test_syslog_gets_lines_from_when_on_it_is_there(tmp_path: Path) -> None:
    place = str(tmp_path / "log")
    handler = logs.SyslogHandler(logs.TextFormatter(timed=False, coloured=False), [place])
    record = logging.LogRecord("nodemanager.agent", logging.WARNING, "", 0, "alone", None, None)
    handler.emit(record)  # lost, and nothing else happens
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.bind(place)
        handler.emit(record)
        got = syslog.recv(1000).rstrip(b"\0").decode()
    handler.close()
    assert got == f"<28>nodemanager[{os.getpid()}]: WARN  agent: alone"

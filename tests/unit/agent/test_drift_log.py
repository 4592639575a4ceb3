"""The drift log: in order, each once, on disk before anybody hears of it, and never in the way."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from pathlib import Path

import pytest

from nodemanager.agent.drift import drift_log
from nodemanager.agent.drift.drift_log import DriftLog
from nodemanager.api.common.managednode import Drift, DriftRecord
from nodemanager.host.state.line_file import LineFile
from support import virtual_time


def record(name: str = "a", outcome: str = "repaired", message: str = "") -> DriftRecord:
    return DriftRecord(
        time="2026-01-01T00:00:00Z", resource=f"file:/{name}", outcome=outcome, message=message
    )


def opened(folder: Path) -> DriftLog:
    return DriftLog("/", str(folder))


def joined(folder: Path, known: Drift | None = None) -> DriftLog:
    """Open the log of a host that has heard of its API."""
    log = opened(folder)
    log.adopt(known)
    return log


def sequences(log: DriftLog) -> list[int]:
    return [one.sequence for one in log.waiting()]


def test_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    first = joined(tmp_path)
    assert [first.add(record()).sequence for _ in range(3)] == [1, 2, 3]
    assert sequences(first) == []  # not on disk yet
    first.flush()
    assert sequences(first) == [1, 2, 3]
    first.reported(2)
    first.flush()
    again = joined(tmp_path)
    assert sequences(again) == [3]
    assert again.add(record()).sequence == 4
    assert (tmp_path / "drift.log").stat().st_mode & 0o777 == 0o600


def test_what_nobody_heard_of_may_be_lost_and_its_number_given_again(tmp_path: Path) -> None:
    first = joined(tmp_path)
    first.add(record("a"))
    first.flush()
    first.add(record("lost"))
    again = joined(tmp_path)  # the first one was killed
    assert again.add(record("b")).sequence == 2
    first.reported(2)
    assert first.reported_sequence == 1  # what is not on disk cannot have been reported


def test_the_status_tells_after_a_crash_what_was_reported(tmp_path: Path) -> None:
    first = joined(tmp_path)
    first.adopt(None)
    for _ in range(3):
        first.add(record())
    first.flush()
    first.reported(2)  # and killed before that was on disk
    again = joined(tmp_path)
    assert sequences(again) == [1, 2, 3]
    again.adopt(Drift(sequence=2))
    assert sequences(again) == [3]


def test_a_lost_file_goes_on_behind_what_the_api_knows(tmp_path: Path) -> None:
    alone = opened(tmp_path)
    alone.add(record("x"))
    alone.add(record("y", "observed"))
    alone.flush()
    log = opened(tmp_path)
    log.adopt(Drift(repaired=500, observed=3, sequence=500, recent=[DriftRecord(sequence=500)]))
    assert [(one.sequence, one.resource) for one in log.waiting()] == [(501, "file:/x"), (502, "file:/y")]
    shown = log.drift()
    assert (shown.repaired, shown.observed, shown.sequence) == (501, 4, 500)
    assert [one.sequence for one in shown.recent] == [500]
    assert opened(tmp_path).drift() == shown
    log.adopt(Drift(sequence=500))
    assert log.drift() == shown


def test_a_disk_that_was_put_back_loses_nothing(tmp_path: Path) -> None:
    log = joined(tmp_path)
    log.adopt(Drift(sequence=5))
    log.add(record())
    log.flush()
    log.adopt(Drift(sequence=90))
    log.flush()
    assert sequences(log) == [91]


def test_the_status_shows_what_was_reported(tmp_path: Path) -> None:
    log = joined(tmp_path)
    for number in range(100):
        log.add(record(str(number)))
    log.flush()
    log.reported(90)
    shown = log.drift()
    assert shown.sequence == 90
    assert [one.sequence for one in shown.recent] == list(range(27, 91))
    assert (shown.repaired, shown.last_resource) == (100, "file:/99")
    log.flush()
    assert joined(tmp_path).drift() == shown


def test_more_than_can_be_kept_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = joined(tmp_path)
    for _ in range(drift_log.MAX_RECORDS + 10):
        log.add(record())
    log.flush()
    assert (sequences(log)[0], len(log.waiting())) == (11, drift_log.MAX_RECORDS)
    assert log.drift().repaired == drift_log.MAX_RECORDS + 10
    assert [one.levelno for one in caplog.records] == [logging.WARNING]
    assert sequences(joined(tmp_path)) == sequences(log)


def test_the_file_stays_small(tmp_path: Path) -> None:
    log = joined(tmp_path)
    for _ in range(300):
        for _ in range(100):
            log.add(record())
        log.flush()
        log.reported(log.sequence)
    lines = (tmp_path / "drift.log").read_bytes().count(b"\n")
    assert lines <= 2 * drift_log.MAX_RECORDS + 200
    again = joined(tmp_path)
    assert (again.sequence, len(again.drift().recent)) == (30_000, 64)


def test_a_torn_end_is_cut_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = joined(tmp_path)
    log.add(record("a"))
    log.flush()
    log.add(record("b"))
    log.flush()
    path = tmp_path / "drift.log"
    whole = path.read_bytes()
    begin = whole[:-1].rindex(b"\n") + 1
    for end in range(begin + 1, len(whole)):
        path.write_bytes(whole[:end])
        again = joined(tmp_path)
        assert sequences(again) == [1]
        again.add(record("c"))
        again.flush()
        assert [one.resource for one in joined(tmp_path).waiting()] == ["file:/a", "file:/c"]
    assert caplog.records == []


@pytest.mark.parametrize("at", ["head", "middle", "end", "all", "version"])
def test_a_damaged_file_is_set_aside(tmp_path: Path, at: str, caplog: pytest.LogCaptureFixture) -> None:
    log = opened(tmp_path)
    log.adopt(Drift(sequence=10))
    for name in "abc":
        log.add(record(name))
        log.flush()
    path = tmp_path / "drift.log"
    lines = path.read_bytes().splitlines(keepends=True)
    where = {"head": 0, "middle": 2, "end": 3}.get(at)
    if where is not None:
        lines[where] = lines[where].replace(b":", b";", 1)
        path.write_bytes(b"".join(lines))
    elif at == "all":
        path.write_bytes(os.urandom(400) + b"\n")
    else:
        LineFile(log._tree, str(tmp_path), "drift.log", 1000).replace([b'{"version":9}'])
    again = opened(tmp_path)
    assert "drift.log.damaged now" in caplog.text
    assert (tmp_path / "drift.log.damaged").exists()
    again.add(record("d"))
    again.adopt(Drift(sequence=13))
    again.flush()
    assert again.waiting()[-1].resource == "file:/d"
    assert sequences(again)[0] == 14


def test_a_full_disk_delays_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = joined(tmp_path)
    log.add(record("a"))
    log.flush()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for name in "bc":
        log.add(record(name))
        log.flush()
    assert sequences(log) == [1]
    monkeypatch.undo()
    log.flush()
    assert sequences(log) == sequences(joined(tmp_path)) == [1, 2, 3]
    assert caplog.text.count("cannot record drifts") == 1


def test_a_storm_is_written_once_a_second(tmp_path: Path) -> None:
    log = joined(tmp_path)
    writes: list[float] = []

    async def storm() -> None:
        loop = asyncio.get_running_loop()
        really = log._write

        def write(batch: drift_log._Batch) -> OSError | None:
            writes.append(loop.time())
            return really(batch)

        log._write = write  # type: ignore[method-assign]
        part = asyncio.create_task(log.run())
        for _ in range(500):
            log.add(record())
            await asyncio.sleep(0.01)
        part.cancel()
        await asyncio.gather(part, return_exceptions=True)

    virtual_time.run(storm())
    assert 5 <= len(writes) <= 7
    assert len(joined(tmp_path).waiting()) == 500

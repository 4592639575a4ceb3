"""The files of an audit log: private, bounded, and of whole lines, whatever the disk does."""

from __future__ import annotations

import resource
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from nodemanager.server.audit.audit_log import AuditLog
from nodemanager.server.audit.log_file import LogFile, LogLimits
from nodemanager.server.audit.policy import AuditLevel, AuditPolicy, AuditRule
from nodemanager.server.http.app import ApiSettings
from support.embedded import serving

LINE = b'{"kind": "Event"}\n'


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 31, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_lines_are_appended_for_nobody_else_to_read(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(LINE)
    path.chmod(0o644)
    file = LogFile(path, LogLimits())
    file.append(LINE)
    file.close()
    assert path.read_bytes() == LINE * 2
    assert path.stat().st_mode & 0o777 == 0o600


def test_large_files_are_put_aside_and_the_oldest_go(tmp_path: Path) -> None:
    (tmp_path / "audit-of-my-own.log").touch()
    file = LogFile(tmp_path / "audit.log", LogLimits(len(LINE) * 2, 2), Clock())
    for _ in range(9):
        file.append(LINE)
    file.close()
    kept = files(tmp_path)
    assert len(kept) == 4
    assert "audit-of-my-own.log" in kept
    assert all((tmp_path / name).read_bytes() == LINE * 2 for name in kept if name.startswith("audit-2026"))
    assert (tmp_path / "audit.log").read_bytes() == LINE


def test_old_files_go(tmp_path: Path) -> None:
    clock = Clock()
    file = LogFile(tmp_path / "audit.log", LogLimits(1, 0, timedelta(days=1)), clock)
    for _ in range(3):
        file.append(LINE)
    clock.now += timedelta(days=2)
    file.append(LINE)
    file.close()
    assert len(files(tmp_path)) == 2


def test_a_full_disk_costs_lines_and_no_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "audit.log", Clock()
    file = LogFile(path, LogLimits(), clock)
    file.append(LINE)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(LINE) + 5, hard))
    try:
        file.append(LINE)
        file.append(LINE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == LINE
    file.append(LINE)
    file.close()
    assert path.read_bytes() == LINE * 2
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot write the audit log {path}: No space left on device; requests go on, 1 of them are not in it"
    ]


def test_a_file_that_cannot_be_put_aside_grows_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "audit.log"
    file = LogFile(path, LogLimits(1), Clock())
    file.append(LINE)
    path.unlink()
    file.append(LINE)
    file.append(LINE)
    file.close()
    assert "it cannot be put aside: No such file or directory" in caplog.text


def test_a_device_is_left_as_it_is(tmp_path: Path) -> None:
    before = Path("/dev/null").stat().st_mode
    with pytest.raises(OSError, match="not a regular file"):
        LogFile(Path("/dev/null"), LogLimits())
    assert Path("/dev/null").stat().st_mode == before
    with pytest.raises(FileNotFoundError):
        LogFile(tmp_path / "none" / "audit.log", LogLimits())


async def test_an_api_goes_on_without_its_audit_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = LogFile(tmp_path / "audit.log", LogLimits())
    file.close()
    (tmp_path / "audit.log").unlink()
    (tmp_path / "audit.log").mkdir()  # there can be no such file any more
    everything = AuditPolicy((AuditRule(AuditLevel.REQUEST_RESPONSE),))
    settings = ApiSettings(observers=(AuditLog(everything, file),))
    async with serving(settings=settings) as running, aiohttp.ClientSession(running.server) as http:
        body = {"metadata": {"name": "a"}}
        async with http.post("/api/v1/namespaces/default/configmaps", json=body) as response:
            assert response.status == 201
    assert "Is a directory; requests go on, 1 of them are not in it" in caplog.text

"""The administrator's kubeconfig: kept while it is good, written anew before it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nodemanager.server.access.admin_config import AdminConfig
from nodemanager.server.http import certs
from nodemanager.server.http.certs import CLIENT_LIFETIME, Authority
from support.virtual_time import run as run_in_virtual_time

SERVER = "https://127.0.0.1:6443"


class Clock:
    """A wall clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(microsecond=0)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def authority(tmp_path: Path, clock: Clock) -> Authority:
    return certs.load_or_create(tmp_path / "ca.pem", clock())


def test_a_restart_keeps_a_good_file(tmp_path: Path, authority: Authority, clock: Clock) -> None:
    path = tmp_path / "admin.kubeconfig"
    first = AdminConfig(path, SERVER, authority, clock)
    before = path.read_bytes()
    clock.now += CLIENT_LIFETIME * 2 / 3 - timedelta(days=1)
    assert AdminConfig(path, SERVER, authority, clock).expires == first.expires
    assert path.read_bytes() == before


def _age(_path: Path, clock: Clock) -> None:
    clock.now += CLIENT_LIFETIME * 2 / 3


def _turn_back(_path: Path, clock: Clock) -> None:
    clock.now -= timedelta(days=2)


def _damage(path: Path, _clock: Clock) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _empty(path: Path, _clock: Clock) -> None:
    path.write_bytes(b"users: [5]\n")


def _publish(path: Path, _clock: Clock) -> None:
    path.chmod(0o644)


def _link(path: Path, _clock: Clock) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _remove(path: Path, _clock: Clock) -> None:
    path.unlink()


@pytest.mark.parametrize("harm", [_age, _turn_back, _damage, _empty, _publish, _link, _remove])
def test_a_restart_replaces_a_file_that_is_not_good(
    tmp_path: Path, authority: Authority, clock: Clock, harm: Callable[[Path, Clock], None]
) -> None:
    path = tmp_path / "admin.kubeconfig"
    AdminConfig(path, SERVER, authority, clock)
    before = path.read_bytes()
    harm(path, clock)
    config = AdminConfig(path, SERVER, authority, clock)
    assert path.read_bytes() != before
    assert (path.stat().st_mode & 0o777, path.is_symlink()) == (0o600, False)
    assert config.expires == clock() + CLIENT_LIFETIME


def test_a_file_for_another_server_or_authority_is_replaced(
    tmp_path: Path, authority: Authority, clock: Clock
) -> None:
    path = tmp_path / "admin.kubeconfig"
    other = certs.load_or_create(tmp_path / "other.pem", clock())
    seen = set()
    for server, signer in ((SERVER, authority), ("https://127.0.0.1:7443", authority), (SERVER, other)):
        AdminConfig(path, server, signer, clock)
        seen.add(path.read_bytes())
    assert len(seen) == 3


def test_it_is_renewed_while_the_server_runs(tmp_path: Path, authority: Authority, clock: Clock) -> None:
    path = tmp_path / "admin.kubeconfig"
    config = AdminConfig(path, SERVER, authority, clock)
    before = path.read_bytes()

    async def scenario() -> None:
        task = asyncio.create_task(config.keep_fresh())
        await asyncio.sleep(3 * 3600)
        assert path.read_bytes() == before
        clock.now += CLIENT_LIFETIME * 2 / 3
        await asyncio.sleep(3 * 3600)
        task.cancel()

    run_in_virtual_time(scenario())
    assert config.expires == clock() + CLIENT_LIFETIME
    assert path.read_bytes() != before
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []

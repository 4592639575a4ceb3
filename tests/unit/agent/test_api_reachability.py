"""How a host stands with its API: told from its own requests, counted by clocks that nobody can set."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from nodemanager.agent.link import api_reachability
from nodemanager.agent.link.api_reachability import ApiReachability, SecretLimits, UnixClocks
from nodemanager.client.http.transport import Request, Response
from nodemanager.host.state.vault import Vault
from nodemanager.kube import errors
from nodemanager.runtime import tasks
from support import virtual_time

OWN = "/apis/common.nodemanager/v1/namespaces/n/managednodes/web1"
HOUR = 3600.0


@dataclass
class Time:
    """Two clocks; only one of them can be set."""

    wall: float = 1_800_000_000.0
    steady: float = 50.0

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


class Host:
    """A host that asks an API, and is restarted at times."""

    def __init__(self, folder: Path, limits: SecretLimits | None = None) -> None:
        self.folder = folder
        self.limits = limits or SecretLimits(grace=72 * HOUR)
        self.time = Time()
        self.told = 0
        self.start()

    def start(self) -> None:
        clocks = UnixClocks(lambda: self.time.wall, lambda: self.time.steady)
        self.reachability = ApiReachability(Vault("/", str(self.folder)), self.limits, clocks)
        self.reachability.subscribe(self._tell)
        self.reachability._own = (("GET", OWN),)

    def _tell(self) -> None:
        self.told += 1

    def hears(self, status: int, target: str = OWN) -> None:
        self.reachability.saw(Request("GET", target), status)

    def is_refused(self, status: int = 401, target: str = OWN) -> None:
        self.hears(status, target)
        self.time.pass_by(api_reachability.SURE_SECONDS)
        self.hears(status, target)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("status", [500, 503])
def test_an_api_that_cannot_is_like_none(host: Host, status: int) -> None:
    host.hears(200)
    assert (host.reachability.offline, host.reachability.not_ready()) == (False, None)
    host.hears(status)
    assert (host.reachability.offline, host.reachability.refused) == (True, False)
    assert host.reachability.not_ready() == f"alone since 2027-01-15T08:00:00Z: the API answers {status}"
    host.hears(429)
    assert (host.reachability.offline, host.told) == (False, 1)


def test_an_outage_is_said_once_and_writes_nothing(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        host.reachability.failed("no route to host")
    assert [one.getMessage() for one in caplog.records] == [
        "alone: no route to host; this host goes on with what it knows"
    ]
    host.time.pass_by(1000 * HOUR)
    assert host.reachability.withheld() == ""
    assert list(host.folder.iterdir()) == []


@pytest.mark.parametrize("jump", [2 * HOUR, -2 * HOUR])
def test_a_clock_that_is_set_makes_an_outage_neither_longer_nor_shorter(host: Host, jump: float) -> None:
    host.hears(200)
    host.time.pass_by(10)
    host.reachability.failed("no route to host")
    host.time.pass_by(10)
    host.time.wall += jump
    assert host.reachability.since() == host.time.wall - 10
    assert host.reachability.heard() == host.time.wall - 20


@pytest.mark.parametrize(("status", "target"), [(401, "/api/v1/x"), (403, OWN), (403, OWN + "?x=y")])
def test_a_refusal_that_lasts_is_one(host: Host, status: int, target: str) -> None:
    host.hears(status, target)
    assert host.reachability.since() is None  # a token may just have run out
    host.time.pass_by(api_reachability.SURE_SECONDS)
    host.hears(status, target)
    assert (host.reachability.refused, host.reachability.offline) == (True, True)
    assert str(host.reachability.not_ready()).startswith("refused since ")
    assert host.reachability.why.endswith("then nodemanager bootstrap here")
    host.reachability.failed("no route to host")
    assert host.reachability.refused  # what it said last counts
    host.hears(200)
    assert (host.reachability.refused, host.reachability.offline, host.told) == (False, False, 1)


def test_a_token_that_is_renewed_at_once_is_no_refusal(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """But whoever did without the API meanwhile is told."""
    host.hears(200)
    host.hears(401)
    host.hears(200)
    host.time.pass_by(HOUR)
    host.hears(401)
    host.hears(200)
    assert (host.reachability.offline, caplog.records, host.told) == (False, [], 2)


def test_being_kept_from_something_else_is_no_refusal(host: Host) -> None:
    host.is_refused(403, "/api/v1/namespaces/n/secrets/db")
    assert not host.reachability.offline


def test_secrets_are_used_for_the_grace_and_no_longer(host: Host) -> None:
    host.is_refused()
    host.time.pass_by(71 * HOUR)
    assert host.reachability.withheld() == ""
    host.time.pass_by(HOUR)
    assert "the API has refused this host since 2027-01-15" in host.reachability.withheld()
    host.hears(200)
    assert host.reachability.withheld() == ""


def test_the_grace_goes_on_across_restarts_and_while_the_host_is_off(host: Host) -> None:
    host.is_refused()
    host.time.wall += 40 * HOUR  # off; the steady clock begins anew
    host.time.steady = 3.0
    host.start()
    assert host.reachability.refused
    assert host.reachability.withheld() == ""
    host.time.pass_by(33 * HOUR)
    assert host.reachability.withheld()


@pytest.mark.parametrize("jump", [-1e9, -5e8, 1e6, 1e9])
def test_a_jump_of_the_clock_while_running_changes_nothing(host: Host, jump: float) -> None:
    host.is_refused()
    host.time.wall += jump
    host.time.pass_by(71 * HOUR)
    assert host.reachability.withheld() == ""
    host.time.pass_by(2 * HOUR)
    assert host.reachability.withheld()


def test_a_clock_that_was_never_set_counts_for_nothing(host: Host) -> None:
    host.time.wall = 1000.0
    host.is_refused()
    host.time.wall = 1_800_000_000.0
    host.start()
    assert host.reachability.withheld() == ""


def test_a_clock_that_is_behind_after_a_restart_takes_nothing_away(host: Host) -> None:
    host.is_refused()
    host.time.pass_by(70 * HOUR)
    host.reachability._spend()
    host.reachability._save()
    host.time.wall -= 1e6
    host.start()
    host.time.pass_by(2 * HOUR)
    assert host.reachability.withheld()


def test_an_outage_ends_the_use_of_secrets_only_where_told(tmp_path: Path) -> None:
    host = Host(tmp_path, SecretLimits(72 * HOUR, max_age=24 * HOUR))
    host.reachability.failed("no route to host")
    host.time.pass_by(20 * HOUR)
    host.is_refused()
    host.time.pass_by(4 * HOUR)
    assert "the API was not there since" in host.reachability.withheld()
    host.start()
    assert host.reachability.withheld()
    host.hears(200)
    assert (host.reachability.withheld(), list(tmp_path.iterdir())) == ("", [])


@pytest.mark.parametrize("damage", [b"", b"nodemanager contact 1 plain\nxx", b"\xff" * 99])
def test_a_damaged_record_is_begun_anew(host: Host, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    host.is_refused()
    (host.folder / "contact").write_bytes(damage)
    host.start()
    assert not host.reachability.refused
    assert "it is begun anew" in caplog.text


def test_whoever_listens_hears_when_secrets_are_not_to_be_used(tmp_path: Path) -> None:
    async def story() -> None:
        host = Host(tmp_path, SecretLimits(grace=100 * HOUR))
        loop = asyncio.get_running_loop()
        host.reachability._clocks = UnixClocks(lambda: 1_800_000_000.0 + loop.time(), loop.time)
        part = asyncio.create_task(host.reachability.run())
        host.hears(401)
        await asyncio.sleep(api_reachability.SURE_SECONDS + 0.1)
        assert host.told == 1  # so that somebody asks again
        host.hears(401)
        await asyncio.sleep(99 * HOUR)
        assert host.told == 1
        await asyncio.sleep(2 * HOUR)
        assert host.told == 2
        await tasks.end([part])

    virtual_time.run(story())


class Answers:
    """A transport that fails."""

    async def send(self, request: Request) -> Response:
        raise errors.Unreachable(f"cannot reach {request.target}")

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        pass


async def test_a_transport_tells_what_became_of_a_request(host: Host) -> None:
    transport = host.reachability.watching(Answers(), ())
    with pytest.raises(errors.Unreachable):
        await transport.send(Request("GET", "/x"))
    assert (host.reachability.offline, host.reachability.why) == (True, "cannot reach /x")
    await host.reachability.first_answer()


def test_an_api_that_says_nothing_is_waited_for_a_moment(tmp_path: Path) -> None:
    async def story() -> None:
        host = Host(tmp_path)
        loop = asyncio.get_running_loop()
        await host.reachability.first_answer()
        assert loop.time() == api_reachability.PATIENCE
        assert host.reachability.offline

    virtual_time.run(story())

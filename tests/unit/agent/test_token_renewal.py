"""Renewal of the host's token: over years, through outages, full disks and clocks that jump."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.agent.link import credential_watch
from nodemanager.agent.link.credential_watch import CredentialWatch
from nodemanager.agent.link.token_renewal import TokenRenewal, TokenReporter
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.cli import agent_credential
from nodemanager.client.auth import host_kubeconfig, kubeconfig
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.renewed_token import RenewedToken, lifetime
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.host.state import state_files
from nodemanager.kube import errors
from nodemanager.kube.conditions import Condition
from nodemanager.runtime.metrics import Registry
from support import virtual_time
from support.scripted_server import Exchange, serve

LIFE = 600
SUBJECT = "system:serviceaccount:ns:nodemanager-web1"
START = 1_800_000_000.0
PAGE = {"metadata": {"resourceVersion": "1"}, "items": []}


def make_token(issued: float, life: float = LIFE, subject: str = SUBJECT) -> str:
    claims = {"iat": issued, "exp": issued + life, "sub": subject}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{payload}.c2ln"


@dataclass
class TokenApi:
    """An API that issues tokens, looks at those it is sent, and is not always there."""

    ca: trustme.CA = field(default_factory=trustme.CA)
    skew: float = 0.0
    """How far the host's clock is ahead of the API's."""
    outages: list[tuple[float, float]] = field(default_factory=list)
    issued: list[str] = field(default_factory=list)
    expired: int = 0
    requests: int = 0
    who: str = SUBJECT
    life: int = LIFE
    """For how long it is asked for tokens."""

    def now(self) -> float:
        """The API's clock."""
        return START + asyncio.get_running_loop().time()

    def host_clock(self) -> float:
        return self.now() + self.skew

    def is_down(self) -> bool:
        return any(begin <= self.now() - START < end for begin, end in self.outages)

    async def __call__(self, exchange: Exchange) -> None:
        if self.is_down():
            exchange.reset()
            return
        self.requests += 1
        path = exchange.target.partition("?")[0]
        life = lifetime(exchange.headers["authorization"].removeprefix("Bearer "))
        assert life is not None
        if self.now() >= life.expires:
            self.expired += 1
            await exchange.refuse(401, "Unauthorized")
        elif path.endswith("/nodemanager-web1/token"):
            seconds = json.loads(exchange.body)["spec"]["expirationSeconds"]
            assert seconds == self.life
            self.issued.append(make_token(self.now(), seconds))
            status = {"token": self.issued[-1], "expirationTimestamp": "later"}
            await exchange.json({"status": status}, 201)
        elif path.endswith("/selfsubjectreviews"):
            await exchange.json({"status": {"userInfo": {"username": self.who}}}, 201)
        else:
            await exchange.json(PAGE)


@dataclass
class Host:
    """A host that works all the time, with a token that is being renewed."""

    api: TokenApi
    config: ClientConfig
    path: Path
    warnings: list[str] = field(default_factory=list)
    registry: Registry = field(default_factory=Registry)
    told: list[Condition] = field(default_factory=list)
    """What its status said, one after the other."""
    anew: list[str] = field(default_factory=list)
    """Why the agent would have begun anew."""

    @contextlib.asynccontextmanager
    async def running(self, token: str) -> AsyncIterator[RenewedToken]:
        """Run until the end of the block, as one process does."""
        reporter = TokenReporter(
            self.registry,
            lambda reason, message: self.warnings.append(f"{reason}: {message}"),
            lambda: self.told.append(renewal.condition()),
        )
        renewed = RenewedToken(token, self.api.host_clock)
        config = ClientConfig(self.config.server, ca=self.config.ca, credentials=renewed)
        client = Client(HttpTransport(config))
        renewal = TokenRenewal(
            client, config, renewed, self.path, "web1", "ns", reporter, self.api.host_clock,
        )  # fmt: skip
        follow = CredentialWatch(
            [self.path], credential_watch.stamps([self.path]), self.config,
            lambda: kubeconfig.load(path=str(self.path), environ={}, run=runner.run), renewed,
            self.anew.append, clock=self.api.host_clock,
        )  # fmt: skip
        follow.subscribe(renewal.replaced)
        parts = (renewal.run(), self._work(client), follow.run())
        tasks = [asyncio.create_task(one) for one in parts]
        try:
            yield renewed
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await client.close()

    async def _work(self, client: Client) -> None:
        while True:
            with contextlib.suppress(errors.KubeError, OSError):
                await client.page(MANAGED_NODES, Selection("ns"), limit=1)
            await asyncio.sleep(97)

    def saved(self) -> str:
        """The token in the kubeconfig, which must be whole whenever it is looked at."""
        document = yaml.safe_load(self.path.read_text())
        token: str = document["users"][0]["user"]["token"]
        assert document["clusters"][0]["cluster"]["certificate-authority-data"]
        return token

    def metric(self, result: str) -> float:
        wanted = f'nodemanager_token_renewals_total{{node="web1",result="{result}"}} '
        for line in self.registry.render().splitlines():
            if line.startswith(wanted):
                return float(line.removeprefix(wanted))
        return 0.0


def story(tell: Callable[[Host], object], tmp_path: Path, **options: object) -> None:
    """Tell a story about a host, in virtual time."""

    async def scenario() -> None:
        api = TokenApi(**options)  # type: ignore[arg-type]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        api.ca.issue_cert("127.0.0.1").configure_cert(context)
        async with serve(api, context) as server:
            config = ClientConfig(server.url, ca=api.ca.cert_pem.bytes())
            await tell(Host(api, config, tmp_path / "etc" / "kubeconfig"))  # type: ignore[misc]
        assert api.expired == 0

    virtual_time.run(scenario(), io_grace=0.001)


def test_fifty_renewals_with_outages_in_between(tmp_path: Path) -> None:
    """The API is away for up to 110 s around every renewal; no request is ever sent with an expired token."""
    outages = [(480.0 * n - 20 + 13 * (n % 7), 480.0 * n + 60 + 7 * (n % 5)) for n in range(1, 80)]

    async def tell(host: Host) -> None:
        async with host.running(make_token(START)) as token:
            while len(host.api.issued) < 50:
                await asyncio.sleep(100)
                assert not host.path.exists() or host.saved() in host.api.issued
            await asyncio.sleep(5)
            assert token.life is not None
            assert host.saved() == host.api.issued[-1]
        assert host.metric("success") == 50
        assert host.metric("error") > 0
        assert host.api.requests > 200
        assert host.path.stat().st_mode & 0o777 == 0o600

    story(tell, tmp_path, outages=outages)


def test_across_restarts_a_token_at_85_percent_of_its_life_is_renewed_at_once(tmp_path: Path) -> None:
    async def tell(host: Host) -> None:
        async with host.running(make_token(START - 0.85 * LIFE)):
            await asyncio.sleep(1)
            assert len(host.api.issued) == 1
        async with host.running(host.saved()):
            await asyncio.sleep(0.7 * LIFE)
            assert len(host.api.issued) == 1
            await asyncio.sleep(0.2 * LIFE)
            assert len(host.api.issued) == 2


def test_one_for_ten_years_is_renewed_for_the_one_that_hosts_may_ask_for(tmp_path: Path) -> None:
    async def tell(host: Host) -> None:
        host.api.life = 8760 * 3600
        ten = 10 * host.api.life
        async with host.running(make_token(START - 0.85 * ten, ten)):
            await asyncio.sleep(1)
            assert len(host.api.issued) == 1

    story(tell, tmp_path)

    story(tell, tmp_path)


def test_one_that_ran_out_is_never_sent_and_does_not_make_us_busy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def tell(host: Host) -> None:
        async with host.running(make_token(START)) as token:
            await asyncio.sleep(3600)
            with pytest.raises(errors.ConfigError, match="run nodemanager bootstrap again"):
                await token.headers()
            seen = len(caplog.records)
            await asyncio.sleep(3600)
            assert len(caplog.records) - seen <= 70  # about one a minute
        assert host.api.issued == []
        assert not host.path.exists()
        assert host.warnings[0].startswith("TokenRenewalFailing: the token of this host expires at")
        said = host.told[0]
        assert (said.type, said.status, said.reason) == ("TokenRenewed", "False", "RenewalFailing")
        assert said.message.startswith("good until 2027-01-15T08:10:00Z, and cannot be renewed: cannot ")

    story(tell, tmp_path, outages=[(400.0, 1e6)])


@pytest.mark.parametrize("whose", [SUBJECT, "system:serviceaccount:ns:nodemanager-web2"])
def test_after_it_ran_out_one_that_bootstrap_put_in_place_is_taken_over(tmp_path: Path, whose: str) -> None:
    async def tell(host: Host) -> None:
        async with host.running(make_token(START)) as token:
            await asyncio.sleep(LIFE + 100)
            new = make_token(host.api.now(), subject=whose)
            host.path.parent.mkdir()
            host.path.write_bytes(host_kubeconfig.kubeconfig(host.config, "web1", "ns", new))
            await asyncio.sleep(61)
            if whose != SUBJECT:
                with pytest.raises(errors.ConfigError, match="has expired"):
                    await token.headers()
                assert host.anew == [f"there is another credential in {host.path}"]
                return
            assert host.anew == []
            assert (await token.headers())["Authorization"] == f"Bearer {new}"
            assert host.told[-1].status == "True"
            await asyncio.sleep(0.8 * LIFE)
            assert len(host.api.issued) == 1

    story(tell, tmp_path, outages=[(400.0, LIFE + 90.0)])


@pytest.mark.parametrize(
    "put", ["", "{", "an older one"], ids=["nothing", "half of something", "an older one"]
)
def test_what_is_of_no_use_in_the_kubeconfig_changes_nothing(
    tmp_path: Path, put: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def tell(host: Host) -> None:
        mine = make_token(START)
        async with host.running(mine) as token:
            host.path.parent.mkdir()
            older = host_kubeconfig.kubeconfig(host.config, "web1", "ns", make_token(START - 60.0))
            host.path.write_bytes(older if put == "an older one" else put.encode())
            await asyncio.sleep(2 * credential_watch.LOOK)
            assert token.token == mine
        assert host.anew == []
        assert ("this host goes on with" in caplog.text) == (put != "an older one")

    story(tell, tmp_path)


@pytest.mark.parametrize(
    ("seconds", "warnings", "told"),
    [
        pytest.param(3, 0, ["True"], id="a moment"),
        pytest.param(45, 1, ["False", "True"], id="longer"),
    ],
)
def test_a_failure_is_told_when_it_lasts_and_taken_back_when_it_is_over(
    tmp_path: Path, seconds: float, warnings: int, told: list[str]
) -> None:
    due = 0.8 * LIFE

    async def tell(host: Host) -> None:
        async with host.running(make_token(START)):
            await asyncio.sleep(due + 100)
        assert [one.status for one in host.told] == told
        assert host.told[-1].message.startswith("good until 2027-01-15T08:18:")
        assert len(host.warnings) == warnings

    story(tell, tmp_path, outages=[(due - 5, due + seconds)])


@pytest.mark.parametrize("skew", [-3600.0, -100.0, 100.0, 590.0])
def test_clocks_that_disagree_do_not_make_us_busy(tmp_path: Path, skew: float) -> None:
    async def tell(host: Host) -> None:
        async with host.running(make_token(START)):
            await asyncio.sleep(500)
            assert len(host.api.issued) <= 10

    story(tell, tmp_path, skew=skew)


def test_a_clock_that_jumps_ahead_is_noticed_within_a_minute(tmp_path: Path) -> None:
    async def tell(host: Host) -> None:
        async with host.running(make_token(START)):
            await asyncio.sleep(100)
            asyncio.get_running_loop().advance(400)  # type: ignore[attr-defined]
            await asyncio.sleep(61)
            assert len(host.api.issued) == 1

    story(tell, tmp_path)


def test_a_full_disk_keeps_the_old_file_and_uses_the_new_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = state_files.write_all
    full = True

    def write_all(descriptor: int, data: bytes) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor, data)

    monkeypatch.setattr(state_files, "write_all", write_all)

    async def tell(host: Host) -> None:
        nonlocal full
        host.path.parent.mkdir()
        host.path.write_text("old")
        async with host.running(make_token(START)) as token:
            await asyncio.sleep(LIFE + 60)
            assert host.path.read_text() == "old"
            assert [one.name for one in host.path.parent.iterdir()] == ["kubeconfig"]
            assert len(host.api.issued) == 1
            assert (await token.headers())["Authorization"] == f"Bearer {host.api.issued[0]}"
            full = False
            await asyncio.sleep(60)
            assert host.saved() == host.api.issued[0]
        assert (host.metric("success"), len(host.api.issued)) == (1, 1)

    story(tell, tmp_path)


def test_a_token_that_is_taken_for_somebody_elses_is_not_used(tmp_path: Path) -> None:
    async def tell(host: Host) -> None:
        first = make_token(START)
        async with host.running(first) as token:
            await asyncio.sleep(490)
            assert host.api.issued
            assert (await token.headers())["Authorization"] == f"Bearer {first}"
        assert not host.path.exists()

    story(tell, tmp_path, who="system:serviceaccount:ns:nodemanager-web2")


@pytest.mark.parametrize(
    ("token", "own"),
    [
        pytest.param(make_token(START), True, id="its own"),
        pytest.param(
            make_token(START, subject="system:serviceaccount:ns:nodemanager-web2"), False, id="another's"
        ),
        pytest.param(
            make_token(START, subject="system:serviceaccount:other:nodemanager-web1"), False, id="elsewhere"
        ),
        pytest.param(make_token(START, subject="alice"), False, id="an administrator's"),
        pytest.param("opaque", False, id="no JWT"),
        pytest.param("a.b.c", False, id="no JSON"),
        pytest.param("e30.e30.x", False, id="no claims"),
        pytest.param(make_token(START, life=-1), False, id="ends before it begins"),
    ],
)
def test_only_the_own_token_is_renewed(token: str, own: bool) -> None:
    assert agent_credential.is_own(RenewedToken(token), "web1", "ns") is own


@given(text=st.text() | st.binary().map(lambda data: f"e30.{base64.urlsafe_b64encode(data).decode()}.x"))
def test_whatever_a_token_is_made_of_reading_it_does_not_fail(text: str) -> None:
    found = lifetime(text)
    assert found is None or found.issued < found.due < found.expires

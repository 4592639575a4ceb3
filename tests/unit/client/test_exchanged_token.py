"""The host's token that a pod gets: in time, once, through outages, and never an expired one."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import trustme

from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.credentials import BearerToken
from nodemanager.client.auth.exchanged_token import PAUSE, SECONDS, ExchangedToken
from nodemanager.kube import errors
from support.scripted_server import Exchange, serve

START = 1_800_000_000.0


@dataclass
class Issuer:
    """An API that issues tokens as long as it is asked by the pod, and is not told to refuse."""

    now: float = START
    refuses: int = 0
    asked: list[str] = field(default_factory=list)

    async def handle(self, exchange: Exchange) -> None:
        self.asked.append(exchange.target)
        assert exchange.headers["authorization"] == "Bearer of-the-pod"
        if self.refuses:
            await exchange.refuse(self.refuses, "Scripted")
            return
        claims = {"iat": self.now, "exp": self.now + SECONDS, "number": len(self.asked)}
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
        status = {"token": f"e30.{payload}.c2ln", "expirationTimestamp": "later"}
        await exchange.json({"status": status}, 201)


@pytest.fixture(name="issuer")
def _issuer() -> Issuer:
    return Issuer()


@pytest.fixture(name="token")
async def _token(issuer: Issuer) -> AsyncIterator[ExchangedToken]:
    ca = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(tls)
    async with serve(issuer.handle, tls) as server:
        pod = ClientConfig(
            server=server.url, ca=ca.cert_pem.bytes(), credentials=BearerToken("of-the-pod", source="test")
        )
        yield ExchangedToken(pod, "node1", "ns", clock=lambda: issuer.now)


async def test_many_requests_need_one_token(token: ExchangedToken, issuer: Issuer) -> None:
    got = await asyncio.gather(*(token.headers() for _ in range(20)))
    assert len({str(one) for one in got}) == 1
    assert issuer.asked == ["/api/v1/namespaces/ns/serviceaccounts/nodemanager-node1/token"]
    issuer.now += 0.79 * SECONDS
    assert await token.headers() == got[0]
    issuer.now += 0.02 * SECONDS
    assert await token.headers() != got[0]
    assert len(issuer.asked) == 2


async def test_an_outage_is_no_trouble_while_the_token_is_good(token: ExchangedToken, issuer: Issuer) -> None:
    first = await token.headers()
    issuer.now, issuer.refuses = issuer.now + 0.9 * SECONDS, 403
    assert [await token.headers() for _ in range(5)] == [first] * 5
    assert len(issuer.asked) == 2  # one refusal is believed for a while
    issuer.now += 0.1 * SECONDS
    with pytest.raises(errors.ConfigError, match="rbac -n ns --hostname node1 --kubernetes-node --daemonset"):
        await token.headers()
    issuer.now, issuer.refuses = issuer.now + PAUSE, 0
    assert await token.headers() != first


async def test_a_token_that_the_api_does_not_take_is_replaced(token: ExchangedToken, issuer: Issuer) -> None:
    first = await token.headers()
    assert await token.refresh()
    assert await token.headers() != first

"""Records that are sent to a receiver: each at least once, in order, whatever it does, without a secret."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme

from nodemanager.api.audit import record as records
from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS, KEY_SECRET, NAME
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS, name_of
from nodemanager.api.audit.record import Record
from nodemanager.api.rights import audit_policy
from nodemanager.client.calls import Selection
from nodemanager.client.http.posting import NotDelivered
from nodemanager.client.verbs import Client
from nodemanager.controllers.audit import receivers, streaming
from nodemanager.controllers.audit.streaming import Webhook
from nodemanager.controllers.registration import Caches, PartContext
from nodemanager.fleet.audit.settings import AuditSettings
from nodemanager.kube import errors
from nodemanager.kube.core import POLICY_BINDINGS, SECRETS
from nodemanager.runtime import tasks
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.metrics import Registry
from support import audit_site, whole_server
from support.accounts import operator_of
from support.audit_site import Site
from support.clients import connected
from support.scripted_server import Exchange, ScriptedServer, serve, until

NAMESPACE = "default"
AT = "2026-11-17T08:00:00Z"
SECRET = {"token": "bearer-not-to-be-seen", "hmac": "key-not-to-be-seen"}


@dataclass
class Siem:
    """A receiver, which answers as it is told, and keeps what it was sent."""

    server: ScriptedServer
    ca: bytes
    answers: list[int] = field(default_factory=list)

    @property
    def numbers(self) -> list[int]:
        """The numbers of the records that it took, in their order."""
        bodies = [one.body for one in self.server.requests]
        return [records.decode(line).sequence for body in bodies for line in body.splitlines()]


@contextlib.asynccontextmanager
async def siem(*answers: int) -> AsyncIterator[Siem]:
    """Serve a receiver that answers like this at first, and well from then on."""
    ca, left = trustme.CA(), list(answers)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)

    async def take(exchange: Exchange) -> None:
        await exchange.answer(left.pop(0) if left else 204, b"")

    async with serve(take, context) as server:
        yield Siem(server, ca.cert_pem.bytes())


@pytest.fixture(name="client")
async def _client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        whole_server.serving(tmp_path / "api") as (config, _),
        connected(operator_of(config, NAMESPACE)) as own,
    ):
        yield own


@contextlib.asynccontextmanager
async def sending(client: Client, place: str) -> AsyncIterator[tuple[Webhook, Registry]]:
    """Be the part of the operator that sends; a second one is one that has started anew."""
    cache, registry = Cache(client, AUDIT_CHECKPOINTS, Selection(NAMESPACE)), Registry()
    nothing: Any = None
    context = PartContext(
        client,
        Caches("test", {AUDIT_CHECKPOINTS: cache}),
        nothing,
        nothing,
        audit_site.Clock(),
        registry,
        NAMESPACE,
        AuditSettings(webhook=place),
    )
    following = [asyncio.create_task(cache.run())]
    try:
        await cache.synced()
        yield Webhook(context), registry
    finally:
        await tasks.end(following)


def folder_for(there: Siem, tmp_path: Path, **values: str) -> str:
    """Return a folder that names a receiver."""
    folder = tmp_path / "siem"
    folder.mkdir(exist_ok=True)
    for name, value in {"url": f"{there.server.url}/in?secret=x", **values}.items():
        (folder / name).write_text(value)
    (folder / "ca.crt").write_bytes(there.ca)
    return str(folder)


async def grow(site: Site, count: int, segments: int = 1) -> None:
    """Add records, and publish a checkpoint of them."""
    journal = site.journal
    await site.write()
    for _ in range(segments):
        await journal.store.append([Record(time=AT, verb="update")] * count, AT, journal.signing.sign)
        await journal.store.seal(AT, journal.signing.sign)
    await journal.signing.publish(journal.store.tail.tree)


def measured(registry: Registry, name: str) -> float:
    """Return the value of a metric."""
    found = next(line for line in registry.render().splitlines() if line.startswith(f"{name} "))
    return float(found.split()[1])


async def test_all_signed_records_are_sent_in_order_with_their_numbers(
    client: Client, tmp_path: Path
) -> None:
    async with siem() as there, audit_site.writing(client, NAMESPACE) as site:
        await grow(site, 5, segments=3)
        size = site.journal.store.tail.size
        async with sending(client, folder_for(there, tmp_path, **SECRET)) as (webhook, registry):
            await webhook.deliver()
            assert measured(registry, "nodemanager_audit_webhook_behind_records") == 0
        assert there.numbers == list(range(size))
        state = (await site.checkpoint()).status.webhook
        assert state is not None
        assert (state.delivered, state.failure) == (size, "")
    request = there.server.requests[1]
    first = request.headers[receivers.FIRST]
    assert request.headers["authorization"] == "Bearer bearer-not-to-be-seen"
    assert request.headers[receivers.LOG] == site.journal.signing.trusted()[0].name
    assert int(request.headers[receivers.COUNT]) == len(request.body.splitlines())
    signed = receivers.signature(
        b"key-not-to-be-seen", int(request.headers[receivers.TIME]), int(first), request.body
    )
    assert request.headers[receivers.SIGNATURE] == f"sha256={signed}"


async def test_who_starts_anew_goes_on_behind_what_was_delivered_and_repeats_what_may_not_have_been(
    client: Client, tmp_path: Path
) -> None:
    async with siem(204, 503) as there, audit_site.writing(client, NAMESPACE) as site:
        await grow(site, 5, segments=3)
        place = folder_for(there, tmp_path)
        async with sending(client, place) as (webhook, _):
            with pytest.raises(NotDelivered, match="it answers 503"):
                await webhook.deliver()
        async with sending(client, place) as (again, _):
            await again.deliver()
        size = site.journal.store.tail.size
    twice = [number for number in range(size) if there.numbers.count(number) == 2]
    assert sorted(set(there.numbers)) == list(range(size))
    assert twice == list(range(len(there.server.requests[0].body.splitlines()), twice[-1] + 1))


async def test_another_log_is_sent_from_its_beginning_however_long_it_is(
    client: Client, tmp_path: Path
) -> None:
    async with siem() as there, sending(client, folder_for(there, tmp_path)) as (webhook, _):
        async with audit_site.writing(client, NAMESPACE) as site:
            await grow(site, 3)
            await webhook.deliver()
        sent = len(there.numbers)
        async with connected(whole_server.load(tmp_path / "api" / "data" / "admin.kubeconfig")) as admin:
            await begin_another(admin)
        async with audit_site.writing(client, NAMESPACE) as site:
            await grow(site, 9)
            await webhook.deliver()
            assert there.numbers[sent:] == list(range(site.journal.store.tail.size))


async def begin_another(admin: Client) -> None:
    """Give the log up, as docs/audit.md has it."""
    await admin.delete(POLICY_BINDINGS, audit_policy.POLICY)
    await admin.delete(AUDIT_CHECKPOINTS, NAME, NAMESPACE)
    for one in (await admin.list(AUDIT_SEGMENTS, Selection(NAMESPACE))).items:
        await admin.delete(AUDIT_SEGMENTS, one.metadata.name, NAMESPACE)
    await admin.delete(SECRETS, KEY_SECRET, NAMESPACE)


async def test_a_receiver_that_is_away_is_asked_again_and_holds_up_nobody(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(streaming, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(streaming, "SETTLE_SECONDS", 0.0)
    caplog.set_level(logging.DEBUG)
    async with siem(503, 429, 301, 400) as there, audit_site.writing(client, NAMESPACE) as site:
        await grow(site, 3)
        async with sending(client, folder_for(there, tmp_path, **SECRET)) as (webhook, registry):
            running = asyncio.create_task(webhook.run())
            try:
                await until(lambda: len(there.server.requests) == 5)
                await grow(site, 3)
                size = site.journal.store.tail.size
                await until(lambda: bool(there.numbers) and there.numbers[-1] == size - 1)
                await until(lambda: measured(registry, "nodemanager_audit_webhook_failing") == 0)
            finally:
                await tasks.end([running])
    assert set(there.numbers) == set(range(size))
    assert "it answers 503" in caplog.text
    hidden = [*SECRET.values(), "secret=x", f"127.0.0.1:{there.server.port}/in"]
    assert not [one for one in hidden if one in caplog.text]


async def test_what_keeps_records_from_being_sent_is_in_the_status(client: Client, tmp_path: Path) -> None:
    async with siem(500) as there, audit_site.writing(client, NAMESPACE) as site:
        await grow(site, 3)
        async with sending(client, folder_for(there, tmp_path)) as (webhook, registry):
            with pytest.raises(NotDelivered) as caught:
                await webhook.deliver()
            await webhook._failed(str(caught.value))
            assert measured(registry, "nodemanager_audit_webhook_failing") == 1
            assert (
                measured(registry, "nodemanager_audit_webhook_behind_records") == site.journal.store.tail.size
            )
        state = (await site.checkpoint()).status.webhook
        assert state is not None
        assert "it answers 500" in state.failure
        await site.write()  # the writer of the log leaves that alone
        assert (await site.checkpoint()).status.webhook == state


async def test_a_secret_names_the_receiver_too(client: Client, tmp_path: Path) -> None:
    admin_config = whole_server.load(tmp_path / "api" / "data" / "admin.kubeconfig")
    async with (
        siem() as there,
        connected(admin_config) as admin,
        audit_site.writing(client, NAMESPACE) as site,
    ):
        await grow(site, 1)
        values = {"url": there.server.url.encode(), "ca.crt": there.ca}
        data = {name: base64.b64encode(value).decode() for name, value in values.items()}
        await admin.create(SECRETS, {"metadata": {"name": "siem"}, "data": data}, NAMESPACE)
        async with sending(client, "siem") as (webhook, _):
            await webhook.deliver()
        assert there.numbers == list(range(site.journal.store.tail.size))


async def test_records_that_were_removed_before_are_counted_and_the_others_sent(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with siem() as there, audit_site.writing(client, NAMESPACE) as site:
        await grow(site, 2, segments=2)
        kept = (await client.get(AUDIT_SEGMENTS, name_of(1), NAMESPACE)).spec.first
        async with sending(client, folder_for(there, tmp_path)) as (webhook, registry):
            real = client.get

            async def without(resource: Any, name: str, *rest: Any, **more: Any) -> Any:
                if name == name_of(0):
                    raise errors.NotFound("scripted")
                return await real(resource, name, *rest, **more)

            page = await client.page(AUDIT_SEGMENTS, Selection(NAMESPACE), limit=50, continue_token="")
            del page.items[0]

            async def rest_of(*_args: Any, **_more: Any) -> Any:
                return page

            monkeypatch.setattr(client, "get", without)
            monkeypatch.setattr(client, "page", rest_of)
            await webhook.deliver()
            assert measured(registry, "nodemanager_audit_webhook_missed_records_total") == kept
        assert there.numbers[0] == kept


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "url").unlink(), "there is no .*/url: write the address into it"),
        (lambda folder: (folder / "url").write_text("http://x/secret"), "is no address: write https://"),
        (lambda folder: (folder / "token").write_text("a\nb"), "is no token"),
        (lambda folder: (folder / "ca.crt").unlink(), "its certificate is not accepted"),
        (lambda folder: (folder / "hmac").mkdir(), "cannot be read: Is a directory"),
    ],
)
async def test_a_receiver_that_cannot_be_used_is_said_without_its_address(
    spoil: Callable[[Path], None], said: str, client: Client, tmp_path: Path
) -> None:
    async with siem() as there, audit_site.writing(client, NAMESPACE) as site:
        await grow(site, 1)
        place = folder_for(there, tmp_path)
        spoil(Path(place))
        async with sending(client, place) as (webhook, _):
            with pytest.raises(NotDelivered, match=said) as caught:
                await webhook.deliver()
    assert "secret" not in str(caught.value)
    assert not there.server.requests


async def test_where_there_is_no_log_or_nobody_to_tell_it_waits(client: Client) -> None:
    async with sending(client, "siem") as (webhook, _):
        await webhook.deliver()
    async with sending(client, "") as (idle, registry):
        running = asyncio.create_task(idle.run())
        done, _ = await asyncio.wait([running], timeout=0.05)
        await tasks.end([running])
    assert not done
    assert measured(registry, "nodemanager_audit_webhook_behind_records") == 0

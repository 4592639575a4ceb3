"""An operator that starts anew goes on from what is stored: forgetting mends no log."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from nodemanager.api.audit.auditcheckpoint import CURRENT, INTACT
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http.transport import HttpTransport, PooledResponse, Request
from nodemanager.client.verbs import Client
from nodemanager.fleet.audit.settings import CONTINUE, AuditSettings
from nodemanager.kube import conditions, errors
from nodemanager.kube.conditions import FALSE
from nodemanager.runtime.controller import Retry
from support import audit_site, whole_server
from support.accounts import operator_of
from support.audit_site import Clock, Site
from support.clients import connected

NAMESPACE = "default"


class Cut(HttpTransport):
    """A way to the API on which the log cannot be read, for a while."""

    cut = True

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(config)
        self.asked: list[str] = []

    async def send(self, request: Request) -> PooledResponse:
        self.asked.append(f"{request.method} {request.target.partition('?')[0].partition('default/')[2]}")
        if self.cut and "auditsegments" in request.target and request.method == "GET":
            raise errors.Unreachable("cannot reach the API: the test cut the wire")
        return await super().send(request)


@pytest.fixture(name="client")
async def _client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        whole_server.serving(tmp_path) as (config, _),
        connected(operator_of(config, NAMESPACE)) as own,
    ):
        yield own


@contextlib.asynccontextmanager
async def talking(wire: HttpTransport) -> AsyncIterator[Client]:
    client = Client(wire)
    try:
        yield client
    finally:
        await client.close()


async def said(site: Site, type_: str) -> tuple[str, str, str]:
    """Return what workflows may do, and status and reason of a condition."""
    status = (await site.checkpoint()).status
    found = conditions.get(status.conditions, type_)
    assert found is not None
    return status.workflows, found.status, found.reason


async def fail(site: Site) -> None:
    with pytest.raises(Retry):
        await site.write()


async def test_a_log_that_is_behind_stays_so_after_a_restart(client: Client, tmp_path: Path) -> None:
    folder, clock = tmp_path / "missing", Clock()
    settings = AuditSettings(export=str(folder))
    async with audit_site.writing(client, NAMESPACE, settings, clock) as site:
        await fail(site)
        clock.at += timedelta(minutes=6)
        await fail(site)
        assert await said(site, CURRENT) == ("Stop", FALSE, "Behind")
    async with audit_site.writing(client, NAMESPACE, settings, clock) as again:
        await fail(again)
        assert await said(again, CURRENT) == ("Stop", FALSE, "Behind")
        folder.mkdir()
        await again.write()  # proven to be well again: nothing keeps it any longer
        assert await said(again, CURRENT) == ("Continue", "True", "Recorded")


async def test_restarts_do_not_begin_the_patience_anew(client: Client, tmp_path: Path) -> None:
    clock, settings = Clock(), AuditSettings(export=str(tmp_path / "missing"))
    for workflows in ("Continue", "Continue", "Stop"):
        async with audit_site.writing(client, NAMESPACE, settings, clock) as site:
            await fail(site)
            assert (await said(site, CURRENT))[0] == workflows
        clock.at += timedelta(minutes=3)


async def test_a_log_that_was_behind_when_that_could_first_be_said_stays_so(
    client: Client, tmp_path: Path
) -> None:
    """The condition may be younger than the trouble: an API that takes no writes takes no status, either."""
    clock, settings = Clock(), AuditSettings(export=str(tmp_path / "missing"))
    async with audit_site.writing(client, NAMESPACE, settings, clock) as site:
        site.journal.sound.failed("nothing can be written", clock() - timedelta(minutes=7))
        await fail(site)
        assert await said(site, CURRENT) == ("Stop", FALSE, "Behind")
    async with audit_site.writing(client, NAMESPACE, settings, clock) as again:
        await fail(again)
        assert await said(again, CURRENT) == ("Stop", FALSE, "Behind")


async def test_a_bent_log_stays_so_until_it_was_read_again(tmp_path: Path) -> None:
    for bent in (False, True):
        async with (
            whole_server.serving(tmp_path) as (config, _),
            connected(operator_of(config, NAMESPACE)) as own,
            audit_site.writing(own, NAMESPACE) as site,
        ):
            await site.write()
            assert (await said(site, INTACT))[2] == ("Bent" if bent else "Verified")
        if not bent:
            await audit_site.bend(tmp_path / "data" / "state.db")
    async with whole_server.serving(tmp_path) as (config, _):
        wire = Cut(operator_of(config, NAMESPACE))
        async with talking(wire) as client, audit_site.writing(client, NAMESPACE) as site:
            await fail(site)
            assert await said(site, INTACT) == ("Stop", FALSE, "Bent")
            wire.cut = False
            await site.write()
            assert await said(site, INTACT) == ("Stop", FALSE, "Bent")


async def test_an_operator_that_is_no_longer_told_to_go_on_stops_before_it_reads_the_log(
    tmp_path: Path,
) -> None:
    clock, folder = Clock(), str(tmp_path / "missing")
    careless = AuditSettings(export=folder, on_failure=CONTINUE)
    async with whole_server.serving(tmp_path) as (config, _):
        operator = operator_of(config, NAMESPACE)
        async with connected(operator) as own, audit_site.writing(own, NAMESPACE, careless, clock) as site:
            await fail(site)
            clock.at += timedelta(minutes=6)
            await fail(site)
            assert await said(site, CURRENT) == ("Continue", FALSE, "Behind")
        wire = Cut(operator)
        settings = AuditSettings(export=folder)
        async with talking(wire) as client, audit_site.writing(client, NAMESPACE, settings, clock) as site:
            await fail(site)
            assert await said(site, CURRENT) == ("Stop", FALSE, "Behind")
    reads = [one for one in wire.asked if one in ("PATCH auditcheckpoints/log/status", "GET auditsegments")]
    assert reads[0] == "PATCH auditcheckpoints/log/status"

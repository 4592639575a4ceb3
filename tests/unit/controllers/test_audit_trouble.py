"""The writer of the audit log in trouble: lost answers, missing rights, a log that was cut."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.audit.auditcheckpoint import CURRENT, INTACT, KEY_SECRET
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS, name_of
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.cli.installing.crd_changes import Changes
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http.transport import HttpTransport, PooledResponse, Request
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers.audit import keys
from nodemanager.controllers.registration import THE_ONE
from nodemanager.fleet.audit import evidence
from nodemanager.fleet.audit.settings import AuditSettings
from nodemanager.fleet.audit.verifying import Verifier
from nodemanager.kube import conditions, errors
from nodemanager.kube.core import SECRETS
from nodemanager.native import ed25519
from nodemanager.runtime.controller import Retry
from nodemanager.store.sqlite import SqliteStore
from nodemanager.tlog import notes
from support import audit_site, examples, whole_server
from support.accounts import operator_of
from support.audit_site import Site
from support.clients import connected
from support.scripted_server import until

NAMESPACE = "default"


class Wire(HttpTransport):
    """The way to the API, on which something may happen to requests."""

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(config)
        self.before: Callable[[Request], None] = lambda _request: None
        self.after: Callable[[Request], None] = lambda _request: None
        self.hangs = "nothing"
        self.hanging = False

    async def send(self, request: Request) -> PooledResponse:
        self.before(request)
        if self.hangs in request.target:
            self.hanging = True
            try:
                await asyncio.Event().wait()
            finally:
                self.hanging = False
        answer = await super().send(request)
        self.after(request)
        return answer


@pytest.fixture(name="config")
async def _config(tmp_path: Path) -> AsyncIterator[ClientConfig]:
    async with whole_server.serving(tmp_path) as (config, _):
        yield operator_of(config, NAMESPACE)


@pytest.fixture(name="admin")
async def _admin(config: ClientConfig, tmp_path: Path) -> AsyncIterator[Client]:
    del config
    async with connected(whole_server.load(tmp_path / "data" / "admin.kubeconfig")) as admin:
        yield admin


@contextlib.asynccontextmanager
async def writing(
    config: ClientConfig, settings: AuditSettings | None = None
) -> AsyncIterator[tuple[Wire, Site]]:
    wire = Wire(config)
    client = Client(wire)
    try:
        async with audit_site.writing(client, NAMESPACE, settings) as site:
            yield wire, site
    finally:
        await client.close()


def config_set(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"files": []}}


def failing(
    part: str, error: Callable[[], Exception], times: int = 1, method: str = ""
) -> Callable[[Request], None]:
    """Return what lets so many writes of a kind fail."""
    left, methods = [times], (method,) if method else ("POST", "PATCH")

    def look(request: Request) -> None:
        if request.method in methods and part in request.target and left[0]:
            left[0] -= 1
            raise error()

    return look


def after(writes: int, error: Callable[[], Exception]) -> Callable[[Request], None]:
    """Return what lets all writes fail from this one on."""
    left = [writes - 1]

    def look(request: Request) -> None:
        if request.method in ("POST", "PATCH"):
            if not left[0]:
                raise error()
            left[0] -= 1

    return look


def lost() -> Exception:
    return errors.Unreachable("cannot reach the API: the test cut the wire")


def nothing(_request: Request) -> None:
    pass


async def sealed(site: Site) -> None:
    """Have a segment that is full, and one behind it."""
    journal, at = site.journal, "2026-11-17T08:00:00Z"
    await journal.store.seal(at, journal.signing.sign)
    again = journal.signing.about("begin", "log", "", "again")
    await journal.store.append([again], at, journal.signing.sign)


async def changed(site: Site) -> list[tuple[str, str]]:
    return [(one.verb, one.object.name) for one in await site.records() if one.aspect == "spec"]


async def test_operators_that_die_in_the_middle_of_a_write_neither_fork_nor_skip_nor_repeat(
    config: ClientConfig, admin: Client
) -> None:
    seed = examples.seed()
    chance, wanted = random.Random(seed), []
    for life in range(examples.some(4)):
        async with writing(config) as (wire, site):
            await site.write()
            for turn in range(3):
                name = f"set-{life}-{turn}"
                await admin.create(CONFIG_SETS, config_set(name), NAMESPACE)
                wanted.append(("create", name))
                await site.caught_up()
                part = chance.choice(("/auditsegments", "/auditcheckpoints"))
                cut = failing(part, lost, chance.choice((0, 1)))
                wire.before, wire.after = chance.choice(((cut, nothing), (nothing, cut)))
                with contextlib.suppress(Retry):
                    await site.journal.reconcile(THE_ONE)
                wire.before = wire.after = nothing
                if chance.random() < 0.4:
                    break  # dead: the next one begins with what is stored
    async with writing(config) as (_, site):
        await site.write()
        assert sorted(wanted) == sorted(one for one in await changed(site) if one[1]), seed
        found = await site.records()
        assert [one.sequence for one in found] == list(range(len(found)))
        report = await site.verified()
        assert (report.findings, report.signed) == ([], len(found)), seed


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (errors.NotFound("404 page not found"), "False", "NotServed"),
        (errors.Forbidden("not for you"), "Unknown", "CannotTell"),
    ],
)
async def test_a_server_without_stamps_and_rights_that_are_older_are_told_apart(
    config: ClientConfig, error: errors.StatusError, status: str, reason: str
) -> None:
    def refuse(request: Request) -> None:
        if "mutatingadmissionpolic" in request.target:
            raise error

    async with writing(config) as (wire, site):
        wire.before = refuse
        await site.write()
        checkpoint = (await site.checkpoint()).status
        found = conditions.get(checkpoint.conditions, "UsersStamped")
        assert found is not None
        assert (found.status, found.reason, checkpoint.workflows) == (status, reason, "Continue")


async def test_what_came_and_went_while_a_write_failed_is_recorded(
    config: ClientConfig, admin: Client
) -> None:
    async with writing(config) as (wire, site):
        await site.write()
        await admin.create(CONFIG_SETS, config_set("short"), NAMESPACE)
        await site.caught_up()
        await admin.delete(CONFIG_SETS, "short", NAMESPACE)
        await site.caught_up()
        wire.before = failing("/auditsegments", lost)
        with pytest.raises(Retry):
            await site.journal.reconcile(THE_ONE)
        await site.write()
        assert (await changed(site))[-2:] == [("create", "short"), ("delete", "short")]
        assert not any(one.late for one in await site.records())


async def test_who_does_not_lead_and_who_cannot_write_keeps_nothing_in_memory(
    config: ClientConfig, admin: Client
) -> None:
    async with writing(config) as (_, site):
        await admin.create(MANAGED_NODES, {"metadata": {"name": "web1"}}, NAMESPACE)
        await site.caught_up()
        assert site.journal.pending == []
        await site.write()
        assert ("create", "web1") in await changed(site) or ("observe", "web1") in await changed(site)
        sign = MergePatch({"metadata": {"annotations": {"example.com/sign": "of life"}}})
        await admin.patch(MANAGED_NODES, "web1", NAMESPACE, sign)
        await site.caught_up()
        assert site.journal.pending == []


async def test_tries_become_rarer_while_nothing_can_be_written(config: ClientConfig, admin: Client) -> None:
    async with writing(config) as (wire, site):
        await site.write()
        await admin.create(CONFIG_SETS, config_set("web"), NAMESPACE)
        await site.caught_up()
        tries: list[str] = []
        cut = failing("/auditsegments", lost, 99)

        def look(request: Request) -> None:
            if "/auditsegments" in request.target:
                tries.append(request.target)
            cut(request)

        wire.before = look
        for _ in range(20):
            with contextlib.suppress(Retry):
                await site.journal.reconcile(THE_ONE)
        assert 0 < len(tries) < 8
        assert len([*site.journal.pending, *site.journal._taken]) == 1


async def test_without_the_right_to_secrets_records_are_written_and_nothing_stops(
    config: ClientConfig, admin: Client
) -> None:
    refused = errors.Forbidden("secrets is forbidden")

    def look(request: Request) -> None:
        if KEY_SECRET in request.target or request.target.endswith("/secrets"):
            raise refused

    async with writing(config) as (wire, site):
        wire.before = look
        await site.write()
        await admin.create(CONFIG_SETS, config_set("web"), NAMESPACE)
        await site.write()
        assert ("create", "web") in await changed(site)
        assert "cannot sign" in site.journal.sound.unsigned
        assert not site.journal.sound.stops("stop", site.clock())


async def test_a_signed_log_goes_on_where_nobody_can_sign(
    config: ClientConfig, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with writing(config) as (_, site):
        await site.write()
        await site.journal.store.seal("2026-11-17T08:00:00Z", site.journal.signing.sign)

    def unavailable(*_args: object) -> bytes:
        raise ed25519.Unavailable("cannot sign: no package")

    for name in ("public_key", "sign", "verify"):
        monkeypatch.setattr(ed25519, name, unavailable)
    async with writing(config) as (_, site):
        await admin.create(CONFIG_SETS, config_set("web"), NAMESPACE)
        await site.write()
        assert ("create", "web") in await changed(site)
        status = (await site.checkpoint()).status
        current = conditions.get(status.conditions, "Current")
        assert current is not None
        assert (current.reason, status.workflows) == ("NotSigned", "Continue")


async def test_a_log_without_a_copy_does_not_fill_the_database(config: ClientConfig, admin: Client) -> None:
    async with writing(config, AuditSettings(most_bytes=2000)) as (_, site):
        await site.write()
        for number in range(5):
            await admin.create(CONFIG_SETS, config_set(f"set-{number}"), NAMESPACE)
            await site.write()
        assert sum(len(one.lines) for one in await site.log()) < 4000
        status = (await site.checkpoint()).status
        current = conditions.get(status.conditions, "Current")
        assert current is not None
        assert (current.reason, status.workflows) == ("Full", "Continue")
        assert "--audit-export" in current.message
    async with writing(config) as (_, site):  # with more room it goes on, and finds what it missed
        await site.write()
        assert ("create", "set-4") in await changed(site)
        assert (await site.verified()).intact


async def test_a_kind_that_cannot_be_seen_is_not_taken_for_deleted(
    config: ClientConfig, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with writing(config) as (_, site):
        await admin.create(CONFIG_SETS, config_set("web"), NAMESPACE)
        await site.write()
        cache = site.caches[CONFIG_SETS.kind]
        monkeypatch.setattr(type(cache), "has_synced", property(lambda one: one is not cache))
        cache.refused = "configsets is forbidden"
        with pytest.raises(Retry, match=r"configsets is forbidden.*crds --install"):
            await site.journal.reconcile(THE_ONE)
        assert ("delete", "web") not in await changed(site)


async def test_a_log_whose_end_was_cut_is_never_signed_again(tmp_path: Path) -> None:
    for life in range(3):
        async with (
            whole_server.serving(tmp_path) as (config, _),
            connected(config) as admin,
            writing(operator_of(config, NAMESPACE)) as (_, site),
        ):
            await site.write()
            if life == 0:
                await site.journal.store.seal("2026-11-17T08:00:00Z", site.journal.signing.sign)
            for number in range(2 if life == 0 else 6):
                await admin.create(CONFIG_SETS, config_set(f"set-{life}-{number}"), NAMESPACE)
            await site.write()
            status, spec = (await site.checkpoint()).status, (await site.checkpoint()).spec
        found = conditions.get(status.conditions, "Intact")
        assert found is not None
        if life == 0:
            signed = spec
            await cut_last(tmp_path / "data" / "state.db")
        else:  # also once there are more records again than were signed
            assert (found.status, found.reason, status.workflows) == ("False", "Bent", "Stop")
            assert "--audit-on-failure continue" in found.message
            assert spec == signed


async def test_a_definition_that_is_deleted_takes_the_log_along(config: ClientConfig, admin: Client) -> None:
    async with writing(config) as (_, site):
        await site.write()
    changes = Changes(admin, dry_run=False, timeout=20.0, rename=False, progress=lambda _text: None)
    outcomes = [one async for one in changes.uninstall()]
    assert {one.result for one in outcomes if "audit" in one.name} == {"deleted"}


async def cut_last(path: Path) -> None:
    """Remove the last segment past the API, as somebody does who can write the disk."""
    store = await SqliteStore.open(path)
    last = max((one for one in store.list("/").records if "/segment-" in one.key), key=lambda one: one.key)
    await store.delete(last.key, last.revision)
    await store.close()


@pytest.mark.parametrize("what", ["exported", "expired", "removed", "annotated"])
async def test_a_copy_goes_on_after_an_answer_that_was_lost_and_what_others_annotate(
    config: ClientConfig, admin: Client, tmp_path: Path, what: str
) -> None:
    """Before the whole log is read again, which may be an hour later: work waits for the copy after 5 min."""
    (tmp_path / "copy").mkdir()
    async with writing(config, AuditSettings(export=str(tmp_path / "copy"))) as (wire, site):
        await site.write()
        await sealed(site)
        if what in ("expired", "removed"):
            await site.write()
            site.clock.at += timedelta(days=91)
            site.journal._read_at = site.journal._key_at = site.clock.at  # this is not what reads it again
        if what == "annotated":
            note = MergePatch({"metadata": {"annotations": {"example.org/backup": "1"}}})
            await admin.patch(AUDIT_SEGMENTS, name_of(0), NAMESPACE, note)
        else:
            method = "DELETE" if what == "removed" else "PATCH"
            wire.after = failing(f"/{name_of(0)}", lost, method=method)
            with pytest.raises(Retry, match="the test cut the wire"):
                await site.write()
        await site.write()
        assert [one.index for one in await site.log()] == ([1] if what in ("expired", "removed") else [0, 1])
        assert all(one.exported for one in site.journal.store.stored.values() if one.sealed_at)


async def test_a_key_that_is_lost_stays_so_while_the_api_does_not_answer(
    config: ClientConfig, admin: Client
) -> None:
    async with writing(config) as (wire, site):
        await site.write()
        await admin.delete(SECRETS, KEY_SECRET, NAMESPACE)
        site.clock.at += timedelta(minutes=2)
        await site.write()
        assert (await site.checkpoint()).status.workflows == "Stop"
        site.clock.at += timedelta(minutes=2)
        wire.before = failing("/secrets/", lost, method="GET")
        with pytest.raises(Retry, match="the test cut the wire"):
            await site.write()
        said = (await site.checkpoint()).status
        assert (said.workflows, conditions.get(said.conditions, INTACT).reason) == ("Stop", "KeyLost")  # type: ignore[union-attr]


@pytest.mark.parametrize("writes", [1, 2, 3, 4, 5])
async def test_a_key_that_was_noted_proves_the_log_wherever_the_handover_was_interrupted(
    config: ClientConfig, writes: int
) -> None:
    async with writing(config) as (wire, site):
        await site.write()
        (noted,) = (await site.checkpoint()).spec.keys
        ask = MergePatch({"metadata": {"annotations": {keys.ROTATE: "please"}}})
        await site.client.patch(SECRETS, KEY_SECRET, NAMESPACE, ask)
        site.clock.at += timedelta(minutes=2)
        wire.before = after(writes, lost)  # the Secret, the record, the seal, the checkpoint, the Secret
        with pytest.raises(Retry, match="the test cut the wire"):
            await site.write()
    async with writing(config) as (_wire, again):
        await again.write()
        await sealed(again)  # with the new key alone
        again.clock.at += timedelta(minutes=2)
        await again.write()
        published = (await again.checkpoint()).spec
        verifier = Verifier([notes.read_key(noted)])
        verifier.feed(evidence.lines_of_log(await again.log(), [], published.note))
        report = verifier.finish()
        assert (report.findings, report.signed) == ([], report.size)
        assert published.keys == [noted, report.keys[-1]]


async def test_a_log_that_takes_too_long_says_so(config: ClientConfig) -> None:
    """Who reconciles is cancelled after a while: a log that is large, behind a line that is slow."""
    async with writing(config) as (wire, site):
        await site.write()
        wire.hangs = "/auditsegments"
        site.clock.at += timedelta(hours=2)  # so that all of it is read again
        for workflows in ("Continue", "Continue", "Stop"):
            trying = asyncio.create_task(site.journal.reconcile(THE_ONE))
            await until(lambda: wire.hanging)
            trying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await trying
            said = (await site.checkpoint()).status
            assert said.workflows == workflows
            site.clock.at += timedelta(minutes=4)
        current = conditions.get(said.conditions, CURRENT)
        assert current is not None
        assert (current.reason, "it takes too long" in current.message) == ("Behind", True)

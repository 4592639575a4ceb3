"""The copy of the audit log in a folder: whole, resumable, and the reason why old segments may go."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS, KEY_SECRET, NAME
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS, name_of
from nodemanager.api.rights import audit_policy
from nodemanager.client.verbs import Client
from nodemanager.controllers import audit_gate
from nodemanager.controllers.audit import folder_copy
from nodemanager.controllers.audit.folder_copy import FolderCopy
from nodemanager.controllers.audit.storing import LostTrack
from nodemanager.controllers.registration import Caches
from nodemanager.fleet.audit.settings import AuditSettings
from nodemanager.kube.core import POLICY_BINDINGS, SECRETS
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Retry
from support import audit_site, cli, whole_server
from support.accounts import operator_of
from support.clients import connected

NAMESPACE = "default"


@pytest.fixture(name="client")
async def _client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        whole_server.serving(tmp_path) as (config, _),
        connected(operator_of(config, NAMESPACE)) as own,
    ):
        yield own


async def test_a_copy_is_whole_and_old_segments_go(client: Client, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    settings = AuditSettings(export=str(folder), retention=timedelta(days=90))
    clock = audit_site.Clock()
    async with audit_site.writing(client, NAMESPACE, settings, clock) as site:
        await site.write()
        journal = site.journal
        for _ in range(3):
            await journal.store.seal("2026-11-17T08:00:00Z", journal.signing.sign)
            at = "2026-11-17T08:00:00Z"
            await journal.store.append(
                [journal.signing.about("begin", "log", "", "again")], at, journal.signing.sign
            )
        await site.write()
        assert len(await site.log()) == 4
        published = (await site.checkpoint()).spec
        verified = cli.run("audit", "verify", str(folder), "--key", published.keys[0])
        assert (verified.code, f"{published.size} of {published.size} signed" in verified.stdout) == (0, True)
        assert (folder / "checkpoint").read_text() == published.note
        clock.at += timedelta(days=91)
        await site.write()
        assert [one.index for one in await site.log()] == [3]
    async with audit_site.writing(client, NAMESPACE, settings, clock) as again:
        await again.write()
        assert not again.journal.sound.findings
        assert cli.run("audit", "verify", str(folder), "--key", published.keys[0]).code == 0


async def test_a_folder_that_cannot_be_written_is_said_and_stops_work_after_a_while(
    client: Client, tmp_path: Path
) -> None:
    settings = AuditSettings(export=str(tmp_path / "missing"))
    clock = audit_site.Clock()
    async with audit_site.writing(client, NAMESPACE, settings, clock) as site:
        for minutes, workflows in ((0, "Continue"), (6, "Stop")):
            clock.at += timedelta(minutes=minutes)
            with pytest.raises(Retry, match="cannot export the audit log to"):
                await site.write()
            assert (await site.checkpoint()).status.workflows == workflows


async def test_who_begins_something_new_is_told_why_not(client: Client, tmp_path: Path) -> None:
    settings = AuditSettings(export=str(tmp_path / "missing"))
    clock = audit_site.Clock()
    async with audit_site.writing(client, NAMESPACE, settings, clock) as site:
        for _ in range(2):
            with pytest.raises(Retry):
                await site.write()
            clock.at += timedelta(minutes=6)
        stopped = await site.checkpoint()
    cache = Cache(client, AUDIT_CHECKPOINTS)
    cache._put(ObjectKey(NAMESPACE, NAME), stopped)
    assert audit_gate.stopped(cache, NAMESPACE) == "the audit log cannot be relied on: it is behind"
    assert audit_gate.stopped(cache, "elsewhere") == ""
    wakes = audit_gate.wakes(AUDIT_CHECKPOINTS)
    caches = Caches("test", {AUDIT_CHECKPOINTS: cache})
    key = ObjectKey(NAMESPACE, NAME)
    assert [one.key for one in wakes(Change(key, None, stopped), caches)] == [key]
    assert not list(wakes(Change(key, stopped, stopped), caches))


async def test_a_copy_of_another_log_is_never_overwritten(client: Client, tmp_path: Path) -> None:
    """What was removed from the API after the retention is nowhere else."""
    folder = tmp_path / "copy"
    folder.mkdir()
    settings = AuditSettings(export=str(folder))
    async with audit_site.writing(client, NAMESPACE, settings) as site:
        await site.write()
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    async with connected(whole_server.load(tmp_path / "data" / "admin.kubeconfig")) as admin:
        await admin.delete(POLICY_BINDINGS, audit_policy.POLICY)  # as docs/audit.md gives a log up
        await admin.delete(AUDIT_SEGMENTS, name_of(0), NAMESPACE)
        await admin.delete(AUDIT_CHECKPOINTS, NAME, NAMESPACE)
        await admin.delete(SECRETS, KEY_SECRET, NAMESPACE)
    async with audit_site.writing(client, NAMESPACE, settings) as site:
        with pytest.raises(Retry, match=r"is not overwritten\. Keep it, and give --audit-export another"):
            await site.write()
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


async def test_a_segment_is_replaced_by_one_with_more_records_and_by_no_other(tmp_path: Path) -> None:
    copy, head = FolderCopy(tmp_path), b'{"segment":{}}\n'
    for data in (head + b"1\n", head + b'1\n{"checkpoint":"a"}\n', head + b'1\n2\n{"checkpoint":"b"}\n'):
        await copy.keep("segment-0", data)
    for data in (head + b"1\n", head + b"1\n3\n"):
        with pytest.raises(LostTrack, match="is there, and has other records"):
            await copy.keep("segment-0", data)
    assert (tmp_path / "segment-0.jsonl").read_bytes() == head + b'1\n2\n{"checkpoint":"b"}\n'


def test_files_are_replaced_at_once(tmp_path: Path) -> None:
    folder_copy.replace(tmp_path, "one", b"a\n")
    folder_copy.replace(tmp_path, "one", b"b\n")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o600

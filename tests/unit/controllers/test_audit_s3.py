"""The copy of the audit log in object storage: created and never overwritten, whatever happens on the way."""

from __future__ import annotations

import builtins
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nodemanager.client.verbs import Client
from nodemanager.controllers.audit import s3_copy
from nodemanager.controllers.audit.exporting import copy_to
from nodemanager.controllers.audit.s3_copy import S3Copy
from nodemanager.controllers.audit.storing import LostTrack
from nodemanager.fleet.audit.settings import AuditSettings
from nodemanager.kube import errors
from nodemanager.runtime.controller import Retry
from support import audit_site, cli, s3_server, whole_server
from support.accounts import operator_of
from support.audit_site import Site
from support.clients import connected
from support.s3_server import Answer, Bucket

NAMESPACE = "default"
AT = "2026-11-17T08:00:00Z"
BUSY = ("503 Service Unavailable", "SlowDown")


@pytest.fixture(name="bucket")
def _bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with s3_server.serving(monkeypatch) as bucket:
        yield bucket


@pytest.fixture(name="client")
async def _client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        whole_server.serving(tmp_path / "api") as (config, _),
        connected(operator_of(config, NAMESPACE)) as own,
    ):
        yield own


def settings_for(bucket: Bucket) -> AuditSettings:
    return AuditSettings(export=f"s3://{bucket.name}/evidence/prod", retention=timedelta(days=90))


async def grow(site: Site, segments: int) -> None:
    """Add segments of a record each."""
    journal = site.journal
    for _ in range(segments):
        await journal.store.seal(AT, journal.signing.sign)
        again = journal.signing.about("begin", "log", "", "again")
        await journal.store.append([again], AT, journal.signing.sign)


def fetched(bucket: Bucket, folder: Path) -> Path:
    """Return a copy of a bucket, as somebody makes who wants to check it."""
    folder.mkdir(exist_ok=True)
    for key, data in bucket.objects().items():
        (folder / key.rpartition("/")[2]).write_bytes(data)
    return folder


async def checked(site: Site, bucket: Bucket, folder: Path) -> None:
    """See that a copy is whole, up to the newest record."""
    published = (await site.checkpoint()).spec
    verified = cli.run("audit", "verify", str(fetched(bucket, folder)), "--key", published.keys[0])
    assert verified.code == 0, verified.stdout
    assert f"{published.size} of {published.size} signed" in verified.stdout


async def test_a_copy_is_whole_resumed_and_lets_old_segments_go(
    client: Client, bucket: Bucket, tmp_path: Path
) -> None:
    clock = audit_site.Clock()
    async with audit_site.writing(client, NAMESPACE, settings_for(bucket), clock) as site:
        await site.write()
        await grow(site, 3)
        clock.at += s3_copy.SHOW_EVERY
        await site.write()
        await checked(site, bucket, tmp_path / "copy")
        assert {key.rpartition("/")[0] for key in bucket.objects()} == {"evidence/prod"}
    before = bucket.objects()
    async with audit_site.writing(client, NAMESPACE, settings_for(bucket), clock) as again:
        await again.write()
        await grow(again, 1)
        clock.at += timedelta(days=91)
        await again.write()
        assert [one.index for one in await again.log()] == [4]
        await checked(again, bucket, tmp_path / "copy")
    after = bucket.objects()
    assert before.items() <= after.items()


async def test_who_is_stopped_between_objects_or_hears_no_answer_goes_on(
    client: Client, bucket: Bucket, tmp_path: Path
) -> None:
    clock = audit_site.Clock()
    puts = 0

    def lost(method: str, path: str) -> Answer | None:
        """Store the second segment, and do not say so, however often it is asked for."""
        nonlocal puts
        puts += method == "PUT" and path.endswith("segment-000000000001.jsonl")
        return BUSY if puts and method in ("PUT", "GET") else None

    async with audit_site.writing(client, NAMESPACE, settings_for(bucket), clock) as site:
        await site.write()
        await grow(site, 3)
        bucket.after = lost
        with pytest.raises(Retry, match=r"SlowDown|Precondition"):
            await site.write()
        stored = bucket.objects()
        assert "evidence/prod/segment-000000000001.jsonl" in stored
        assert "evidence/prod/segment-000000000002.jsonl" not in stored
    bucket.after = lambda _method, _path: None
    clock.at += timedelta(minutes=2)
    async with audit_site.writing(client, NAMESPACE, settings_for(bucket), clock) as again:
        await again.write()
        await checked(again, bucket, tmp_path / "copy")
    assert stored.items() <= bucket.objects().items()


async def test_a_storage_that_is_busy_for_a_moment_is_asked_again(bucket: Bucket) -> None:
    left = [BUSY, BUSY]
    bucket.before = lambda method, _path: left.pop() if method == "PUT" and left else None
    await S3Copy(f"s3://{bucket.name}").keep("segment-000000000000", b"x\n")
    assert bucket.objects() == {"segment-000000000000.jsonl": b"x\n"}


async def test_what_is_there_and_is_another_one_is_never_overwritten(bucket: Bucket) -> None:
    bucket.put("p/segment-000000000000.jsonl", b"theirs\n")
    with pytest.raises(LostTrack, match=r"it is not overwritten\. Keep it, and give --audit-export another"):
        await S3Copy(f"s3://{bucket.name}/p/").keep("segment-000000000000", b"ours\n")
    assert bucket.objects() == {"p/segment-000000000000.jsonl": b"theirs\n"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (("403 Forbidden", "RequestTimeTooSkewed"), "set the clock of the operator's machine right"),
        (("403 Forbidden", "AccessDenied"), "let it get and put objects there"),
        (("403 Forbidden", "SignatureDoesNotMatch"), "see AWS_SECRET_ACCESS_KEY, and AWS_REGION"),
        (("400 Bad Request", "Strange"), "Strange; see AWS_ENDPOINT_URL"),
    ],
)
async def test_what_is_wrong_is_said_with_what_to_do_and_without_a_secret(
    answer: Answer, said: str, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bucket.before = lambda _method, _path: answer
    with pytest.raises(LostTrack, match=said) as failed:
        await S3Copy(f"s3://{bucket.name}").keep("segment-000000000000", b"x\n")
    assert "not-to-be-seen" not in str(failed.value) + caplog.text


async def test_a_bucket_that_is_not_there_is_said(bucket: Bucket) -> None:
    with pytest.raises(LostTrack, match=r"cannot export the audit log to s3://other/p: NoSuchBucket; create"):
        await S3Copy("s3://other/p").keep("segment-000000000000", b"x\n")
    assert not bucket.objects()


@pytest.mark.parametrize(
    "url", ["s3://", "s3:bucket", "s3://Bucket/x", "s3://user:pass@bucket", "s3://b?x=y"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(errors.ConfigError, match="write s3://BUCKET/PREFIX"):
        copy_to(url)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "obstore":
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(errors.ConfigError, match=r"install nodemanager\[s3\]"):
        copy_to("s3://bucket/prefix")

"""Credentials in files: rotation, half-done rotation, wrong files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodemanager.client.auth import credential_files as files
from nodemanager.client.auth.config import TlsIdentity
from nodemanager.kube.errors import ConfigError
from support import pems


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def token_path(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


def put(path: Path, content: str | None) -> None:
    """Give a file other content, or (None) remove it."""
    if content is None:
        path.unlink()
    else:
        path.write_text(content)


async def bearer(token: files.TokenFile) -> str:
    return str((await token.headers())["Authorization"]).removeprefix("Bearer ")


async def test_token_is_read_again_after_a_minute_not_before(token_path: Path, clock: Clock) -> None:
    token = files.TokenFile(token_path, clock=clock)
    assert await bearer(token) == "first"
    put(token_path, "second")
    clock.now += files.REREAD_SECONDS - 1
    assert await bearer(token) == "first"
    clock.now += 1
    assert await bearer(token) == "second"
    assert await token.tls_identity() is None


async def test_refresh_reads_at_once(token_path: Path, clock: Clock) -> None:
    token = files.TokenFile(token_path, clock=clock)
    assert await bearer(token) == "first"
    put(token_path, "second")
    assert await token.refresh()
    assert await bearer(token) == "second"


async def test_refresh_of_an_old_token_does_not_help(token_path: Path, clock: Clock) -> None:
    token = files.TokenFile(token_path, clock=clock)
    assert await bearer(token) == "first"
    clock.now += files.RECENT_SECONDS
    assert not await token.refresh()


async def test_every_request_that_was_refused_with_the_old_token_may_try_again(
    token_path: Path, clock: Clock
) -> None:
    token = files.TokenFile(token_path, clock=clock)
    await token.headers()
    clock.now += 500
    put(token_path, "second")
    assert await token.refresh()  # the first of two requests in flight
    clock.now += 1
    assert await token.refresh()  # the second one still had the old token
    clock.now += files.RECENT_SECONDS
    assert not await token.refresh()


@pytest.mark.parametrize("content", [None, "", " \n", "two words"])
async def test_half_done_rotation_keeps_the_last_good_token(
    token_path: Path, clock: Clock, content: str | None
) -> None:
    token = files.TokenFile(token_path, clock=clock)
    assert await bearer(token) == "first"
    put(token_path, content)
    clock.now += files.REREAD_SECONDS
    assert await bearer(token) == "first"
    put(token_path, "second")  # without waiting for another minute
    assert await bearer(token) == "second"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "cannot read the token file .*: No such file", id="missing"),
        pytest.param(b"\n", "cannot use the token file .*: it is empty", id="empty"),
        pytest.param(b"two words", "cannot use the token of the token file", id="malformed"),
        pytest.param(b"\xff\xfe", "cannot use the token of the token file", id="binary"),
        pytest.param(b"x" * (files.MAX_CREDENTIAL_BYTES + 1), "larger than", id="huge"),
    ],
)
async def test_never_had_a_token(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    token = files.TokenFile(path)
    with pytest.raises(ConfigError, match=message):
        token.prime()
    with pytest.raises(ConfigError, match=message):
        await token.headers()
    path.write_text("there")
    assert await bearer(token) == "there"


async def test_initial_token_serves_until_the_file_has_one(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = files.TokenFile(path, initial="inline")
    token.prime()
    assert await bearer(token) == "inline"
    path.write_text("from-file")
    assert await bearer(token) == "from-file"
    path.unlink()
    await token.refresh()
    assert await bearer(token) == "from-file"


@pytest.mark.parametrize("kind", ["folder", "fifo", "device"])
def test_only_regular_files_are_credentials(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)  # nobody writes to it: reading it the plain way would hang
    else:
        path = Path("/dev/zero")
    with pytest.raises(ConfigError, match=r"cannot read it .*: (it is not a regular file|Is a directory)"):
        files.read_credential(path, "it")


def test_malformed_path() -> None:
    with pytest.raises(ConfigError, match="malformed"):
        files.read_credential(Path("a\0b"), "it")


class Pair:
    """A certificate and a key in files."""

    def __init__(self, folder: Path, clock: Clock):
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"
        self.write("one")
        self.credentials = files.ClientCertificate(
            files.PemFile(self.certificate, "client-certificate"),
            files.PemFile(self.key, "client-key"),
            clock=clock,
        )

    def write(self, name: str) -> None:
        for path, data in ((self.certificate, pems.make(name).certificate), (self.key, pems.make(name).key)):
            new = path.with_suffix(".new")
            new.write_bytes(data)
            new.replace(path)


def identity(name: str) -> TlsIdentity:
    return TlsIdentity(pems.make(name).certificate, pems.make(name).key)


@pytest.fixture
def pair(tmp_path: Path, clock: Clock) -> Pair:
    return Pair(tmp_path, clock)


async def test_certificate_files_are_read_again_when_they_change(pair: Pair) -> None:
    assert await pair.credentials.tls_identity() == identity("one")
    assert await pair.credentials.headers() == {}
    pair.write("two")
    assert await pair.credentials.tls_identity() == identity("two")


async def test_change_is_noticed_with_equal_size_and_time(pair: Pair) -> None:
    assert await pair.credentials.tls_identity() == identity("one")
    before = pair.key.stat()
    pair.write("two")
    os.utime(pair.key, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert await pair.credentials.tls_identity() == identity("two")


async def test_change_is_noticed_where_the_new_file_has_the_number_of_the_old_one(pair: Pair) -> None:
    """As ext4 gives it again at once; and time and size, as after `cp -p` of one of the same kind."""

    def write(name: str) -> None:
        for path, data in zip(paths, (pems.make(name).certificate, pems.make(name).key), strict=True):
            path.write_bytes(data.ljust(4096, b"\n"))
            os.utime(path, (1000, 1000))

    paths = (pair.certificate, pair.key)
    write("one")
    before = await pair.credentials.tls_identity()
    assert before is not None
    changed = [path.stat().st_ctime_ns for path in paths]
    while [path.stat().st_ctime_ns for path in paths] == changed:  # the clock of files is no fine one
        write("two")
    after = await pair.credentials.tls_identity()
    assert after is not None
    assert (after.certificate.rstrip(), after.key.rstrip()) == (
        pems.make("two").certificate.rstrip(), pems.make("two").key.rstrip(),
    )  # fmt: skip


async def test_unchanged_files_are_not_read(pair: Pair) -> None:
    first = await pair.credentials.tls_identity()
    assert await pair.credentials.tls_identity() is first


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage"])
@pytest.mark.parametrize("which", ["certificate", "key"])
async def test_broken_rotation_keeps_the_last_good_pair(pair: Pair, damage: str, which: str) -> None:
    assert await pair.credentials.tls_identity() == identity("one")
    put(getattr(pair, which), {"missing": None, "empty": "", "garbage": "garbage"}[damage])
    assert await pair.credentials.tls_identity() == identity("one")
    assert not await pair.credentials.refresh()
    pair.write("two")
    assert await pair.credentials.tls_identity() == identity("two")


async def test_refresh_tells_whether_the_pair_changed_recently(pair: Pair, clock: Clock) -> None:
    await pair.credentials.tls_identity()
    assert not await pair.credentials.refresh()
    pair.write("two")
    assert await pair.credentials.refresh()
    clock.now += files.RECENT_SECONDS
    assert not await pair.credentials.refresh()


async def test_missing_pair_is_reported(pair: Pair) -> None:
    pair.key.unlink()
    with pytest.raises(ConfigError, match=r"cannot read client-key .*tls.key: No such file"):
        pair.credentials.prime()
    with pytest.raises(ConfigError, match="cannot read client-key"):
        await pair.credentials.tls_identity()
    with pytest.raises(ConfigError, match="cannot read client-key"):
        await pair.credentials.refresh()


@pytest.mark.parametrize(
    ("certificate", "key", "message"),
    [
        pytest.param(b"x", pems.make().key, "no PEM certificate in it", id="certificate is not PEM"),
        pytest.param(pems.make().certificate, b"x", "no PEM private key in it", id="key is not PEM"),
        pytest.param(
            pems.make().certificate,
            b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII\n-----END ENCRYPTED PRIVATE KEY-----",
            "it is encrypted and nobody is there",
            id="encrypted PKCS#8",
        ),
        pytest.param(
            pems.make().certificate,
            b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMII\n-----END RSA PRIVATE KEY-----",
            "it is encrypted and nobody is there",
            id="encrypted PKCS#1",
        ),
    ],
)
async def test_unusable_pem(certificate: bytes, key: bytes, message: str) -> None:
    pair = files.ClientCertificate(files.PemInline(certificate), files.PemInline(key), source="user 'x'")
    with pytest.raises(ConfigError, match=f"of user 'x': .*{message}"):
        await pair.tls_identity()


async def test_inline_pair_never_changes() -> None:
    one = pems.make("one")
    pair = files.ClientCertificate(files.PemInline(one.certificate), files.PemInline(one.key))
    assert await pair.tls_identity() == identity("one")
    assert not await pair.refresh()

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import logging
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from nodemanager.server.access.admin_config import AdminConfig
from nodemanager.server.access.authn import Peer, certificate_user
from nodemanager.server.http import certs, private_files
from nodemanager.server.http.certs import Authority, CertificateError
from nodemanager.server.http.renewal import LONGEST_WAIT
from nodemanager.server.http.serving import Serving
from support.handshakes import shake
from support.virtual_time import run as run_in_virtual_time

NOW = datetime.now(UTC).replace(microsecond=0)


class Clock:
    """A wall clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return certs.load_or_create(tmp_path / "ca.pem", NOW)


@pytest.fixture
def serving(authority: Authority, tmp_path: Path) -> Serving:
    return Serving(authority, tmp_path / "serving.pem", ["localhost", "127.0.0.1", "::1"], Clock())


def trusting(authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def with_client(authority: Authority, tmp_path: Path, user: str, *groups: str) -> ssl.SSLContext:
    context = trusting(authority)
    path = tmp_path / "client.pem"
    private_files.write(path, authority.issue_client(user, groups, NOW).pem)
    context.load_cert_chain(path)
    return context


def test_the_authority_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    first, second = (certs.load_or_create(path, NOW) for _ in range(2))
    assert first.pem == second.pem
    assert path.stat().st_mode & 0o777 == 0o600
    assert isinstance(first.key.curve, ec.SECP256R1)
    assert "PRIVATE" not in repr(first)


def test_two_starts_at_once_agree(tmp_path: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: certs.load_or_create(tmp_path / "ca.pem", NOW), range(4)))
    assert len({one.pem for one in made}) == 1


@pytest.mark.parametrize("damage", [b"", b"garbage", b"-----BEGIN PRIVATE KEY-----\n"])
def test_a_damaged_authority_is_refused_and_kept(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "ca.pem"
    private_files.write(path, damage)
    with pytest.raises(CertificateError, match="it is damaged"):
        certs.load_or_create(path, NOW)
    assert path.read_bytes() == damage


def test_a_key_of_another_certificate_is_refused(tmp_path: Path, authority: Authority) -> None:
    path = tmp_path / "mixed.pem"
    private_files.write(path, certs.key_pem(ec.generate_private_key(ec.SECP256R1())) + authority.pem)
    with pytest.raises(CertificateError, match="do not match"):
        certs.load_or_create(path, NOW)


def test_an_expired_authority_is_refused(tmp_path: Path, authority: Authority) -> None:
    with pytest.raises(CertificateError, match=r"it expired on .*; move the file away"):
        certs.load_or_create(tmp_path / "ca.pem", NOW + certs.CA_LIFETIME)


def test_an_expired_authority_signs_nothing(authority: Authority) -> None:
    with pytest.raises(CertificateError, match="the certificate authority has expired"):
        authority.issue_serving(["localhost"], NOW + certs.CA_LIFETIME)


def test_nothing_outlives_the_authority(authority: Authority) -> None:
    late = NOW + certs.CA_LIFETIME - timedelta(days=1)
    assert authority.issue_client("u", [], late).expires == authority.certificate.not_valid_after_utc


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_a_client_that_trusts_the_authority_connects(
    authority: Authority, serving: Serving, name: str
) -> None:
    seen = shake(serving.context, trusting(authority), name)
    assert seen.version == "TLSv1.3"
    assert seen.of_client == {}
    assert certificate_user(Peer(seen.of_client, seen.client_der)) is None


def test_other_names_and_other_authorities_are_not_trusted(
    authority: Authority, serving: Serving, tmp_path: Path
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake(serving.context, trusting(authority), "example.org")
    other = certs.load_or_create(tmp_path / "other.pem", NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(serving.context, trusting(other))


def test_a_client_certificate_names_user_and_groups(
    authority: Authority, serving: Serving, tmp_path: Path
) -> None:
    seen = shake(serving.context, with_client(authority, tmp_path, "ünï", "g2", "g1"))
    user = certificate_user(Peer(seen.of_client, seen.client_der))
    assert user is not None
    assert (user.name, user.groups) == ("ünï", ("g2", "g1"))
    (credential,) = user.extra["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("X509SHA256=")


def test_a_client_certificate_of_a_stranger_is_refused(
    serving: Serving, authority: Authority, tmp_path: Path
) -> None:
    other = certs.load_or_create(tmp_path / "other.pem", NOW)
    client = with_client(other, tmp_path, "admin", "system:masters")
    client.load_verify_locations(cadata=authority.pem.decode())
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(serving.context, client)


def test_the_servers_own_certificate_is_no_client_certificate(
    serving: Serving, authority: Authority, tmp_path: Path
) -> None:
    client = trusting(authority)
    client.load_cert_chain(tmp_path / "serving.pem")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"(?i)purpose"):
        shake(serving.context, client)


def test_nothing_older_than_tls_1_2_is_spoken(serving: Serving) -> None:
    assert serving.context.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("names", [[], ["ünï.example"]])
def test_a_serving_certificate_needs_usable_names(authority: Authority, names: list[str]) -> None:
    with pytest.raises(CertificateError, match="cannot issue a serving certificate"):
        authority.issue_serving(names, NOW)


@pytest.mark.parametrize("user", ["", "x" * 65])
def test_a_name_that_does_not_fit_is_refused(authority: Authority, user: str) -> None:
    with pytest.raises(CertificateError, match="1 to 64 fit"):
        authority.issue_client(user, [], NOW)


def test_a_renewed_certificate_is_presented_by_the_same_context(
    authority: Authority, serving: Serving
) -> None:
    before = shake(serving.context, trusting(authority)).of_server["serialNumber"]
    serving.renew()
    assert shake(serving.context, trusting(authority)).of_server["serialNumber"] != before


@pytest.mark.parametrize(
    ("passed", "due"),
    [
        (timedelta(0), False),
        (certs.SERVING_LIFETIME * 2 / 3 - timedelta(seconds=1), False),
        (certs.SERVING_LIFETIME * 2 / 3, True),
        (certs.SERVING_LIFETIME * 2, True),
        (timedelta(days=-1), True),  # the clock was set back: the certificate is from the future
    ],
)
def test_when_a_certificate_is_renewed(
    authority: Authority, tmp_path: Path, passed: timedelta, due: bool
) -> None:
    clock = Clock()
    serving = Serving(authority, tmp_path / "serving.pem", ["localhost"], clock)
    clock.now += passed
    assert serving.due == due


def test_renewal_happens_by_itself_and_survives_a_full_disk(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    serving = Serving(authority, tmp_path / "serving.pem", ["localhost"], clock)
    first = serving.expires
    write, failures = private_files.write, [OSError("disk full")]

    def flaky(path: Path, data: bytes) -> None:
        if failures:
            raise failures.pop()
        write(path, data)

    monkeypatch.setattr(private_files, "write", flaky)

    async def scenario() -> None:
        task = asyncio.create_task(serving.keep_fresh())
        await asyncio.sleep(LONGEST_WAIT.total_seconds() * 2.5)
        assert serving.expires == first
        clock.now += certs.SERVING_LIFETIME - timedelta(days=1)
        await asyncio.sleep(LONGEST_WAIT.total_seconds() * 3)
        task.cancel()

    run_in_virtual_time(scenario())
    assert serving.expires > first
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


def test_the_admins_kubeconfig_is_private_and_complete(
    authority: Authority, serving: Serving, tmp_path: Path
) -> None:
    path = tmp_path / "admin.kubeconfig"
    AdminConfig(path, "https://127.0.0.1:6443", authority, Clock())
    assert path.stat().st_mode & 0o777 == 0o600
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    data = {key: base64.b64decode(value) for key, value in config["users"][0]["user"].items()}
    private_files.write(tmp_path / "c.pem", data["client-key-data"] + data["client-certificate-data"])
    client = ssl.create_default_context(
        cadata=base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    )
    client.load_cert_chain(tmp_path / "c.pem")
    user = certificate_user(Peer(shake(serving.context, client).of_client))
    assert user is not None
    assert (user.name, user.groups) == ("admin", ("system:masters",))
    assert isinstance(x509.load_pem_x509_certificate(data["client-certificate-data"]), x509.Certificate)

"""Client certificates: presented, rotated, and refused with a reason when they cannot be used."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from nodemanager.client.auth.config import ClientConfig, TlsIdentity
from nodemanager.client.http import tls
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES
from support.clients import Certificate, connected
from support.scripted_server import Exchange, serve


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def identity(ca: trustme.CA, name: str) -> TlsIdentity:
    leaf = ca.issue_cert("client.test", common_name=name)
    return TlsIdentity(leaf.cert_chain_pems[0].bytes(), leaf.private_key_pem.bytes())


@pytest.fixture
def demanding(ca: trustme.CA) -> ssl.SSLContext:
    """A server that wants to see a certificate of its CA."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def who(exchange: Exchange) -> None:
    subject = exchange.writer.get_extra_info("peercert")["subject"]
    names = {key: value for ((key, value),) in subject}
    await exchange.json({"metadata": {"name": names["commonName"]}, "spec": {}})


async def test_a_rotated_certificate_is_used_for_the_next_request(
    ca: trustme.CA, demanding: ssl.SSLContext
) -> None:
    credentials = Certificate(identity(ca, "old"))
    async with serve(who, demanding) as server:
        config = ClientConfig(server.url, ca=ca.cert_pem.bytes(), credentials=credentials)
        async with connected(config) as client:
            assert (await client.get(LEASES, "a")).metadata.name == "old"
            assert (await client.get(LEASES, "a")).metadata.name == "old"
            assert server.connections == 1
            credentials._identity = identity(ca, "new")
            assert (await client.get(LEASES, "a")).metadata.name == "new"
            assert server.connections == 2


async def test_no_certificate_where_one_is_wanted(ca: trustme.CA, demanding: ssl.SSLContext) -> None:
    authority = ca.cert_pem.bytes()
    async with serve(who, demanding) as server, connected(ClientConfig(server.url, ca=authority)) as client:
        with pytest.raises(errors.TransportError):
            await client.get(LEASES, "a")


def encrypted(ca: trustme.CA) -> TlsIdentity:
    leaf = identity(ca, "x")
    key = serialization.load_pem_private_key(leaf.key, None)
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    return TlsIdentity(leaf.certificate, secret)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda ca: TlsIdentity(b"nonsense", b"nonsense"), id="not-pem"),
        pytest.param(
            lambda ca: TlsIdentity(identity(ca, "a").certificate, identity(ca, "b").key), id="mixed"
        ),
        pytest.param(lambda ca: TlsIdentity(identity(ca, "a").certificate, b""), id="no-key"),
        pytest.param(encrypted, id="encrypted-key"),
    ],
)
def test_identities_that_cannot_be_used(ca: trustme.CA, broken: object) -> None:
    config = ClientConfig("https://x", source="/etc/kubeconfig, user admin")
    with pytest.raises(errors.ConfigError, match="cannot use the client certificate of /etc/kubeconfig"):
        tls.build(config, broken(ca))  # type: ignore[operator]


@pytest.mark.parametrize("bundle", [b"", b"nonsense", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAA\n"])
def test_authorities_that_cannot_be_used(bundle: bytes) -> None:
    with pytest.raises(errors.ConfigError, match="certificate authority of here: it is not PEM"):
        tls.build(ClientConfig("https://x", ca=bundle, source="here"), None)


def test_systems_without_memfd_use_a_private_file_that_is_gone_afterwards(
    ca: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tls.build(ClientConfig("https://x", insecure=True), identity(ca, "a"))
    assert list(tmp_path.iterdir()) == []


def test_an_authority_may_have_comments_in_any_language(ca: trustme.CA) -> None:
    bundle = "# Főtanúsítvány\n".encode() + ca.cert_pem.bytes() + "# больше ничего\n".encode()
    assert len(tls.build(ClientConfig("https://x", ca=bundle), None).get_ca_certs()) == 1


def test_half_a_rotation_keeps_the_identity_before(ca: trustme.CA, caplog: pytest.LogCaptureFixture) -> None:
    cache = tls.ContextCache(ClientConfig("https://x", insecure=True))
    old, new = identity(ca, "old"), identity(ca, "new")
    first = cache.get(old)
    for _ in range(3):
        assert cache.get(new._replace(key=old.key)) is first
    assert caplog.text.count("going on with the one before") == 1
    assert cache.get(new) is not first


def test_a_key_does_not_show_in_a_representation(ca: trustme.CA) -> None:
    assert "PRIVATE" not in repr(identity(ca, "a"))

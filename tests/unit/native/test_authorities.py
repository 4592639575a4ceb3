"""Whom the system trusts is trusted by all that asks by HTTPS, wherever the system keeps them."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trustme

from nodemanager.agent.tasks.http_status import http_status
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http import tls
from nodemanager.host.base import HostError
from nodemanager.host.self_update import sources
from nodemanager.native import authorities

NAMES = {"openssl_cafile_env": "SSL_CERT_FILE", "openssl_capath_env": "SSL_CERT_DIR"}


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(autouse=True)
def other_system(ca: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system that has nothing where our OpenSSL looks, and a bundle as RHEL has it."""
    bundle = tmp_path / "pki/tls/certs/ca-bundle.crt"
    bundle.parent.mkdir(parents=True)
    bundle.write_bytes(b"# ACCVRAIZ1\n" + ca.cert_pem.bytes())
    for name in NAMES.values():
        monkeypatch.delenv(name, raising=False)
    paths = SimpleNamespace(cafile=None, **NAMES)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    monkeypatch.setattr(authorities, "_BUNDLES", (str(tmp_path / "another"), str(bundle)))
    return bundle


def trusted(context: ssl.SSLContext, ca: trustme.CA) -> bool:
    own = ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode())
    return own in context.get_ca_certs(binary_form=True)


def test_they_are_found_where_another_distribution_keeps_them(ca: trustme.CA) -> None:
    assert trusted(authorities.client_context(), ca)
    assert trusted(tls.build(ClientConfig("https://x"), None), ca)


def test_where_our_openssl_finds_a_file_no_other_is_looked_for(
    ca: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(cafile="/etc/ssl/cert.pem", **NAMES)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: found)
    assert not trusted(authorities.client_context(), ca)


@pytest.mark.parametrize("name", sorted(NAMES.values()))
def test_who_names_others_does_not_get_those_of_the_system_as_well(
    ca: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(tmp_path / "none"))
    assert not trusted(authorities.client_context(), ca)


def test_a_file_that_the_variable_names_is_trusted(
    ca: trustme.CA, other_system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authorities, "_BUNDLES", ())
    monkeypatch.setenv("SSL_CERT_FILE", str(other_system))
    assert trusted(authorities.client_context(), ca)


class Served(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"program")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def address(ca: trustme.CA) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Served) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}/program"
        server.shutdown()


def test_a_program_is_fetched_from_whom_the_system_trusts(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert b"".join(sources.pieces(address, 60)) == b"program"
    monkeypatch.setattr(authorities, "_BUNDLES", ())
    with pytest.raises(HostError, match="certificate verify failed"):
        list(sources.pieces(address, 60))


def test_a_probe_asks_whom_the_system_trusts(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert http_status(address, 60) == 200
    monkeypatch.setattr(authorities, "_BUNDLES", ())
    with pytest.raises(OSError, match="certificate verify failed"):
        http_status(address, 60)

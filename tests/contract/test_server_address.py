"""`nodemanager server` for other hosts: what it tells them of itself."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from nodemanager.kube import core
from support import cli
from support.clients import connected
from support.scripted_server import until
from support.server_process import Server


def names_of(server: Server) -> list[str]:
    certificate = x509.load_pem_x509_certificate((server.folder / "serving.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


async def shakes_hands(server: Server, name: str) -> bool:
    """Tell whether a client that knows the server by a name trusts it."""
    context = ssl.create_default_context(cadata=(server.config().ca or b"").decode())
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context, server_hostname=name)
    except ssl.SSLCertVerificationError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def test_the_kubeconfig_of_a_server_on_all_addresses_works_here_and_says_how_to_do_better(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path / "data", host="0.0.0.0")
    server.start()
    try:
        assert server.config().server == f"https://127.0.0.1:{server.port}"
        assert "0.0.0.0" not in names_of(server)
        remedy = "for others say how they reach it: --advertise-address HOST"
        await until(lambda: remedy in server.log.read_text())  # it is ready a moment before it says so
        async with connected(server.config()) as client:
            assert await client.get(core.CRDS, "configsets.common.nodemanager")
    finally:
        server.stop()


async def test_names_can_be_added_later(tmp_path: Path) -> None:
    plain = Server(tmp_path / "data", host="0.0.0.0")
    plain.start()
    try:
        assert not await shakes_hands(plain, "api.example.org")
    finally:
        plain.stop()
    named = Server(
        tmp_path / "data", "--advertise-address", "localhost", "--san", "api.example.org",
        "--san", "10.0.0.5", host="0.0.0.0",
    )  # fmt: skip
    named.start()
    try:
        assert named.config().server == f"https://localhost:{named.port}"
        assert "how they reach it" not in named.log.read_text()
        for name in ("localhost", "api.example.org", "10.0.0.5", "127.0.0.1"):
            assert await shakes_hands(named, name), name
        async with connected(named.config()) as client:
            assert await client.get(core.CRDS, "configsets.common.nodemanager")
    finally:
        named.stop()


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--advertise-address", "0.0.0.0"), "0.0.0.0 stands for every address"),
        (("--advertise-address", "[::]:443"), ":: stands for every address"),
        (("--advertise-address", ":443"), "'' is neither an IP address nor the name of a host"),
        (("--advertise-address", "api:99999"), "'99999' is not a port"),
        (("--san", "a_b"), "'a_b' is neither an IP address nor the name of a host"),
    ],
)
def test_names_that_nobody_can_use_are_refused(tmp_path: Path, flags: tuple[str, str], why: str) -> None:
    ran = cli.run("server", "--data-dir", str(tmp_path / "data"), *flags)
    assert ran.code == 2
    assert why in ran.stderr
    assert not (tmp_path / "data").exists()

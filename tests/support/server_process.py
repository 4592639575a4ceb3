"""`nodemanager server` as a real process, and plain HTTPS sessions to it as anybody."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from nodemanager.client.auth import kubeconfig
from nodemanager.client.auth.config import ClientConfig, TlsIdentity
from nodemanager.host.process import runner
from support import seeds
from support.apiserver import free_port
from support.connector import Connector

NAMESPACE = "nodemanager"
RBAC = "rbac.authorization.k8s.io"


class Server:
    """A server process on a data folder."""

    def __init__(self, folder: Path, *flags: str, host: str = "127.0.0.1") -> None:
        self.folder = folder
        self.host = host
        self.flags = flags
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    @property
    def log(self) -> Path:
        return self.folder.parent / "server.log"

    def start(self, port: int = 0) -> float:
        """Start it; return how many seconds it took until it listened.

        A port that the system gives away may be somebody else's by the time that it is started again.
        """
        self.kubeconfig.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "nodemanager", "server", "--data-dir", str(self.folder), *self.flags]
        started = time.monotonic()
        with self.log.open("wb") as file:
            self.process = subprocess.Popen(
                [*argv, "--bind-address", f"{self.host}:{port or free_port()}"], stdout=file, stderr=file
            )
        while b"serving on" not in self.log.read_bytes():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < started + 120, self.log.read_text()
            time.sleep(0.01)
        return time.monotonic() - started

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(50)

    def config(self) -> ClientConfig:
        return kubeconfig.load(path=str(self.kubeconfig), environ={}, run=runner.run)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return urlsplit(self.config().server).port or 0

    def resident(self) -> int:
        """Return how many bytes of memory it has."""
        assert self.process is not None
        line = next(
            line
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            if line.startswith("VmRSS:")
        )
        return int(line.split()[1]) * 1024

    def cli(self, *args: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "nodemanager", *args, "--kubeconfig", str(self.kubeconfig)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=150, check=False)


@contextlib.contextmanager
def running(folder: Path, *flags: str, host: str = "127.0.0.1", first: bool = False) -> Iterator[Server]:
    """A server that is gone at the end, whatever happened to it; with `first` it finds nothing stored."""
    if not first:
        seeds.plant(folder)
    server = Server(folder, *flags, host=host)
    server.start()
    try:
        yield server
    finally:
        if server.process is not None:
            server.process.kill()
            server.process.wait(50)


def trust(config: ClientConfig, identity: TlsIdentity | None = None) -> ssl.SSLContext:
    """Return how to connect to a server, with or without a client certificate."""
    assert config.ca is not None
    context = ssl.create_default_context(cadata=config.ca.decode())
    if identity is not None:
        with tempfile.NamedTemporaryFile(suffix=".pem") as pem:
            Path(pem.name).write_bytes(identity.certificate + identity.key)
            context.load_cert_chain(pem.name)
    return context


@contextlib.asynccontextmanager
async def session(
    server: Server, *, token: str = "", identity: TlsIdentity | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    """Plain HTTPS as the bearer of a token, as the owner of a certificate, or as nobody."""
    config = server.config()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connector = Connector(ssl=trust(config, identity), limit=0)
    timeout = aiohttp.ClientTimeout(total=50)
    async with aiohttp.ClientSession(
        config.server, headers=headers, connector=connector, timeout=timeout
    ) as http:
        yield http


@contextlib.asynccontextmanager
async def admin_session(server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    """Plain HTTPS as the one who may do everything."""
    identity = await server.config().credentials.tls_identity()
    async with session(server, identity=identity) as http:
        yield http


async def raw(server: Server, request: bytes, seconds: float = 50.0) -> bytes:
    """Send bytes that no client library would, as nobody, and return all that comes back until the end.

    Empty when the server ends the connection without a word.
    """
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trust(server.config()))
        try:
            writer.write(request)
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def issue(server: Server, http: aiohttp.ClientSession, name: str, *rules: Mapping[str, Any]) -> str:
    """Make a ServiceAccount with exactly these rights in our namespace, and return a token of it."""
    rbac, core = f"/apis/{RBAC}/v1/namespaces/{NAMESPACE}", f"/api/v1/namespaces/{NAMESPACE}"
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    binding = {"roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name}, "subjects": [subject]}
    for path, body in (
        (f"{core}/serviceaccounts", {}),
        (f"{rbac}/roles", {"rules": list(rules)}),
        (f"{rbac}/rolebindings", binding),
        (f"{core}/serviceaccounts/{name}/token", {"spec": {"expirationSeconds": 600}}),
    ):
        async with http.post(path, json={"metadata": {"name": name}, **body}) as response:
            answer = await response.json()
            assert response.status == 201, answer
    return str(answer["status"]["token"])


@contextlib.asynccontextmanager
async def session_of(path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """Plain HTTPS as whoever a kubeconfig says, to any server."""
    config = kubeconfig.load(path=str(path), environ={}, run=runner.run)
    connector = Connector(ssl=trust(config, await config.credentials.tls_identity()), limit=0)
    headers = {name: str(value) for name, value in (await config.credentials.headers()).items()}
    async with aiohttp.ClientSession(
        config.server, headers=headers, connector=connector, timeout=aiohttp.ClientTimeout(total=50)
    ) as http:
        yield http

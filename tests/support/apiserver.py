"""A real kube-apiserver with etcd, for tests that need a judge.

`KUBEBUILDER_ASSETS` names a folder with both binaries. Everything listens on loopback,
lives in a temporary folder and ends with the test process, even if that is killed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

START_TIMEOUT = 90.0
STREAMS_FROM = (3, 5, 13)
"""The etcd that tells a watch how far it is, without which lists are not streamed."""
NOT_OURS = ("ServiceAccount", "TaintNodesByCondition", "Priority", "DefaultTolerationSeconds")
"""Admission that adds what only the controllers of a cluster give a meaning."""
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: admin
clusters: [{{name: test, cluster: {{server: "{server}", certificate-authority-data: {ca}}}}}]
contexts: [{{name: admin, context: {{cluster: test, user: admin, namespace: default}}}}]
users: [{{name: admin, user: {{client-certificate-data: {cert}, client-key-data: {key}}}}}]
"""


def assets() -> Path | None:
    """Return the folder with kube-apiserver and etcd, or None when none was given."""
    folder = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not folder:
        return None
    path = Path(folder)
    missing = [name for name in ("kube-apiserver", "etcd") if not (path / name).is_file()]
    if missing:  # given but unusable is a mistake to report, not a reason to skip
        raise FileNotFoundError(f"KUBEBUILDER_ASSETS={folder} has no {' and no '.join(missing)}")
    return path


def skip_once_a_file(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that need a kube-apiserver but one of each file, which is skipped and says why."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("apiserver") is not None:
            files.setdefault(item.path, []).append(item)
    left_out: set[pytest.Item] = set()
    for found in files.values():
        first, *others = sorted(found, key=lambda item: item.nodeid)  # the same in every worker
        why = f"no kube-apiserver given for {len(found)} tests of this file"
        first.add_marker(pytest.mark.skip(f"{why}: set KUBEBUILDER_ASSETS to a folder with it and etcd"))
        left_out.update(others)
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=list(left_out))


def free_port() -> int:
    """Return a loopback port that nobody listens on, and that the system gives to nobody who wants any."""
    while True:
        port = 10_000 + secrets.randbelow(22_000)  # those that it gives away begin at 32768
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


@dataclass
class ApiServer:
    """A running kube-apiserver: where it is, who may do everything there, and its etcd."""

    server: str
    kubeconfig: Path
    etcd: str
    folder: Path
    ca: trustme.CA
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def kubectl(self, *args: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator."""
        argv = ["kubectl", "--kubeconfig", str(self.kubeconfig), *args]
        return subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=60, check=check)

    def compact(self) -> None:
        """Forget all history in etcd, so that every older revision answers 410 Gone."""
        revision = int(self._etcd("kv/range", '{"key": "AA=="}')["header"]["revision"])
        self._etcd("kv/compaction", f'{{"revision": {revision}, "physical": true}}')

    def require_streamed_lists(self) -> None:
        """Skip the test that calls, and say why, where the etcd is too old for lists to be streamed."""
        with urllib.request.urlopen(f"{self.etcd}/version", timeout=10) as answer:
            version: str = json.load(answer)["etcdserver"]
        if tuple(map(int, version.partition("-")[0].split("."))) < STREAMS_FROM:
            pytest.skip(f"etcd {version} cannot tell how far it is, so lists are not streamed: 3.5.13 can")

    def _etcd(self, path: str, body: str) -> dict[str, dict[str, str]]:
        request = urllib.request.Request(f"{self.etcd}/v3/{path}", data=body.encode(), method="POST")
        with urllib.request.urlopen(request, timeout=10) as answer:
            parsed: dict[str, dict[str, str]] = json.load(answer)
            return parsed


@contextlib.contextmanager
def running(
    folder: Path, *extra_flags: str, durable: bool = False, host: str = "127.0.0.1"
) -> Iterator[ApiServer]:
    """Start etcd and kube-apiserver below `folder`; stop both at the end.

    `host` is the address that it listens on. Tests need nothing to survive a power cut; `durable` is for
    who measures what surviving costs.
    """
    binaries = assets()
    if binaries is None:
        raise FileNotFoundError("KUBEBUILDER_ASSETS is not set")
    ca = trustme.CA()
    api = _describe(folder, ca, host)
    try:
        api.processes.append(_start_etcd(binaries, api, () if durable else ("--unsafe-no-fsync",)))
        api.processes.append(_start_apiserver(binaries, api, extra_flags))
        _wait_ready(api)
        yield api
    finally:
        for process in reversed(api.processes):
            process.kill()  # nothing of it is kept, so nobody needs a slow goodbye
            process.wait(timeout=50)
        shutil.rmtree(folder, ignore_errors=True)


def kubeconfig_of(api: ApiServer, user: str, group: str | None = None) -> str:
    """Return a kubeconfig for anybody, with a certificate of the server's CA."""
    leaf = api.ca.issue_cert("user.test", common_name=user, organization_name=group)
    return KUBECONFIG.format(
        server=api.server,
        ca=base64.b64encode(api.ca.cert_pem.bytes()).decode(),
        cert=base64.b64encode(leaf.cert_chain_pems[0].bytes()).decode(),
        key=base64.b64encode(leaf.private_key_pem.bytes()).decode(),
    )


def _describe(folder: Path, ca: trustme.CA, host: str) -> ApiServer:
    folder.mkdir(parents=True, exist_ok=True)
    serving = ca.issue_cert(host, "127.0.0.1", "localhost")
    ca.cert_pem.write_to_path(str(folder / "ca.crt"))
    serving.private_key_and_cert_chain_pem.write_to_path(str(folder / "serving.pem"))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (folder / "sa.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    server, etcd = f"https://{host}:{free_port()}", f"http://127.0.0.1:{free_port()}"
    api = ApiServer(server, folder / "admin.kubeconfig", etcd, folder, ca)
    api.kubeconfig.touch(mode=0o600)
    api.kubeconfig.write_text(kubeconfig_of(api, "admin", "system:masters"))
    return api


def _start_etcd(binaries: Path, api: ApiServer, extra: tuple[str, ...]) -> subprocess.Popen[bytes]:
    peer = f"http://127.0.0.1:{free_port()}"
    argv = [
        str(binaries / "etcd"), f"--data-dir={api.folder / 'etcd'}", "--log-level=error", *extra,
        f"--listen-client-urls={api.etcd}", f"--advertise-client-urls={api.etcd}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]  # fmt: skip
    return _start(argv, api.folder / "etcd.log")


def _start_apiserver(binaries: Path, api: ApiServer, extra: tuple[str, ...]) -> subprocess.Popen[bytes]:
    folder = api.folder
    argv = [
        str(binaries / "kube-apiserver"), f"--etcd-servers={api.etcd}",
        f"--bind-address={urlsplit(api.server).hostname}", f"--secure-port={urlsplit(api.server).port}",
        f"--cert-dir={folder / 'certs'}",
        f"--tls-cert-file={folder / 'serving.pem'}", f"--tls-private-key-file={folder / 'serving.pem'}",
        f"--client-ca-file={folder / 'ca.crt'}", "--authorization-mode=RBAC", "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24",
        f"--service-account-key-file={folder / 'sa.key'}",
        f"--service-account-signing-key-file={folder / 'sa.key'}",
        f"--disable-admission-plugins={','.join(NOT_OURS)}", "--endpoint-reconciler-type=none", *extra,
    ]  # fmt: skip
    return _start(argv, folder / "apiserver.log")


def _start(argv: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process that the kernel kills as soon as the thread that started it is gone."""
    setpriv = shutil.which("setpriv")
    bound = [setpriv, "--pdeathsig", "KILL"] if setpriv else []  # without it, only a killed test leaves some
    with log.open("wb") as output:
        return subprocess.Popen([*bound, *argv], stdout=output, stderr=output)


def _wait_ready(api: ApiServer) -> None:
    context = ssl.create_default_context()
    api.ca.configure_trust(context)
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        for process in api.processes:
            if process.poll() is not None:
                log = (api.folder / "apiserver.log").read_text()[-2000:]
                raise RuntimeError(f"{process.args} ended with {process.returncode}:\n{log}")  # type: ignore[str-bytes-safe]
        try:
            with urllib.request.urlopen(f"{api.server}/readyz", timeout=2, context=context) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)  # the one place where polling a foreign process is all there is
    raise TimeoutError(f"kube-apiserver was not ready within {START_TIMEOUT:.0f} s")

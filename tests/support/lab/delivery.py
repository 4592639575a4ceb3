"""Our program in guests, as a service that is not started.

The source tree with what it needs, for Debian's Python, comes by HTTP from this machine: the port for
commands is too slow for it.
"""

from __future__ import annotations

import contextlib
import http.server
import io
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from support import host_python
from support.fleet import ROOT
from support.fleet_api import NAMESPACE
from support.lab.guest import Guest

OUTSIDE = "10.0.2.2"
"""What guests know this machine as."""
UNIT_NAME = "nodemanager"
SECONDS = 900.0
"""A guard against hanging: a guest may have a twentieth of a core."""
FETCH = """\
import shutil, sys, urllib.request
with urllib.request.urlopen(sys.argv[1]) as answer, open("/opt/agent.tar.gz", "wb") as file:
    shutil.copyfileobj(answer, file, 1 << 20)
"""
UNIT = """\
[Unit]
Description=nodemanager

[Service]
Environment=PYTHONPATH=/opt/nodemanager/src:/opt/nodemanager/site PYTHONDONTWRITEBYTECODE=1
Environment=NODEMANAGER_EDGE=true
ExecStart=/usr/bin/python3 -m nodemanager agent --hostname {name} -n {namespace} \
 --kubeconfig /etc/nodemanager/kubeconfig --metrics-bind-address 0 --health-probe-bind-address 0
KillMode=process
"""
"""KillMode as in the deployment guide: a flip that has begun goes on when its agent dies."""
PLAIN = f"/run/systemd/system/{UNIT_NAME}.service.d/plain.conf"
"""Where a test says that the agent shall be one of a plain host."""


def deliver(guests: Sequence[Guest]) -> None:
    """Have the program in all of them."""
    with offered(packed()) as port, ThreadPoolExecutor() as pool:
        list(pool.map(partial(_install, port), guests))


def _install(port: int, guest: Guest) -> None:
    """Have the program in a guest, and a service that is not started."""
    unit = UNIT.format(name=guest.name, namespace=NAMESPACE)
    guest.write(f"/etc/systemd/system/{UNIT_NAME}.service", unit)
    guest.run("systemctl", "daemon-reload")
    guest.run("mkdir", "-p", "/opt/nodemanager")
    guest.run("python3", "-I", "-c", FETCH, f"http://{OUTSIDE}:{port}/", timeout=SECONDS)
    guest.run("tar", "-xzf", "/opt/agent.tar.gz", "-C", "/opt/nodemanager", timeout=SECONDS)
    guest.run("rm", "/opt/agent.tar.gz")


@contextlib.contextmanager
def offered(data: bytes) -> Iterator[int]:
    """Have a port of loopback where whoever asks gets something."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing: it would be among what tests print."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def packed() -> bytes:
    """Return the source tree and what it needs, compiled: that would take a guest without KVM a minute."""
    argv = [f"python{host_python.VERSION}", "-m", "compileall", "-q", str(ROOT / "src")]
    subprocess.run(argv, check=True, timeout=SECONDS)
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz", compresslevel=1) as archive:
        archive.add(ROOT / "src", "src")
        archive.add(host_python.site(), "site")
    return found.getvalue()

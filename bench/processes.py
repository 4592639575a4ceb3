"""Starting the processes that are measured, and the server they talk to."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme

from bench import server

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 300.0


class ChildFailed(RuntimeError):
    """A measured process did not end well; the message has the end of what it said."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A running server: kubeconfigs for its TLS and its plain port."""

    https: Path
    http: Path


@contextlib.contextmanager
def serving() -> Iterator[Endpoint]:
    """Run the benchmark server with a CA of its own."""
    with tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name:
        folder = Path(name)
        ca = trustme.CA()
        ca.cert_pem.write_to_path(str(folder / "ca.pem"))
        ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "serving.pem"))
        argv = [sys.executable, "-m", "bench.server", name]
        with subprocess.Popen(
            argv, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            try:
                assert process.stdout is not None  # it was asked for just above
                line = process.stdout.readline()
                if not line:
                    raise ChildFailed("cannot start the benchmark server: it ended at once, see above")
                ports: dict[str, int] = json.loads(line)
                yield Endpoint(
                    *(_kubeconfig(folder, scheme, ports[scheme], ca) for scheme in ("https", "http"))
                )
            finally:
                process.kill()


def _kubeconfig(folder: Path, scheme: str, port: int, ca: trustme.CA) -> Path:
    cluster = {"server": f"{scheme}://127.0.0.1:{port}"}
    user = {"token": server.TOKEN}
    if scheme == "https":
        leaf = ca.issue_cert("client.test", common_name="benchmark")
        cluster["certificate-authority-data"] = _base64(ca.cert_pem.bytes())
        user["client-certificate-data"] = _base64(leaf.cert_chain_pems[0].bytes())
        user["client-key-data"] = _base64(leaf.private_key_pem.bytes())
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": user}],
    }
    path = folder / f"{scheme}.kubeconfig"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@dataclass(frozen=True, slots=True)
class Ran:
    """What a child said, and what it cost."""

    answer: dict[str, Any]
    started: float
    """When it was started, on the clock of `time.monotonic`, which all processes share."""
    cpu: float
    """Seconds of CPU time, the start of its interpreter included."""


def measure(module: str, *args: str) -> Ran:
    """Run `python -m module` in a fresh process and return the JSON object it prints."""
    ran = run([sys.executable, "-m", module, *args])
    return Ran(json.loads(ran.answer["stdout"]), ran.started, ran.cpu)


def run(argv: list[str], env: Mapping[str, str] | None = None) -> Ran:
    """Run a program in a fresh process; its answer has what it wrote as `stdout`."""
    before, started = _children_cpu(), time.monotonic()
    try:
        done = subprocess.run(
            argv,
            cwd=ROOT,
            env=env or environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or "nothing").strip()[-2000:]
        raise ChildFailed(
            f"cannot measure {' '.join(argv[1:4])}: status {error.returncode}: {said}"
        ) from error
    return Ran({"stdout": done.stdout}, started, _children_cpu() - before)


def _children_cpu() -> float:
    """Return the CPU time of the children that have ended, which the server has not."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def environment() -> dict[str, str]:
    """Return our environment without what would distort: proxies, and the wish not to keep compiled modules.

    What is installed is compiled; a child that compiles itself anew at every start is no measure for it.
    """
    unwanted = ("PYTHONDONTWRITEBYTECODE",)
    return {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and name not in unwanted
    }

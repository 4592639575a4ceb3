"""demo and up: they start everything, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import nodemanager
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.cli.commands.running import demo
from nodemanager.cli.settings import operator_account
from nodemanager.kube import errors
from nodemanager.server.embedded import EmbeddedServer
from support import cli, whole_server
from support.apiserver import free_port
from support.clients import connected
from support.host_attempts import task
from support.root_tree import needs_root

pytestmark = pytest.mark.execs
NOBODY = 65534


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Return everything below a folder with mode and time of change."""
    return {
        str(path): (found.st_mode, found.st_ctime_ns)
        for path in sorted(folder.rglob("*"))
        for found in [path.lstat()]
    }


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in listed.read_text().split()] if listed.exists() else []


def test_the_demo_is_quick_and_leaves_nothing(tmp_path: Path) -> None:
    before = os.times()
    environ = cli.environment(TMPDIR=str(tmp_path))
    done = subprocess.run(
        [*cli.ARGV, "demo"], env=environ, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    for said in ("Welcome to the fleet", "demo runs agent", "DriftRepaired: file:/etc/motd", "mind the gap"):
        assert said in done.stdout
    assert list(tmp_path.iterdir()) == []
    after = os.times()  # of processors, not of the clock: others may have had them meanwhile
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent < 15


def test_the_demo_keeps_its_folder_when_asked(tmp_path: Path) -> None:
    argv = [*cli.ARGV, "demo", "--keep"]
    environ = cli.environment(TMPDIR=str(tmp_path))
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=50, check=False)
    (kept,) = tmp_path.iterdir()
    assert f"the folder is {kept}" in done.stdout
    assert (kept / "host/etc/motd").read_text() == "Welcome, and mind the gap\n"


@pytest.mark.parametrize("missing", ["the API", "the first report of the agent"])
def test_a_demo_that_does_not_get_on_says_what_it_waits_for(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ready = EmbeddedServer.ready

    async def then_no_patience(server: EmbeddedServer) -> None:
        await ready(server)
        monkeypatch.setattr(demo, "PATIENCE", 0.05)

    async def silent(_stage: demo.Stage) -> ManagedNode:
        return ManagedNode()

    if missing == "the API":
        monkeypatch.setattr(demo, "PATIENCE", 0.0)
    else:
        monkeypatch.setattr(EmbeddedServer, "ready", then_no_patience)
        monkeypatch.setattr(demo.Stage, "node", silent)
    ran = cli.run("demo")
    assert ran.code == 1
    assert f"cannot go on with the demo: {missing} did not come within" in ran.stderr
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_the_demo_needs_no_root(open_folder: Path) -> None:
    """As nobody, who can read the program and write to one folder, and owns no other file."""
    home = open_folder / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    source = Path(nodemanager.__file__).parent.parent
    nobody = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    # The interpreter of a test may be in root's home; others have one that they can read, and start again.
    readers = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    argv = [*nobody, *readers, sys.executable, "-m", "nodemanager", "demo"]
    environ = cli.environment(TMPDIR=str(home), PYTHONPATH=str(source))
    done = subprocess.run(
        argv, env=environ, capture_output=True, text=True, timeout=50, check=False, cwd=home
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "mind the gap" in done.stdout
    assert list(home.iterdir()) == []


@pytest.fixture(name="sandbox")
def _sandbox(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/motd").write_text("mine\n")
    return root


def test_up_runs_everything_and_ends_without_a_trace(tmp_path: Path, sandbox: Path) -> None:
    before = snapshot(sandbox)
    port = free_port()
    log = tmp_path / "log"
    argv = [
        *cli.ARGV, "up", "--root", str(sandbox), "--hostname", "web1", "--data-dir", "data",
        "--bind-address", f"127.0.0.1:{port}",
    ]  # fmt: skip
    with log.open("wb") as file:
        process = subprocess.Popen(
            argv, stdout=file, stderr=file, env=cli.environment(HOME=str(tmp_path)), start_new_session=True,
            cwd=tmp_path,
        )  # fmt: skip
    try:
        kubeconfig = tmp_path / "data/admin.kubeconfig"
        until = time.monotonic() + 50
        ready = ""
        while "True" not in ready:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            if kubeconfig.exists():
                ready = cli.run("get", "mn", "web1", "--kubeconfig", str(kubeconfig)).stdout
            time.sleep(0.05)
        assert snapshot(sandbox) == before  # nothing was declared, so nothing is touched
        process.send_signal(signal.SIGINT)
        assert process.wait(50) == 0, log.read_text()
    finally:
        process.kill()
        process.wait(50)
    assert snapshot(sandbox) == before
    assert children(process.pid) == []
    assert not [path for path in tmp_path.rglob("*") if path.is_socket()]
    with socket.socket() as again:
        assert again.connect_ex(("127.0.0.1", port)) != 0
    assert "Traceback" not in log.read_text()
    assert f"  export KUBECONFIG={kubeconfig}\n" in log.read_text()  # whole: the other shell may be elsewhere
    assert f" plan -f examples/01-clock/ --root {sandbox} --hostname web1 " in log.read_text()
    shutil.rmtree(tmp_path / "data")


async def test_the_operator_of_up_is_one_to_the_policies(tmp_path: Path) -> None:
    """On an API of its own it is more than an administrator, who may make no tasks."""
    made = task("t", "default", "web1")
    async with whole_server.serving(tmp_path) as (config, _):
        async with connected(config) as admin:
            with pytest.raises(errors.Forbidden, match=r"under the account nodemanager-operator$"):
                await admin.create(NODE_TASKS, made, "default")
        async with connected(operator_account.as_itself(config, "default")) as operator:
            await operator.create(NODE_TASKS, made, "default")


@pytest.mark.parametrize("command", ["up", "server"])
@pytest.mark.parametrize(
    ("address", "said"),
    [
        pytest.param("127.0.0.1", "has no port; write it like 127.0.0.1:6443", id="no port"),
        pytest.param("0", "has no port", id="not at all"),
        pytest.param("127.0.0.1:https", "'https' is not a port", id="no number"),
        pytest.param("127.0.0.1:99999", "'99999' is not a port from 0 to 65535", id="too large"),
        pytest.param("::1:6443", "write an IPv6 address as", id="IPv6"),
    ],
)
def test_an_odd_address_is_wrong_usage(command: str, address: str, said: str, tmp_path: Path) -> None:
    root = ["--root", str(tmp_path)] if command == "up" else []
    ran = cli.run(command, "--data-dir", str(tmp_path / "data"), *root, "--bind-address", address)
    assert ran.code == 2
    assert said in ran.stderr


@pytest.fixture(name="taken")
def _taken() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield f"127.0.0.1:{one.getsockname()[1]}"


@pytest.mark.parametrize("command", ["up", "server"])
@pytest.mark.parametrize(
    ("address", "why", "remedy"),
    [
        pytest.param("", "Address already in use", "stop what listens there", id="taken"),
        pytest.param("nowhere.invalid:0", "", "give an address of this host", id="unknown name"),
        pytest.param("a..b:0", "no host can have that name", "choose another", id="no name"),
        pytest.param("192.0.2.1:0", "Cannot assign", "this host does not have that address", id="not ours"),
        pytest.param("[2001:db8::1]:0", "", "--bind-address", id="IPv6"),
    ],
)
def test_where_it_cannot_listen_it_says_why_and_what_to_do(
    command: str, address: str, why: str, remedy: str, tmp_path: Path, taken: str
) -> None:
    root = ["--root", str(tmp_path)] if command == "up" else []
    argv = [command, "--data-dir", str(tmp_path / "data"), *root, "--bind-address", address or taken]
    done = subprocess.run(
        [*cli.ARGV, *argv], env=cli.environment(HOME=str(tmp_path)), capture_output=True, text=True,
        timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done
    (line,) = done.stderr.splitlines()
    assert f"cannot listen on {address or taken}: {why}" in line
    assert remedy in line
    assert "Errno" not in line


@pytest.mark.parametrize(("level", "lines"), [("error", False), ("DEBUG", True)])
def test_up_logs_what_it_is_asked_to(level: str, lines: bool, tmp_path: Path, taken: str) -> None:
    argv = ["up", "--data-dir", str(tmp_path), "--root", str(tmp_path), "--bind-address", taken]
    done = subprocess.run(
        [*cli.ARGV, *argv, "--log-level", level], env=cli.environment(HOME=str(tmp_path)), timeout=50,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done
    assert (" DEBUG " in done.stdout) is lines, done

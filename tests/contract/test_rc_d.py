"""A plain script of rc.d, as the Go project documents it, starts, finds and stops the agent.

There is no FreeBSD here: rc.subr is played by a few lines that do what rc.subr(8) says, and `ps` by one that
shows the name which the agent gives itself there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import cli, server_process

pytestmark = pytest.mark.timeout(120)
SCRIPT = """\
#!/bin/sh
# PROVIDE: nodemanager
# REQUIRE: NETWORKING
# KEYWORD: shutdown

. /etc/rc.subr

name="nodemanager"
rcvar="nodemanager_enable"
command="/usr/local/bin/nodemanager"
command_args="--kubeconfig /usr/local/etc/nodemanager/kubeconfig"
pidfile="/var/run/nodemanager.pid"

load_rc_config $name
run_rc_command "$1"
"""
RC_SUBR = """\
: ${RC_PID:=$$}
export RC_PID
load_rc_config() { . ROOT/etc/rc.conf; }
running() {
    [ -f "$pidfile" ] && read -r pid rest < "$pidfile" && first=$(ROOT/bin/ps "$pid") || return 1
    case "$first" in "$command"|"${command##*/}"|"${command##*/}:") ;; *) return 1 ;; esac
}
run_rc_command() {
    case "$1" in
    start)
        if running; then echo "$name already running? (pid=$pid)."; exit 1; fi
        echo "Starting $name."
        eval "$command $nodemanager_flags $command_args" ;;
    status)
        if ! running; then echo "$name is not running."; exit 1; fi
        echo "$name is running as pid $pid." ;;
    stop)
        if ! running; then echo "$name not running? (check $pidfile)."; exit 1; fi
        echo "Stopping $name."
        kill -TERM "$pid"
        while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done ;;
    esac
}
"""


@dataclass
class Host:
    """A folder as FreeBSD would have it."""

    root: Path

    @property
    def pid_file(self) -> Path:
        return self.root / "var" / "run" / "nodemanager.pid"

    def service(self, verb: str) -> subprocess.CompletedProcess[str]:
        """Run the script as service(8) does; it must come back, and leave nothing of ours open."""
        return subprocess.run(
            ["sh", str(self.root / "rc.d"), verb], capture_output=True, text=True, timeout=30, check=False,
            env=cli.environment(NODEMANAGER_PID_FILE=str(self.pid_file)),
        )  # fmt: skip


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[Host]:
    root = tmp_path / "root"
    binary, kubeconfig = root / "usr/local/bin/nodemanager", root / "usr/local/etc/nodemanager/kubeconfig"
    made = (root / one for one in ("etc", "bin", "var/run", "host/etc", "host/run"))
    for folder in (binary.parent, kubeconfig.parent, *made):
        folder.mkdir(parents=True)
    binary.write_text(f'#!/bin/sh\nexec {" ".join(cli.ARGV)} "$@"\n')
    (root / "bin/ps").write_text('#!/bin/sh\nkill -0 "$1" 2>/dev/null && echo nodemanager:\n')
    for program in (binary, root / "bin/ps"):
        program.chmod(0o755)
    flags = f"--root {root}/host --hostname web1 --metrics-bind-address 0 --health-probe-bind-address 0"
    (root / "etc/rc.conf").write_text(f'nodemanager_enable=YES\nnodemanager_flags="{flags}"\n')
    (root / "etc/rc.subr").write_text(RC_SUBR.replace("ROOT", str(root)))
    script = SCRIPT
    for path in ("/etc/rc.subr", "/usr/local", "/var/run"):
        script = script.replace(path, f"{root}{path}")
    (root / "rc.d").write_text(script)
    host = Host(root)
    with server_process.running(tmp_path / "data") as server:
        kubeconfig.write_bytes(server.kubeconfig.read_bytes())
        yield host
        if host.pid_file.exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(host.pid_file.read_text()), signal.SIGKILL)


def test_start_status_and_stop(host: Host) -> None:
    assert host.service("status").returncode == 1
    started = host.service("start")
    assert (started.returncode, started.stdout) == (0, "Starting nodemanager.\n"), started
    pid = host.pid_file.read_text().strip()
    assert os.getsid(int(pid)) == int(pid)
    assert host.service("status").stdout == f"nodemanager is running as pid {pid}.\n"
    assert host.service("start").stdout == f"nodemanager already running? (pid={pid}).\n"
    until = time.monotonic() + 90
    while not (host.root / "host/run/nodemanager/agent.sock").exists():  # it is at work
        assert time.monotonic() < until
        time.sleep(0.05)
    assert host.service("stop").stdout == "Stopping nodemanager.\n"
    assert host.service("status").stdout == "nodemanager is not running.\n"
    assert not host.pid_file.exists()


def test_what_keeps_it_from_running_is_told_at_the_start(host: Host) -> None:
    host.pid_file.parent.rmdir()
    failed = host.service("start")
    assert failed.returncode == 1
    assert not host.pid_file.exists()
    told = f"cannot write {host.pid_file}: No such file or directory; name another with --pid-file"
    assert told in failed.stderr

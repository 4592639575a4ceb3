"""Machines to do real things to: a Debian with systemd as PID 1, booted in a second by systemd-nspawn.

    with Machine.boot() as machine:                       # an overlay on `debian_root.base_root()`
        machine.write("/etc/systemd/system/x.service", "[Service]\\nExecStart=/bin/sleep inf\\n")
        assert machine.run("systemctl", "start", "x").stdout == ""
        machine.kill()                                    # power loss; what was written stays
        machine.start()                                   # and on again
    # whatever happened, nothing is left: no process, no mount, no file

- `packages=("openrc",)` boots a root that has more packages in it; `base=` boots another one.
- `binds={Path("/src"): "/opt/src"}` shows paths of this machine inside, read-only.
- `network="/run/netns/a"` boots in an existing network namespace; otherwise there is no network but lo.
- `Machine.boot` on several names boots several machines; names are unique on this machine.
- `Box.boot` is for roots without an init system.
- A failed command raises `Failed` with what it said; when the test fails, `journal()` says the rest.
  The fixture `machine` of tests/hosts/conftest.py prints it by itself.

Commands are run by nsenter, not by machinectl: nothing has to run in the machine for that, and this
machine needs no systemd of its own. It has to be Linux, and we have to be root.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from support import debian_packages, debian_root

BOOT_SECONDS = 300.0
RUN_SECONDS = 120.0
STOP_SECONDS = 120.0
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


REBOOTED = 133
"""How systemd-nspawn ends when whoever started it shall start it again."""


class Failed(AssertionError):
    """A command in a machine, or the machine itself, failed."""


class Machine:
    """One machine; made by `boot`."""

    _init: tuple[str, ...] = ("--boot",)
    """How systemd-nspawn is told what to run as the first process."""
    _command: tuple[str, ...] = ()

    def __init__(self, name: str, root: Path, binds: Mapping[Path, str], network: str) -> None:
        self.name = name
        self.root = root
        """Its root directory as this machine sees it; /run and /tmp are others while it is up."""
        self._binds = dict(binds)
        self.network = network
        """Path of the network namespace that it is in; empty = one of its own, with no network."""
        self._process: subprocess.Popen[bytes] | None = None
        self._leader = 0

    @property
    def leader(self) -> int:
        """Its first process, as this machine numbers it; 0 while it is off."""
        return self._leader if self._process is not None else 0

    @contextlib.contextmanager
    def by_hand(self, script: str) -> Iterator[None]:
        """Have a shell do something, as a person would, and stay, so that one can ask who it was."""
        hand = self.popen("sh", "-c", f"{script}; read stays", stdin=subprocess.PIPE)
        try:
            yield
        finally:
            hand.communicate("\n", timeout=RUN_SECONDS)

    @classmethod
    @contextlib.contextmanager
    def boot(
        cls,
        name: str = "",
        *,
        base: Path | None = None,
        packages: tuple[str, ...] = (),
        binds: Mapping[Path, str] | None = None,
        network: str = "",
    ) -> Iterator[Self]:
        """Boot a machine, and take everything away in the end."""
        debian_packages.ensure("systemd-container", "util-linux", "iproute2")
        base = base or debian_root.base_root(*packages)
        name = name or f"nodemanager-{secrets.token_hex(4)}"
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        try:
            with debian_root.mounted(base, folder) as root:
                (root / "etc/hostname").write_text(name + "\n")
                machine = cls(name, root, binds or {}, network)
                try:
                    machine.start()
                    yield machine
                finally:
                    machine.kill()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def start(self) -> None:
        """Switch it on and wait until it is up; "degraded" is up, too."""
        argv = ["systemd-nspawn", *self._init, "--quiet", "--register=no", "--keep-unit", "--console=pipe"]
        argv += [f"--directory={self.root}", f"--machine={self.name}", "--resolv-conf=off", "--timezone=off"]
        argv += ["--system-call-filter=fanotify_init fanotify_mark"]  # a host may, a container may not
        argv += [f"--bind-ro={outside}:{inside}" for outside, inside in self._binds.items()]
        argv += [f"--network-namespace-path={self.network}"] if self.network else ["--private-network"]
        argv += self._command
        log = (self.root.parent / "console.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + BOOT_SECONDS
        while not self._is_up():
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline:
                why = f"not up within {BOOT_SECONDS:g} s" if code is None else f"it ended with {code}"
                self.kill()
                raise Failed(f"cannot boot {self.name}: {why}:\n{self.console()}")
            time.sleep(0.05)

    def run(
        self, *argv: str, check: bool = True, stdin: str = "", timeout: float = RUN_SECONDS,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Run a command in the machine as root, and return what it said."""
        try:
            done = subprocess.run(
                self.inside(*argv), input=stdin, env={**ENVIRONMENT, **(env or {})},
                capture_output=True, text=True, timeout=timeout, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{' '.join(argv)} did not finish within {timeout:g} s in {self.name}") from error
        if check and done.returncode != 0:
            said = f"{done.stdout}{done.stderr}"
            raise Failed(f"{' '.join(argv)} failed in {self.name} with {done.returncode}:\n{said}")
        return done

    def popen(
        self, *argv: str, env: Mapping[str, str] | None = None, stdin: int | None = None
    ) -> subprocess.Popen[str]:
        """Start a command in the machine and do not wait for it."""
        return subprocess.Popen(
            self.inside(*argv), env={**ENVIRONMENT, **(env or {})}, stdin=stdin,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file of the machine, with the directories above it."""
        self.run("mkdir", "-p", str(Path(path).parent))
        self.run("dd", "status=none", f"of={path}", stdin=text)
        self.run("chmod", f"{mode:o}", path)

    def read(self, path: str) -> str:
        """Return the content of a file of the machine."""
        return self.run("cat", path).stdout

    def copy(self, source: Path, target: str) -> None:
        """Copy a file or a directory of this machine to a path inside; works while it is off, too."""
        outside = self.root / target.lstrip("/")
        outside.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "--archive", "-T", str(source), str(outside)], check=True, timeout=RUN_SECONDS)

    def journal(self, *argv: str, lines: int = 200) -> str:
        """Return the end of its journal; `argv` narrows it down, such as `-u x`."""
        return self.run("journalctl", "--no-pager", f"--lines={lines}", *argv, check=False).stdout

    def console(self) -> str:
        """Return what it wrote to its console."""
        return (self.root.parent / "console.log").read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """Pull the plug: everything in it is gone at once, unsaved or not; fine when it is off already."""
        process, self._process = self._process, None
        if process is None:
            return
        leader, self._leader = self._leader or _child(process.pid), 0
        for victim in (leader, process.pid):  # with PID 1 the kernel ends all of its namespace
            if victim:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
        process.wait(STOP_SECONDS)
        self._await_end(leader)

    def shut_down(self) -> None:
        """Switch it off in order."""
        if self._process is not None:
            self.run("systemctl", "poweroff", check=False)
            self._process.wait(STOP_SECONDS)
            self.kill()

    def follow_reboot(self, seconds: float) -> None:
        """Wait until somebody in it has it reboot, and switch it on again, as firmware does."""
        if self._process is None:
            raise Failed(f"{self.name} is off")
        leader, code = self._leader, self._process.wait(seconds)
        if code != REBOOTED:
            raise Failed(f"{self.name} ended with {code}, and not to boot again:\n{self.console()}")
        self._await_end(leader)
        self.start()

    def _await_end(self, leader: int) -> None:
        """The overlay can be mounted again only after nobody in the machine uses it any more."""
        deadline = time.monotonic() + STOP_SECONDS
        while leader and Path(f"/proc/{leader}").exists() and time.monotonic() < deadline:
            time.sleep(0.02)

    def inside(self, *argv: str) -> list[str]:
        """Return how to run a command in the machine from this one."""
        if not self._leader:
            raise Failed(f"{self.name} is off")
        kinds = ("--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd")
        return ["nsenter", f"--target={self._leader}", *kinds, "--", *argv]

    def _is_up(self) -> bool:
        self._leader = _child(self._process.pid) if self._process else 0
        if not self._leader:
            return False
        try:
            state = self.run("systemctl", "is-system-running", check=False, timeout=5.0).stdout.strip()
        except Failed:  # a systemd that is busy booting answers late
            return False
        return state in ("running", "degraded")


class Box(Machine):
    """A machine without an init system: what runs in it is run by the test; its root needs true and sleep."""

    _init = ("--as-pid2",)
    _command = ("/bin/sleep", "2147483647")

    def _is_up(self) -> bool:
        self._leader = _child(self._process.pid) if self._process else 0
        try:
            return bool(self._leader) and self.run("true", check=False, timeout=5.0).returncode == 0
        except Failed:  # as above
            return False


def _child(pid: int) -> int:
    """Return PID 1 of the machine that a process runs, 0 if there is none yet.

    Another child of systemd-nspawn makes that one, and ends.
    """
    with contextlib.suppress(OSError):
        ours = Path("/proc/self/ns/pid").readlink()
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if Path(f"/proc/{child}/ns/pid").readlink() != ours:
                return int(child)
    return 0

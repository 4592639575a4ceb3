"""Three hosts to whom everything happens, and what must be true of them all the while.

Throughout: no reader ever sees a torn file. At every checkpoint: each host is as its newest ConfigSet says,
its service runs with the newest version, the program that was owed a run has had it and no version was run
twice, nothing is left lying about, and the status says so.

The managed files and the agent's state are on small filesystems of their own (tmpfs, mounted by this
machine), so that they can be full, and so that what a power cut leaves is what was written.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from support import debian_packages
from support.bridge import ip
from support.chaos_plan import FILES, FOLDERS, Act
from support.fleet import Fleet, Host
from support.server_process import Server

MANAGED: Final = "srv/chaos"
STATE: Final = "var/lib/nodemanager"
SIZE: Final = "48m"
PADDING: Final = "x" * 4000
WHOLE: Final = re.compile(rb"((?:version|foreign)-\d+)\nx{4000}\nend \1\n")
SETTLE_SECONDS: Final = 240.0
"""After a spell of failures an agent waits up to a minute or two before it tries again."""
CLOCK: Final = "/run/clock"
WEB: Final = """\
[Service]
ExecStart=/bin/sh -c 'cp /srv/chaos/version /run/web.seen; exec sleep inf'
[Install]
WantedBy=multi-user.target
"""
RECORD: Final = """\
#!/bin/sh
read -r version < /srv/chaos/version
echo "begin $version" >> /var/log/record
sleep 0.3
echo "end $version" >> /var/log/record
"""
CLOCK_UNIT: Final = f"""\
[Service]
Environment=LD_PRELOAD=/usr/local/lib/libfaketime.so.1 FAKETIME_TIMESTAMP_FILE={CLOCK} FAKETIME_NO_CACHE=1
Environment=FAKETIME_DONT_FAKE_MONOTONIC=1
ExecStartPre=/bin/sh -c 'test -e {CLOCK} || echo +0 > {CLOCK}'
RestartSec=1s
[Unit]
StartLimitIntervalSec=0
"""


def content(word: str) -> str:
    """Return a text that shows when a part of it is missing."""
    return f"{word}\n{PADDING}\nend {word}\n"


class Rival:
    """Somebody who has another opinion about a file, and does not give in."""

    def __init__(self, path: Path, aside: Path) -> None:
        self._path, self._aside = path, aside
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._insist, name=f"rival of {path}")
        self._thread.start()

    def _insist(self) -> None:
        while not self._over.wait(0.05):
            with contextlib.suppress(OSError):
                self._aside.write_text(content("foreign-0"))
                self._aside.rename(self._path)

    def stop(self) -> None:
        self._over.set()
        self._thread.join(20)
        self._aside.unlink(missing_ok=True)


@dataclass(slots=True)
class Victim:
    """A host, and what was done to it."""

    host: Host
    cuts: int = 0
    """Power cuts since the last checkpoint: a run that one interrupts is run again."""
    rival: Rival | None = None
    sequence: int = 0
    """The newest drift that was seen in its status."""
    runs: dict[str, int] = field(default_factory=dict)
    """What the program recorded, and how often."""
    judged: dict[str, int] = field(default_factory=dict)
    """The same, as of the last checkpoint."""

    @property
    def set_name(self) -> str:
        """The name of its ConfigSet."""
        return f"chaos-{self.host.name}"

    @property
    def managed(self) -> Path:
        return self.host.machine.root / MANAGED

    @property
    def state(self) -> Path:
        return self.host.machine.root / STATE

    def target(self, name: str) -> Path:
        return self.managed / name


@dataclass
class Chaos:
    """A run: `do` each act; readers look all the while."""

    fleet: Fleet
    server: Server
    victims: dict[str, Victim] = field(default_factory=dict)
    version: int = 0
    torn: list[str] = field(default_factory=list)
    reads: int = 0
    done: Counter[str] = field(default_factory=Counter)
    _foreign: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _edit_later: bool = False
    _port: int = 0

    @property
    def up(self) -> bool:
        return self.server.process is not None and self.server.process.poll() is None

    def do(self, act: Act) -> None:
        """Let something happen."""
        self.done[act.kind] += 1
        deed = getattr(self, "_" + act.kind.replace("-", "_"))
        if act.host:
            deed(self.victims[act.host], act.what)
        else:
            deed(act.what)

    def _edit(self, _what: str) -> None:
        """Publish a new version for all hosts; later, if the API is away."""
        self._edit_later = not self.up
        if self._edit_later:
            return
        self.version += 1
        word = f"version-{self.version}"
        for victim in self.victims.values():
            victim.host.api.config_set(victim.set_name, victim.host.name, **wanted(word))

    def _kill(self, victim: Victim, _what: str) -> None:
        victim.host.machine.run(
            "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "nodemanager", check=False
        )

    def _power(self, victim: Victim, _what: str) -> None:
        victim.cuts += 1
        self._contest_ends(victim, "")
        victim.host.machine.kill()
        victim.host.machine.start()

    def _outage(self, what: str) -> None:
        self.server.stop(signal.SIGKILL if what == "KILL" else signal.SIGTERM)

    def _outage_ends(self, _what: str) -> None:
        self.server.start(self._port)
        if self._edit_later:
            self._edit("")

    def _cut(self, victim: Victim, _what: str) -> None:
        ip("-n", namespace_of(victim.host), "link", "set", "eth0", "down")

    def _cut_ends(self, victim: Victim, _what: str) -> None:
        ip("-n", namespace_of(victim.host), "link", "set", "eth0", "up")

    def _full(self, victim: Victim, what: str) -> None:
        folder = victim.managed if what == "files" else victim.state
        with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(b"\0" * 65536)
        with contextlib.suppress(OSError), (folder / "filler").open("ab", buffering=0) as filler:
            while True:
                filler.write(b"\0")

    def _full_ends(self, victim: Victim, _what: str) -> None:
        for folder in (victim.managed, victim.state):
            (folder / "filler").unlink(missing_ok=True)

    def _clock(self, victim: Victim, what: str) -> None:
        victim.host.machine.write(CLOCK, f"{int(what):+d}\n")

    def _clock_ends(self, victim: Victim, _what: str) -> None:
        victim.host.machine.write(CLOCK, "+0\n")

    def _contest(self, victim: Victim, what: str) -> None:
        """Somebody writes the same file again and again, whole every time."""
        victim.rival = Rival(victim.target(what), victim.managed / ".rival")

    def _contest_ends(self, victim: Victim, _what: str) -> None:
        rival, victim.rival = victim.rival, None
        if rival is not None:
            rival.stop()

    def _drift(self, victim: Victim, what: str) -> None:
        kind, _, name = what.partition(" ")
        if kind in ("stop", "disable"):
            victim.host.machine.run("systemctl", kind, "web", check=False)
            return
        self._foreign += 1
        with contextlib.suppress(OSError):  # an agent may be at work on it, or the disk may be full
            spoil(victim, kind, name, self._foreign)

    def _check(self, _what: str) -> None:
        """Wait until everything is as promised; all spells are over."""
        for victim in self.victims.values():
            self._await(victim)
            victim.cuts, victim.judged = 0, victim.runs
        assert not self.torn, self.torn

    def _await(self, victim: Victim) -> None:
        began = time.monotonic()
        while faults := self.faults(victim):
            if time.monotonic() > began + SETTLE_SECONDS:
                said = victim.host.machine.run("nodemanager", "status", check=False, timeout=20).stdout
                pytest.fail(f"{victim.host.name} does not get to version-{self.version}: {faults}\n{said}")
            time.sleep(0.2)

    def faults(self, victim: Victim) -> list[str]:
        """Return what is not as it shall be, in words."""
        found, word = [], f"version-{self.version}"
        for name in NAMES:
            path = victim.target(name)
            try:
                if path.is_symlink() or path.read_text() != content(word):
                    found.append(f"{name} has another content")
                elif path.stat().st_mode & 0o7777 != 0o640:
                    found.append(f"{name} has mode {path.stat().st_mode & 0o7777:o}")
            except OSError as error:
                found.append(f"{name}: {error}")
        if found:
            return found
        return [*_service_faults(victim.host, word), *_run_faults(victim, word), *self._status_faults(victim)]

    def _status_faults(self, victim: Victim) -> list[str]:
        host, found = victim.host, []
        entry, status = host.entry(victim.set_name), host.status()
        if not entry or entry.get("error") or entry.get("conflicts"):
            found.append(f"the status says {entry}")
        if host.condition("Ready") != "True":
            found.append(f"it is not ready: {status.get('conditions')}")
        drift = status.get("drift") or {}
        recent = [one["sequence"] for one in drift.get("recent", ())]
        assert recent == sorted(set(recent)), f"drifts are told out of order: {recent}"
        assert drift.get("sequence", 0) >= victim.sequence, f"drifts were forgotten: {drift}"
        victim.sequence = drift.get("sequence", 0)
        return found + [f"{one} is left" for one in victim.managed.rglob(".nodemanager-*")]

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Read all files all the while."""
        self._port = self.server.port
        reader = threading.Thread(target=self._read, name="reader")
        reader.start()
        try:
            yield
        finally:
            self._over.set()
            reader.join(20)
            for victim in self.victims.values():
                self._contest_ends(victim, "")

    def _read(self) -> None:
        while not self._over.wait(0.002):
            for victim in self.victims.values():
                for name in NAMES:
                    self._read_one(victim, name)

    def _read_one(self, victim: Victim, name: str) -> None:
        try:
            descriptor = os.open(victim.target(name), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return
        with os.fdopen(descriptor, "rb") as file:
            data = file.read()
        self.reads += 1
        if not WHOLE.fullmatch(data):
            self.torn.append(f"{victim.host.name} {name} at {time.time():.3f}: {data[:40]!r} ({len(data)})")


NAMES: Final = tuple(f"{folder}/{name}" for folder in range(FOLDERS) for name in range(FILES))


def wanted(word: str) -> dict[str, Any]:
    """Return what a host shall be in a version."""
    files: list[dict[str, Any]] = [
        {"path": f"/{MANAGED}/{name}", "content": content(word), "mode": "0640"} for name in NAMES
    ]
    files.append({"path": f"/{MANAGED}/version", "content": f"{word}\n"})
    subscribed = {"subscribe_files": [f"/{MANAGED}/version"]}
    return {
        "files": files,
        "services": [
            {"name": "web", "ensure": "running", "enable": True, "lock_group": "turns", **subscribed}
        ],
        "executions": [{"command": "/usr/local/bin/record", **subscribed}],
    }


def spoil(victim: Victim, kind: str, name: str, number: int) -> None:
    """Change a managed path by hand; never so that somebody could take our hand for a torn write."""
    path, aside = victim.target(name), victim.managed / f".aside-{number}"
    if kind == "content":
        aside.write_text(content(f"foreign-{number}"))
        aside.rename(path)
    elif kind == "mode":
        path.chmod(0o600)
    elif kind == "delete":
        path.unlink()
    elif kind == "link":
        aside.symlink_to("/etc/hostname")
        aside.rename(path)
    elif kind == "folder":
        path.parent.rename(aside)
        shutil.rmtree(aside)


def prepare(victim: Victim, stack: contextlib.ExitStack) -> None:
    """Give a host its own small filesystems, a clock that can be turned, a service and a program."""
    machine = victim.host.machine
    machine.write("/etc/systemd/system/web.service", WEB)
    machine.write("/etc/systemd/system/nodemanager.service.d/clock.conf", CLOCK_UNIT)
    machine.write("/usr/local/bin/record", RECORD, 0o755)
    library = debian_packages.faketime()
    machine.copy(library, "/usr/local/lib/libfaketime.so.1")
    machine.kill()
    for folder in (victim.managed, victim.state):
        folder.mkdir(parents=True, exist_ok=True)
        options = f"size={SIZE},mode=0700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True, timeout=30)
        stack.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=True, timeout=30)
    machine.start()


def namespace_of(host: Host) -> str:
    """Return the name of the network namespace that a host is in."""
    return Path(host.machine.network).name


def _service_faults(host: Host, word: str) -> list[str]:
    found = []
    if not host.is_active("web") or host.shows("web", "UnitFileState") != "enabled":
        found.append("the service does not run, or would not after a boot")
    if (seen := host.text("/run/web.seen").strip()) != word:
        found.append(f"the service runs with {seen}")
    return found


def _run_faults(victim: Victim, word: str) -> list[str]:
    runs = Counter(victim.host.text("/var/log/record").splitlines())
    for line, times in runs.items():
        allowed = max(1 + victim.cuts, victim.judged.get(line, 0))
        assert not line.startswith("end") or times <= allowed, f"{line!r} {times} times on {victim.host.name}"
    victim.runs = dict(runs)
    return [] if runs[f"end {word}"] else [f"the program has not run for {word}"]

"""From a foreign change to its repair: the agent on a real host, beside the least that does it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import floor, processes, storm
from bench.report import Goal, Row, Section
from bench.settings import Settings

if TYPE_CHECKING:
    from support.fleet import Host

NAME = "drift"
MANAGER = processes.ROOT / "bin" / "manager"
FLOOR = Path(__file__).with_name("drift_floor.c")
UNITS_SCRIPT = Path(__file__).parent / "children" / "unit_drifts.py"
FILES_P99, UNITS_P99 = Goal(20.0, "ms"), Goal(250.0, "ms")
FILES_P50 = Goal(3.0, "x")
FOLDERS = 20
CONTENT = "as declared\n" + "x" * 1011 + "\n"
FOREIGN = "by hand\n" + "y" * 1015 + "\n"
PATIENCE = 60.0
UNIT = """\
[Service]
ExecStart=/bin/sh -c 'echo > /run/drift/%i; exec sleep inf'
RuntimeDirectory=drift
RuntimeDirectoryPreserve=yes
[Install]
WantedBy=multi-user.target
"""
PEERS = (("CFEngine", 300), ("Puppet", 1800))
"""Default intervals, in seconds; Salt and Ansible look when they are told to."""
_TITLE = "{} drifts of each kind on a real host that watches {} paths and {} units; from change to repaired"


@dataclass(frozen=True, slots=True)
class Ground:
    """A tree of managed paths, as this machine sees it."""

    root: Path

    def file(self, number: int) -> Path:
        return self.root / "files" / str(number % FOLDERS) / str(number)

    def link(self, number: int) -> Path:
        return self.root / "links" / str(number)

    def folder(self, number: int) -> Path:
        return self.root / "folders" / str(number)


def run(settings: Settings) -> Section:
    """Measure drifts of files and units, then idleness, then a storm."""
    count, few, many = settings.pick(1000, 20), settings.pick(110, 5), settings.pick(400, 8)
    title = _TITLE.format(count, 4 * count, many)
    if os.geteuid() != 0 or not MANAGER.exists():
        return Section(NAME, title, skipped="needs root and bin/manager: make build, then run it as root")
    with tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name:
        folder = Path(name)
        beside, note = _floor(folder, count)
        with _host(folder, count, few) as host:
            ground = Ground(host.machine.root / "srv")
            quiet = storm.idle(host, settings.pick(60, 2))  # now: a pass over everything is minutes away
            rows = _file_rows(ground, count, beside)
            rows += _unit_rows(host, "disable", count, few)
            _declare_units(
                host, many
            )  # later: with every unit it takes systemd longer to read them all again
            rows += _unit_rows(host, "stop", count, many)
            rows += [Row(f"default interval of {peer}", seconds, "s") for peer, seconds in PEERS]
            files = [ground.file(number) for number in range(count)]
            rows += quiet
            rows += storm.rage(host, files, settings.pick(100_000, 2_000), is_right)
    return Section(NAME, title, rows, note)


@contextlib.contextmanager
def _host(folder: Path, count: int, units: int) -> Iterator[Host]:
    """Boot a host, join it, and have everything that is declared there."""
    from support.fleet import Fleet  # tests/ need not be there for the other benchmarks

    with Fleet.up(folder, "drift") as fleet:
        host = fleet["drift"]
        host.machine.write("/etc/systemd/system/drift@.service", UNIT)
        host.join()
        for name, spec in _declarations(count).items():
            host.api.config_set(name, host.name, **spec)
            host.converge(name, 180)
        _declare_units(host, units)
        yield host


def _declare_units(host: Host, count: int) -> None:
    """Declare units that run already; enough of them not to be fought over."""
    names = [f"drift@{number}.service" for number in range(count)]
    host.machine.run("systemctl", "enable", "--now", *names, timeout=120)
    services = [{"name": name, "ensure": "running", "enable": True} for name in names]
    host.api.config_set("units", host.name, services=services)
    host.converge("units", 180)


def _declarations(count: int) -> dict[str, dict[str, Any]]:
    ground, numbers = Ground(Path("/srv")), range(count)
    plain = {"content": CONTENT, "mode": "0640"}
    folders = [{"path": str(ground.folder(number)), "ensure": "directory"} for number in numbers]
    below = [{"path": str(ground.folder(number) / "file"), **plain} for number in numbers]
    links = [
        {"path": str(ground.link(one)), "ensure": "symlink", "target": "/etc/hostname"} for one in numbers
    ]
    return {
        "files": {"files": [{"path": str(ground.file(number)), **plain} for number in numbers]},
        "links": {"files": links},
        "folders": {"files": [*folders, *below]},
    }


def is_right(path: Path) -> bool:
    """Tell whether a file is as declared."""
    try:
        return path.stat().st_mode & 0o7777 == 0o640 and path.read_text() == CONTENT and not path.is_symlink()
    except OSError:
        return False


def _links(path: Path, target: str) -> bool:
    try:
        return str(path.readlink()) == target
    except OSError:
        return False


def _swap(path: Path) -> None:
    aside = path.with_name(".aside")
    aside.symlink_to("/etc/passwd")
    aside.rename(path)


def _replace(path: Path) -> None:
    """Put an empty directory where one with content was."""
    aside, other = path.with_name(".aside"), path.with_name(".other")
    other.mkdir()
    path.rename(aside)
    try:
        other.rename(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        other.rmdir()  # it is back already


def _clear(path: Path) -> None:
    aside = path.with_name(".aside")
    for one in aside.iterdir():
        one.unlink()
    aside.rmdir()


def _file_rows(ground: Ground, count: int, beside: dict[str, list[float]]) -> list[Row]:
    file, link, folder = ground.file, ground.link, ground.folder
    kinds: dict[str, Callable[[int], float]] = {
        "content of a file": lambda one: _timed(file(one), lambda path: path.write_text(FOREIGN), is_right),
        "mode of a file": lambda one: _timed(file(one), lambda path: path.chmod(0o600), is_right),
        "file deleted": lambda one: _timed(file(one), Path.unlink, is_right),
        "link swapped": lambda one: _timed(link(one), _swap, lambda path: _links(path, "/etc/hostname")),
        "directory replaced": lambda one: _timed(
            folder(one), _replace, lambda path: is_right(path / "file"), _clear
        ),
    }
    rows = []
    for what, measure in kinds.items():
        rows += _rows(what, [measure(one) for one in range(count)], FILES_P99, beside.get(what))
    return rows


def _timed(
    path: Path, spoil: Callable[[Path], object], right: Callable[[Path], bool],
    after: Callable[[Path], object] | None = None,
) -> float:  # fmt: skip
    """Spoil a path, and return how many milliseconds it took until it was right again."""
    spoil(path)
    began = time.perf_counter()
    while not right(path):
        if time.perf_counter() - began > PATIENCE:
            raise processes.ChildFailed(f"cannot measure: {path} was not repaired within {PATIENCE:g} s")
        time.sleep(0.0002)
    took = (time.perf_counter() - began) * 1000
    if after is not None:
        after(path)
    return took


def _rows(what: str, took: Sequence[float], goal: Goal, beside: Sequence[float] | None = None) -> list[Row]:
    ordered = sorted(took)
    p50, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99) - 1]
    if beside is None:
        return [Row(f"{what}, p50", p50, "ms"), Row(f"{what}, p99", p99, "ms", goal=goal)]
    least = statistics.median(beside)
    worst = sorted(beside)[int(len(beside) * 0.99) - 1]
    return [
        Row(f"{what}, p50", p50, "ms", p50 / least, FILES_P50, f"floor {least:.3g} ms"),
        Row(f"{what}, p99", p99, "ms", p99 / worst, goal, f"floor {worst:.3g} ms"),
    ]


def _unit_rows(host: Host, kind: str, count: int, units: int) -> list[Row]:
    host.machine.copy(UNITS_SCRIPT, "/root/unit_drifts.py")
    done = host.machine.run(
        "python3", "/root/unit_drifts.py", kind, str(count), str(units), timeout=count * 5
    )
    what = "unit stopped, its stop included" if kind == "stop" else "unit disabled"
    return _rows(what, json.loads(done.stdout), UNITS_P99)


def _floor(folder: Path, count: int) -> tuple[dict[str, list[float]], str]:
    """Measure the floor on a tree of its own; empty, and why, where there is no compiler."""
    try:
        program = floor.compiled(FLOOR, folder / "drift_floor")
    except floor.NoFloor as error:
        return {}, str(error)
    ground = Ground(folder / "floor-root")
    for number in range(count):
        path = ground.file(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CONTENT)
        path.chmod(0o640)
    (folder / "content").write_text(CONTENT)
    argv = [program, folder / "content", *(ground.root / "files").iterdir()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # it was asked for just above
        try:
            process.stdout.readline()
            kinds: dict[str, Callable[[Path], object]] = {
                "content of a file": lambda path: path.write_text(FOREIGN),
                "mode of a file": lambda path: path.chmod(0o600),
                "file deleted": Path.unlink,
            }
            took = {
                what: [_timed(ground.file(one), spoil, is_right) for one in range(count)]
                for what, spoil in kinds.items()
            }
        finally:
            process.kill()
    return took, ""

"""Kills or disturbs passes: `python -m support.crash_rounds FOLDER MODE FIRST STEP [COUNT]`.

Every pass is a process of its own, forked from this one, which has everything imported and no
threads. MODE is `points` (killed at every STEP-th boundary from FIRST on), `times` (COUNT passes,
killed at random moments) or the name of an error that the call at the boundary fails with. What is
wrong is printed, one line each, and the last line says how many passes were disturbed.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from nodemanager.plan import merge
from support import crash_host
from support.crash_faults import Faults

PASS_SECONDS = 600.0
"""A guard against hanging: a pass of a second takes a minute where fifty processes wait for a processor."""


def run(work: Callable[[], None], kill_after: float | None = None) -> int:
    """Run something in a process of its own; return how that ended."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a child must never return
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    deadline = time.monotonic() + (PASS_SECONDS if kill_after is None else kill_after)
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return -signal.SIGKILL
        time.sleep(0.0005)


def one_pass(folder: Path, faults: Faults | None = None) -> None:
    """Converge, and say what became of it in a file."""
    before = len(list(Path("/proc/self/fd").iterdir()))

    async def both() -> list[str]:
        results = await crash_host.converge(folder, faults.install if faults else lambda: None)
        return [f"{one.id} {one.outcome} {one.message}" for one in results]

    said = asyncio.run(both())
    open_now = len(list(Path("/proc/self/fd").iterdir()))
    about = {"results": said, "leaked": open_now - before, "hit": faults.hit if faults else ""}
    about["passed"] = faults.passed if faults else 0
    (folder / "report").write_text(json.dumps(about))


class Host:
    """One copy of the host, and what it must be in the end."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.folder = base / "host"
        self.folder.mkdir(parents=True)
        crash_host.prepare(self.folder)
        shutil.copytree(self.folder, base / "fresh", symlinks=True)
        self.before = self._entries()
        assert run(lambda: one_pass(self.folder)) == 0
        self.after = self._entries()
        said = {line.split(" ")[0] for line in self.report()["results"]}
        self.ids = {one for one in said if not one.endswith("/conf.d/old")}  # the others are declared
        self.backups = self._backups()
        self.again = False
        """Whether one of the files that the execution is for changed in a second pass only."""
        assert len(self.backups) > 10

    def report(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = json.loads((self.folder / "report").read_text())
        return found

    def reset(self) -> None:
        """Begin anew, at the same paths."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.base / "fresh", self.folder, symlinks=True)

    def _paths(self) -> set[str]:
        paths = {item.declaration.path for item in merge.merge([crash_host.declared(self.folder)]).files}
        return {*paths, *(str(path) for path in (self.folder / "etc").rglob("*"))}

    def _entries(self) -> dict[str, tuple[object, ...]]:
        return {path: crash_host.entry(Path(path)) for path in self._paths()}

    def _backups(self) -> set[tuple[str, str]]:
        """Return (path, digest) of every backup whose content is what it says."""
        found = set()
        for meta in (self.folder / "state" / "filebucket").rglob("*.meta"):
            blob = meta.with_name(meta.name.split(".", 1)[0])
            digest = hashlib.sha256(blob.read_bytes()).hexdigest()
            assert "".join(blob.parts[-3:]) == digest, f"damaged backup {blob}"
            found.add((json.loads(meta.read_bytes())["path"], digest))
        return found

    def torn(self) -> Iterator[str]:
        """Yield every path that is neither what it was nor what it shall be."""
        for path, found in self._entries().items():
            if Path(path).name.startswith(".nodemanager-") or (found[0] != "absent" and Path(path).is_dir()):
                continue
            wanted = (self.before.get(path, ("absent",)), self.after.get(path, ("absent",)))
            if found not in wanted and not self._half_attributes(path, found):
                yield f"{path} is torn: {found}, not one of {wanted}"

    def _half_attributes(self, path: str, found: tuple[object, ...]) -> bool:
        """Owner and mode of a file that is not replaced are two calls; the content is the same."""
        return path.endswith("same.conf") and found[-1] == self.after[path][-1]

    def wrong(self) -> Iterator[str]:
        """Yield everything that is not as after an undisturbed pass."""
        found = self._entries()
        for path in sorted({*found, *self.after}):
            if found.get(path) != self.after.get(path):
                yield f"{path} is {found.get(path)}, not {self.after.get(path)}"
        known = ("pending.json", "runs", "filebucket")
        for one in self.folder.rglob("*"):
            strange = one.parent.name in ("state", "runs") and one.name not in known
            if one.name.startswith(".nodemanager-") or strange:
                yield f"{one} was left behind"
        if missing := self.backups - self._backups():
            yield f"no backup of {missing}"
        pending = json.loads((self.folder / "state" / "pending.json").read_bytes())["pending"]
        if pending:
            yield f"still owed: {pending}"
        yield from self._wrong_deeds()

    def _wrong_deeds(self) -> Iterator[str]:
        lines = (self.folder / "tools" / "log").read_text().splitlines()
        last = {line.split(" ")[1]: line.split(" ") for line in lines}
        for name, paths in crash_host.SUBSCRIPTIONS.items():
            if name == "never":
                if name in last:
                    yield "never was restarted, although its file was refused"
            elif name not in last:
                yield f"{name} was never restarted"
            elif last[name][2] != crash_host.picture(self.folder, paths):
                yield f"{name} was not restarted after the last change"
        # Not by the log: a kill between the two would leave a package that is there, and no line.
        if "tool" not in crash_host.packages(self.folder):
            yield "tool was not installed"
        for name in ("on-change", "once"):
            ran = (self.folder / "ran" / name).read_text() if (self.folder / "ran" / name).exists() else ""
            if ran != "ran\n" and not (self.again and ran == "ran\n" * 2):
                yield f"{name} ran {len(ran.splitlines())} times to its end"


def settle(host: Host) -> Iterator[str]:
    """Yield what is wrong after one more, undisturbed pass."""
    (host.folder / "report").unlink(missing_ok=True)
    if run(lambda: one_pass(host.folder)) != 0:
        yield "the undisturbed pass failed"
        return
    yield from (
        f"after healing: {line}" for line in host.report()["results"]
        if " failed " in line and "bad.conf" not in line
    )  # fmt: skip
    yield from host.wrong()


def killed(host: Host, point: int, dice: random.Random) -> Iterator[str]:
    """Kill a pass at a point, and yield what is wrong then and after the next one."""
    run(lambda: one_pass(host.folder, Faults(point)))
    yield from host.torn()
    if dice.random() < 0.3:  # the next one does not fare better
        run(lambda: one_pass(host.folder, Faults(dice.randrange(200))))
        yield from host.torn()
    yield from settle(host)


def at_times(host: Host, seconds: float, dice: random.Random) -> Iterator[str]:
    """Kill passes at random moments until one gets through."""
    while run(lambda: one_pass(host.folder), kill_after=dice.uniform(0, seconds)) != 0:
        yield from host.torn()
        if dice.random() < 0.5:
            break
    yield from settle(host)


def failing(host: Host, point: int, error: int) -> Iterator[str]:
    """Let one call fail, and yield what is wrong then and after the next pass."""
    faults = Faults(point, error)
    (host.folder / "report").unlink(missing_ok=True)
    if run(lambda: one_pass(host.folder, faults)) != 0:
        yield "the pass broke off"
        return
    report = host.report()
    yield from host.torn()
    missing = host.ids - {line.split(" ")[0] for line in report["results"]}
    if missing:
        yield f"{report['hit']}: nothing is said about {missing}"
    if report["leaked"]:
        yield f"{report['hit']}: {report['leaked']} descriptors leaked"
    for line in report["results"]:
        if " failed " in line and " failed cannot " not in line:
            yield f"{report['hit']}: says only {line!r}"
    late = [line for line in report["results"] if "/app.conf " in line or "/gone " in line]
    host.again = any(" changed " not in line for line in late)
    yield from settle(host)
    host.again = False


def main(base: Path, mode: str, first: int, step: int, count: int) -> int:
    """Go through the points; return how many passes were disturbed."""
    host = Host(base)
    host.reset()
    began = time.monotonic()
    error = 0 if mode in ("points", "times") else getattr(errno, mode)
    counting = Faults(-1, error)
    assert run(lambda: one_pass(host.folder, counting)) == 0
    seconds = time.monotonic() - began
    passed = int(str(host.report()["passed"]))
    points = range(first, passed if error else 2 * passed, step)
    if mode == "times":
        points = range(first, first + count)
    for point in points:
        host.reset()
        dice = random.Random(point)
        if mode == "points":
            found = killed(host, point, dice)
        elif mode == "times":
            found = at_times(host, seconds, dice)
        else:
            found = failing(host, point, error)
        for line in found:
            os.write(1, f"{mode} {point}: {line}\n".encode())
    return len(points)


if __name__ == "__main__":
    arguments = [int(one) for one in sys.argv[3:]]
    done = main(Path(sys.argv[1]), sys.argv[2], arguments[0], arguments[1], (*arguments, 0)[2])
    os.write(1, f"{done} passes disturbed\n".encode())

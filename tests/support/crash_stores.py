"""Kills, or fails, whoever writes down drifts and memories: `python -m support.crash_stores FOLDER MODE`.

MODE is `kill`, or the name of an error that one call fails with. Every story is told by a process of its
own, once per boundary. What is wrong is printed, one line each; the last line says how many there were.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from nodemanager.agent.drift import drift_log
from nodemanager.agent.drift.drift_log import DriftLog
from nodemanager.api.common.managednode import Drift, DriftRecord
from nodemanager.host.state.vault import Vault, VaultError
from support.crash_faults import Faults
from support.crash_rounds import run

really_write = os.write


class Ledger:
    """What somebody outside has heard of; not part of what is disturbed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ledger"

    def note(self, kind: str, value: int) -> None:
        with self._path.open("a") as file:  # none of the calls that are counted
            file.write(f"{kind} {value}\n")

    def read(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {"added": [], "stored": [], "heard": []}
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                kind, value = line.split()
                found[kind].append(int(value))
        return found


def drifts(folder: Path, faults: Faults) -> None:
    """Record and report drifts, so many that the file is written anew in between."""
    drift_log.MAX_RECORDS = 6  # type: ignore[misc]
    log, ledger = DriftLog("/", str(folder / "state")), Ledger(folder)
    log.adopt(Drift(sequence=max(ledger.read()["heard"], default=0)))
    faults.install()
    for number in range(8):
        for _ in range(3):
            one = log.add(DriftRecord(time="now", resource="file:/x", outcome="repaired"))
            ledger.note("added", one.sequence)
        log.flush()
        for one in log.waiting():
            ledger.note("stored", one.sequence)
        if number % 2:
            for one in log.waiting()[:2]:
                ledger.note("heard", one.sequence)  # before we take note of it ourselves
                log.reported(one.sequence)


def wrong_drifts(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the log that is left."""
    drift_log.MAX_RECORDS = 6  # type: ignore[misc]
    heard = Ledger(folder).read()
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("nodemanager").addHandler(handler)
    last = max(heard["heard"], default=0)
    log = DriftLog("/", str(folder / "state"))
    if said:
        yield f"the log is damaged: {said}"
    log.adopt(Drift(sequence=last))
    log.add(DriftRecord(time="now", resource="file:/new", outcome="repaired"))
    log.flush()
    left = [one.sequence for one in log.waiting()]
    if left != list(range(left[0], left[-1] + 1)):
        yield f"what waits is not in order: {left}"
    if left[0] <= last:
        yield f"drift {left[0]} is reported twice"
    if left[-1] in heard["stored"]:
        yield f"number {left[-1]} is given again, although somebody may have heard of it"
    stored = max(heard["stored"], default=0)
    if left[-1] <= stored:
        yield f"drift {stored} was on disk and is lost"


def memories(folder: Path, faults: Faults) -> None:
    """Save one thing after another."""
    vault, ledger = Vault("/", str(folder / "state")), Ledger(folder)
    faults.install()
    for number in range(6):
        try:
            vault.save("thing", b"%d" % number * 5000)
            ledger.note("stored", number)
        except VaultError:
            continue


def wrong_memories(folder: Path) -> Iterator[str]:
    """Yield what is wrong with what is left."""
    stored = max(Ledger(folder).read()["stored"], default=-1)
    try:
        data = Vault("/", str(folder / "state")).load("thing")
    except VaultError as error:
        yield str(error)
        return
    found = -1 if data is None else int(data[:1])
    if data is not None and data != b"%d" % found * 5000:
        yield "it is torn"
    if found < stored:
        yield f"{stored} was saved, and {found} is there"


STORIES = {"drifts": (drifts, wrong_drifts), "memories": (memories, wrong_memories)}


def main(base: Path, mode: str) -> int:
    """Go through all boundaries of all stories; return how often somebody was disturbed."""
    error = 0 if mode == "kill" else getattr(errno, mode)
    count = 0
    for name, (story, wrong) in STORIES.items():
        folder = base / name
        for point in range(10_000):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            faults = Faults(point, error)

            def told(story: object = story, folder: Path = folder, faults: Faults = faults) -> None:
                story(folder, faults)  # type: ignore[operator]
                (folder / "over").write_text(str(faults.passed))

            run(told)
            for line in wrong(folder):
                really_write(1, f"{name} {mode} {point}: {line}\n".encode())
            if (folder / "over").exists():
                if point >= int((folder / "over").read_text()) * (1 if error else 2):
                    break
            elif error:
                really_write(1, f"{name} {mode} {point}: it broke off\n".encode())
            count += 1
    return count


if __name__ == "__main__":
    done = main(Path(sys.argv[1]), sys.argv[2])
    really_write(1, f"{done} disturbed\n".encode())

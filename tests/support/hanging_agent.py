"""The agent, made to hang in the ways that a real one may: run in place of `python3 -m nodemanager`.

kill -USR1 PID          its event loop stands still
touch /run/hang         the next pass waits in a thread for ever, as on a dead file server; loop turns
"""

from __future__ import annotations

import signal
import sys
import threading
from functools import partial
from pathlib import Path

from nodemanager.agent import assembly
from nodemanager.agent.passes.progress import PassProgress
from nodemanager.cli import main
from nodemanager.host.observe import Observer
from nodemanager.host.process.threads import in_thread
from nodemanager.plan.facts import Facts
from nodemanager.plan.needs import FileNeeds

HANG = Path("/run/hang")
QUIET_SECONDS = 8.0
see_files = Observer.see_files


def is_to_hang() -> bool:
    """Tell whether somebody asked for it, once."""
    asked = HANG.exists()
    HANG.unlink(missing_ok=True)
    return asked


def hang_for_ever(*_: object) -> None:
    threading.Event().wait()


async def see(self: Observer, needed: FileNeeds, *, whole: bool = True) -> Facts:
    if is_to_hang():
        await in_thread(hang_for_ever)
    return await see_files(self, needed, whole=whole)


if __name__ == "__main__":
    Observer.see_files = see  # type: ignore[method-assign]
    assert vars(assembly)["PassProgress"] is PassProgress
    vars(assembly)["PassProgress"] = partial(PassProgress, QUIET_SECONDS)
    signal.signal(signal.SIGUSR1, hang_for_ever)
    main.main(sys.argv[1:])

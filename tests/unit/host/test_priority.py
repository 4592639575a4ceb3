"""The agent is nice to others, and what it starts is not."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from support.root_tree import needs_root

SCRIPT = textwrap.dedent(
    """
    import asyncio, os
    from nodemanager.host.process import priority, runner

    def own():
        return os.getpriority(os.PRIO_PROCESS, 0)

    async def main():
        before = own()
        priority.step_back({by})
        argv = ["/bin/sh", "-c", "nice"]
        started = [await runner.run(argv, timeout=60, finish=finish) for finish in (False, True)]
        thread = await asyncio.to_thread(own)
        print(before, own(), thread, *(int(one.check().stdout) for one in started))

    asyncio.run(main())
    """
)


def numbers(by: int, *, user: int | None = None) -> list[int]:
    """Return the priority before, of the loop, of its threads, and of two programs that it starts."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(by=by)], capture_output=True, text=True, timeout=30, check=True,
        user=user, cwd="/",
    )  # fmt: skip
    return [int(word) for word in done.stdout.split()]


@needs_root
def test_what_the_agent_starts_runs_at_the_usual_priority() -> None:
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    lower = min(usual + 5, 19)
    assert numbers(5) == [usual, lower, lower, usual, usual]


def test_without_being_told_nothing_changes() -> None:
    assert len(set(numbers(0))) == 1

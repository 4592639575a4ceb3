"""How programs are run for a host."""

from __future__ import annotations

import pytest

from nodemanager.host import environment, runner


async def test_what_must_finish_is_passed_on_as_such() -> None:
    run = environment.host_runner()
    with pytest.raises(runner.OutputTooLarge):
        await run(["seq", "1", "9999"], timeout=20, max_output=10)
    completed = await run(["seq", "1", "9999"], timeout=20, max_output=10, finish=True)
    assert completed.stdout == b"9998\n9999\n"


async def test_nothing_of_our_own_environment_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    completed = await environment.host_runner()(["env"], env={"MORE": "1"}, timeout=20)
    assert b"hunter2" not in completed.stdout
    assert b"MORE=1\n" in completed.stdout

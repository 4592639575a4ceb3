"""How programs are run for a host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nodemanager.host.files.tree import is_running
from nodemanager.host.process import environment, runner


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


@pytest.mark.parametrize(
    ("booted", "finish", "prefix"),
    [
        (True, False, environment.NAMESPACES),
        (True, True, (*environment.NAMESPACES, *environment.SCOPE)),
        (False, True, environment.NAMESPACES),
    ],
    ids=["any", "what must finish", "without systemd"],
)
async def test_programs_of_the_host_of_our_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, booted: bool, finish: bool, prefix: tuple[str, ...]
) -> None:
    """They run in its namespaces; those that must finish, out of reach of who ends the container."""
    started: list[tuple[str, ...]] = []

    async def remember(argv: Sequence[str], **_: object) -> runner.Completed:
        started.append(tuple(argv))
        return runner.Completed(tuple(argv), 0, b"", b"")

    monkeypatch.setattr(runner, "run", remember)
    monkeypatch.setattr(environment, "is_running", lambda root: root == str(tmp_path))
    if booted:
        (tmp_path / "run/systemd/system").mkdir(parents=True)
    await environment.host_runner(str(tmp_path))(["apt-get", "update"], timeout=1, finish=finish)
    await environment.host_runner("/mnt/image")(["apt-get", "update"], timeout=1, finish=finish)
    assert started == [(*prefix, "apt-get", "update"), ("chroot", "/mnt/image", "apt-get", "update")]


def test_an_image_is_not_taken_for_the_running_system(tmp_path: Path) -> None:
    assert is_running("/")
    assert not is_running(str(tmp_path))
    assert not is_running("/nonexistent")

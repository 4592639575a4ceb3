"""A template that ends the process it is rendered in is an error of this template, and of nothing else."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.process import runner
from nodemanager.plan.templates import Data, Job, NotRendered
from nodemanager.rendering.limits import MIB, RenderLimits
from nodemanager.rendering.process import ChildProcess, Start, command
from nodemanager.rendering.renderer import Renderer
from nodemanager.runtime.tasks import end
from support import dying_renderer

DATA = Data(
    node={"Name": "web1", "Secrets": {"k": "aHVudGVyMjI="}}, nodes=[{"Name": "web1"}, {"Name": "web2"}]
)
TIGHT = RenderLimits(cpu=1, wall=90.0, memory=64 * MIB, owner=60.0)
GOOD = Job("{{ .Node.Name }} of {{ len .Nodes }}", DATA, name="/good")


def bad(word: str, owner: str = "") -> Job:
    return Job(f"{{{{ {word} }}}}", DATA, name="/bad", owner=owner)


def noting(started: list[ChildProcess]) -> Start:
    """Return what starts processes, and adds each to a list."""

    def start(argv: Sequence[str], channel: int) -> ChildProcess:
        started.append(runner.companion(argv, channel))
        return started[-1]

    return start


async def test_both_languages_errors_and_literal_text_in_one_request() -> None:
    todo = [
        Job("plain", DATA),
        GOOD,
        Job("{{ Node.Name }} of {{ Nodes|length }}", DATA, engine="jinja"),
        Job("{{ .Node.Nope }}", DATA, name="/wrong"),
        Job("{{ nope }}", Data(node={}), engine="jinja", name="/other"),
    ]
    async with Renderer(runner.companion) as renderer:
        made = await renderer.render(todo)
        assert made[:3] == ["plain", "web1 of 2", "web1 of 2"]
        said = [str(one).split(":")[0] for one in made[3:]]
        assert said == ["cannot render /wrong", "cannot render /other"]
        assert not any(isinstance(one, NotRendered) for one in made)
        assert await renderer.render([GOOD]) == ["web1 of 2"]
        assert renderer.starts == 1


async def test_nothing_is_started_for_text_without_actions() -> None:
    async with Renderer(runner.companion) as renderer:
        assert await renderer.render([Job("plain", DATA), Job("{ too }", DATA, engine="jinja")]) == [
            "plain", "{ too }",
        ]  # fmt: skip
        assert renderer.starts == 0


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("CRASH", "it made the renderer crash (SIGSEGV)"),
        ("SPIN", "it needs more than 1 s of processor time"),
        ("EAT", "it needs more memory than a template may have"),
        ("LEAVE", "it ended the renderer (status 3)"),
        ("KILLED", "the renderer was killed while at it, most likely because memory was short"),
        ("NONSENSE", "it made the renderer answer with nonsense"),
        ("DEEP", "it made the renderer answer with nonsense"),
        ("HUGE", "it made the renderer answer with nonsense"),
    ],
)
async def test_its_end_is_an_error_of_one_template(word: str, why: str) -> None:
    async with Renderer(dying_renderer.start, TIGHT) as renderer:
        first, failed, last = await renderer.render([GOOD, bad(word), GOOD])
        assert (first, last) == ("web1 of 2", "web1 of 2")
        assert isinstance(failed, NotRendered)
        assert str(failed).startswith(f"cannot render /bad: {why}")
        assert "simplify it, it is tried again every 10 minutes" in str(failed)
        assert renderer.starts == 2
        # The same template is not tried again, also not with other data; others are, and by the same process.
        other = Job(bad(word).text, Data(node={"Name": "web9"}), name="/too")
        again, fine = await renderer.render([other, GOOD])
        assert str(again).startswith(f"cannot render /too: {why}")
        assert (fine, renderer.starts) == ("web1 of 2", 2)


async def test_one_that_sleeps_is_ended_as_well() -> None:
    async with Renderer(dying_renderer.start, RenderLimits(wall=5.0)) as renderer:
        failed, last = await renderer.render([bad("HANG"), GOOD])
    assert str(failed).startswith("cannot render /bad: it took longer than 5 s and was ended")
    assert last == "web1 of 2"


async def test_the_event_loop_turns_meanwhile() -> None:
    turns = 0

    async def turning() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    task = asyncio.create_task(turning())
    async with Renderer(dying_renderer.start, TIGHT) as renderer:
        await renderer.render([bad("SPIN")])
    task.cancel()
    assert turns > 30


async def test_what_was_set_aside_is_tried_again_later() -> None:
    quick = RenderLimits(cpu=1, wall=20.0, quarantine=0.0)
    async with Renderer(dying_renderer.start, quick) as renderer:
        for starts in (1, 2):
            (failed,) = await renderer.render([bad("CRASH")])
            assert isinstance(failed, NotRendered)
            assert renderer.starts == starts


async def test_one_owner_does_not_use_up_the_time_of_others() -> None:
    greedy = RenderLimits(cpu=1, wall=20.0, owner=0.5)
    todo = [bad("SPIN", "ConfigSet a"), *[Job(f"{{{{ {n} }}}}", DATA, owner="ConfigSet a") for n in range(3)]]
    async with Renderer(dying_renderer.start, greedy) as renderer:
        *late, fine = await renderer.render([*todo, Job("{{ 1 }}", DATA, owner="ConfigSet b")])
    assert fine == "1"
    assert isinstance(late[0], NotRendered)
    said = "the templates of ConfigSet a take more than 0.5 s together"
    assert [said in str(one) for one in late[2:]] == [True, True]


async def test_a_process_that_cannot_be_started_is_said_and_tried_again() -> None:
    def refuse(argv: Sequence[str], channel: int) -> ChildProcess:
        raise OSError("no processes left")

    renderer = Renderer(refuse)
    (failed,) = await renderer.render([GOOD])
    assert isinstance(failed, NotRendered)
    assert str(failed) == (
        "cannot render /good: the renderer cannot be started: no processes left; the next pass tries again"
    )
    nothing = Renderer(lambda _argv, channel: runner.companion(["/bin/false"], channel))
    (failed,) = await nothing.render([GOOD])
    assert isinstance(failed, NotRendered)
    assert "the renderer cannot be started: it ended the renderer (status 1)" in str(failed)


async def test_an_idle_process_ends_and_the_next_one_starts_by_itself() -> None:
    started: list[ChildProcess] = []
    async with Renderer(noting(started), RenderLimits(idle=0.01)) as renderer:
        assert await renderer.render([GOOD]) == ["web1 of 2"]
        await until(lambda: started[0].poll() is not None, 60)
        assert await renderer.render([GOOD]) == ["web1 of 2"]
    assert len(started) == 2
    assert started[1].poll() is not None


async def test_a_process_that_was_begun_ahead_takes_the_first_job() -> None:
    started: list[ChildProcess] = []
    renderer = Renderer(noting(started))
    renderer.begin()
    renderer.begin()
    assert (renderer.starts, len(started)) == (1, 1)
    async with renderer:
        assert await renderer.render([GOOD]) == ["web1 of 2"]
        renderer.begin()
    assert len(started) == 1
    assert started[0].poll() is not None


async def test_one_that_nobody_needs_ends_as_an_idle_one_does() -> None:
    started: list[ChildProcess] = []
    renderer = Renderer(noting(started), RenderLimits(idle=0.01))
    renderer.begin()
    part = asyncio.ensure_future(renderer.run())
    await until(lambda: started[0].poll() is not None, 60)
    assert await renderer.render([GOOD]) == ["web1 of 2"]
    await end([part])
    assert len(started) == 2
    begun_only = Renderer(noting(started))
    begun_only.begin()
    await begun_only.close()
    assert started[2].poll() is not None


async def test_one_that_could_not_be_begun_is_tried_again_by_the_first_job() -> None:
    tries: list[int] = []

    def refuse_once(argv: Sequence[str], channel: int) -> ChildProcess:
        tries.append(channel)
        if len(tries) == 1:
            raise OSError("no more processes")
        return runner.companion(argv, channel)

    async with Renderer(refuse_once) as renderer:
        renderer.begin()
        assert await renderer.render([GOOD]) == ["web1 of 2"]
    assert len(tries) == 2


async def test_a_caller_that_is_cancelled_leaves_nobody_behind() -> None:
    async with Renderer(dying_renderer.start, RenderLimits()) as renderer:
        await renderer.render([GOOD])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await renderer.render([bad("HANG")])
        assert await renderer.render([GOOD]) == ["web1 of 2"]
        assert renderer.starts == 2


async def test_the_process_has_nothing_and_can_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODEMANAGER_TEST_SECRET", "hunter22")
    started: list[Any] = []

    def noting_dying(argv: Sequence[str], channel: int) -> ChildProcess:
        started.append(dying_renderer.start(argv, channel))
        return started[-1]  # type: ignore[no-any-return]

    async with Renderer(noting_dying) as renderer:
        forked, opened = await renderer.render([bad("FORK"), bad("OPEN")])
        assert "Too many open files" in str(opened)
        _check_confined(Path(f"/proc/{started[0].pid}"))
    if os.geteuid() == 0:  # the kernel counts processes of ordinary users only
        assert "Resource temporarily unavailable" in str(forked)


def _check_confined(about: Path) -> None:
    status = dict(line.split(":\t", 1) for line in (about / "status").read_text().splitlines())
    assert status["NoNewPrivs"] == "1"
    assert b"hunter22" not in (about / "cmdline").read_bytes()
    limits = (about / "limits").read_text().splitlines()
    for name in ("Max file size", "Max core file size", "Max processes", "Max open files"):
        (line,) = (each for each in limits if each.startswith(f"{name} "))
        assert line.removeprefix(name).split()[:2] == ["0", "0"]
    if os.geteuid() != 0:
        return
    assert status["Uid"].split() == status["Gid"].split() == ["65534"] * 4
    assert status["Groups"].strip() == ""
    assert status["CapEff"].strip("0") == ""
    assert (about / "mem").stat().st_uid == 0, "others of the same user could read what it is told"
    assert (about / "environ").read_bytes() == b""
    links = sorted(str(link.readlink()).partition(":")[0] for link in (about / "fd").iterdir())
    assert links[:2] == ["/dev/null", "/dev/null"]
    assert [links[2].endswith("statm"), links[3].endswith("status"), links[4:]] == [True, True, ["socket"]]


async def test_it_does_not_outlive_us() -> None:
    """A parent that is killed gives no sign but the end of the stream, and that of the kernel."""
    script = (
        "import asyncio\n"
        "from nodemanager.rendering.renderer import Renderer\n"
        "from nodemanager.plan.templates import Data, Job\n"
        "from support import dying_renderer\n"
        "def start(argv, channel):\n"
        "    process = dying_renderer.start(argv, channel)\n"
        "    print(process.pid, flush=True)\n"
        "    return process\n"
        "asyncio.run(Renderer(start).render([Job('{{ HANG }}', Data(node={}))]))\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE, env={"PYTHONPATH": _tests()}
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    parent.kill()
    await parent.wait()
    # It would be ended after 20 s by the parent alone, and that one is gone.
    await until(lambda: not _lives(child), 60)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def until(condition: Callable[[], bool], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.01)


def _tests() -> str:
    return str(Path(__file__).parents[2])


def test_the_static_program_is_told_what_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """tools/release/boot.py looks for the word."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert command(RenderLimits(cpu=2, memory=3)) == [sys.executable, "-render", str(os.getpid()), "2", "3"]
    boot = Path(__file__).parents[3] / "tools/release/boot.py"
    assert 'RENDER = "-render"' in boot.read_text()

"""What the guard does on hosts where its own tools fail."""

from __future__ import annotations

import configparser
import contextlib
import os
import signal
import time
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from nodemanager.host import init
from support.program_world import CRASH, GOOD, HANG, OLD, SECONDS, ProgramWorld


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> ProgramWorld:
    world = ProgramWorld(tmp_path)
    world.make()
    return world


def before(world: ProgramWorld, tool: str, lines: str) -> None:
    """Have a tool of the host do something first."""
    path = world.tools / tool
    head, newline, rest = path.read_text().partition("\n")
    path.write_text(f"{head}{newline}world={world.world}\n{lines}\n{rest}")


def fail(world: ProgramWorld, tool: str, pattern: str, when: str = "true") -> None:
    """Have a tool fail three times where it is called so."""
    before(
        world,
        tool,
        f"""\
{when} && case "$*" in {pattern})
    echo x >> $world/failed
    [ "$(wc -l < $world/failed)" -gt 3 ] || exit 1 ;;
esac""",
    )


def count(world: ProgramWorld, tool: str, pattern: str) -> None:
    """Note each call of a tool that is like this."""
    before(world, tool, f'case "$*" in {pattern}) echo x >> $world/counted ;; esac')


def counted(world: ProgramWorld) -> int:
    path = world.world / "counted"
    return path.read_text().count("x") if path.exists() else 0


@pytest.mark.parametrize(("kind", "left", "result"), [(GOOD, GOOD, "proven"), (CRASH, OLD, "returned")])
async def test_a_full_disk_delays_the_outcome_and_costs_no_second_restart(
    world: ProgramWorld, kind: str, left: str, result: str
) -> None:
    await world.upgrader().upgrade(world.order(kind))
    fail(world, "mv", "*outcome")
    count(world, "systemctl", "*MainPID*")
    world.guard()
    assert (world.kind(), world.running(), world.outcome()) == (left, left, result)
    assert not (world.state / "intent").exists()
    assert counted(world) == (kind == CRASH)


async def test_the_old_program_is_put_back_as_soon_as_the_disk_lets_it(world: ProgramWorld) -> None:
    await world.upgrader().upgrade(world.order(CRASH))
    fail(world, "mv", "*previous*")
    world.guard()  # which nobody starts again on OpenRC and FreeBSD
    assert (world.kind(), world.running(), world.outcome()) == (OLD, OLD, "returned")


async def test_an_init_system_that_does_not_answer_is_asked_again_for_the_old_agent(
    world: ProgramWorld,
) -> None:
    await world.upgrader().upgrade(world.order(CRASH))
    fail(world, "systemctl", "*restart*", f"[ ! -e {world.previous} ]")
    world.guard()
    assert (world.kind(), world.running(), world.outcome()) == (OLD, OLD, "returned")


async def test_a_unit_that_systemd_has_given_up_is_started_all_the_same(world: ProgramWorld) -> None:
    """Ours is never given up; somebody's own unit may have a limit of starts."""
    await world.upgrader().upgrade(world.order(CRASH))
    before(
        world,
        "systemctl",
        """\
case "$*" in
    *reset-failed*) touch $world/reset ;;
    *restart*) /bin/rm $world/reset 2>/dev/null || exit 1 ;;
esac""",
    )
    world.guard()
    assert (world.kind(), world.running(), world.outcome()) == (OLD, OLD, "returned")
    assert "several times" in (world.state / "outcome").read_text()


async def test_no_other_filesystem_is_waited_for(world: ProgramWorld) -> None:
    """A network filesystem whose server is gone: a sync of everything would never end."""
    await world.upgrader().upgrade(world.order(GOOD))
    before(world, "sync", f'[ "$*" = "-f {world.state} {world.program.parent}" ] || echo x >> $world/counted')
    world.guard()
    assert (world.outcome(), counted(world)) == ("proven", 0)


async def test_a_sync_that_knows_no_filesystems_syncs_all_of_them(world: ProgramWorld) -> None:
    await world.upgrader().upgrade(world.order(GOOD))
    before(world, "sync", "[ $# = 0 ] || exit 1\necho x >> $world/counted")
    world.guard()
    assert world.outcome() == "proven"
    assert counted(world) >= 4


async def test_a_record_of_the_restart_without_a_time_counts_from_now(world: ProgramWorld) -> None:
    await world.upgrader().upgrade(world.order(CRASH))
    restarted(world, f"boot={(world.world / 'boot_id').read_text()}")
    world.guard()
    assert (world.kind(), world.running(), world.outcome()) == (OLD, OLD, "returned")


def restarted(world: ProgramWorld, tried: str) -> None:
    """Leave the host as a guard does that was killed after the restart."""
    for name in ("tried", "restarted"):
        (world.state / name).write_text(tried)
    world.new.rename(world.program)
    (world.world / "running").write_text(f"{CRASH}\n")


async def test_systemd_starts_it_again_also_after_signals_that_mean_an_end_in_order(
    world: ProgramWorld,
) -> None:
    await world.upgrader().upgrade(world.order(GOOD))
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(world.root / "etc/guard.service")
    assert unit["Service"]["Restart"] == "on-failure"  # which these do not count as
    forced = unit["Service"].get("RestartForceExitStatus", "").split()
    assert sorted(forced) == ["SIGHUP", "SIGINT", "SIGPIPE", "SIGTERM"]


async def test_a_program_that_takes_the_host_down_is_not_tried_for_ever(world: ProgramWorld) -> None:
    await world.upgrader().upgrade(world.order(HANG))
    world.keep()
    before(world, "sleep", "kill -KILL 0")  # the power goes whenever the guard waits
    for _boot in range(3):
        assert world.guard() != 0
        assert world.kind() == HANG
        world.cut()
    world.guard()
    assert (world.kind(), world.running(), world.outcome()) == (OLD, OLD, "returned")
    assert "the host went down 3 times" in (world.state / "outcome").read_text()


async def test_a_program_that_takes_the_host_down_as_soon_as_it_runs_is_taken_back(
    world: ProgramWorld,
) -> None:
    """It leaves nobody the time to write down that it was started, nor, after a boot, to take it back."""
    await world.upgrader().upgrade(world.order(HANG))
    world.keep()
    before(world, "systemctl", 'case "$*" in *restart*) kill -KILL 0 ;; esac')
    assert world.guard() != 0
    downs = 1
    world.cut()
    while world.running() == HANG and downs < 10:  # before the guard has done more than count
        downs += 1
        world.cut()
    assert (downs, world.kind(), world.running()) == (3, OLD, OLD)
    (world.tools / "systemctl").write_text("#!/bin/sh\n")
    world.guard()
    assert (world.kind(), world.outcome()) == (OLD, "returned")
    assert "the host went down 3 times" in (world.state / "outcome").read_text()
    assert not list(world.state.glob("tried*"))


async def test_a_program_that_only_a_boot_starts_is_counted_too(world: ProgramWorld) -> None:
    """The power went when it was in place, and nobody had written down yet that it would be tried."""
    await world.upgrader().upgrade(world.order(HANG))
    world.new.rename(world.program)
    world.keep()
    world.cut()
    downs = 0
    while world.running() == HANG and downs < 10:
        downs += 1
        world.cut()
    assert (downs, world.kind(), world.running()) == (3, OLD, OLD)
    world.guard()
    assert (world.kind(), world.outcome()) == (OLD, "returned")


FULL = 'case "$*" in *tried*) echo "No space left on device" >&2; exit 1 ;; esac'
"""As `mv` answers where nothing can be written down."""


@pytest.mark.parametrize("begun", [True, False])
async def test_a_program_whose_tries_cannot_be_counted_is_taken_back_before_the_next_one(
    world: ProgramWorld, begun: bool
) -> None:
    """It may take the host down as soon as it runs, and would be tried for ever."""
    await world.upgrader().upgrade(world.order(HANG))
    world.keep()
    if begun:
        before(world, "systemctl", 'case "$*" in *restart*) kill -KILL 0 ;; esac')
        assert world.guard() != 0
    else:
        world.new.rename(world.program)
        world.keep()
    before(world, "mv", FULL)
    downs = 1
    world.cut()
    while world.running() == HANG and downs < 10:
        downs += 1
        world.cut()
    assert (downs, world.kind(), world.running()) == (1, OLD, OLD)
    (world.tools / "systemctl").write_text("#!/bin/sh\n")
    world.guard()
    assert (world.kind(), world.outcome()) == (OLD, "returned")
    assert not list(world.state.glob("tried*"))


async def test_a_program_that_can_neither_be_counted_nor_taken_back_is_so_as_soon_as_it_can(
    world: ProgramWorld,
) -> None:
    await world.upgrader().upgrade(world.order(HANG))
    restarted(world, "boot=before\nbegan=0\nboots=1\n")
    (world.world / "running").write_text(f"{HANG}\n")
    fail(world, "mv", "*")  # when it is counted, when it is to be taken back, and when the guard counts
    world.guard()
    assert (world.kind(), world.running(), world.outcome()) == (OLD, OLD, "returned")
    assert "and that could not be written down" in (world.state / "outcome").read_text()


async def test_a_proven_program_stays_also_where_nothing_can_be_counted(world: ProgramWorld) -> None:
    await world.upgrader().upgrade(world.order(GOOD))
    restarted(world, "boot=before\nbegan=0\nboots=1\n")
    (world.state / "proof").write_text("1d\n")
    before(world, "mv", FULL)
    world.guard()
    assert (world.kind(), world.outcome()) == (GOOD, "proven")


async def test_a_clock_that_went_back_is_another_boot(world: ProgramWorld) -> None:
    """Containers keep the boot id of their host, and count their own time."""
    await world.upgrader().upgrade(world.order(CRASH))
    restarted(world, f"boot={(world.world / 'boot_id').read_text()}began=500\nboots=1\n")
    before(world, "sleep", "kill -KILL 0")
    assert world.guard() != 0
    assert "began=0\nboots=2\n" in (world.state / "tried").read_text()


async def test_an_init_system_that_does_not_answer_is_asked_again_for_the_new_agent(
    world: ProgramWorld,
) -> None:
    await world.upgrader().upgrade(world.order(GOOD))
    fail(world, "systemctl", "*restart*")
    world.guard()
    assert (world.kind(), world.running(), world.outcome()) == (GOOD, GOOD, "proven")


async def test_a_program_that_was_never_started_is_not_said_to_fail(world: ProgramWorld) -> None:
    await world.upgrader().upgrade(world.order(GOOD))
    before(world, "systemctl", f'case "$*" in *restart*) [ ! -e {world.previous} ] || exit 1 ;; esac')
    world.guard()
    assert (world.kind(), world.running(), world.outcome()) == (OLD, OLD, "returned")
    assert f"could not be restarted within {SECONDS} s" in (world.state / "outcome").read_text()


HANGS = """\
read -r up _ < $world/uptime; echo "$((${up%.*} + ${limit:-90})).00 0" > $world/uptime
exit 137"""
"""What takes as long as it may: 90 s unless somebody bounds it."""


@pytest.mark.parametrize(
    ("tool", "pattern", "spent"),
    [
        pytest.param("systemctl", "*NRestarts*", 3, id="systemd is asked how it is"),
        pytest.param("systemctl", "*restart*", 5 + 10, id="systemd is told to restart"),
        pytest.param("sync", "*", 5, id="a disk is waited for"),
    ],
)
async def test_what_does_not_answer_does_not_hold_up_the_way_back(
    world: ProgramWorld, tool: str, pattern: str, spent: int
) -> None:
    await world.upgrader().upgrade(world.order(HANG))
    (world.tools / "timeout").write_text('#!/bin/sh\nlimit=$3; shift 3\nlimit=$limit exec "$@"\n')
    before(world, tool, f'[ ! -e {world.previous} ] || case "$*" in {pattern}) {HANGS} ;; esac')
    before(world, "mv", 'case "$*" in *.previous*) cp $world/uptime $world/returned ;; esac')
    world.guard()
    assert (world.kind(), world.outcome()) == (OLD, "returned")
    returned = float((world.world / "returned").read_text().split()[0])
    assert returned <= SECONDS + spent + 1


async def test_a_disk_that_is_only_slow_is_waited_for_while_the_old_agent_works(world: ProgramWorld) -> None:
    """As under a backup, where a sync takes longer than the way back may."""
    await world.upgrader().upgrade(replace(world.order(GOOD), deadline=130))
    (world.tools / "timeout").write_text('#!/bin/sh\nlimit=$3; shift 3\nlimit=$limit exec "$@"\n')
    before(
        world,
        "sync",
        """\
read -r up _ < $world/uptime; up=${up%.*}
[ "${limit:-20}" -ge 20 ] || { echo "$((up + limit)).00 0" > $world/uptime; exit 137; }
echo "$((up + 20)).00 0" > $world/uptime""",
    )
    world.guard()
    assert (world.kind(), world.running(), world.outcome()) == (GOOD, GOOD, "proven")


async def test_a_systemd_that_does_not_answer_is_not_waited_for(world: ProgramWorld) -> None:
    """With the real timeout, which ends what it runs."""
    await world.upgrader().upgrade(world.order(HANG))
    (world.tools / "timeout").unlink()
    before(
        world,
        "systemctl",
        'case "$*" in *NRestarts*)\necho 90.00 0 > $world/uptime; exec /bin/sleep 600 ;; esac',
    )
    world.guard()
    assert (world.kind(), world.outcome()) == (OLD, "returned")


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "guard.service",
            ["Before=nodemanager.service", "ExecStartPre=-/bin/sh @STATE@/guard.sh systemd count"],
        ),
        ("guard.openrc", ["\tbefore nodemanager", '\t/bin/sh "@STATE@/guard.sh" openrc count']),
        ("guard.rcd", ["# BEFORE: nodemanager", "\t/bin/sh @STATE@/guard.sh rc.d count"]),
    ],
)
def test_every_init_system_has_the_guard_count_before_it_starts_the_agent(
    name: str, lines: list[str]
) -> None:
    written = (resources.files(init) / name).read_text().splitlines()
    assert [line for line in lines if line not in written] == []


async def test_the_time_goes_on_for_a_guard_that_is_killed_after_a_reboot(world: ProgramWorld) -> None:
    await world.upgrader().upgrade(world.order(HANG))
    world.keep()
    before(world, "sleep", 'echo "$(($(cut -d. -f1 $world/uptime) + 1)).00 0" > $world/uptime; kill -KILL 0')
    assert world.guard() != 0
    world.cut()
    kills = 0
    while kills < 2 * SECONDS and world.guard() != 0:
        kills += 1
    assert (kills, world.kind(), world.outcome()) == (SECONDS, OLD, "returned")


async def test_a_deleted_old_program_ends_the_wait_and_leaves_the_agent_alone(world: ProgramWorld) -> None:
    """Also where it is deleted while the guard puts it back, which it tries until it has done so."""
    await world.upgrader().upgrade(world.order(HANG))
    before(world, "sleep", f"/bin/rm -f {world.previous}; echo x >> $world/naps; "
           '[ "$(wc -l < $world/naps)" -lt 60 ] || kill -KILL 0')  # fmt: skip
    count(world, "systemctl", "*MainPID*")
    assert world.guard() == 0
    assert (world.kind(), world.running(), world.outcome()) == (HANG, HANG, "stranded")
    said = (world.state / "outcome").read_text()
    assert f"within {SECONDS} s, and somebody deleted {world.previous}, so 0.1.0 cannot come back" in said
    assert (counted(world), (world.state / "intent").exists()) == (0, False)


async def test_a_program_proves_itself_also_where_the_old_one_was_deleted(world: ProgramWorld) -> None:
    await world.upgrader().upgrade(world.order(GOOD))
    before(world, "sleep", f"/bin/rm -f {world.previous}")
    assert world.guard() == 0
    assert (world.kind(), world.running(), world.outcome()) == (GOOD, GOOD, "proven")


@pytest.mark.parametrize(("proven", "result"), [(True, "proven"), (False, "stranded")])
async def test_a_guard_that_begins_again_does_not_take_the_new_program_for_the_old_one(
    world: ProgramWorld, proven: bool, result: str
) -> None:
    await world.upgrader().upgrade(world.order(GOOD))
    world.new.rename(world.program)
    world.previous.unlink()
    (world.world / "running").write_text(f"{GOOD}\n")
    if proven:
        (world.state / "proof").write_text("1d\n")
    count(world, "systemctl", "*")
    assert world.guard() == 0
    assert (world.kind(), world.outcome(), counted(world)) == (GOOD, result, 0)


async def test_without_a_way_back_nothing_is_replaced(world: ProgramWorld) -> None:
    await world.upgrader().upgrade(world.order(GOOD))
    world.previous.unlink()
    count(world, "systemctl", "*")
    assert world.guard() == 0
    assert (world.kind(), world.running(), world.outcome(), counted(world)) == (OLD, OLD, "failed", 0)
    assert "nothing was replaced" in (world.state / "outcome").read_text()
    assert not world.new.exists()


@pytest.mark.parametrize("boots", [0, 1])
async def test_an_upgrade_that_was_half_withdrawn_leaves_the_agent_alone(
    world: ProgramWorld, boots: int
) -> None:
    """The new program is removed first, and where the power goes then, the intent is still there."""
    await world.upgrader().upgrade(world.order(GOOD))
    world.new.unlink()
    world.keep()
    for _ in range(boots):
        world.cut()
    count(world, "systemctl", "*")
    assert world.guard() == 0
    assert (world.kind(), world.running(), world.outcome(), counted(world)) == (OLD, OLD, "failed", 0)
    assert "nothing was replaced" in (world.state / "outcome").read_text()
    assert not (world.state / "intent").exists()


@pytest.mark.parametrize(
    "restart",
    [
        pytest.param("exec /bin/sleep 120", id="it waits for an agent that hangs"),
        pytest.param("exit 1", id="it is refused"),
    ],
)
async def test_where_a_restart_is_waited_for_the_way_back_is_not_held_up(
    world: ProgramWorld, restart: str
) -> None:
    """As on OpenRC, which gives the old agent a minute to end."""
    await world.upgrader().upgrade(world.order(HANG))
    pid = world.world / "pid"
    (world.tools / "rc-service").write_text(
        f"#!/bin/sh\n[ ! -e {world.previous} ] || {{ echo $$ > {pid}; {restart}; }}\n"
    )
    (world.tools / "rc-service").chmod(0o755)
    before(world, "sleep", "/bin/sleep 0.1")
    began = time.monotonic()
    world.guard(init="openrc")
    took = time.monotonic() - began
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid.read_text()), signal.SIGKILL)
    assert (world.kind(), world.outcome()) == (OLD, "returned")
    assert f"could not be restarted within {SECONDS} s" in (world.state / "outcome").read_text()
    assert took < 100

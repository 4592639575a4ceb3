"""The agent of a real host is upgraded to programs that work and to ones that do not, with power cuts.

NODEMANAGER_SELF_UPDATES=50 pytest -n 0 tests/hosts/test_self_update.py

With bin/manager, and with the static program of make release where there is one in dist/.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from support import other_programs, static_program
from support.agent_gaps import Gaps, ask
from support.fleet import MANAGER, Fleet, Host, until
from support.host_tasks import do
from support.nspawn import Failed, Machine
from support.other_programs import Release

ROUNDS = int(os.environ.get("NODEMANAGER_SELF_UPDATES", "6"))
SEED = int(os.environ.get("NODEMANAGER_SEED", "1"))
DEADLINE = 60
DOWN = "down"
"""The program that takes the host down, which has a test of its own."""
PROGRAM = "/usr/local/bin/nodemanager"
STATE = "/var/lib/nodemanager/agent-upgrade"
KEYS = "/etc/nodemanager/release.pub"


@dataclass(frozen=True)
class Program:
    """A program to upgrade to."""

    path: str
    version: str
    works: bool = False
    refused: str = ""
    """What is said where it never takes its place."""


@dataclass
class Upgraded:
    """A host with programs to upgrade to."""

    host: Host
    programs: dict[str, Program]
    good: list[str]
    """Names of those that work, in turn."""

    def begin(self, program: Program, *flags: str) -> str:
        """Begin an upgrade and return what is said; it goes on alone."""
        argv = [PROGRAM, "upgrade-agent", "--file", program.path, "--deadline", f"{DEADLINE}s", "--no-wait"]
        done = self.host.machine.run(*argv, "--downgrade", *flags, check=False)
        return done.stdout if done.returncode == 0 else done.stderr

    def has(self, path: str) -> bool:
        """Tell whether a file of the host is there."""
        return (self.host.machine.root / path.lstrip("/")).exists()

    def ended(self) -> bool:
        return not self.has(f"{STATE}/intent")

    def version(self) -> str:
        """Return the version of the agent that answers; empty if none does."""
        return str(ask(self.host.machine).get("version", ""))

    def runs(self) -> str:
        """Return the version of the agent; wait until it answers."""
        return until(self.version, "an agent that answers")

    def outcome(self) -> str:
        text = self.host.text(f"{STATE}/outcome")
        return text.partition("result=")[2].partition("\n")[0]


@pytest.fixture(scope="module", params=["bin/manager", "static"])
def upgraded(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Upgraded]:
    folder = tmp_path_factory.mktemp("self-update")
    first = MANAGER if request.param == "bin/manager" else static_program.find()
    release, other = Release(folder / "release"), Release(folder / "other")
    good = [
        Program(f"/srv/{file.name}", version, works=True)
        for version in ("0.2.0", "0.2.1")
        for file in (release.version(version) if first == MANAGER else release.renamed(first, version),)
    ]
    bad = {
        name: release.script(name, "0.9.0", body)
        for name, body in (
            ("crash", other_programs.CRASH), ("usage", other_programs.USAGE),
            ("signal", other_programs.SIGNAL), ("hang", other_programs.HANG),
            ("deaf", other_programs.DEAF), ("liar", other_programs.LIAR), (DOWN, other_programs.DOWN),
        )
    }  # fmt: skip
    bad["vanish"] = release.script("vanish", "0.9.0", other_programs.CRASH, 'chmod -x "$0"')
    programs = {name: Program(f"/srv/{path.name}", "0.9.0") for name, path in bad.items()}
    programs |= {one.version: one for one in good}
    forged = release.script("forged", "0.9.0", other_programs.CRASH)
    forged.write_text(forged.read_text() + "# changed\n")
    other.script("foreign", "0.9.0", other_programs.CRASH)
    for name in ("foreign", "foreign.minisig"):
        (other.folder / name).rename(release.folder / name)
    programs["forged"] = Program("/srv/forged", "0.9.0", refused="the file was changed")
    programs["foreign"] = Program("/srv/foreign", "0.9.0", refused="which is not trusted")
    shutil.copy(first, release.folder / "0.1.0")
    with Fleet.up(folder, "web", binds={release.folder: "/srv"}) as fleet:
        host = fleet["web"]
        host.machine.copy(first, PROGRAM)
        host.bootstrap()
        host.machine.write(KEYS, release.public.read_text())
        host.machine.run(PROGRAM, "install-service")
        host.api.config_set("motd", host.name, files=[{"path": "/etc/motd", "content": "hello\n"}])
        host.converge("motd")
        yield Upgraded(host, programs, ["0.2.0", "0.2.1"])


@pytest.fixture(autouse=True)
def told(upgraded: Upgraded, request: pytest.FixtureRequest) -> Iterator[None]:
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        journal = upgraded.host.machine.journal("-u", "nodemanager", "-u", "nodemanager-guard", lines=200)
        sys.stdout.write(journal)


CUTS: dict[str, Callable[[Upgraded], bool]] = {
    "staged": lambda one: one.has(f"{PROGRAM}.new"),
    "intended": lambda one: one.has(f"{STATE}/intent"),
    "replaced": lambda one: one.has(f"{STATE}/intent") and not one.has(f"{PROGRAM}.new"),
    "tried": lambda one: one.has(f"{STATE}/tried"),
    "restarted": lambda one: one.has(f"{STATE}/restarted"),
    "proven": lambda one: one.has(f"{STATE}/proof") or one.ended(),
    "returned": lambda one: not one.has(f"{PROGRAM}.previous") or one.ended(),
}
"""What the disk looks like when the power is cut."""


LEFT = ("intent", "tried", "restarted", "proof", "outcome")
"""What an upgrade leaves in its folder, in this order."""


def cut(upgraded: Upgraded, program: Program, when: str) -> str:
    """Begin an upgrade, and pull the plug when it has got so far; return what was on the disk then."""
    machine = upgraded.host.machine
    argv = [PROGRAM, "upgrade-agent", "--file", program.path, "--deadline", f"{DEADLINE}s", "--no-wait"]
    process = machine.popen(*argv, "--downgrade")
    refused = False

    def there(condition: Callable[[Upgraded], bool]) -> bool:
        nonlocal refused
        refused = (process.poll() or 0) > 0
        return refused or condition(upgraded)

    try:
        if when != "staged":
            until(lambda: there(CUTS["intended"]), "its begin")
        until(lambda: there(CUTS[when]), when, 2 * DEADLINE)
    finally:
        machine.kill()
        said = process.communicate(timeout=60)
    assert not refused, said
    left = [name for name in LEFT if upgraded.has(f"{STATE}/{name}")]
    left += [name for name in (".new", ".previous") if upgraded.has(PROGRAM + name)]
    machine.start()
    return ", ".join(left)


def settle(upgraded: Upgraded) -> str:
    """Wait for the end of what was begun, and for an agent that works; return its version."""
    until(upgraded.ended, "the end of the upgrade", 3 * DEADLINE)
    found = upgraded.runs()
    until(lambda: upgraded.host.status().get("agentVersion", found) == found, "its report")
    return found


def test_a_program_that_works_takes_its_place_and_says_so(upgraded: Upgraded) -> None:
    before = upgraded.runs()
    wanted = next(one for one in upgraded.good if one != before)
    path = upgraded.programs[wanted].path
    argv = [PROGRAM, "upgrade-agent", "--downgrade", "--file", path, "--deadline", f"{DEADLINE}s"]
    done = upgraded.host.machine.run(*argv)
    assert f"upgraded: {wanted} works; {before} is kept as /usr/local/bin/nodemanager.previous" in done.stdout
    assert (upgraded.runs(), upgraded.outcome()) == (wanted, "proven")
    until(lambda: upgraded.host.status().get("agentVersion") == wanted, "its report")
    done = upgraded.host.machine.run(
        PROGRAM, "upgrade-agent", "--unsigned", "--file", "/srv/0.1.0", check=False
    )
    assert "which runs; an old program with a good signature is what an attacker would offer" in done.stderr
    assert upgraded.runs() == wanted


@pytest.mark.parametrize("name", ["forged", "foreign"])
def test_what_nobody_signed_whom_the_host_trusts_is_never_run(upgraded: Upgraded, name: str) -> None:
    before = upgraded.runs()
    assert upgraded.programs[name].refused in upgraded.begin(upgraded.programs[name])
    assert (upgraded.runs(), upgraded.has(f"{PROGRAM}.new")) == (before, False)


def test_a_task_upgrades_the_agent_and_is_settled_by_whichever_comes_after(upgraded: Upgraded) -> None:
    before = upgraded.runs()
    wanted = next(one for one in upgraded.good if one != before)
    status = do(upgraded.host, "agent-upgrade", version=wanted, url="/srv/nodemanager-{version}")
    assert status["phase"] == "Succeeded", status
    step, holds = status["steps"]
    assert step["evidence"] == {"versionBefore": before, "versionAfter": wanted}
    assert (step["attempts"], holds["phase"], upgraded.runs()) == (1, "Succeeded", wanted)
    status = do(upgraded.host, "agent-upgrade", version="0.9.0", url="/srv/usage")
    assert status["phase"] == "Failed", status
    message = f"it ended, and is not started again; {wanted} is back"
    assert (status["steps"][0]["message"], upgraded.runs()) == (message, wanted)
    status = do(upgraded.host, "agent-upgrade", version="0.9.0", url="/srv/forged")
    assert "the file was changed" in status["steps"][0]["message"]


def test_a_guard_that_somebody_ends_is_back_and_brings_the_old_program_back(upgraded: Upgraded) -> None:
    before = upgraded.runs()
    upgraded.begin(upgraded.programs["hang"])
    until(lambda: upgraded.has(f"{STATE}/restarted"), "its restart")
    upgraded.host.machine.run("systemctl", "kill", "--signal=TERM", "nodemanager-guard")
    assert settle(upgraded) == before
    assert upgraded.outcome() == "returned"


@pytest.mark.timeout(600)
def test_a_program_that_takes_the_host_down_at_once_is_back_after_the_third_time(upgraded: Upgraded) -> None:
    before, machine = upgraded.runs(), upgraded.host.machine
    process = machine.popen(PROGRAM, "upgrade-agent", "--file", upgraded.programs[DOWN].path, "--no-wait")
    boots = 1
    with contextlib.suppress(Failed):  # it goes down again before it is up
        machine.follow_reboot(DEADLINE)
    process.communicate(timeout=60)
    while not machine.leader:
        boots += 1
        assert boots <= 3
        with contextlib.suppress(Failed):
            machine.start()
    assert (boots, settle(upgraded), upgraded.outcome()) == (3, before, "returned")
    assert "the host went down 3 times" in upgraded.host.text(f"{STATE}/outcome")


def cut_power(machine: Machine) -> None:
    machine.kill()
    machine.start()


def without(upgraded: Upgraded, interrupt: Callable[[], object]) -> float:
    """Return for how long no agent of the host answers when it is interrupted, and no more than that."""
    upgraded.runs()
    with Gaps(upgraded.host.machine) as gaps:
        interrupt()
        upgraded.runs()
    return max(gaps.longest, 1.0)


@pytest.mark.timeout(max(1500, 120 * ROUNDS))
def test_no_host_is_without_an_agent_for_longer_than_the_deadline(upgraded: Upgraded) -> None:
    """Rounds of programs and power cuts by the seed; each bad program, and each cut, comes up in turn.

    No agent answers for the deadline at most, and twice what a restart of the agent takes here and now,
    without any upgrade; with a power cut, twice what a power cut takes. The agent of a host that boots waits
    for the network, and so does the time of the guard.
    """
    chance, machine = random.Random(SEED), upgraded.host.machine
    restart = without(upgraded, partial(machine.run, "systemctl", "restart", "nodemanager"))
    boot = without(upgraded, partial(cut_power, machine))
    sys.stdout.write(f"without an agent: {restart:.1f} s by a restart, {boot:.1f} s by a power cut\n")
    names = [name for name in upgraded.programs if name not in (*upgraded.good, DOWN)]
    chance.shuffle(names)
    cuts = list(CUTS)
    chance.shuffle(cuts)
    told = []
    for number in range(ROUNDS):
        now = upgraded.runs()
        good = next(one for one in upgraded.good if one != now)
        name = names[number // 2 % len(names)] if number % 2 == 0 else good
        program = upgraded.programs[name]
        when = cuts[number // 2 % len(cuts)] if number % 3 != 0 and not program.refused else ""
        left = ""
        with Gaps(machine) as gaps:
            if when:
                left = f" ({cut(upgraded, program, when)})"
            else:
                said = upgraded.begin(program)
                assert (program.refused or "the agent restarts") in said
            found = settle(upgraded)
        told.append(
            f"{number}: {now} -> {name}, cut {when or 'never'}{left}: {found}, {gaps.longest:.1f} s without"
        )
        sys.stdout.write(f"{told[-1]}\n")
        may = (
            {now, program.version} if program.works and when else {program.version if program.works else now}
        )
        assert found in may, told
        assert gaps.longest <= DEADLINE + 2 * (boot if when else restart), told

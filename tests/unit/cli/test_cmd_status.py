"""`nodemanager status`: what it says, how it ends, and that it stays when told to; on a real socket."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.agent.report.local_status import (
    Api,
    Board,
    Drifts,
    Owed,
    Passes,
    SetState,
    Snapshot,
    Tasks,
    TaskState,
    Token,
)  # fmt: skip
from nodemanager.api.common.managednode import DriftRecord
from nodemanager.cli.commands.host import status
from nodemanager.cli.settings import connect
from nodemanager.cli.status_client import NotRunning
from nodemanager.cli.views import output, status_view
from nodemanager.host.files.tree import Tree
from nodemanager.host.state.journal import Journal
from nodemanager.kube.conditions import Condition
from nodemanager.plan.resources import parse_id
from support import cli
from support.root_tree import needs_root
from support.status_board import Teller, serving

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
READY = Condition(type="Ready", status="True", reason="Applied")


def at(**ago: float) -> str:
    return (NOW - timedelta(**ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def made(**fields: Any) -> Snapshot:
    base: dict[str, Any] = {
        "host": "web1", "namespace": "nodemanager", "version": "1.2.3", "pid": 812, "started": at(hours=3),
        "api": Api(state="connected", server="https://api.example:6443", since=at(hours=3)),
        "passes": Passes(last=at(minutes=2), seconds=0.008, next=at(minutes=-8)),
        "conditions": [READY], "managed": {"file": 12, "service": 1}, "memory": 38 * 2**20,
        "config_sets": [SetState(name="base", last_applied=at(minutes=2))],
    }  # fmt: skip
    return Snapshot(**{**base, **fields})


def shown(snapshot: Snapshot) -> list[str]:
    return status_view.text(snapshot, NOW).splitlines()


def test_a_host_that_is_well_takes_a_screenful() -> None:
    assert shown(made()) == [
        "Host:         web1 in namespace nodemanager",
        "Agent:        nodemanager 1.2.3, process 812, up 3h, 38 MiB",
        "State:        as declared",
        "API:          connected for 3h (https://api.example:6443)",
        "Last pass:    2m ago, took 8 ms, next in 8m",
        "Managed:      12 files, 1 service",
        "Drift:        none so far",
        "",
        "CONFIGSET   RESULT   APPLIED   MESSAGE",
        "base        holds    2m",
    ]


def test_everything_that_may_be_wrong_is_said() -> None:
    text = "\n".join(
        shown(
            made(
                root="/mnt/image",
                api=Api(
                    state="alone", server="https://api", since=at(minutes=5), why="no route to it",
                    last_contact=at(minutes=6),
                ),
                token=Token(expires=at(hours=-1), renewal=at(minutes=10)),
                conditions=[
                    Condition(type="Ready", status="False", message="file:/x: no space"),
                    Condition(type="Contested", status="True", reason="Contested", message="file:/etc/motd"),
                ],
                config_sets=[
                    SetState(name="a", error="file:/x: no space"),
                    SetState(name="b", conflicts=['file:/y (also in configset "a")']),
                ],
                owed=[Owed(resource="service:nginx", since=at(minutes=1), causes=["/etc/nginx.conf"])],
                drift=Drifts(
                    repaired=3, observed=1, unreported=2, last_time=at(seconds=4),
                    last_resource="file:/etc/motd",
                    recent=[
                        DriftRecord(sequence=3, time=at(seconds=9), resource="file:/a", outcome="observed"),
                        DriftRecord(sequence=4, time=at(seconds=4), resource="file:/b", outcome="repaired",
                                    took="3.2ms", message="content"),
                    ],
                ),
                unwatched=["/srv: the limit of inotify is reached; raise fs.inotify.max_user_watches"],
                passes=Passes(running_since=at(seconds=3), error="the disk is full"),
            )
        )
    )  # fmt: skip
    for line in (
        "root /mnt/image",
        "State:        does not hold",
        "              Ready: file:/x: no space",
        "              Contested: file:/etc/motd",
        "              the last pass was broken off: the disk is full",
        "API:          no answer for 5m, the last one 6m ago (https://api)\n              no route to it",
        "expires in 60m (2026-03-01T13:00:00Z), renewal is due",
        "Last pass:    one has been running for 3s",
        "3 repaired, 1 left alone, last 4s ago: file:/etc/motd, 2 not reported yet",
        "Not watched:  /srv: the limit of inotify",
        "a           fails      <unknown>   file:/x: no space",
        'b           conflict   <unknown>   file:/y (also in configset "a")',
        "service:nginx   1m",
        "4s      repaired   3.2ms   file:/b    content\n9s      observed           file:/a",
    ):
        assert line.replace("1m", "60s") in text.replace("1m", "60s"), text


def test_before_the_first_pass_nothing_is_said_to_fail() -> None:
    lines = shown(made(conditions=[], passes=Passes(running_since=at(seconds=3))))
    place = lines.index("State:        not known yet")
    assert lines[place + 1].strip() == "no pass is over yet"
    assert "not known yet: no pass is over yet" in made(conditions=[]).line()


def test_the_task_under_way_and_those_of_the_last_days_are_shown() -> None:
    running = TaskState(
        name="web1-4f", owner="nodemaintenance/monday", phase="Running", step="reboot", place=2, steps=3,
        since=at(minutes=3), message="paused before step holds: this host is held: a demo",
    )  # fmt: skip
    ended = TaskState(
        name="web1-0a", owner="nodemaintenance/sunday", phase="Failed", step="up", place=1, steps=1,
        since=at(days=1), message="step up failed: no\nroute",
    )  # fmt: skip
    lines = shown(made(tasks=Tasks(running=running, recent=[ended])))
    place = lines.index("Task:         web1-4f of nodemaintenance/monday, for 3m: step 2 of 3, reboot")
    assert lines[place + 1].strip() == running.message
    row = next(line for line in lines if line.startswith("web1-0a"))
    assert row.split()[:4] == ["web1-0a", "nodemaintenance/sunday", "24h", "Failed"]
    assert not any(line.startswith("Task:") for line in shown(made()))


def test_nothing_is_cut_out_of_what_does_not_hold() -> None:
    said = (
        "file:/etc/bin: cannot fill /etc/bin: Secret bin has no key kk; add it, or correct contentFrom;"
        " file:/etc/label: cannot render /etc/label: line 1: there is no role in Labels; where it may be"
        ' missing, add: | default "..."'
    )
    faulty = made(
        conditions=[Condition(type="Ready", status="False", message=said)],
        config_sets=[SetState(name="bin", error=said), SetState(name="late", held=2)],
    )
    text = status_view.text(faulty, NOW)
    assert f"              Ready: {said}\n" in text
    assert f"bin         fails    <unknown>   {said}\n" in text
    assert "late        held     <unknown>   2 resources as before, until the end of the hold" in text
    narrow = status_view.fitting(text, 80)
    assert max(map(len, narrow.splitlines())) <= 80
    assert narrow.split() == text.split()


@pytest.mark.parametrize("time", [at(minutes=-30), "1970-01-01T00:00:07Z"])
def test_a_time_of_a_clock_that_was_set_since_is_no_age(time: str) -> None:
    text = "\n".join(
        shown(
            made(
                api=Api(state="refused", server="https://api", since=time, last_contact=time),
                config_sets=[SetState(name="base", last_applied=time)],
                owed=[Owed(resource="service:nginx", since=time)],
                drift=Drifts(
                    repaired=1, last_time=time, last_resource="file:/a",
                    recent=[DriftRecord(sequence=1, time=time, resource="file:/a", outcome="repaired")],
                ),
            )
        )
    )  # fmt: skip
    for line in (
        f"API:          refuses our credential since {time}, the last one at {time} by a clock that was set",
        f"Drift:        1 repaired, last at {time} by a clock that was set since: file:/a",
        f"base        holds    {time}",
        f"service:nginx   {time}",
        f"{time}   repaired          file:/a",
    ):
        assert line in text, text
    assert "invalid" not in text
    soon = status_view.text(made(drift=Drifts(repaired=1, last_time=at(seconds=-1))), NOW)
    assert "last 0s ago" in soon  # a second is no reason to alarm anybody


def test_a_token_that_has_expired_says_what_to_do() -> None:
    token = Token(expires=at(minutes=1), renewal=at(hours=1))
    assert "Token:        expired 60s ago; run nodemanager bootstrap again" in shown(made(token=token))


def test_what_others_wrote_does_not_steer_the_terminal() -> None:
    bad = "\x1b[2J\nroot# "
    snapshot = made(
        host="web1", config_sets=[SetState(name=bad, error=bad)], unwatched=[bad],
        owed=[Owed(resource=bad, causes=[bad])],
        conditions=[Condition(type="Ready", status="False", message=bad)],
        drift=Drifts(
            repaired=1, last_time=at(), last_resource=bad, recent=[DriftRecord(resource=bad, message=bad)]
        ),
    )  # fmt: skip
    assert "\x1b" not in status_view.text(snapshot, NOW)
    coloured = status_view.text(snapshot, NOW, output.Style(colour=True))
    assert "\x1b[2J" not in coloured
    assert "\x1b[31m" in coloured  # and there are colours, where there is a terminal


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, 0),
        ({"api": Api(state="alone")}, 0),
        ({"conditions": []}, 2),
        ({"conditions": [Condition(type="Ready", status="False", message="no")]}, 2),
        ({"conditions": [READY, Condition(type="Drifted", status="True", reason="Observed")]}, 2),
        ({"owed": [Owed(resource="service:x")]}, 2),
        ({"passes": Passes(error="no")}, 2),
    ],
)
async def test_the_exit_code_says_whether_all_holds(
    fields: dict[str, Any], code: int, tmp_path: Path
) -> None:
    async with serving(Teller(made(**fields)).board, tmp_path):
        ran = await asyncio.to_thread(cli.run, "status", "--root", str(tmp_path), "-o", "json")
    assert ran.code == code, ran
    told = json.loads(ran.stdout)
    assert told["holds"] == (code == 0)
    assert bool(told["faults"]) == (code == 2)
    assert told["host"] == "web1"
    assert told["configSets"][0]["name"] == "base"


async def test_yaml_says_the_same(tmp_path: Path) -> None:
    async with serving(Teller(made()).board, tmp_path):
        as_json = await asyncio.to_thread(cli.run, "status", "--root", str(tmp_path), "-o", "json")
        as_yaml = await asyncio.to_thread(cli.run, "status", "--root", str(tmp_path), "-o", "yaml")
    assert yaml.safe_load(as_yaml.stdout) == json.loads(as_json.stdout)


@pytest.mark.parametrize(("joined", "how"), [(True, "systemctl start"), (False, "nodemanager bootstrap")])
def test_without_an_agent_it_says_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool, how: str
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    if joined:
        kubeconfig.touch()
    monkeypatch.setattr(connect, "host_kubeconfig_path", lambda: kubeconfig)
    assert f"start it, {'with' if joined else 'after'} {how}" in status._silence(
        "/", NotRunning("nobody answers")
    )


def test_without_an_agent_it_says_so_and_what_the_disk_knows(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path))
    Journal(tree).owe({parse_id("service:nginx"): ["/etc/nginx.conf"]})
    tree.close()
    (tmp_path / "run").mkdir()
    ran = cli.run("status", "--root", str(tmp_path))
    assert ran.code == 1
    assert "the agent of this host does not run" in ran.stderr
    assert "nodemanager get mn" in ran.stderr
    assert "Backups:      none\n" in ran.stdout
    assert "service:nginx" in ran.stdout
    told = json.loads(cli.run("status", "--root", str(tmp_path), "-o", "json").stdout)
    assert told["running"] is False
    assert [one["resource"] for one in told["owed"]] == ["service:nginx"]


def test_a_folder_where_no_agent_could_answer(tmp_path: Path) -> None:
    """The agent of a sandbox may run, and has nowhere to put its socket."""
    ran = cli.run("status", "--root", str(tmp_path))
    assert ran.code == 1
    assert f"mkdir {tmp_path}/run" in ran.stderr
    (tmp_path / "run").mkdir()
    assert "mkdir" not in cli.run("status", "--root", str(tmp_path)).stderr


@needs_root
async def test_somebody_who_is_not_root_is_told_so(open_folder: Path) -> None:
    async with serving(Teller(made()).board, open_folder):
        script = (
            "import os, sys\nfrom nodemanager.cli import main\n"
            "from nodemanager.cli.commands.host import status\n"
            "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            f"sys.exit(main.run(['status', '--root', {str(open_folder)!r}]))\n"
        )
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True, timeout=50,
            check=False, env={**os.environ},
        )  # fmt: skip
    assert done.returncode == 1
    assert "only root may; run it with sudo" in done.stderr


async def test_watching_shows_every_change_and_outlives_the_agent(tmp_path: Path) -> None:
    teller = Teller(made())
    argv = [*cli.ARGV, "status", "--root", str(tmp_path), "--watch"]
    async with asyncio.timeout(100):
        async with serving(teller.board, tmp_path):
            watching = await asyncio.create_subprocess_exec(
                *argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli.environment()
            )
            assert watching.stdout is not None
            await watching.stdout.readuntil(b"up ")
            teller.say(pid=4711)
            await watching.stdout.readuntil(b"process 4711")
        async with serving(Board(lambda _: made(pid=4712)), tmp_path):
            await watching.stdout.readuntil(b"process 4712")
        watching.terminate()
        _, err = await watching.communicate()
    assert b"the agent has ended; waiting for it to come back" in err
    assert b"\x1b" not in err


def test_watching_without_an_agent_ends_at_once(tmp_path: Path) -> None:
    assert cli.run("status", "--root", str(tmp_path), "--watch").code == 1

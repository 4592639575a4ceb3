"""A service on three real hosts: a good change by stages, a bad one that stops at the canary, an API cut."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.bridge import ip
from support.chaos import namespace_of
from support.exposure import HostWatch
from support.fleet import Fleet, Host, until

HOSTS = ("canary", "b", "c")
LABELS = {"role": "web"}
UNIT = "/etc/systemd/system/app.service"
SOAK = 2.0
GOOD, BAD = "/bin/sleep inf", "/usr/local/bin/missing"


def declaration(program: str) -> dict[str, Any]:
    # What is bad fails late enough for the cable to be cut before the canary tells of it.
    late = "ExecStartPre=/bin/sleep 10\n" if program == BAD else ""
    unit = f"[Service]\nType=exec\n{late}ExecStart={program}\n[Install]\nWantedBy=multi-user.target\n"
    return {
        "apiVersion": "common.nodemanager/v1",
        "kind": "ConfigSet",
        "metadata": {"name": "app", "labels": LABELS},
        "spec": {
            "rollout": {
                "strategy": "Staged", "soak": f"{SOAK:g}s", "stages": ["2", "100%"],
                "canary": {"selector": {"matchLabels": {"canary": "true"}}},
            },
            "files": [{"path": UNIT, "content": unit}],
            "services": [{"name": "app", "ensure": "running", "enable": True, "subscribe_files": [UNIT]}],
        },
    }  # fmt: skip


def has(host: Host) -> str:
    """Return which program the unit of a host names, as it is on its disk."""
    path = Path(host.machine.root, UNIT.lstrip("/"))
    text = path.read_text() if path.exists() else ""
    return text.partition("ExecStart=")[2].partition("\n")[0]


@pytest.fixture(name="fleet")
def _fleet(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    with Fleet.up(tmp_path, *HOSTS) as fleet, fleet.watched(request):
        for short, host in fleet.hosts.items():
            host.join(labels={**LABELS, **({"canary": "true"} if short == "canary" else {})})
        for host in fleet.hosts.values():
            until(lambda host=host: host.condition("Ready") == "True", f"{host.name} is ready")  # type: ignore[misc]
        yield fleet


def rollout(fleet: Fleet) -> dict[str, Any]:
    found: dict[str, Any] = fleet.api.get("ConfigSet", "app").get("status", {}).get("rollout", {})
    return found


def runs(host: Host) -> str:
    """Return which run of the service it is: another one after each start."""
    return host.shows("app", "InvocationID")


@contextmanager
def cut_off(fleet: Fleet) -> Iterator[None]:
    """No host reaches the API."""
    for host in fleet.hosts.values():
        ip("-n", namespace_of(host), "link", "set", "eth0", "down")
    try:
        yield
    finally:
        for host in fleet.hosts.values():
            ip("-n", namespace_of(host), "link", "set", "eth0", "up")


def test_a_change_goes_by_stages_and_a_bad_one_stops_at_the_canary_while_the_api_is_cut(fleet: Fleet) -> None:
    watch = HostWatch(fleet.hosts, lambda short: has(fleet[short]))
    moves = watch.moves
    with watch.looking():
        fleet.api.apply(declaration(GOOD))  # a set that is new goes by stages, too
        until(lambda: rollout(fleet).get("phase") == "Stable", "the end of the good change")
        assert moves.who_had(GOOD)[0] == "canary"
        begun = [moves.first(short, GOOD) for short in moves.who_had(GOOD)]
        assert [later - earlier >= SOAK for earlier, later in itertools.pairwise(begun)] == [True, True]
        before = {short: runs(host) for short, host in fleet.hosts.items()}

        fleet.api.apply(declaration(BAD))
        until(lambda: has(fleet["canary"]) == BAD, "the canary takes the bad change")
        with cut_off(fleet):
            for short in ("canary", "b"):  # a start without the API changes nothing
                fleet[short].kill_agent()
            until(lambda: not fleet["canary"].is_active("app"), "the service of the canary fails")
            assert [has(host) for host in fleet.hosts.values()] == [BAD, GOOD, GOOD]
        until(lambda: rollout(fleet).get("phase") == "Undone", "the end of the undo")
        until(lambda: fleet["canary"].is_active("app"), "the service of the canary runs again")
    assert [has(host) for host in fleet.hosts.values()] == [GOOD] * 3
    exposed = moves.exposure(BAD)
    assert exposed.hosts == {"canary"}
    after = {short: runs(fleet[short]) for short in ("b", "c")}
    assert after == {short: before[short] for short in ("b", "c")}  # nobody started them again
    sys.stdout.write(f"of {len(HOSTS)} hosts, {exposed}\n")
    status = rollout(fleet)
    assert (status["stable"]["revision"], status["refused"]["revision"]) == (1, 2)
    assert f"revision 2 failed on {fleet['canary'].name}" in status["message"]

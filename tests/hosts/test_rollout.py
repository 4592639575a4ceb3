"""A service on three real hosts: a good change by stages, a bad one that stops at the canary, an API cut."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.bridge import ip
from support.chaos import namespace_of
from support.fleet import Fleet, Host, until

HOSTS = ("canary", "b", "c")
LABELS = {"role": "web"}
UNIT = "/etc/systemd/system/app.service"
SOAK = 2.0
GOOD, BAD = "/bin/sleep inf", "/usr/local/bin/missing"


def declaration(program: str) -> dict[str, Any]:
    unit = f"[Service]\nType=exec\nExecStart={program}\n[Install]\nWantedBy=multi-user.target\n"
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


@dataclass
class Watch:
    """Looks all the time, from outside, which program the unit of each host names."""

    fleet: Fleet
    spells: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """When a host was first and last seen with a program."""
    _over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        while not self._over.wait(0.02):
            for short, host in self.fleet.hosts.items():
                if program := self.has(host):
                    now = time.monotonic()
                    self.spells.setdefault((short, program), [now, now])[1] = now

    @staticmethod
    def has(host: Host) -> str:
        path = Path(host.machine.root, UNIT.lstrip("/"))
        text = path.read_text() if path.exists() else ""
        return text.partition("ExecStart=")[2].partition("\n")[0]

    def who_had(self, program: str) -> list[str]:
        """Return the hosts that ever had a program, in the order in which they took it."""
        begun = {short: spell[0] for (short, what), spell in self.spells.items() if what == program}
        return sorted(begun, key=lambda short: begun[short])

    @contextmanager
    def looking(self) -> Iterator[None]:
        thread = threading.Thread(target=self.look, name="watch")
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(20)


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
    watch = Watch(fleet)
    with watch.looking():
        fleet.api.apply(declaration(GOOD))  # a set that is new goes by stages, too
        until(lambda: rollout(fleet).get("phase") == "Stable", "the end of the good change")
        assert watch.who_had(GOOD)[0] == "canary"
        begun = [watch.spells[short, GOOD][0] for short in watch.who_had(GOOD)]
        assert [later - earlier >= SOAK for earlier, later in itertools.pairwise(begun)] == [True, True]
        before = {short: runs(host) for short, host in fleet.hosts.items()}

        fleet.api.apply(declaration(BAD))
        until(lambda: Watch.has(fleet["canary"]) == BAD, "the canary takes the bad change")
        with cut_off(fleet):
            for short in ("canary", "b"):  # a start without the API changes nothing
                fleet[short].kill_agent()
            until(lambda: not fleet["canary"].is_active("app"), "the service of the canary fails")
            assert [Watch.has(host) for host in fleet.hosts.values()] == [BAD, GOOD, GOOD]
        until(lambda: rollout(fleet).get("phase") == "Undone", "the end of the undo")
        until(lambda: fleet["canary"].is_active("app"), "the service of the canary runs again")
    assert [Watch.has(host) for host in fleet.hosts.values()] == [GOOD] * 3
    assert watch.who_had(BAD) == ["canary"]
    after = {short: runs(fleet[short]) for short in ("b", "c")}
    assert after == {short: before[short] for short in ("b", "c")}  # nobody started them again
    began, ended = watch.spells["canary", BAD]
    sys.stdout.write(f"1 of {len(HOSTS)} hosts had the bad revision, for {ended - began:.1f} s\n")
    status = rollout(fleet)
    assert (status["stable"]["revision"], status["refused"]["revision"]) == (1, 2)
    assert f"revision 2 failed on {fleet['canary'].name}" in status["message"]

"""A real host whose link to the API is cut: it is rebooted and changed by hand meanwhile, and stays right."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from nodemanager.client.calls import Selection
from support.bridge import ip
from support.fleet import Fleet, Host, until
from support.fleet_api import NAMESPACE, resource_of

DRIFTS = 50
OUTAGE_SECONDS = float(os.environ.get("NODEMANAGER_OUTAGE_SECONDS", "0"))
"""At least how long the API is gone; the drifts are spread over it. As long as they take, if not given."""
SERVICE = "[Service]\nExecStart=/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n"
LATE = 60.0
"""Seconds: many times what it takes, also on a busy machine, and far less than waiting for an API would."""
FILES = (*(f"/etc/alone/{number:02}" for number in range(23)), "/etc/alone/secret")
ROUND = len(FILES) + 1
"""As many things to change: more than a few changes of one thing within a minute would be a fight."""


@pytest.fixture(scope="module")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two hosts with a service of their own; one for each test: it counts what happened to it."""
    with Fleet.up(tmp_path_factory.mktemp("fleet"), "edge", "start") as fleet:
        for host in fleet.hosts.values():
            host.machine.write("/etc/systemd/system/alone.service", SERVICE)
            host.join()
        yield fleet


def declared() -> dict[str, Any]:
    """Return what the host shall be."""
    template = "{{ index .Node.Secrets `password` | base64.Decode }}\n"
    plain: list[dict[str, Any]] = [{"path": path, "content": f"right {path}\n"} for path in FILES[:-1]]
    secret = {"path": FILES[-1], "template": template, "secretRefs": ["alone"]}
    service = {"name": "alone", "ensure": "running", "enable": True}
    return {"files": [*plain, secret], "services": [service]}


def is_right(host: Host) -> bool:
    """Tell whether the host is as declared."""
    wanted = "".join(f"right {path}\n" for path in FILES[:-1]) + "geheim\n"
    return host.machine.run("cat", *FILES, check=False).stdout == wanted and host.is_active("alone")


def spoil(host: Host, number: int) -> str:
    """Change one thing by hand, each time another; return what it was."""
    which = number % ROUND
    if which == len(FILES):
        host.machine.run("systemctl", "stop", "alone")
        return "service:alone"
    path = FILES[which]
    if number % 3 == 0:
        host.machine.run("rm", path)
    else:
        host.machine.run("dd", "status=none", "of=/etc/new", stdin=f"by hand {number}\n")
        host.machine.run("mv", "/etc/new", path)
    return f"file:{path}"


def drift(host: Host, numbers: range) -> list[str]:
    """Change things by hand, one after the other, each put back before the next."""
    made = []
    for number in numbers:
        time.sleep(OUTAGE_SECONDS / DRIFTS)  # 0, but for those who want to see a long outage
        made.append(spoil(host, number))
        host.look_again()
        until(lambda: is_right(host), f"the repair of {made[-1]}")
        # It is right before its repair has ended, and so before it is told; the next one could overtake it.
        until(partial(has_recorded, host, number + 1), f"the record of {made[-1]}")
    return made


@pytest.fixture
def edge(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Host]:
    """A host as it shall be, its cable cut; nobody else has made it drift."""
    with shared_fleet.watched(request), without_api(shared_fleet["edge"]) as host:
        yield host


@pytest.fixture
def restarted(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Host]:
    """Another one."""
    with shared_fleet.watched(request), without_api(shared_fleet["start"]) as host:
        yield host


@contextlib.contextmanager
def without_api(host: Host) -> Iterator[Host]:
    """Make a host what it shall be, and cut its cable; it is mended in the end."""
    host.api.secret("alone", password="geheim")
    host.api.config_set(f"alone-{host.name}", host.name, **declared())
    host.converge(f"alone-{host.name}")
    cut(host, down=True)
    yield host
    cut(host, down=False)


def test_fifty_drifts_and_a_reboot_without_the_api(edge: Host) -> None:
    made = drift(edge, range(20))
    until(lambda: recorded(edge) == 20, "the drifts on disk")
    edge.machine.kill()  # a power cut
    edge.machine.start()
    until(lambda: "alone:" in edge.machine.journal("-b", "-u", "nodemanager"), "the agent to go on alone")
    until(lambda: has_passed(edge), "the end of the first pass")
    assert is_right(edge)
    made += drift(edge, range(20, DRIFTS))
    until(lambda: recorded(edge) == DRIFTS, "the drifts on disk")
    cut(edge, down=False)
    found = until(lambda: reported(edge, DRIFTS), "the report")
    assert found["repaired"] == DRIFTS
    assert [one["resource"] for one in found["recent"]] == made
    assert [one["sequence"] for one in found["recent"]] == list(range(1, DRIFTS + 1))
    assert [one["message"].split(": ")[0] for one in events(edge)] == made
    until(lambda: edge.condition("Ready") == "True", "a host that is ready")


def test_started_without_the_api_the_host_is_right_in_a_moment(restarted: Host) -> None:
    run = restarted.machine.run
    for _ in range(3):
        run("systemctl", "stop", "nodemanager")
        run("systemctl", "stop", "alone")
        run("rm", *FILES)
        run("systemctl", "start", "nodemanager")
        until(lambda: is_right(restarted), "what the host knows, to hold again")
        started = float(restarted.shows("nodemanager", "ExecMainStartTimestampMonotonic")) / 1e6
        written = max(float(run("stat", "--format=%.9Z", path).stdout) for path in FILES)
        took = written - (time.time() - time.monotonic()) - started
        sys.stdout.write(f"files right {took:.2f} s after exec of the agent, without an API\n")
        assert took < LATE


def has_passed(host: Host) -> bool:
    """Tell whether the agent has come to the end of a pass since it was started."""
    ask = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080/metrics').read().decode())"
    said = host.machine.run("python3", "-c", ask, check=False).stdout
    counts = re.findall(
        r'^controller_runtime_reconcile_total\{controller="host".*\} (\S+)$', said, re.MULTILINE
    )
    return sum(map(float, counts)) > 0


def recorded(host: Host) -> int:
    """Return how many drifts are on disk."""
    return host.text("/var/lib/nodemanager/drift.log").count('{"drift":')


def has_recorded(host: Host, count: int) -> bool:
    """Tell whether so many drifts are on disk."""
    return recorded(host) >= count


def reported(host: Host, count: int) -> dict[str, Any]:
    """Return what the API says of so many drifts; empty until it does."""
    found: dict[str, Any] = host.status().get("drift", {})
    return found if found.get("sequence") == count else {}


def events(host: Host) -> list[dict[str, Any]]:
    """Return the Events of drifts, in the order of their numbers."""
    found = host.api.call(lambda client: client.list(resource_of("Event"), Selection(NAMESPACE))).items
    mine = [
        one
        for one in found
        if one["reason"] == "DriftRepaired" and one["involvedObject"]["name"] == host.name
    ]
    return sorted(mine, key=lambda one: str(one["metadata"]["name"]))


def cut(host: Host, *, down: bool) -> None:
    """Cut the cable at its other end, so that the host gets no answer at all; or mend it."""
    namespace = host.machine.network.rpartition("/")[2]
    index = re.findall(r"eth0@if(\d+)", ip("-n", namespace, "-o", "link", "show", "eth0"))[0]
    other = re.findall(rf"^{index}: ([^@:]+)", ip("-o", "link"), re.MULTILINE)[0]
    ip("link", "set", other, "down" if down else "up")

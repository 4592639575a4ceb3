"""A host is upgraded as its ManagedNode says, and its agent is restarted in the middle of that.

Where the operator may drain, it begins that; where it may not, the host does.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from nodemanager.controllers import assembly
from nodemanager.kube import core
from support.fleet import Fleet, apt_repository, until

SECONDS = 240.0
IN_THE_MIDDLE = """\
touch /run/reboot-required
systemctl --no-block restart nodemanager
for _ in $(seq 100); do
    systemctl show --property=ActiveState nodemanager | grep -q deactivating && break
    sleep 0.1
done
"""


@pytest.fixture
def fleet(tmp_path: Any, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    with (
        apt_repository(tmp_path / "apt") as repository,
        Fleet.up(tmp_path, "alpha", repository=repository.repo) as fleet,
        fleet.watched(request) as found,
    ):
        repository.publish("app", "1.0")
        machine = found["alpha"].machine
        machine.run("apt-get", "update")
        machine.run("apt-get", "install", "-y", "app")
        repository.publish("app", "2.0", postinst=IN_THE_MIDDLE)
        yield found


@pytest.mark.parametrize("begins", ["operator", "host"])
def test_an_upgrade_whose_packages_restart_the_agent_and_need_a_reboot(fleet: Fleet, begins: str) -> None:
    host = fleet["alpha"]
    machine = host.machine
    if begins == "host":
        fleet.api.call(lambda client: client.delete(core.CLUSTER_ROLE_BINDINGS, assembly.DISRUPTION))
    before = machine.read("/proc/sys/kernel/random/boot_id")
    switch = threading.Thread(target=machine.follow_reboot, args=(SECONDS,), daemon=True)
    switch.start()
    if begins == "operator":
        # One whose first slot comes at once begins by itself, before any operator knows of it.
        host.join(spec={"upgrade": {"schedule": "0 0 29 2 *", "delay": "1h", "group": "web"}})
        until(lambda: host.status().get("upgrade", {}).get("asks"), "the host to ask its operator")
        upgrade = {"schedule": "* * * * * * *", "delay": "1h", "group": "web"}
        fleet.api.apply(fleet.api.managed_node(host.name, spec={"upgrade": upgrade}))
    else:
        host.join(spec={"upgrade": {"schedule": "* * * * * * *", "delay": "1h", "group": "web"}})
    until(lambda: host.status().get("lastUpgrade"), "the upgrade", SECONDS)
    switch.join()
    assert machine.read("/proc/sys/kernel/random/boot_id") != before
    assert machine.run("dpkg-query", "--show", "--showformat=${Version}", "app").stdout == "2.0"
    until(lambda: "holderIdentity" not in fleet.api.get("Lease", "web")["spec"], "the Lease given back")
    folder = "/var/lib/nodemanager/" + {"operator": "tasks", "host": "upgrades"}[begins]
    names = [one for one in machine.run("ls", folder).stdout.split() if one.endswith(".json")]
    entries = [json.loads(host.text(f"{folder}/{name}")) for name in names]
    if begins == "operator":
        done = next(one for one in entries if one["record"]["phase"] != "Expired")
        task = fleet.api.get("NodeTask", done["name"])
        assert (task["status"]["phase"], task["spec"]["reason"]["kind"]) == ("Succeeded", "ManagedNode")
    records = [one["record"] for one in entries]
    tried = [one for one in records if one["phase"] != "Expired"]  # it may have had to wait for its right
    assert [(one["phase"], one.get("message", "")) for one in tried] == [("Succeeded", "")]
    steps = tried[0]["steps"]
    assert [(one["phase"], one["attempts"]) for one in steps] == [("Succeeded", 1)] * 3
    assert steps[0]["evidence"]["app"] == "1.0 -> 2.0"

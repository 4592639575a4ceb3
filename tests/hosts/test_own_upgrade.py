"""A host upgrades itself as its ManagedNode says, and its agent is restarted in the middle of that."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

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


def test_an_upgrade_whose_packages_restart_the_agent_and_need_a_reboot(fleet: Fleet) -> None:
    host = fleet["alpha"]
    machine = host.machine
    before = machine.read("/proc/sys/kernel/random/boot_id")
    switch = threading.Thread(target=machine.follow_reboot, args=(SECONDS,), daemon=True)
    switch.start()
    host.join(spec={"upgrade": {"schedule": "* * * * * * *", "delay": "1h", "group": "web"}})
    until(lambda: host.status().get("lastUpgrade"), "the upgrade", SECONDS)
    switch.join()
    assert machine.read("/proc/sys/kernel/random/boot_id") != before
    assert machine.run("dpkg-query", "--show", "--showformat=${Version}", "app").stdout == "2.0"
    lease = fleet.api.get("Lease", "web")["spec"]
    assert "holderIdentity" not in lease
    names = machine.run("ls", "/var/lib/nodemanager/upgrades").stdout.split()
    records = [json.loads(host.text(f"/var/lib/nodemanager/upgrades/{name}"))["record"] for name in names]
    tried = [one for one in records if one["phase"] != "Expired"]  # it may have had to wait for its right
    assert [(one["phase"], one.get("message", "")) for one in tried] == [("Succeeded", "")]
    steps = tried[0]["steps"]
    assert [(one["phase"], one["attempts"]) for one in steps] == [("Succeeded", 1)] * 3
    assert steps[0]["evidence"]["app"] == "1.0 -> 2.0"

"""Operating systems: the contract, and what is special about each."""

from __future__ import annotations

import configparser

import pytest
import yaml

from nodemanager.api.edge import capabilities
from nodemanager.api.edge.profile_parts import ACTIVE_BACKUP, BALANCE_RR
from nodemanager.backends.errors import Unusable
from nodemanager.backends.systems import choosing, networkd, seam
from nodemanager.backends.systems.conventional import Debian, RhelLike
from nodemanager.backends.systems.kairos import Kairos
from nodemanager.backends.systems.seam import OperatingSystem
from nodemanager.host.edge import kairos as kairos_marks
from support import edge_profiles
from support.system_contract import FILES, SystemContract


@pytest.mark.parametrize("system", choosing.SYSTEMS.values(), ids=choosing.SYSTEMS)
class TestSystems(SystemContract):
    """All of them."""


def test_each_that_a_profile_may_name_is_there() -> None:
    assert set(choosing.SYSTEMS) == set(capabilities.SYSTEM.choices)
    assert all(name == one.name for name, one in choosing.SYSTEMS.items())


def test_kairos_writes_the_files_again_at_every_boot() -> None:
    plan = Kairos().network(FILES)
    *now, lasting = plan.files
    assert [one.path for one in now] == [f"/etc/systemd/network/{name}" for name in sorted(FILES)]
    assert lasting.path == "/oem/95_nodemanager_network.yaml"
    assert lasting.content.startswith("#cloud-config\n")
    (step,) = yaml.safe_load(lasting.content)["stages"]["initramfs"]
    assert [(one["path"], one["content"], one["permissions"]) for one in step["files"]] == [
        (one.path, one.content, 0o644) for one in now
    ]
    assert plan.checks == (("kairos-agent", "validate", lasting.path),)


def test_kairos_settings_count_from_the_next_boot_on() -> None:
    plan = Kairos().tuning({"vm.swappiness": "10"}, ["drbd"])
    assert (plan.effective, plan.commands) == (seam.NEXT_BOOT, ())
    assert [one.path for one in plan.files] == ["/oem/95_nodemanager_tuning.yaml"]


@pytest.mark.parametrize(
    ("printed", "kind", "good"),
    [
        ("active_boot\n", seam.ACTIVE, True),
        pytest.param("passive_boot", seam.FALLBACK, False, id="passive after an upgrade is one that failed"),
        ("recovery_boot", seam.RECOVERY, False),
        ("livecd_boot", seam.NOT_KNOWN, False),
        ("autoreset_boot", seam.NOT_KNOWN, False),
    ],
)
def test_kairos_boots(printed: str, kind: str, good: bool) -> None:
    found = Kairos().boot_entry(printed)
    assert (found.kind, found.good) == (kind, good)


@pytest.mark.parametrize("image", [*kairos_marks.ENTRIES, kairos_marks.UNKNOWN, "", "active_boot"])
def test_what_an_agent_sees_means_what_kairos_agent_would_say(image: str) -> None:
    found = Kairos().booted(image)
    assert found == Kairos().boot_entry(f"{image}_boot\n")
    assert found.good is (image == "active")


def test_kairos_upgrades_from_an_image_and_never_resets() -> None:
    command = Kairos().upgrade("quay.io/kairos/debian@sha256:abc")
    assert command == ("kairos-agent", "upgrade", "--source", "oci:quay.io/kairos/debian@sha256:abc")
    assert not [name for name in dir(Kairos) if "reset" in name]


def test_debian_loads_before_it_sets() -> None:
    plan = Debian().tuning({"vm.swappiness": "10"}, ["drbd"])
    assert plan.commands == (
        ("modprobe", "--", "drbd"),
        ("sysctl", "--load", "/etc/sysctl.d/95-nodemanager.conf"),
    )
    assert plan.effective == seam.NOW


def test_rhel_leaves_the_network_to_networkmanager() -> None:
    system: OperatingSystem = RhelLike()
    assert not isinstance(system, seam.PersistentNet)


@pytest.mark.parametrize("mode", [ACTIVE_BACKUP, BALANCE_RR])
def test_the_bond_of_a_profile_as_files(mode: str) -> None:
    network = edge_profiles.typed(edge_profiles.shipped("vx-rail")).spec.network
    assert network is not None
    files = networkd.bond_files(network, mode, ["eth1", "eth2"])
    read = {}
    for name, text in files.items():
        read[name] = configparser.ConfigParser(strict=False)
        read[name].read_string(text)
    assert read["10-bondstor.netdev"]["Bond"]["Mode"] == mode
    assert read["10-bondstor.netdev"]["Bond"]["MIIMonitorSec"] == "100ms"  # off unless somebody says so
    assert read["10-bondstor.network"]["Network"]["VLAN"] == "bondstor.100"
    assert read["10-bondstor.network"]["Network"]["KeepConfiguration"] == "static"
    assert read["20-bondstor.100.netdev"]["VLAN"]["Id"] == "100"
    preferred = read["10-bondstor-eth1.network"]["Network"].get("PrimarySlave")
    assert preferred == ("yes" if mode == ACTIVE_BACKUP else None)
    assert "PrimarySlave" not in read["10-bondstor-eth2.network"]["Network"]
    assert Debian().network(files).files  # and their names are those that may be written


@pytest.mark.parametrize("slaves", [[], ["eth1"], ["eth1", "eth1"], ["eth1", "x y"], ["eth1", "a" * 16]])
def test_a_bond_needs_two_links(slaves: list[str]) -> None:
    network = edge_profiles.typed(edge_profiles.shipped("vx-rail")).spec.network
    assert network is not None
    with pytest.raises(Unusable):
        networkd.bond_files(network, BALANCE_RR, slaves)

"""A flip of a bond that was made by the very files that `nodemanager edge bond` prints.

They name a primary card, which the new mode does not know: systemd-networkd of the guests reads them when the
bond has that mode already, and nothing is committed.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from support import cli
from support.fleet import until
from support.lab import figures, networkd
from support.lab.agents import AgentLab, AgentNode
from support.lab.delivery import SECONDS
from support.lab.flips import (
    AFTER,
    BEFORE,
    COMMIT,
    FLIP,
    LONG,
    REVERT,
    STAGE,
    arm,
    restart_networkd,
    succeeds,
)
from support.lab.site import BOND, NICS, VLAN, Site

_FILE = re.compile(r"^# (/etc/systemd/network/\S+) \(0644\)\n(.*?)(?=^# )", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What an administrator is told to write, by path, for a site of one node."""
    profile = yaml.safe_load(_said("edge", "profiles", "k3s-linstor"))
    vlans = [{"name": f"{BOND}.{VLAN}", "id": VLAN}]
    profile["spec"]["network"] = {"bond": BOND, "modes": {"single": BEFORE, "multi": AFTER}, "vlans": vlans}
    path: Path = tmp_path_factory.mktemp("profile") / "site.yaml"
    path.write_text(yaml.safe_dump(profile))
    links = [word for nic in NICS for word in ("--link", nic)]
    found = dict(_FILE.findall(_said("edge", "bond", "-f", str(path), *links)))
    assert any("PrimarySlave=yes" in text for text in found.values()), found
    assert any("KeepConfiguration=static" in text for text in found.values()), found
    return {one: text.rstrip("\n") + "\n" for one, text in found.items()}


def _said(*args: str) -> str:
    return subprocess.run([*cli.ARGV, *args], capture_output=True, text=True, timeout=300, check=True).stdout


@pytest.fixture
def nodes(lab: AgentLab, printed: dict[str, str]) -> list[AgentNode]:
    """Both guests with agents that run, and bonds as systemd-networkd made them of these files."""
    for number, node in enumerate(lab.nodes):
        address = networkd.files(number)["40-vlan.network"]  # which no profile has
        for path, text in {**printed, f"{networkd.FOLDER}/40-vlan.network": address}.items():
            node.guest.write(path, text)
        node.guest.run("networkctl", "reload")
        is_there(node)
        assert primary(node) == NICS[0]
    lab.start()
    return lab.nodes


def is_there(node: AgentNode) -> None:
    """Wait until the bond is as the printed files have it."""
    until(lambda: node.is_whole(BEFORE), f"the bond of {node.name}", SECONDS)


def primary(node: AgentNode) -> str:
    return node.guest.says("cat", f"/sys/class/net/{BOND}/bonding/primary")


def states(node: AgentNode) -> dict[str, str]:
    """Return what systemd-networkd says that it did with its links."""
    rows = [line.split() for line in node.guest.says("networkctl", "list", "--no-legend").splitlines()]
    return {row[1]: row[4] for row in rows if row[1] in (*NICS, BOND, f"{BOND}.{VLAN}")}


def files(node: AgentNode, printed: dict[str, str]) -> dict[str, str]:
    return {path: node.guest.read(path) for path in printed}


def all_heard(site: Site, when: str) -> None:
    """Have all packets arrive, either way."""
    lost = [site.loss(0), site.loss(1)]
    figures.note("bond_files", f"{when}: lost {lost[0]:.0%} and {lost[1]:.0%}")
    assert lost == [0, 0], when


def test_a_bond_of_printed_files_flips_stays_and_goes_back(
    nodes: list[AgentNode], site: Site, printed: dict[str, str]
) -> None:
    tasks = [node.give(STAGE, arm(LONG), FLIP) for node in nodes]
    for node, task in zip(nodes, tasks, strict=True):
        status = node.ended(task)
        assert status["phase"] == "Succeeded", status
        assert files(node, printed) == printed, "nothing is kept yet: a primary card is still named"
    for node in nodes:
        figures.note("bond_files", f"{node.name}, flipped, its files are the old ones: {states(node)}")
        restart_networkd(node)
        figures.note("bond_files", f"{node.name}, systemd-networkd restarted on them: {states(node)}")
        assert node.is_whole(AFTER)
        assert "failed" not in states(node).values(), "the kernel knows no primary card in this mode"
    all_heard(site, "flipped, and systemd-networkd restarted on the old files")
    for node in nodes:
        succeeds(node, COMMIT)
        now = files(node, printed)
        assert not any("PrimarySlave" in text for text in now.values())
        assert all("KeepConfiguration" in now[path] for path in printed if "KeepConf" in printed[path])
        restart_networkd(node)
        figures.note("bond_files", f"{node.name}, systemd-networkd restarted on the new ones: {states(node)}")
        assert node.is_whole(AFTER)
        assert "failed" not in states(node).values()
    all_heard(site, "committed, and systemd-networkd restarted on the new files")
    for node in nodes:
        succeeds(node, REVERT)
        is_there(node)
        assert (files(node, printed), primary(node)) == (printed, NICS[0])
        restart_networkd(node)
        assert (node.is_whole(BEFORE), primary(node)) == (True, NICS[0])
    until(lambda: site.loss(0, pings=10) == 0, "both ends hear each other again", SECONDS)
    all_heard(site, "put back")

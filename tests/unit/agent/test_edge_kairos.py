"""Steps on Kairos: files in /oem, also those of a bond as they are now, and programs of kairos-agent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from nodemanager.agent.edge.kairos_steps import KairosPrograms, argv_of
from nodemanager.agent.tasks.attempts import Attempt
from nodemanager.agent.tasks.programs import Programs
from nodemanager.api.maintenance.edge_steps import KairosStageAction, KairosUpgradeAction, OemFileAction
from nodemanager.backends.systems.kairos import Kairos
from nodemanager.host.base import HostError
from nodemanager.host.edge import bond_changes, oem
from nodemanager.host.files.tree import Tree
from nodemanager.host.process.runs import Runs
from nodemanager.plan.tasks.record import StepRecord
from support.edge_host import AFTER, BEFORE, BOND, NETDEV, EdgeHost
from support.kairos_host import KairosHost


def attempt(inverse: bytes = b"", timeout: float = 5) -> Attempt:
    return Attempt("uid/a/1", timeout, StepRecord(boot_id="1", inverse=inverse))


@pytest.fixture(name="host")
def _host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EdgeHost:
    monkeypatch.setattr(bond_changes, "SETTLE", 0.0)
    host = EdgeHost(tmp_path / "edge")
    host.make()
    return host


async def changed(host: EdgeHost, mode: str, primary: str = "", *, committed: bool = True) -> None:
    """Change the mode of the bond; that which it has already is found to be so."""
    await host.changes().stage(BOND, mode, "", primary)
    await host.changes().arm(BOND, mode, 300, mode)
    await host.changes().flip(BOND, mode, 30)
    if committed:
        await host.changes().commit(BOND, mode)


def written(kairos: KairosHost) -> dict[str, dict[str, Any]]:
    """Return what the file in /oem writes at boot, by path."""
    text = (kairos.root / "oem/95_bond.yaml").read_text()
    assert text.startswith("#cloud-config\n")
    (stage,) = json.loads(text.partition("\n")[2])["stages"]["initramfs"]
    return {one["path"]: one for one in stage["files"]}


def live(host: EdgeHost) -> dict[str, str]:
    return {f"/etc/systemd/network/{name}": text for name, text in host.files().items()}


OF_BOND = OemFileAction(name="95_bond.yaml", bond=BOND)


async def test_files_of_a_committed_bond_are_kept_over_a_boot(host: EdgeHost, tmp_path: Path) -> None:
    kairos = KairosHost(tmp_path / "kairos")
    writes = kairos.oem(host.changes())
    host.file("30-vlan.network", "[Match]\nName=bondstor.100\n")
    (host.root / "etc/systemd/network/10-bond.netdev").chmod(0o640)
    await changed(host, AFTER, committed=False)
    with pytest.raises(HostError, match="no change of it is committed"):
        await writes.perform(OF_BOND, attempt())
    await host.changes().commit(BOND, AFTER)
    await writes.perform(OF_BOND, attempt())
    found = written(kairos)
    assert {path: one["content"] for path, one in found.items()} == {
        path: text for path, text in live(host).items() if "vlan" not in path
    }, "the bond and its cards, as they are now; and nothing that is not about it"
    one = found["/etc/systemd/network/10-bond.netdev"]
    assert (one["permissions"], one["owner"], one["group"]) == (0o640, os.geteuid(), os.getegid())
    assert f"Mode={AFTER}" in one["content"]


async def test_a_change_that_finds_nothing_to_do_keeps_all_files_over_a_boot(
    host: EdgeHost, tmp_path: Path
) -> None:
    """As a task that is run again because its oemFile failed: everything before it is so already."""
    kairos = KairosHost(tmp_path / "kairos")
    await changed(host, AFTER)
    await changed(host, AFTER)
    await kairos.oem(host.changes()).perform(OF_BOND, attempt())
    assert f"Mode={AFTER}" in written(kairos)["/etc/systemd/network/10-bond.netdev"]["content"]


async def test_a_change_of_fewer_files_loses_none_of_those_that_were_changed_before(
    host: EdgeHost, tmp_path: Path
) -> None:
    kairos = KairosHost(tmp_path / "kairos")
    await changed(host, BEFORE, "eth2")
    await kairos.oem(host.changes()).perform(OF_BOND, attempt())
    first = written(kairos)
    assert "PrimarySlave=yes" in first["/etc/systemd/network/20-eth2.network"]["content"]
    await changed(host, "balance-alb")
    await kairos.oem(host.changes()).perform(OF_BOND, attempt())
    second = written(kairos)
    assert set(second) == set(first)
    assert "PrimarySlave=yes" in second["/etc/systemd/network/20-eth2.network"]["content"]
    assert "Mode=balance-alb" in second["/etc/systemd/network/10-bond.netdev"]["content"]


async def test_files_that_say_something_else_by_now_are_not_kept(host: EdgeHost, tmp_path: Path) -> None:
    writes = KairosHost(tmp_path / "kairos").oem(host.changes())
    await changed(host, AFTER)
    host.file("10-bond.netdev", NETDEV)
    with pytest.raises(HostError, match="they say active-backup, and not balance-rr"):
        await writes.perform(OF_BOND, attempt())
    path = host.root / "etc/systemd/network/10-bond.netdev"
    path.write_bytes(NETDEV.replace(BEFORE, AFTER).encode() + b"# \xff\n")
    with pytest.raises(HostError, match=r"10-bond.netdev is no text"):
        await writes.perform(OF_BOND, attempt())


async def test_files_of_the_image_need_nothing_to_be_there_at_boot(host: EdgeHost, tmp_path: Path) -> None:
    kairos = KairosHost(tmp_path / "kairos")
    vendor = host.root / "usr/lib/systemd/network/20-eth1.network"
    vendor.parent.mkdir(parents=True)
    (host.root / "etc/systemd/network/20-eth1.network").rename(vendor)
    drop_in = host.root / "etc/systemd/network/10-bond.netdev.d/site.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("[Bond]\nMIIMonitorSec=50ms\n")
    await changed(host, AFTER)
    await kairos.oem(host.changes()).perform(OF_BOND, attempt())
    assert sorted(one.removeprefix("/etc/systemd/network/") for one in written(kairos)) == [
        "10-bond.netdev", "10-bond.netdev.d/site.conf", "20-eth2.network"
    ]  # fmt: skip
    with pytest.raises(HostError, match="none of them is in /etc/systemd/network"):
        oem.of_bond(BOND, [])


def test_what_is_written_at_boot_is_yaml_whatever_stands_in_a_comment() -> None:
    """As libyaml reads it, and with it go-yaml: two halves of a character are no character."""
    content = "[Match]\nName=eth1\n# \U0001f600 café \u2028 \x85 \x7f \ufeff \t \"'\n"
    text = oem.of_bond(BOND, [oem.BootFile("/etc/systemd/network/20-eth1.network", content, 0o644, 0, 0)])
    (stage,) = yaml.load(text, yaml.CSafeLoader)["stages"]["initramfs"]
    assert [one["content"] for one in stage["files"]] == [content]
    assert json.loads(text.partition("\n")[2])["stages"]["initramfs"] == [stage]


async def test_a_file_in_oem_is_checked_and_written_once_and_taken_back(tmp_path: Path) -> None:
    host = KairosHost(tmp_path)
    writes, action = host.oem(), OemFileAction(name="95_bond.yaml", content="stages: {}\n")
    inverse = await writes.prepare(action)
    assert (await writes.perform(action, attempt(inverse))).changed
    assert (host.root / "oem/95_bond.yaml").read_text() == "stages: {}\n"
    assert not (await writes.perform(action, attempt(inverse))).changed
    assert len(host.calls()) == 1, "what is there already is not even checked"
    other = replace(action, content="stages: {boot: []}\n")
    second = await writes.prepare(other)
    await writes.perform(other, attempt(second))
    await writes.take_back(other, attempt(second))
    assert (host.root / "oem/95_bond.yaml").read_text() == "stages: {}\n"
    await writes.take_back(action, attempt(inverse))
    assert not (host.root / "oem/95_bond.yaml").exists()


async def test_what_was_there_is_put_back_whatever_kairos_agent_thinks_of_it(tmp_path: Path) -> None:
    host = KairosHost(tmp_path)
    path = host.root / "oem/95_bond.yaml"
    path.write_text("bad\n")
    path.chmod(0o640)
    writes, action = host.oem(), OemFileAction(name="95_bond.yaml", content="stages: {}\n")
    inverse = await writes.prepare(action)
    await writes.perform(action, attempt(inverse))
    (host.bin / "kairos-agent").unlink()
    assert (await writes.take_back(action, attempt(inverse))).succeeded
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("bad\n", 0o640)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"#" * (1024 * 1024)], ids=["no text", "too long"])
async def test_a_file_that_could_not_be_put_back_whole_is_not_replaced(
    tmp_path: Path, content: bytes
) -> None:
    host = KairosHost(tmp_path)
    (host.root / "oem/95_bond.yaml").write_bytes(content)
    action = OemFileAction(name="95_bond.yaml", content="stages: {}\n")
    with pytest.raises(HostError, match=r"cannot replace /oem/95_bond.yaml: it could not be put back"):
        await host.oem().prepare(action)
    assert (host.root / "oem/95_bond.yaml").read_bytes() == content


@pytest.mark.parametrize("name", ["../etc/passwd", "..", "/etc/passwd", "a/b.yaml", "-x.yaml", "x" * 300])
async def test_names_that_lead_out_of_oem(tmp_path: Path, name: str) -> None:
    action = OemFileAction(name=name, content="stages: {}\n")
    with pytest.raises(HostError, match="that is no name of a file in /oem"):
        await KairosHost(tmp_path).oem().prepare(action)


async def test_what_kairos_agent_refuses_is_not_written(tmp_path: Path) -> None:
    host = KairosHost(tmp_path)
    action = OemFileAction(name="95_bond.yaml", content="bad\n")
    with pytest.raises(OSError, match="cannot run kairos-agent validate"):
        await host.oem().perform(action, attempt())
    assert list((host.root / "oem").iterdir()) == []
    (host.root / "oem").rmdir()
    with pytest.raises(HostError, match="this host has no /oem, so it is no Kairos"):
        await host.oem().prepare(action)


async def test_an_upgrade_is_refused_on_a_host_that_fell_back(tmp_path: Path) -> None:
    host = KairosHost(tmp_path)
    runs = Runs(Tree("/"), None, host.run, str(host.root / "var/lib/nodemanager/task-runs"))
    writes = KairosPrograms(Programs(runs, "1"), str(host.root))
    upgrade = KairosUpgradeAction(source="oci:registry.example/os:v2")
    assert await writes.prepare(upgrade) == b""
    done = await writes.perform(upgrade, attempt(timeout=60))
    assert (done.succeeded, done.exit_code) == (True, 0), done.message
    assert host.calls() == ["upgrade --source oci:registry.example/os:v2"]
    assert (await writes.settle(upgrade, attempt(timeout=60))).succeeded
    assert len(host.calls()) == 1, "how it ended was noted: it is not run again"
    (host.root / "run/cos/active_mode").rename(host.root / "run/cos/passive_mode")
    with pytest.raises(HostError, match="has booted its passive image, as after a failed upgrade"):
        await writes.prepare(upgrade)
    assert await writes.prepare(replace(upgrade, recovery=True)) == b""
    assert await writes.prepare(KairosStageAction(stage="network")) == b""
    with pytest.raises(HostError, match="this host is no Kairos"):
        await KairosPrograms(Programs(runs, "1"), str(tmp_path / "none")).prepare(upgrade)


def test_what_kairos_agent_is_told_is_what_the_backend_says() -> None:
    image = "registry.example/os@sha256:abc"
    assert argv_of(KairosUpgradeAction(source=f"oci:{image}")) == list(Kairos().upgrade(image))


def test_what_kairos_agent_is_told() -> None:
    upgrade = KairosUpgradeAction(source="oci:x/y:1", recovery=True)
    assert argv_of(upgrade) == ["kairos-agent", "upgrade", "--source", "oci:x/y:1", "--recovery"]
    stage = KairosStageAction(stage="network", path="/oem/95_bond.yaml")
    assert argv_of(stage)[1:] == [
        "run-stage",
        "network",
        "--strict",
        "--cloud-init-paths",
        "/oem/95_bond.yaml",
    ]

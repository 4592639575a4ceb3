"""Files in /oem that write the same path: who has the last word at boot, and that no bond loses it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nodemanager.agent.edge.kairos_steps import TellingReverts
from nodemanager.agent.tasks.attempts import Attempt
from nodemanager.api.edge.profile_parts import ACTIVE_BACKUP, BALANCE_RR, SiteNetwork
from nodemanager.api.maintenance.edge_steps import OEM_NETWORK, BondRevertAction, OemFileAction
from nodemanager.backends.systems import kairos as kairos_system
from nodemanager.backends.systems import networkd
from nodemanager.backends.systems.kairos import Kairos
from nodemanager.host.base import HostError
from nodemanager.host.edge import bond_changes, bond_records, boot_writes
from nodemanager.plan.tasks.record import StepRecord
from support import edge_profiles
from support.edge_host import AFTER, BEFORE, BOND, EdgeHost
from support.kairos_host import KairosHost, alone

NETDEV_PATH = "/etc/systemd/network/10-bond.netdev"
OLD = {"path": NETDEV_PATH, "content": f"[Bond]\nMode={BEFORE}\n"}


def attempt() -> Attempt:
    return Attempt("uid/a/1", 5, StepRecord(boot_id="1"))


class Site:
    """A host that is Kairos, with a bond."""

    def __init__(self, folder: Path) -> None:
        self.host, self.kairos = EdgeHost(folder / "edge"), KairosHost(folder / "kairos")
        self.host.make()
        self.steps = self.kairos.oem(self.host.changes())

    def put(self, path: str, stages: Any) -> Path:
        target = self.kairos.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(stages if isinstance(stages, str) else json.dumps({"stages": stages}))
        return target

    async def flip(self, *, committed: bool = True) -> None:
        await self.host.changes().stage(BOND, AFTER, "", "")
        await self.host.changes().arm(BOND, AFTER, 300, "one")
        await self.host.changes().flip(BOND, AFTER, 30)
        if committed:
            await self.host.changes().commit(BOND, AFTER)

    async def keep(self, name: str = "", content: str = "") -> None:
        action = OemFileAction(name=name, content=content, bond="" if content else BOND)
        assert (await self.steps.perform(action, attempt())).succeeded

    def mode_kept(self, name: str = OEM_NETWORK) -> str:
        (last,) = [one for one in self.writes(name) if one.path == NETDEV_PATH]
        return "".join(line for line in (last.text or "").splitlines() if line.startswith("Mode="))

    def writes(self, name: str = OEM_NETWORK) -> list[boot_writes.BootWrite]:
        return boot_writes.said((self.kairos.root / "oem" / name).read_text(), f"/oem/{name}")


@pytest.fixture(name="site")
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(bond_changes, "SETTLE", 0.0)
    return Site(tmp_path)


async def test_a_name_that_what_was_printed_comes_after_is_refused(site: Site) -> None:
    """`95_bond.yaml` is before 95_nodemanager_network.yaml: the old mode would be back after a boot."""
    await site.flip()
    site.put(kairos_system.NETWORK, {"initramfs": [{"files": [OLD]}]})
    says = (
        rf"cannot have /oem/95_bond\.yaml write {NETDEV_PATH} at boot: /oem/{OEM_NETWORK} comes after it and"
        " writes the same"
    )
    with pytest.raises(HostError, match=says):
        await site.keep("95_bond.yaml")
    assert not (site.kairos.root / "oem/95_bond.yaml").exists()
    await site.keep()
    assert site.mode_kept() == f"Mode={AFTER}", "by default, it is the same file"


def test_what_is_printed_for_a_bond_and_what_a_step_writes_is_one_file() -> None:
    assert Path(kairos_system.NETWORK) == Path("/oem", OEM_NETWORK)


async def test_vlans_that_were_printed_stay_when_the_bond_is_another(site: Site) -> None:
    network = edge_profiles.typed(edge_profiles.shipped("vx-rail")).spec.network
    assert isinstance(network, SiteNetwork)
    files = networkd.bond_files(network, ACTIVE_BACKUP, ["eth1", "eth2"])
    files["10-bond.netdev"] = files.pop("10-bondstor.netdev")
    *_, printed = Kairos().network(files).files
    site.put(printed.path, printed.content)
    before = {one.path for one in site.writes()}
    await site.flip()
    await site.keep()
    first = (site.kairos.root / "oem" / OEM_NETWORK).read_text()
    assert before <= {one.path for one in site.writes()}
    assert "/etc/systemd/network/20-bondstor.100.netdev" in before
    assert site.mode_kept() == f"Mode={BALANCE_RR}"
    await site.keep()
    assert (site.kairos.root / "oem" / OEM_NETWORK).read_text() == first


async def test_whatever_else_is_in_the_file_stays(site: Site) -> None:
    await site.flip()
    site.put(
        f"/oem/{OEM_NETWORK}",
        f"#cloud-config\nname: ours\nstages:\n  boot:\n  - commands: [date]\n  - files: [{json.dumps(OLD)}]\n"
        f"  initramfs:\n  - files:\n    - {json.dumps(OLD)}\n    - {{path: /etc/motd, content: hello}}\n",
    )
    await site.keep()
    found = json.loads((site.kairos.root / "oem" / OEM_NETWORK).read_text().partition("\n")[2])
    assert (found["name"], found["stages"]["boot"]) == ("ours", [{"commands": ["date"]}])
    first, ours = found["stages"]["initramfs"]
    assert first == {"files": [{"path": "/etc/motd", "content": "hello"}]}
    assert ours["name"] == f"files of {BOND}"
    site.put(f"/oem/{OEM_NETWORK}", "stages: [\n")
    with pytest.raises(HostError, match=f"cannot read /oem/{OEM_NETWORK}"):
        await site.keep()


CASES = [
    pytest.param("/oem/96_site.yaml", {"initramfs": [{"files": [OLD]}]}, "writes", id="a later name"),
    pytest.param("/oem/zz/1.yml", {"initramfs": [{"files": [OLD]}]}, "writes", id="in a folder"),
    pytest.param("/oem/10_site.yaml", {"boot": [{"files": [OLD]}]}, "writes", id="in a later stage"),
    pytest.param("/oem/10_site.yaml", {"initramfs.after": [{"files": [OLD]}]}, "writes", id="after a stage"),
    pytest.param("/usr/local/cloud-config/1.yaml", {"initramfs": [{"files": [OLD]}]}, "writes", id="folder"),
    pytest.param(
        "/oem/96_site.yaml",
        {"initramfs": [{"commands": ["true", f"cp /oem/x {NETDEV_PATH}\necho"]}]},
        "may write", id="a command",
    ),
    pytest.param(
        "/oem/96_site.yaml",
        {"initramfs": [{"files": [{"path": "//etc/systemd/network/../network/10-bond.netdev"}]}]},
        "writes", id="by another way",
    ),
    pytest.param(
        "/oem/10_site.yaml", f"write_files:\n- path: {NETDEV_PATH}\n  content: x\n", "writes",
        id="cloud-init's words",
    ),
    pytest.param(
        "/oem/96_site.yaml", {"network": [{"downloads": [{"path": NETDEV_PATH, "url": "http://a/b"}]}]},
        "may write", id="a download",
    ),
    pytest.param("/oem/96_site.yaml", f"a: b: {NETDEV_PATH}\n", "may write", id="no YAML"),
    pytest.param("/oem/96_\udcff.yaml", {"initramfs": [{"files": [OLD]}]}, "writes", id="no text"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "stages", "says"), CASES)
async def test_who_has_the_last_word_instead_is_named(site: Site, path: str, stages: Any, says: str) -> None:
    await site.flip()
    site.put(path, stages)
    shown = path.encode("utf-8", "backslashreplace").decode()
    with pytest.raises(HostError, match=re.escape(f": {shown} comes after it and {says} the same")):
        await site.keep()


@pytest.mark.parametrize(
    ("path", "stages"),
    [
        pytest.param("/oem/10_site.yaml", {"initramfs": [{"files": [OLD]}]}, id="an earlier name"),
        pytest.param("/oem/96_site.yaml", {"rootfs": [{"files": [OLD]}]}, id="an earlier stage"),
        pytest.param("/oem/96_site.yaml", {"initramfs.before": [{"files": [OLD]}]}, id="before a stage"),
        pytest.param("/oem/96_site.yaml", {"after-upgrade": [{"files": [OLD]}]}, id="not at boot"),
        pytest.param("/oem/96_site.conf", {"initramfs": [{"files": [OLD]}]}, id="no file of Kairos"),
        pytest.param("/system/oem/99.yaml", {"initramfs": [{"files": [OLD]}]}, id="of the image"),
        pytest.param(
            "/oem/96_site.yaml",
            {"boot": [{"files": [{"path": f"{NETDEV_PATH}.d/1.conf"}],
                       "commands": [f"touch {NETDEV_PATH}.d/1.conf"]}]},
            id="another path",
        ),
        pytest.param("/oem/96_site.yaml", "stages: {boot: [1, {files: 7}], initramfs: 3}\n# 10-bond.netdev",
                     id="nonsense"),
    ],
)  # fmt: skip
async def test_others_are_left_alone(site: Site, path: str, stages: Any) -> None:
    await site.flip()
    site.put(path, stages)
    await site.keep()
    assert site.mode_kept() == f"Mode={AFTER}"


async def test_a_path_that_is_not_of_the_bond_may_be_overwritten(site: Site) -> None:
    """What else is in the file was so before."""
    await site.flip()
    motd = [{"files": [{"path": "/etc/motd", "content": "hello"}]}]
    site.put(f"/oem/{OEM_NETWORK}", {"initramfs": motd})
    site.put("/oem/96_site.yaml", {"initramfs": motd})
    await site.keep()


async def test_content_has_to_have_the_last_word_too(site: Site) -> None:
    site.put("/oem/96_site.yaml", {"initramfs": [{"files": [{"path": "/etc/motd", "content": "site"}]}]})
    text = "stages:\n  {}:\n  - files: [{{path: /etc/motd, content: hello}}]\n"
    with pytest.raises(HostError, match=r"cannot have /oem/95_motd.yaml write /etc/motd at boot"):
        await site.keep("95_motd.yaml", text.format("initramfs"))
    await site.keep("97_motd.yaml", text.format("initramfs"))
    await site.keep("95_motd.yaml", text.format("boot"))


async def test_what_is_too_much_is_not_taken_for_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.flip()
    site.put("/oem/96_site.yaml", "# " + "x" * 100)
    monkeypatch.setattr(boot_writes, "_MAX_BYTES", 99)
    with pytest.raises(HostError, match=r"cannot tell what is written at boot: .* has more than 99 bytes"):
        await site.keep()
    monkeypatch.setattr(boot_writes, "_MAX_FILES", 0)
    with pytest.raises(HostError, match="cannot tell what is written at boot: /oem has more than 0 files"):
        await site.keep()


# Put back


async def test_files_that_were_put_back_are_kept_over_a_boot_too(site: Site) -> None:
    await site.flip()
    await site.keep()
    await site.host.changes().revert(BOND)
    assert site.mode_kept() == f"Mode={AFTER}"
    await site.keep()
    assert site.mode_kept() == f"Mode={BEFORE}"


async def test_what_a_dead_man_put_back_is_kept_and_what_is_not_back_yet_is_not(site: Site) -> None:
    await site.flip(committed=False)
    record = site.host.changes().record(BOND)
    assert record.take(bond_records.REVERTED)
    with pytest.raises(HostError, match="no change of it is committed, or wholly put back"):
        await site.keep()
    await site.host.changes().revert(BOND)
    (record.path / "reverted").rename(record.path / "fired")
    await site.keep()
    assert site.mode_kept() == f"Mode={BEFORE}"


async def test_a_revert_tells_what_a_boot_would_make_of_the_bond(site: Site) -> None:
    await site.flip()
    host = site.host
    reverts = TellingReverts(host.changes(), alone, lambda: None)

    async def told() -> str:
        done = await reverts.perform(BondRevertAction(bond=BOND), attempt())
        assert (done.succeeded, done.evidence["modeAfter"]) == (True, BEFORE)
        return done.evidence.get("oem", "")

    assert await told() == "", "it is no Kairos"
    target = host.root / "oem/95_bond.yaml"
    target.parent.mkdir()
    assert await told() == ""
    new = {"path": NETDEV_PATH, "content": f"[Bond]\nMode={AFTER}\n"}
    target.write_text(json.dumps({"stages": {"initramfs": [{"files": [new]}]}}))
    assert await told() == "/oem/95_bond.yaml makes it balance-rr at the next boot: do oemFile again"
    target.with_name("96.yaml").write_text(json.dumps({"stages": {"initramfs": [{"files": [OLD]}]}}))
    assert await told() == ""
    target.with_name("97.yaml").write_text(f"stages:\n  boot:\n  - commands: [rm {NETDEV_PATH}]\n")
    assert "/oem/97.yaml makes it nobody knows what at the next boot" in await told()
    other = "no-such-bond"
    assert (await reverts.perform(BondRevertAction(bond=other), attempt())).succeeded


def test_when_a_stage_is() -> None:
    def rank(stage: str) -> int:
        found = boot_writes.moment("/oem/1.yaml", stage)
        return -9 if found is None else found.stage

    assert rank("initramfs.before") < rank("initramfs") < rank("initramfs.after") < rank("boot.before")
    assert [rank(one) for one in ("after-upgrade", "initramfs.soon", "", "boot.after.before")] == [-9] * 4

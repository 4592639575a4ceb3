"""What is seen of links, bonds, VLANs, DRBD 8.4 and 9, and Kairos: captured texts, and what fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.api.common.edge_state import (
    MAX_RESOURCES,
    DrbdPeer,
    DrbdPeerVolume,
    DrbdResource,
    DrbdVolume,
    EdgeState,
)
from nodemanager.host.base import HostError, How
from nodemanager.host.edge import drbd, drbd_9, drbd_84, kairos, links, observing
from nodemanager.host.process.runner import CommandNotFound, Completed
from support import cases

CASES = cases.FOLDER / "edge"


def files(folder: str) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in sorted((CASES / folder).glob("*.yaml"))]


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


class Programs:
    """Answers by the program's first two words; one that is not there is not there."""

    def __init__(self, **answers: bytes) -> None:
        self.answers = answers
        self.ran: list[tuple[str, ...]] = []

    async def __call__(self, argv: Sequence[str], **how: Unpack[How]) -> Completed:
        assert how["timeout"] > 0
        self.ran.append(tuple(argv))
        if argv[0] not in self.answers:
            raise CommandNotFound(f"cannot run {argv[0]}: it is not there")
        return Completed(tuple(argv), 0, self.answers[argv[0]], b"")


@pytest.mark.parametrize("path", files("drbd84"))
async def test_drbd_84(path: Path, tmp_path: Path) -> None:
    case = read(path)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/drbd").write_text(case["proc"])
    found = await drbd.observe(tmp_path, Programs(drbdsetup=case["names"].encode()))
    assert found is not None
    assert (found.version, found.error) == ("8.4.11", "")
    assert (
        msgspec.to_builtins(drbd_84.parse(case["proc"], drbd_84.parse_names(case["names"])))
        == (case["resources"])
    )
    assert drbd.unclean(drbd_84.parse(case["proc"], drbd_84.parse_names(case["names"]))[0]) == case["unclean"]


@pytest.mark.parametrize("path", files("drbd9"))
async def test_drbd_9(path: Path, tmp_path: Path) -> None:
    case = read(path)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/drbd").write_text("version: 9.1.7 (api:2/proto:110-121)\nGIT-hash: 0\n")
    run = Programs(drbdsetup=case["status"].encode())
    found = await drbd.observe(tmp_path, run)
    assert found is not None
    assert (found.version, found.error) == ("9.1.7", "")
    assert msgspec.to_builtins(found.resources) == case["resources"]
    assert [drbd.unclean(one) for one in found.resources] == case["unclean"]
    assert run.ran == [drbd_9.STATUS]


async def test_no_module_is_no_drbd_and_no_process(tmp_path: Path) -> None:
    run = Programs()
    assert await drbd.observe(tmp_path, run) is None
    assert run.ran == []
    with pytest.raises(HostError, match="its module is not loaded"):
        await drbd.resources(tmp_path, run)


@pytest.mark.parametrize(
    ("proc", "answers", "said"),
    [
        pytest.param("version: 9.1.7 (api:2)\n", {}, "drbdsetup: it is not there", id="no tool"),
        pytest.param("version: 9.1.7 (api:2)\n", {"drbdsetup": b'[{"name":'}, "cannot read DRBD", id="cut"),
        pytest.param("version: 9.1.7 (api:2)\n", {"drbdsetup": b'[{"name": 7}]'}, "str", id="no name"),
        pytest.param("something else\n", {}, "cannot tell which DRBD this is", id="no version"),
    ],
)
async def test_what_cannot_be_read_is_said_and_never_empty_health(
    tmp_path: Path, proc: str, answers: dict[str, bytes], said: str
) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/drbd").write_text(proc)
    found = await drbd.observe(tmp_path, Programs(**answers))
    assert found is not None
    assert said in found.error
    assert found.resources == []


async def test_84_without_its_tool_has_a_state_without_names(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/drbd").write_text(read(CASES / "drbd84/established.yaml")["proc"])
    found = await drbd.observe(tmp_path, Programs())
    assert found is not None
    assert [one.name for one in found.resources] == ["minor-0"]
    assert drbd.unclean(found.resources[0]) == ""


def test_of_too_many_resources_those_that_are_unwell_are_told() -> None:
    def resource(number: int, *, well: bool) -> DrbdResource:
        there = DrbdPeerVolume(replication="Established", disk="UpToDate", out_of_sync=0 if well else 4,
                               resync_suspended="no")  # fmt: skip
        peer = DrbdPeer(name="b", connection="Connected", volumes=[there] * 40)
        disks = [DrbdVolume(disk="UpToDate")] * 40
        return DrbdResource(name=f"r{number:04}", suspended="no", volumes=disks, peers=[peer] * 40)

    many = [resource(one, well=one != 999) for one in range(1000)]
    state = drbd.bounded("9.1.7", many)
    assert "r0999" in {one.name for one in state.resources}
    assert state.omitted == 1000 - len(state.resources)
    assert len(state.resources) > 1
    assert len(msgspec.json.encode(state)) < 300_000, "it fits into an object beside all else"
    small = [msgspec.structs.replace(one, peers=[], volumes=[]) for one in many]
    assert len(drbd.bounded("9.1.7", small).resources) == MAX_RESOURCES


@pytest.mark.parametrize(
    ("unwell", "well", "omitted", "of_these"),
    [(0, MAX_RESOURCES, 0, None), (200, 0, 72, 72), (200, 100, 172, 72), (100, 100, 72, 0), (1, 200, 73, 0)],
)
def test_of_those_that_are_left_out_it_is_told_how_many_are_unwell(
    unwell: int, well: int, omitted: int, of_these: int | None
) -> None:
    found = [
        DrbdResource(name=f"r{number:04}", suspended="no",
                     peers=[DrbdPeer(name="b", connection="Connected" if number >= unwell else "Connecting")])
        for number in range(unwell + well)
    ]  # fmt: skip
    state = drbd.bounded("9", found[::-1])
    assert (state.omitted, state.omitted_unwell) == (omitted, of_these)
    assert sum(bool(drbd.unclean(one)) for one in state.resources) == min(unwell, MAX_RESOURCES)


def test_a_resource_without_a_peer_is_not_replicated() -> None:
    assert drbd.unclean(DrbdResource(name="r1", suspended="no")) == "r1 has no peer"


@given(st.text(alphabet=" :/0123456789abcsoruntCdUk-\n\t'%()", max_size=400))
def test_any_text_is_read_or_left_out(text: str) -> None:
    for one in drbd_84.parse(text, drbd_84.parse_names(text)):
        assert one.name
        assert len(one.peers) == 1


def make(root: Path, case: dict[str, Any]) -> None:
    for name, text in case.get("files", {}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name, target in case.get("symlinks", {}).items():
        (root / name).symlink_to(target)


@pytest.mark.parametrize("path", files("links"))
async def test_links(path: Path, tmp_path: Path) -> None:
    case = read(path)
    make(tmp_path, case)
    run = Programs(ip=case["ip"].encode()) if "ip" in case else Programs()
    found = await links.observe(tmp_path, run)
    assert msgspec.to_builtins(found.links) == case["links"]
    assert msgspec.to_builtins(found.bonds) == case["bonds"]
    assert msgspec.to_builtins(found.vlans) == case["vlans"]
    by_proc = "proc/net/vlan/config" in case["files"]
    assert run.ran == ([] if by_proc else [links.SHOW_VLANS])


def test_no_such_bond(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot read bond bond9: there is no such bond"):
        links.read_bond(tmp_path, "bond9")


@pytest.mark.parametrize(
    ("sentinels", "release", "entry"),
    [
        pytest.param(["active_mode"], 'KAIROS_VERSION="v3.1.2"\n', "active", id="active"),
        pytest.param(["passive_mode"], "KAIROS_VERSION=v3.1.2\n", "passive", id="fell back"),
        pytest.param(["recovery_mode", "uki_boot_mode"], "KAIROS_RELEASE='v3.1.2'\n", "recovery", id="uki"),
        pytest.param([], "KAIROS_VERSION=v3.1.2\n", "unknown", id="nothing said"),
        pytest.param(["active_mode", "passive_mode"], "KAIROS_VERSION=v3.1.2\n", "unknown", id="both"),
    ],
)
def test_kairos(tmp_path: Path, sentinels: list[str], release: str, entry: str) -> None:
    case = {"files": {"etc/kairos-release": release, **{f"run/cos/{one}": "1" for one in sentinels}}}
    make(tmp_path, case)
    found = kairos.observe(tmp_path)
    assert found is not None
    assert (found.entry, found.version) == (entry, "v3.1.2")
    assert found.uki == ("uki_boot_mode" in sentinels)


def test_another_system_has_no_boot_entries(tmp_path: Path) -> None:
    make(tmp_path, {"files": {"etc/os-release": "ID=debian\n"}})
    assert kairos.observe(tmp_path) is None


async def test_all_together_on_a_host_that_has_nothing(tmp_path: Path) -> None:
    run = Programs()
    assert await observing.observe(tmp_path, run) == EdgeState()
    assert run.ran == []

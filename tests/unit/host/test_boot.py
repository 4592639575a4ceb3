"""Boot IDs, ways to reboot, FreeBSD's base system, and the time zone: what is said to whom."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nodemanager.host.base import NotSupported, ToolFailed
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory.boot import HostBoot, parse_boot_time, reboot_command
from nodemanager.host.inventory.freebsd_update import upgrade_base
from nodemanager.host.inventory.timezone import local_zone, zone_of
from nodemanager.host.process.runner import MAX_OUTPUT, Completed, run


def fixed_zone(seconds: int, name: bytes) -> bytes:
    """Return a time zone file, of version 2, of a zone that never changes its clocks."""
    head = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, len(name) + 1)
    body = struct.pack(">lbb", seconds, 0, 0) + name + b"\0"
    return (head + body) * 2 + b"\n\n"


TEN_HOURS_EAST = fixed_zone(36000, b"TST")


class Answers:
    """A runner that answers what it is told, in order, and remembers what was asked."""

    def __init__(self, *answers: tuple[int, bytes]) -> None:
        self.asked: list[tuple[str, ...]] = []
        self._answers = list(answers)

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout: float,
        max_output: int = MAX_OUTPUT,
        cwd: str | None = None,
        finish: bool = False,
        bounded: bool = False,
    ) -> Completed:
        self.asked.append(tuple(argv))
        code, text = self._answers.pop(0)
        return Completed(tuple(argv), code, text, b"")


async def test_the_boot_id_of_this_host_stays_the_same() -> None:
    boot = HostBoot(run, system="linux")
    assert await boot.boot_id() == await boot.boot_id() != ""


async def test_freebsd_has_a_boot_time_instead() -> None:
    said = b"{ sec = 1765432100, usec = 123456 } Thu Dec 11 05:48:20 2025\n"
    assert await HostBoot(Answers((0, said)), system="freebsd14").boot_id() == "1765432100"
    with pytest.raises(NotSupported, match="cannot tell one boot from the next"):
        parse_boot_time("yesterday")


@pytest.mark.parametrize(
    ("system", "there", "argv"),
    [
        ("linux", {"/run/systemd/system", "/sbin/reboot"}, ["systemctl", "reboot"]),
        ("linux", {"/sbin/reboot"}, ["reboot"]),
        ("freebsd14", {"/sbin/reboot"}, ["shutdown", "-r", "now"]),
    ],
    ids=["systemd", "OpenRC", "FreeBSD"],
)
def test_how_to_reboot(system: str, there: set[str], argv: list[str]) -> None:
    assert reboot_command(system, there.__contains__) == argv


def test_a_host_that_cannot_reboot_says_so() -> None:
    with pytest.raises(NotSupported, match="cannot reboot"):
        reboot_command("linux", lambda _: False)


@pytest.mark.parametrize(
    ("answers", "changed"), [([(0, b""), (0, b"")], True), ([(0, b""), (2, b"No updates\n")], False)]
)
async def test_the_base_system(answers: list[tuple[int, bytes]], changed: bool) -> None:
    runner = Answers(*answers)
    assert await upgrade_base(runner) is changed
    assert [argv[-1] for argv in runner.asked] == ["fetch", "install"]


@pytest.mark.parametrize("answers", [[(1, b"no mirror")], [(0, b""), (1, b"no mirror")]])
async def test_a_base_system_that_cannot_be_upgraded(answers: list[tuple[int, bytes]]) -> None:
    with pytest.raises(ToolFailed, match="ended with 1: no mirror"):
        await upgrade_base(Answers(*answers))


def test_the_time_zone_is_that_of_the_host(tmp_path: Path) -> None:
    zone = local_zone({"TZ": "Europe/Berlin"}, "/nowhere")
    assert datetime(2026, 7, 1, 12, tzinfo=UTC).astimezone(zone).hour == 14
    assert datetime(2026, 12, 1, 12, tzinfo=UTC).astimezone(zone).hour == 13
    assert local_zone({"TZ": "Not/AZone"}, str(tmp_path / "missing")) is UTC
    broken = tmp_path / "localtime"
    broken.write_bytes(b"no zone")
    assert local_zone({}, str(broken)) is UTC


async def test_a_host_is_rebooted_by_what_runs_there_and_not_here(tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    answers = Answers((0, b""))
    await HostBoot(answers, system="linux", root=str(tmp_path)).reboot()
    assert answers.asked == [("systemctl", "reboot")]


def test_the_zone_of_another_root_is_read_there(tmp_path: Path) -> None:
    """Links lead on inside of the root, also absolute ones."""
    zone = tmp_path / "usr/share/zoneinfo/Test"
    zone.parent.mkdir(parents=True)
    assert zone_of(Tree(str(tmp_path))) == UTC
    zone.write_bytes(TEN_HOURS_EAST)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/localtime").symlink_to("/usr/share/zoneinfo/Alias")
    (zone.parent / "Alias").symlink_to("Test")
    assert datetime(2026, 1, 1, tzinfo=zone_of(Tree(str(tmp_path)))).utcoffset() == timedelta(hours=10)
    (zone.parent / "Alias").unlink()
    (zone.parent / "Alias").symlink_to("Alias")
    assert zone_of(Tree(str(tmp_path))) == UTC

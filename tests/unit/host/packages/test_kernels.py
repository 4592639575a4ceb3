"""Whether a reboot is needed, by the kernels that are installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodemanager.host.files.tree import Tree
from nodemanager.host.packages import kernels
from nodemanager.host.packages.apt import Apt
from nodemanager.host.packages.common import PackageContext
from support.replayed_tools import ReplayedTools


@pytest.mark.parametrize(
    ("running", "installed", "reason"),
    [
        pytest.param("6.1.0-9-amd64", ["6.1.0-9-amd64"], "", id="the only one"),
        pytest.param("6.1.0-9-amd64", [], "", id="none is installed: a container"),
        pytest.param(
            "6.1.0-9-amd64",
            ["6.1.0-10-amd64", "6.1.0-9-amd64"],
            "kernel 6.1.0-10-amd64 is installed, 6.1.0-9-amd64 is running",
            id="a newer one, by number",
        ),
        pytest.param("6.1.0-10-amd64", ["6.1.0-10-amd64", "6.1.0-9-amd64"], "", id="an older one is kept"),
        pytest.param("6.1.0-9-amd64", ["6.1.0-10-cloud-amd64", "6.1.0-9-amd64"], "", id="another flavour"),
        pytest.param(
            "6.9.6-arch1-1",
            ["6.9.7-arch1-1"],
            "the running kernel 6.9.6-arch1-1 is not installed any more; 6.9.7-arch1-1 is",
            id="replaced",
        ),
        pytest.param("6.7.0-rc1", ["6.7.0-rc1", "6.7.0-rc1"], "", id="a candidate"),
    ],
)
def test_outdated(running: str, installed: list[str], reason: str) -> None:
    assert kernels.outdated(running, installed) == reason


async def test_debian_says_so_itself_and_names_the_packages(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    apt = Apt(PackageContext(Tree(str(tmp_path)), ReplayedTools(tmp_path).run))
    assert await apt.reboot_needed() == ""
    (tmp_path / "run/reboot-required").touch()
    assert await apt.reboot_needed() == "/run/reboot-required is there"
    (tmp_path / "run/reboot-required.pkgs").write_text("linux-image-6.1.0-10-amd64\nlibc6\nlibc6\n")
    reason = "/run/reboot-required is there, because of libc6, linux-image-6.1.0-10-amd64"
    assert await apt.reboot_needed() == reason

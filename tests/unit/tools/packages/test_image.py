"""The container image of the static program: what a container runtime reads of it."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from tools.packages import image
from tools.packages.contents import Program

from support import oci_image


def program(folder: Path, target: str = "linux-amd64") -> Program:
    (folder / "program").write_bytes(b"\x7fELF, or so")
    return Program(folder / "program", target, "1.2.3", 1700000000, {"thing-1.LICENSE": b"do as you like\n"})


@pytest.mark.parametrize(
    ("target", "platform"),
    [
        ("linux-amd64", {"os": "linux", "architecture": "amd64"}),
        ("linux-arm64", {"os": "linux", "architecture": "arm64"}),
        ("linux-arm", {"os": "linux", "architecture": "arm", "variant": "v7"}),
    ],
)
def test_an_index_leads_to_one_image_for_one_platform(
    target: str, platform: dict[str, str], tmp_path: Path
) -> None:
    file = image.build(program(tmp_path, target), tmp_path)
    assert file.name == f"nodemanager-1.2.3-{target}.oci.tar"
    with tarfile.open(file) as archive:
        layout, index = (archive.extractfile(name) for name in ("oci-layout", "index.json"))
        assert layout is not None
        assert index is not None
        assert json.loads(layout.read()) == {"imageLayoutVersion": "1.0.0"}
        (described,) = json.loads(index.read())["manifests"]
    assert described["platform"] == platform
    config = oci_image.unpack(file, tmp_path / "root").config
    assert {key: config[key] for key in platform} == platform


def test_nobody_runs_the_program_and_nothing_else_is_there(tmp_path: Path) -> None:
    found = oci_image.unpack(image.build(program(tmp_path), tmp_path), tmp_path / "root")
    files = {path.relative_to(found.root).as_posix() for path in found.root.rglob("*") if path.is_file()}
    assert files == {
        "etc/group", "etc/passwd", "usr/bin/nodemanager", "usr/share/licenses/nodemanager/thing-1.LICENSE",
    }  # fmt: skip
    assert (found.root / "usr/bin/nodemanager").stat().st_mode & 0o7777 == 0o755
    assert found.config["config"]["User"] == "65532:65532"
    assert found.config["config"]["Entrypoint"] == ["/usr/bin/nodemanager"]
    assert found.config["created"] == "2023-11-14T22:13:20Z"

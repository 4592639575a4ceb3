"""For which processor programs are, on hosts whose kernel is of another one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.init import executable as fitness
from nodemanager.host.self_update import assembly, processors, program_file
from support.executables import executable

ARM = {"machine": 40, "wide": False}
ARM64 = {"machine": 183, "wide": True}
AMD64 = {"machine": 62, "wide": True}


@pytest.mark.parametrize(
    ("program", "machine", "arch"),
    [
        pytest.param(ARM, "aarch64", "arm", id="32 bits on a kernel of 64"),
        pytest.param(ARM, "armv8l", "arm", id="32 bits, and the kernel says so"),
        pytest.param(ARM, "armv7l", "arm", id="arm"),
        pytest.param(ARM64, "aarch64", "arm64", id="arm64"),
        pytest.param(AMD64, "amd64", "amd64", id="FreeBSD"),
        pytest.param({"machine": 243, "wide": True}, "riscv64", "riscv64", id="one that nobody releases"),
    ],
)
def test_a_program_says_itself_what_it_is_for(
    tmp_path: Path, program: dict[str, int], machine: str, arch: str
) -> None:
    path = executable(tmp_path / "nodemanager", program["machine"], wide=bool(program["wide"]))
    assert processors.of_program(str(path), machine) == arch
    program_file.check_head(path.read_bytes(), arch)  # another one of its kind may take its place


@pytest.mark.parametrize(("machine", "arch"), [("aarch64", "arm64"), ("armv8l", "arm"), ("x86_64", "amd64")])
def test_of_a_script_the_machine_says_it(tmp_path: Path, machine: str, arch: str) -> None:
    path = tmp_path / "manager"
    assert processors.of_program(str(path), machine) == arch
    path.write_text("#!/bin/sh\n# nodemanager\n")
    assert processors.of_program(str(path), machine) == arch


@pytest.mark.parametrize(("program", "arch"), [(ARM, "arm64"), (ARM64, "arm"), (AMD64, "arm")])
def test_a_program_for_another_processor_is_refused(
    tmp_path: Path, program: dict[str, int], arch: str
) -> None:
    path = executable(tmp_path / "nodemanager", program["machine"], wide=bool(program["wide"]))
    with pytest.raises(HostError, match=f"it is for another kind of processor than {arch}"):
        program_file.check_head(path.read_bytes(), arch)


def test_a_processor_of_the_same_family_and_another_width_is_another_one(tmp_path: Path) -> None:
    path = executable(tmp_path / "nodemanager", 62, wide=False)  # x32
    with pytest.raises(HostError, match="another kind of processor"):
        program_file.check_head(path.read_bytes(), "amd64")


def test_an_upgrade_is_to_a_program_for_what_the_old_one_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, manager, runner = executable(tmp_path / "nodemanager", 40, wide=False), Any, Any
    monkeypatch.setattr(assembly, "init_of", lambda _: "systemd")
    monkeypatch.setattr(fitness, "check", lambda *_: None)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "pi", "6.12", "", "aarch64")))
    made: Any = assembly.upgrader(Tree("/"), str(tmp_path), str(path), manager, runner)  # type: ignore[arg-type]
    assert made.stager.arch == "arm"

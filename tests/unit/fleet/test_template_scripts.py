"""The scripts of the shipped templates do what they say, with tools that note how they are called."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support import template_scripts
from support.template_scripts import REQUIRED, ScriptCase, ScriptHost

SCRIPTS = [
    pytest.param(argv[argv.index("-c") + 1], id=f"{name}: {program}")
    for name in template_scripts.shipped()
    for program, (argv, _) in template_scripts.programs_of(name, REQUIRED.get(name, {})).items()
]


@pytest.mark.parametrize("case", template_scripts.cases())
def test_script(case: ScriptCase, tmp_path: Path) -> None:
    host = ScriptHost(tmp_path)
    host.give(case)
    ended = host.run(case)
    said = ended.stdout + ended.stderr
    assert ended.returncode == case.expect["exit"], said
    for text in case.expect.get("says", []):
        assert text in said
    assert host.calls == case.expect.get("calls", host.calls)
    assert host.calls[-1:] == [case.expect.get("last", "".join(host.calls[-1:]))][: len(host.calls)]
    assert not [one for one in host.calls if one.split()[0] in case.expect.get("never", [])]
    for name, text in case.expect.get("holds", {}).items():
        assert (host.root / name[1:]).read_text() == text
    for name in case.expect.get("absent", []):
        assert not (host.root / name[1:]).exists()
    if 64 <= ended.returncode <= 78 and case.template != "fstrim":  # codes of ours, as in sysexits.h
        assert "cannot " in said


@pytest.mark.parametrize("script", SCRIPTS)
def test_shells_can_read_it(script: str) -> None:
    for shell in filter(shutil.which, ("dash", "bash", "busybox")):
        argv = [shell, "sh", "-n"] if shell == "busybox" else [shell, "-n"]
        assert subprocess.run(argv, input=script, text=True, capture_output=True, check=False).stderr == ""


@pytest.mark.parametrize("script", SCRIPTS)
def test_shellcheck_has_nothing_to_say(script: str) -> None:
    if (shellcheck := shutil.which("shellcheck")) is None:
        pytest.skip("there is no shellcheck here")
    done = subprocess.run(
        [shellcheck, "-s", "sh", "-"], input=script, text=True, capture_output=True, check=False
    )
    assert done.stdout == ""


def test_every_script_has_cases() -> None:
    seen = {(one.values[0].template, one.values[0].program) for one in template_scripts.cases()}
    wanted = {
        (name, program)
        for name in template_scripts.shipped()
        for program in template_scripts.programs_of(name, REQUIRED.get(name, {}))
    }
    assert seen == wanted

"""bin/manager with a small program in it: unpacked once, replaced while it runs, swept when not in use."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import scripts

ROOT = Path(__file__).resolve().parents[3]
MAIN = """\
import os, sys

def main():
    print(sys.argv[0], *sys.argv[1:], sys.flags.isolated, sys.flags.no_site, flush=True)
    sys.stdin.readline()
    from nodemanager import late
    print(late.WORD, sorted(name for name in os.environ if name.startswith("NODEMANAGER")))
"""


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


class Program:
    """A file that can be built anew, and the folder that it unpacks itself to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "bin/manager"
        self.cache = folder / "cache"

    def build(self, word: str) -> None:
        from tools import binary

        site = self.folder / "site"
        shutil.rmtree(site, ignore_errors=True)
        (site / "nodemanager/cli").mkdir(parents=True)
        (site / "nodemanager/cli/main.py").write_text(MAIN)
        (site / "nodemanager/late.py").write_text(f"WORD = {word!r}\n")
        (site / "nodemanager-1.dist-info").mkdir()
        (site / "nodemanager-1.dist-info/RECORD").write_text(str(site))
        binary.build(site, self.file)

    def start(self, *args: str, **variables: str) -> subprocess.Popen[str]:
        env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(self.folder)}
        env |= {"NODEMANAGER_CACHE": str(self.cache), **variables}
        return subprocess.Popen(
            [str(self.file), *args], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, *args: str, **variables: str) -> list[str]:
        with self.start(*args, **variables) as process:
            return process.communicate("\n", timeout=30)[0].splitlines()

    def versions(self) -> list[str]:
        return sorted(path.name for path in self.cache.iterdir())


@pytest.fixture
def program(tmp_path: Path) -> Program:
    made = Program(tmp_path)
    made.build("first")
    return made


def test_it_runs_isolated_and_says_where_it_is(program: Program) -> None:
    assert program.run("agent", "a b") == [f"{program.file} agent a b 1 1", "first ['NODEMANAGER_CACHE']"]
    assert program.run("agent", "a b") == [f"{program.file} agent a b 1 1", "first ['NODEMANAGER_CACHE']"]
    (unpacked,) = program.cache.iterdir()
    assert not list(unpacked.rglob("RECORD"))
    assert (unpacked / f"nodemanager/__pycache__/late.{sys.implementation.cache_tag}.pyc").exists()


def test_the_same_files_give_the_same_bytes(program: Program) -> None:
    first = program.file.read_bytes()
    program.build("first")
    assert program.file.read_bytes() == first
    program.build("second")
    assert program.file.read_bytes() != first


def test_one_that_runs_keeps_its_files_when_it_is_replaced(program: Program) -> None:
    with program.start() as old:
        assert old.stdout is not None
        old.stdout.readline()
        program.build("second")
        assert program.run()[1].startswith("second ")
        assert len(program.versions()) == 2
        assert old.communicate("\n", timeout=30)[0].startswith("first ")
    program.build("third")
    assert program.run()[1].startswith("third ")
    assert len(program.versions()) == 1


def test_people_unpack_to_their_own_cache(program: Program) -> None:
    scripts.write(program.folder / "id", "echo 1000\n")
    path = f"{program.folder}:{Path(sys.executable).parent}:/usr/bin:/bin"
    said = program.run(NODEMANAGER_CACHE="", XDG_CACHE_HOME=str(program.folder / "mine"), PATH=path)
    assert said[1].startswith("first ")
    assert len(list((program.folder / "mine/nodemanager").iterdir())) == 1

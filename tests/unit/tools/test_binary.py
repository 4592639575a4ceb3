"""bin/manager with a small program in it: unpacked once, replaced while it runs, swept when not in use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nodemanager.runtime import ending
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
        self.before = ":"
        """What the shell that starts it does before."""

    def build(self, word: str) -> None:
        from tools import binary

        site = self.folder / "site"
        shutil.rmtree(site, ignore_errors=True)
        (site / "nodemanager/cli").mkdir(parents=True)
        (site / "nodemanager/cli/main.py").write_text(MAIN)
        (site / "nodemanager/runtime").mkdir()
        shutil.copy(str(ending.__file__), site / "nodemanager/runtime/ending.py")
        (site / "nodemanager/late.py").write_text(f"WORD = {word!r}\n")
        (site / "nodemanager-1.dist-info").mkdir()
        (site / "nodemanager-1.dist-info/RECORD").write_text(str(site))
        binary.build(site, self.file)

    def start(self, *args: str, cwd: Path | None = None, **variables: str) -> subprocess.Popen[str]:
        env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(self.folder)}
        env |= {"NODEMANAGER_CACHE": str(self.cache), **variables}
        argv = ["sh", "-c", f'{self.before}; exec "$@"', "sh", str(self.file), *args]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, env=env, cwd=cwd, text=True, stdin=pipe, stdout=pipe, stderr=pipe)

    def run(self, *args: str, cwd: Path | None = None, **variables: str) -> list[str]:
        with self.start(*args, cwd=cwd, **variables) as process:
            return process.communicate("\n", timeout=30)[0].splitlines()

    def age(self) -> None:
        """Let what was unpacked have been there for a while."""
        for path in self.cache.iterdir():
            os.utime(path, (0, 0))

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
    assert len(program.versions()) == 3  # another one may be about to start what it has just unpacked
    program.age()
    program.build("fourth")
    assert program.run()[1].startswith("fourth ")
    assert len(program.versions()) == 1


def test_people_unpack_to_their_own_cache(program: Program) -> None:
    scripts.write(program.folder / "id", "echo 1000\n")
    path = f"{program.folder}:{Path(sys.executable).parent}:/usr/bin:/bin"
    said = program.run(NODEMANAGER_CACHE="", XDG_CACHE_HOME=str(program.folder / "mine"), PATH=path)
    assert said[1].startswith("first ")
    (unpacked,) = (program.folder / "mine/nodemanager").iterdir()
    if os.geteuid() == 0:  # as after su, with the HOME of somebody else
        (unpacked / "__main__.py").write_text("print('theirs')\n")
        os.chown(unpacked, 1234, 1234)
        assert program.run(NODEMANAGER_CACHE="", XDG_CACHE_HOME=str(program.folder / "mine"), PATH=path) == []


def test_folders_of_others_in_the_cache_stay(program: Program) -> None:
    theirs = [program.cache / name / "thing" for name in ("new-project", "a-name-of-24-characters!", "x")]
    for path in theirs:
        path.mkdir(parents=True)
    program.run()
    program.age()
    program.build("second")
    program.run()
    assert [path.is_dir() for path in theirs] == [True] * 3
    assert len(program.versions()) == 4


def test_a_disk_that_is_full_is_not_filled_further(program: Program) -> None:
    program.before = "ulimit -f 0"
    for _ in range(2):
        with program.start() as process:
            said = process.communicate(timeout=30)[1]
        assert process.returncode == 1
        assert f"error: cannot unpack nodemanager to {program.cache}" in said
        assert "File too large; make room there" in said
    assert program.versions() == []
    program.before = ":"
    assert program.run()[1].startswith("first ")


def test_what_was_removed_half_way_is_unpacked_anew(program: Program) -> None:
    program.run()
    (unpacked,) = program.cache.iterdir()
    (unpacked / "__main__.py").unlink()
    assert program.run()[1].startswith("first ")
    assert program.versions() == [unpacked.name]


def test_the_mask_for_new_files_is_that_of_who_starts_it(program: Program) -> None:
    program.before = "umask 077"
    with program.start() as process:
        assert process.stdout is not None
        process.stdout.readline()
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.communicate("\n", timeout=30)
    assert "Umask:\t0077\n" in status
    (unpacked,) = program.cache.iterdir()
    assert (unpacked / "__main__.py").stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("whose", ["cache", "unpacked", "link"])
def test_what_somebody_else_put_there_is_not_run(program: Program, whose: str) -> None:
    program.run()
    (unpacked,) = program.cache.iterdir()
    (unpacked / "__main__.py").write_text("print('theirs')\n")
    if whose == "link":
        unpacked.rename(program.folder / "elsewhere")
        unpacked.symlink_to(program.folder / "elsewhere")
    os.chown(program.cache if whose == "cache" else unpacked, 1234, 1234, follow_symlinks=False)
    with program.start() as process:
        out, said = process.communicate("\n", timeout=30)
    assert out == ""
    assert process.returncode == 1
    assert "belongs to user 1234, who could have you run anything" in said


PLANTED = (
    "sitecustomize",
    "usercustomize",
    "contextlib",
    "fcntl",
    "os",
    "sys",
    "nodemanager",
    "tarfile",
    "late",
)


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Return a folder with modules of somebody else, in every place that Python may look for them."""
    folder = tmp_path / "planted"
    version = "{}.{}".format(*sys.version_info)
    for place in (".", "cli", "encodings", f"lib/python{version}/site-packages", f"lib/python{version}"):
        (folder / place).mkdir(parents=True, exist_ok=True)
        for name in (*PLANTED, "__init__", "__main__", "main", "utf_8", "site"):
            (folder / place / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'a').write(__name__)")
        (folder / place / "x.pth").write_text(f"import os; open({str(folder / 'ran')!r}, 'a').write('pth')\n")
    (folder / ".local").symlink_to(folder)
    (folder / "pyvenv.cfg").write_text(f"home = {folder}\n")
    scripts.write(folder / "python", f"echo python >> {folder}/ran")
    return folder


@pytest.mark.parametrize("python", ["python3", "python{}.{}".format(*sys.version_info)])
@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({}, id="working-directory"),
        pytest.param({"PYTHONPATH": "{}"}, id="PYTHONPATH"),
        pytest.param({"PYTHONPATH": ""}, id="PYTHONPATH-empty"),
        pytest.param({"PYTHONPATH": "."}, id="PYTHONPATH-here"),
        pytest.param({"PYTHONHOME": "{}"}, id="PYTHONHOME"),
        pytest.param({"PYTHONUSERBASE": "{}"}, id="PYTHONUSERBASE"),
        pytest.param({"HOME": "{}"}, id="HOME"),
        pytest.param({"PYTHONSTARTUP": "{}/sys.py", "PYTHONINSPECT": "1"}, id="PYTHONSTARTUP"),
        pytest.param({"PYTHONWARNINGS": "error::sitecustomize.X", "PYTHONPATH": "{}"}, id="PYTHONWARNINGS"),
        pytest.param({"PYTHONPLATLIBDIR": "{}", "PYTHONPYCACHEPREFIX": "{}"}, id="PYTHONPLATLIBDIR"),
        pytest.param({"PYTHONBREAKPOINT": "late.x"}, id="PYTHONBREAKPOINT"),
        pytest.param({"PYTHONEXECUTABLE": "{}/python"}, id="PYTHONEXECUTABLE"),
        pytest.param({"__PYVENV_LAUNCHER__": "{}/python"}, id="PYVENV_LAUNCHER"),
    ],
)
def test_nothing_of_the_environment_or_the_working_directory_is_run(
    program: Program, planted: Path, python: str, variables: dict[str, str]
) -> None:
    """As root, with what `sudo -E` brings along, in a folder of somebody else."""
    tools = program.folder / "tools"
    tools.mkdir()
    for name in ("sh", "id"):
        (tools / name).symlink_to(shutil.which(name) or "")
    (tools / python).symlink_to(Path(sys.executable).resolve())
    found = {name: value.format(planted) for name, value in variables.items()}
    for _ in range(2):  # unpacking, and unpacked
        said = program.run("agent", cwd=planted, PATH=str(tools), **found)
        assert not (planted / "ran").exists(), (planted / "ran").read_text()
        assert said[0] == f"{program.file} agent 1 1"
        assert said[1].startswith("first ")

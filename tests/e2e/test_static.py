"""The static program that make release builds, as a host has it that has nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # tools/ is not installed

from tools.release import revision
from tools.release.targets import LARGEST

import nodemanager
from nodemanager.cli.subcommands import COMMANDS
from support import debian_packages, server_process, static_program
from support.agent_process import Agent, api_of, owned

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/03-secret-template"
READ = re.compile(r"/etc/(localtime|passwd|group)|/proc/.*|/dev/null")
"""What a program may look at that wants to know the time, who it is and how much memory there is."""


@pytest.fixture
def program() -> Path:
    return static_program.find()


def run(program: Path, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *args], env={"PATH": "/usr/bin:/bin", **environ},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_nothing_is_linked_when_it_starts(program: Path) -> None:
    said = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=60, check=False)
    assert "not a dynamic executable" in said.stderr + said.stdout or "statically linked" in said.stdout


def test_it_is_as_small_as_the_goal(program: Path) -> None:
    assert program.stat().st_size <= LARGEST


def test_it_says_of_which_commit_it_is(program: Path) -> None:
    made = revision.of_program(program)
    assert made is not None
    facts = json.loads(run(program, "version", "-o", "json").stdout)
    assert (facts["commit"], facts["state"]) == (made.commit, made.state)
    assert re.fullmatch("[0-9a-f]{64}", facts["build"])
    first, second = run(program, "version").stdout.splitlines()
    assert first == run(program, "--version").stdout.strip()
    assert second.startswith(f"build {facts['build'][:12]} of commit {made.commit[:12]}")


def test_a_traceback_names_files_and_lines(program: Path, tmp_path: Path) -> None:
    said = run(program, "--debug", "apply", "-f", str(tmp_path / "none")).stderr
    assert "Traceback (most recent call last):" in said
    assert re.search(
        r'^  File "nodemanager/cli/manifests/manifest_files.py", line [0-9]+, in files$', said, re.MULTILINE
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its root")
def test_it_runs_where_there_is_nothing_else(program: Path, tmp_path: Path) -> None:
    """No /proc, no /dev, no shell, no Python, no certificates."""
    shutil.copy(program, tmp_path / "nodemanager")
    chroot = shutil.which("chroot") or "chroot"
    done = subprocess.run(
        [chroot, str(tmp_path), "/nodemanager", "--version"], env={},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("nodemanager ")
    assert done.stdout.endswith(f"{static_program.NATIVE.replace('-', '/')}\n")


def test_what_a_user_has_for_python_does_not_reach_it(program: Path, tmp_path: Path) -> None:
    for name in ("nodemanager", "site", "sitecustomize", "usercustomize", "click", "encodings"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted')")
    planted = str(tmp_path)
    names = (
        "PATH",
        "HOME",
        "STARTUP",
        "INSPECT",
        "PLATLIBDIR",
        "USERBASE",
        "VERBOSE",
        "EXECUTABLE",
        "DEVMODE",
    )
    done = run(program, "version", HOME=planted, **{f"PYTHON{name}": planted for name in names})
    assert (done.returncode, done.stderr) == (0, "")


def test_no_file_of_others_is_opened_at_its_start(program: Path, tmp_path: Path) -> None:
    debian_packages.ensure("strace")
    log = tmp_path / "trace"
    argv = ["strace", "-f", "-e", "trace=open,openat,openat2", "-o", str(log), str(program), "version"]
    subprocess.run(argv, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    opened = re.findall(r'open(?:at2?)?\((?:AT_FDCWD, )?"([^"]*)"', log.read_text())
    assert [path for path in opened if not READ.fullmatch(path)] == []


def test_its_data_files_are_in_it(program: Path) -> None:
    printed = run(program, "crds").stdout
    for file in sorted((ROOT / "config/crd").glob("*.yaml")):
        _, _, generated = file.read_text().partition("\n")  # without the line that says so
        assert generated.strip() in printed
    assert (
        f"ExecStart={program} --kubeconfig"
        in run(program, "install-service", "--init", "systemd", "--print").stdout
    )


LEFT_OUT = ("server", "up", "demo")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in LEFT_OUT])
def test_all_that_a_command_needs_is_in_it(program: Path, name: str) -> None:
    done = run(program, name, "--help")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_it_leaves_out_is_named(program: Path, name: str) -> None:
    done = run(program, name)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: cannot run {name}: this is the program for hosts")


JINJA = """\
apiVersion: common.nodemanager/v1
kind: ConfigSet
metadata: {name: jinja}
spec:
  nodeSelector: {}
  files:
  - path: /etc/jinja.conf
    engine: jinja
    template: "{{ [3, 1, 2] | sort | join(',') }} {{ 'a' | upper }}\\n"
"""


def test_it_brings_a_folder_about_with_templates_of_both_kinds(program: Path, tmp_path: Path) -> None:
    manifests, root = tmp_path / "manifests", tmp_path / "root"
    shutil.copytree(EXAMPLE, manifests)
    (manifests / "jinja.yaml").write_text(JINJA)
    (root / "etc").mkdir(parents=True)
    done = run(program, "apply", "-f", str(manifests), "--root", str(root), "--hostname", "web1")
    assert (root / "etc/app/app.conf").is_file(), done.stdout + done.stderr
    assert (root / "etc/app/app.conf").read_text() == "level = info\npassword = change-me\n"
    assert (root / "etc/jinja.conf").read_text() == "1,2,3 A\n"
    again = run(program, "apply", "-f", str(manifests), "--root", str(root), "--hostname", "web1")
    assert " changed" not in again.stdout


async def test_its_agent_keeps_a_host_over_tls(program: Path, tmp_path: Path) -> None:
    root, key = tmp_path / "root", tmp_path / "key"
    (root / "run").mkdir(parents=True)
    key.write_bytes(os.urandom(32).hex().encode())
    key.chmod(0o400)
    with server_process.running(tmp_path / "server", first=True) as server:
        agent = Agent(
            root, "nodemanager", server.kubeconfig, argv=(str(program),), flags=("--state.key-file", str(key))
        )
        try:
            async with api_of(server.kubeconfig, "nodemanager") as api:
                agent.start()
                await api.config_set(
                    "hello", files=[owned("/etc/hello", template='hello {{ (ds "data").Node.Name }}')]
                )
                await agent.reads("/etc/hello", "hello web1")
                agent.at("/etc/hello").write_text("drift")  # noticed by the module that is built in
                await agent.reads("/etc/hello", "hello web1")
                assert (await api.ready("hello")).status.agent_version == nodemanager.__version__
            assert agent.stop() == 0
        finally:
            agent.end()
    assert "Traceback" not in agent.log.read_text()

"""Completion: scripts that a shell takes, and what it is offered."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from pathlib import Path

import pytest

from nodemanager.cli import completing
from nodemanager.host.files.bucket import FOLDER
from support import cli, kubeconfigs, scripts
from support.agent_process import owned
from support.scripted_server import Exchange, serve

BASH = shutil.which("bash")
DRIVER = """\
source <(nodemanager completion bash) || exit 9
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_nodemanager_completion nodemanager
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_says_how_to_install_it(shell: str) -> None:
    ran = cli.run("completion", shell)
    assert ran.code == 0
    assert f"nodemanager completion {shell} >" in ran.stdout
    assert f"_NODEMANAGER_COMPLETE={shell}_complete" in ran.stdout


def test_zsh_finds_its_marker_in_the_first_line() -> None:
    assert cli.run("completion", "zsh").stdout.startswith("#compdef nodemanager\n# ")


def test_an_unknown_shell_is_wrong_usage() -> None:
    assert cli.run("completion", "csh").code == 2


async def offered(folder: Path, *words: str, **environ: str) -> list[str]:
    """Return what bash offers for a line of words, the last of which is being typed."""
    scripts.write(folder / "nodemanager", f'exec {sys.executable} -m nodemanager "$@"')
    env = cli.environment(**environ)
    env["PATH"] = f"{folder}:{env['PATH']}"
    process = await asyncio.create_subprocess_exec(
        "bash", "--norc", "-c", DRIVER, "driver", "nodemanager", *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=env,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 50)
    assert (process.returncode, err) == (0, b"")
    return out.decode().split()


async def offered_in_time(folder: Path, *words: str, **environ: str) -> list[str]:
    """Return what bash offers; nothing is what it offers, too, when a busy machine takes too long."""
    for _ in range(5):
        if found := await offered(folder, *words, **environ):
            break
    return found


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["v"], ["version"], id="command"),
        pytest.param(["c"], ["crds", "completion"], id="commands"),
        pytest.param(["--d"], ["--debug"], id="option-of-all"),
        pytest.param(["get", "--sel"], ["--selector"], id="option"),
        pytest.param(["get", "-o", "w"], ["wide"], id="choice"),
        pytest.param(["completion", "z"], ["zsh"], id="argument"),
        pytest.param(["get", "mana"], ["managednodes", "managednode"], id="kind"),
        pytest.param(["describe", "cse"], ["cset"], id="short-name"),
        pytest.param(["get", "mn,cse"], ["mn,cset"], id="second-kind"),
        pytest.param(["maintenance", "re"], ["resume", "retry"], id="subcommand"),
        pytest.param(["run", "--max"], ["--max-unavailable"], id="option-of-run"),
    ],
)
async def test_bash_offers(tmp_path: Path, words: list[str], expected: list[str]) -> None:
    assert [word for word in await offered(tmp_path, *words) if word] == expected


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
async def test_bash_offers_names_of_the_cluster(tmp_path: Path) -> None:
    async def handler(exchange: Exchange) -> None:
        items = [{"metadata": {"name": name}} for name in ("web1", "web2", "db1")]
        found = items if "/namespaces/lab/managednodes" in exchange.target else []
        await exchange.json({"items": found, "metadata": {"resourceVersion": "7"}})

    async with serve(handler) as server:
        where = {"KUBECONFIG": cli.kubeconfig(server.url, tmp_path)}
        assert await offered_in_time(tmp_path, "get", "-n", "lab", "mn", "web1", "w", **where) == ["web2"]
        assert await offered_in_time(tmp_path, "describe", "-n", "lab", "mn/d", **where) == ["mn/db1"]
        in_env = {**where, "NODEMANAGER_NAMESPACE": "lab"}
        assert await offered_in_time(tmp_path, "get", "mn", "d", **in_env) == ["db1"]
        assert await offered(tmp_path, "get", "mn", "d", **where) == []


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
async def test_bash_offers_maintenances_templates_windows_and_hosts(tmp_path: Path) -> None:
    names = {
        "nodemaintenances": "monday", "nodeoperationtemplates": "reboot", "maintenancewindows": "sunday",
        "managednodes": "web1",
    }  # fmt: skip

    async def handler(exchange: Exchange) -> None:
        kind = exchange.target.partition("?")[0].rpartition("/")[2]
        await exchange.json(
            {"items": [{"metadata": {"name": names[kind]}}], "metadata": {"resourceVersion": "7"}}
        )

    async with serve(handler) as server:
        where = {"KUBECONFIG": cli.kubeconfig(server.url, tmp_path)}
        assert await offered_in_time(tmp_path, "maintenance", "pause", "m", **where) == ["monday"]
        assert await offered_in_time(tmp_path, "run", "r", **where) == ["reboot"]
        assert await offered_in_time(tmp_path, "run", "reboot", "--window", "s", **where) == ["sunday"]
        assert await offered_in_time(tmp_path, "why", "w", **where) == ["web1"]


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
async def test_paths_with_backups_are_offered(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    for name in ("motd", "hosts"):
        (root / "etc" / name).write_text("before")
    declared = {
        "apiVersion": "common.nodemanager/v1",
        "kind": "ConfigSet",
        "metadata": {"name": "a"},
        "spec": {"nodeSelector": {}, "files": [owned("/etc/motd"), owned("/etc/hosts")]},
    }
    (tmp_path / "a.json").write_text(json.dumps(declared))
    assert (await asyncio.to_thread(cli.run, "apply", "-f", str(tmp_path), "--root", str(root))).code == 0
    for command in ("restore", "backups"):
        assert await offered(tmp_path, command, "--root", str(root), "/etc/m") == ["/etc/motd"]
        found = await offered(tmp_path, command, "--root", str(root), "/")
        assert found == ["/etc/hosts", "/etc/motd"]
        # As seen from /, so that whoever looks there instead finds something, on every machine.
        where = ("--configset.file-bucket.path", str(root) + FOLDER)
        assert await offered(tmp_path, command, *where, "/") == ["/etc/hosts", "/etc/motd"]
        assert await offered(tmp_path, command, *where, "--root", str(tmp_path / "none"), "/") == []


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
async def test_names_of_no_other_cluster_than_the_one_that_was_given_are_offered(tmp_path: Path) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.json({"items": [{"metadata": {"name": "web1"}}], "metadata": {"resourceVersion": "7"}})

    async with serve(handler) as server:
        where = {"KUBECONFIG": cli.kubeconfig(server.url, tmp_path)}
        assert await offered_in_time(tmp_path, "get", "mn", "", **where) == ["web1"]
        seen = len(server.requests)
        assert await offered(tmp_path, "get", "--kubeconfig", str(tmp_path), "mn", "", **where) == []
        assert len(server.requests) == seen


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
async def test_contexts_are_offered(tmp_path: Path) -> None:
    path = kubeconfigs.write(tmp_path / "config", kubeconfigs.build("production"))
    assert await offered(tmp_path, "get", "--context", "pro", KUBECONFIG=path) == ["production"]
    broken = kubeconfigs.write(tmp_path / "broken", "clusters: 5")
    assert await offered(tmp_path, "get", "--context", "pro", KUBECONFIG=broken) == []


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize(
    "config",
    [
        pytest.param("", id="none"),
        pytest.param("clusters: 5", id="broken"),
        pytest.param(kubeconfigs.build(cluster={"server": "http://127.0.0.1:1"}), id="unreachable"),
    ],
)
async def test_without_a_cluster_nothing_is_offered_and_nothing_said(tmp_path: Path, config: object) -> None:
    path = kubeconfigs.write(tmp_path / "config", config) if config else str(tmp_path / "missing")
    assert await offered(tmp_path, "get", "mn", "w", KUBECONFIG=path) == []
    assert await offered(tmp_path, "get", "nokind", "w", KUBECONFIG=path) == []


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
async def test_a_server_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.hang()

    async with serve(handler) as server:
        path = cli.kubeconfig(server.url, tmp_path)
        started = time.monotonic()
        assert await offered(tmp_path, "get", "mn", "", KUBECONFIG=path) == []
        assert completing.TIMEOUT <= time.monotonic() - started < completing.TIMEOUT + 40
        assert len(server.requests) == 1

"""The shell around the commands: laziness, help, exit codes, signals and pipes."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import click
import pytest

from nodemanager.cli import main, program, subcommands
from support import cli
from support.scripted_server import Exchange, serve, until

pytestmark = pytest.mark.execs
HEAVY = (
    "asyncio",
    "ssl",
    "msgspec",
    "yaml",
    "h11",
    "json",
    "logging",
    "nodemanager.client",
    "nodemanager.api",
)
RUNS = 7


@pytest.fixture(name="fail")
def _fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NODEMANAGER_DEBUG", raising=False)
    monkeypatch.setitem(subcommands.COMMANDS, "fail", subcommands.Lazy("support.failing_command", "Fail."))


def loaded_after(*args: str) -> list[str]:
    """Return the heavy modules that a run of the command has loaded."""
    code = (
        "import sys; from nodemanager.cli import main;"
        f"main.run({list(args)!r}); sys.stderr.write('\\n'.join(sorted(sys.modules)))"
    )
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=50, check=True, env=cli.environment())
    return [name for name in HEAVY if name in done.stderr.split()]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["version"], id="version"),
        pytest.param(["--version"], id="version-option"),
        pytest.param(["--help"], id="help"),
        pytest.param(["completion", "bash"], id="completion"),
    ],
)
def test_nothing_heavy_is_imported(args: list[str]) -> None:
    assert loaded_after(*args) == []


def test_the_list_of_heavy_modules_can_be_noticed() -> None:
    assert {"asyncio", "msgspec", "nodemanager.client"} <= set(loaded_after("get", "--help"))


NOT_FOR_AN_AGENT = (
    "yaml", "jinja2", "gotpl", "html", "email", "lzma", "shutil", "tempfile", "zoneinfo",
    "nodemanager.kube.cel.parser", "nodemanager.kube.schemas", "nodemanager.kube.patching",
    "nodemanager.kube.admission", "nodemanager.client.auth.exec_plugin",
    "nodemanager.server", "nodemanager.store",
)  # fmt: skip
"""Mebibytes that it holds for its life once they are imported; some come with a template or a plugin."""


NOT_WITHOUT_AN_API = (
    "h11", "email", "jinja2", "gotpl", "nodemanager.client", "nodemanager.runtime",
    "nodemanager.agent.upgrades", "nodemanager.agent.tasks",
)  # fmt: skip


@pytest.mark.parametrize(
    ("command", "unwanted"), [("running.agent", NOT_FOR_AN_AGENT), ("host.apply", NOT_WITHOUT_AN_API)]
)
def test_nothing_is_loaded_that_may_never_be_needed(command: str, unwanted: tuple[str, ...]) -> None:
    """Importing is most of what an agent takes, and half of what apply does: who adds to it should know."""
    code = f"import sys, nodemanager.cli.commands.{command}; print('\\n'.join(sys.modules))"
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True, env=cli.environment())
    assert set(unwanted) & set(done.stdout.split()) == set()


def cpu_seconds(*argv: str) -> float:
    """Return the CPU time of a process, user and system."""
    process = subprocess.Popen([sys.executable, *argv], stdout=subprocess.DEVNULL, env=cli.environment())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def test_version_costs_a_few_times_what_the_interpreter_does() -> None:
    """Some 50 ms where the interpreter takes 10; a machine that is slow, or busy, is so for both."""
    cpu_seconds("-m", "nodemanager", "version")  # so that every .pyc is there
    pairs = [(cpu_seconds("-m", "nodemanager", "version"), cpu_seconds("-c", "pass")) for _ in range(RUNS)]
    ours, bare = (statistics.median(times) for times in zip(*pairs, strict=True))
    assert ours < 9 * bare


@pytest.mark.parametrize("name", list(subcommands.COMMANDS))
def test_every_command_teaches(name: str) -> None:
    command = importlib.import_module(subcommands.COMMANDS[name].module).command
    assert isinstance(command, click.Command)
    ran = cli.run(name, "--help")
    assert ran.code == 0
    assert "Examples:" in ran.stdout
    assert f"  nodemanager {name}" in ran.stdout


def test_help_lists_every_command() -> None:
    ran = cli.run("--help")
    assert ran.code == 0
    for name, entry in subcommands.COMMANDS.items():
        assert any(line.split(maxsplit=1) == [name, entry.help] for line in ran.stdout.splitlines())


def test_every_command_is_in_a_group_of_the_help() -> None:
    placed = [name for names in subcommands.GROUPS.values() for name in names]
    assert len(placed) == len(set(placed))
    assert set(subcommands.COMMANDS) - set(placed) <= {"completion", "version"}


@pytest.mark.parametrize(
    ("argv0", "name"),
    [
        ("{0}/on-path/nodemanager", "nodemanager"),
        ("{0}/elsewhere/nodemanager", "{0}/elsewhere/nodemanager"),
        ("bin/manager", "bin/manager"),
        ("{0}/site/nodemanager/__main__.py", "python3 -m nodemanager"),
    ],
)
def test_it_is_called_as_it_was_started(tmp_path: Path, argv0: str, name: str) -> None:
    for folder in ("on-path", "elsewhere"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "nodemanager").touch(0o755)
    assert program.called(argv0.format(tmp_path), f"/nonexistent:{tmp_path}/on-path") == name.format(tmp_path)


def test_only_commands_are_called_so() -> None:
    say = program.Speaker(subcommands.COMMANDS).say
    assert say("run nodemanager get mn, or nodemanager --debug", "bin/manager") == (
        "run bin/manager get mn, or bin/manager --debug"
    )
    kept = "systemctl start nodemanager; nodemanager getting on; /etc/nodemanager get"
    assert say(kept, "bin/manager") == kept


def test_alone_it_is_the_agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    ran = cli.run()
    assert ran.code == 1
    assert "cannot find an API server" in ran.stderr or str(tmp_path / "none") in ran.stderr
    assert main.with_agent([]) == ["agent"]
    assert main.with_agent(["-kubeconfig", "F", "--namespace=x", "-n", "y"]) == [
        "agent", "--kubeconfig", "F", "--namespace=x", "-n", "y",
    ]  # fmt: skip
    for given in (["--help"], ["--version"], ["-version"], ["--debug", "get"], ["get", "-o", "json"]):
        assert main.with_agent(given) == given


def test_the_agent_can_be_debugged_without_its_name() -> None:
    """As the message about a bug asks for, whatever the command line was."""
    debugged = main.with_agent(["--debug", "-kubeconfig", "F"])
    assert debugged == ["--debug", "agent", "--kubeconfig", "F"]
    assert main.with_agent(debugged) == debugged
    assert main.with_agent(["--debug", "--help"]) == ["--debug", "--help"]


def test_a_mistyped_command_is_recognised() -> None:
    ran = cli.run("discribe", "mn", "x")
    assert ran.code == 2
    assert "Did you mean 'describe'?" in ran.stderr
    assert "Did you mean" not in cli.run("zzz").stderr


@pytest.mark.parametrize(
    ("how", "code", "line"),
    [
        pytest.param("kube", 1, "error: cannot patch x: somebody else ?[31mwas faster", id="kube"),
        pytest.param("config", 1, "error: cannot read the kubeconfig: it is a poem", id="config"),
        pytest.param("manifest", 1, "error: cannot read a.yaml: line 3: no", id="manifest"),
        pytest.param(
            "signature", 1, "error: cannot check a signature: install python3-cryptography", id="signature"
        ),
        pytest.param("os", 1, "error: No space left on device", id="os"),
        pytest.param("permission", 1, "error: cannot use /etc/x: Permission denied", id="permission"),
        pytest.param("rename", 1, "error: cannot use a and b: Invalid cross-device link", id="rename"),
        pytest.param("click", 1, "error: the agent does not run", id="click"),
        pytest.param("interrupt", 130, "", id="interrupt"),
        pytest.param("abort", 130, "", id="abort"),
        pytest.param("exit", 3, "", id="exit"),
    ],
)
@pytest.mark.usefixtures("fail")
def test_failures_are_one_line_and_an_exit_code(how: str, code: int, line: str) -> None:
    ran = cli.run("fail", how)
    assert (ran.code, ran.stdout, ran.stderr.strip()) == (code, "", line)


@pytest.mark.usefixtures("fail")
def test_wrong_usage_is_2_and_points_to_the_help() -> None:
    ran = cli.run("fail", "usage")
    assert ran.code == 2
    assert ran.stderr.splitlines() == [
        "Usage: nodemanager fail [OPTIONS] HOW", "Try 'nodemanager fail -h' for help.", "",
        "error: not like this",
    ]  # fmt: skip
    assert cli.run("fail", "usage", "--no-such-option").code == 2


@pytest.mark.parametrize("group", [["maintenance"], ["rollout"], ["audit"], ["audit", "host"]])
def test_a_group_without_a_command_shows_its_help_in_whole_sentences(group: list[str]) -> None:
    ran = cli.run(*group)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == cli.run(*group, "--help").stdout
    listed = ran.stderr.partition("Commands:\n")[2].partition("\n\n")[0]
    assert len(listed.splitlines()) > 1
    assert "..." not in listed


@pytest.mark.usefixtures("fail")
def test_a_bug_is_70_and_says_how_to_see_more() -> None:
    ran = cli.run("fail", "bug")
    assert ran.code == 70
    (line,) = ran.stderr.splitlines()
    assert line.startswith("error: this is a bug in nodemanager: KeyError: 'spec'")
    assert "--debug" in line


@pytest.mark.usefixtures("fail")
def test_debug_shows_where_it_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = cli.run("--debug", "fail", "bug")
    monkeypatch.setenv("NODEMANAGER_DEBUG", "1")
    for ran in (asked, cli.run("fail", "bug")):
        assert ran.code == 70
        assert "failing_command.py" in ran.stderr
        assert ran.stderr.splitlines()[-1].startswith("error: this is a bug")


async def test_control_c_ends_a_watch_with_130(tmp_path: Path) -> None:
    async def handler(exchange: Exchange) -> None:
        if "watch" in exchange.query:
            await exchange.stream()
            await exchange.hang()
        else:
            await exchange.json(cli.table("web1"))

    async with serve(handler) as server:
        argv = [*cli.ARGV, "get", "mn", "-w", "--kubeconfig", cli.kubeconfig(server.url, tmp_path)]
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=cli.environment()
        )
        try:
            await until(lambda: len(server.requests) == 2)
            process.send_signal(signal.SIGINT)
            out, err = await asyncio.wait_for(process.communicate(), 50)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 130
    assert b"web1" in out
    assert err.strip() == b""


@pytest.mark.parametrize("command", ["crds", "version"])
def test_a_reader_that_leaves_is_no_reason_to_complain(command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*cli.ARGV, command],
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=50,
            check=False,
            env=cli.environment(),
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


async def test_text_that_the_terminal_cannot_show_does_not_end_us(tmp_path: Path) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.json(
            {"items": [{"metadata": {"name": "gr\xf6\N{SNOWMAN}"}}], "metadata": {"resourceVersion": "7"}}
        )

    async with serve(handler) as server:
        argv = [*cli.ARGV, "get", "mn", "-o", "name", "--kubeconfig", cli.kubeconfig(server.url, tmp_path)]
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, env=cli.environment(PYTHONIOENCODING="latin-1")
        )
        out, _ = await asyncio.wait_for(process.communicate(), 50)
    assert process.returncode == 0
    assert out == b"managednode.common.nodemanager/gr\xf6\\u2603\n"


def test_without_any_cluster_every_way_to_give_one_is_named() -> None:
    argv = [*cli.ARGV, "get", "mn"]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=50, check=False, env=cli.environment()
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot find an API server: ")
    assert "--kubeconfig" in done.stderr


def test_version() -> None:
    text = cli.run("version")
    facts = json.loads(cli.run("version", "-o", "json").stdout)
    python = ".".join(map(str, sys.version_info[:3]))
    assert facts["python"] == python
    assert text.stdout.split() == [
        "nodemanager",
        facts["version"],
        f"python/{python}",
        f"{facts['os']}/{facts['arch']}",
    ]
    assert cli.run("--version") == cli.run("-version") == text


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_bug(closed: str) -> None:
    script = f'"{sys.executable}" -m nodemanager version {closed}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr

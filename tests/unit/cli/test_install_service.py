"""`nodemanager install-service` as it is typed; what it does to a host is tested below host/init."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nodemanager.cli.commands.host import install_service
from nodemanager.host.init import executable
from support import cli

PROGRAM = ("--exec", "/usr/local/bin/nodemanager")
MARKS = {"systemd": "usr/lib/systemd/systemd", "openrc": "sbin/openrc-run", "rc.d": "etc/rc.subr"}


def run(*args: str) -> cli.Ran:
    return cli.run("install-service", *args)


@pytest.mark.parametrize(("name", "mark"), MARKS.items(), ids=MARKS)
def test_the_init_system_of_a_root_is_found(tmp_path: Path, name: str, mark: str) -> None:
    (tmp_path / mark).parent.mkdir(parents=True)
    (tmp_path / mark).touch()
    found = run("--print", "--root", str(tmp_path), *PROGRAM)
    assert found.code == 0, found.stderr
    assert found == run("--print", "--init", name, *PROGRAM)


def test_a_root_without_init_is_refused(tmp_path: Path) -> None:
    ran = run("--root", str(tmp_path))
    assert ran.code == 1
    assert "there is no systemd, no OpenRC and no rc.d; have your init system run: nodemanager" in ran.stderr


def test_files_for_a_system_that_cannot_run_here_are_written(tmp_path: Path) -> None:
    program = tmp_path / "usr/local/bin/nodemanager"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    ran = run("--root", str(tmp_path), "--init", "rc.d", *PROGRAM, "--", "--namespace", "infra")
    assert ran.code == 0, ran.stderr
    assert "not enabled: rc.d of" in ran.stdout
    script = tmp_path / "usr/local/etc/rc.d/nodemanager"
    assert os.access(script, os.X_OK)
    variables = (tmp_path / "usr/local/etc/nodemanager/environment").read_text()
    assert variables.endswith('\nNODEMANAGER_NAMESPACE="infra"\n')


def test_a_program_that_was_found_on_the_path_is_the_one_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A static program is told the name that was typed, and not where a shell found it."""
    program = tmp_path / "bin/nodemanager"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setenv("PATH", f"/nothing:{program.parent}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["nodemanager", "install-service"])
    assert executable.own_path() == str(program)
    monkeypatch.setattr("sys.argv", ["bin/../bin/nodemanager", "install-service"])
    assert executable.own_path() == str(program)


def test_a_program_in_the_wrong_place_is_refused_with_what_to_do() -> None:
    done = subprocess.run(
        [*cli.ARGV, "install-service", "--init", "systemd", "--exec", "/tmp/nodemanager"],
        env=cli.environment(), capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    wanted = (
        "only root can" if os.geteuid() else "run install -m 0755 /tmp/nodemanager /usr/local/bin/nodemanager"
    )
    assert wanted in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        ([], {}),
        (["--log-level", "debug"], {"NODEMANAGER_LOG_LEVEL": "debug"}),
        (["--configset.reconcile-period=2m"], {"NODEMANAGER_CONFIGSET_RECONCILE_PERIOD": "2m"}),
        (["-n", "infra", "--kubeconfig", "/etc/k"],
         {"NODEMANAGER_NAMESPACE": "infra", "NODEMANAGER_KUBECONFIG": "/etc/k"}),
        (["--hostname", "web1"], {"NODEMANAGER_HOSTNAME": "web1"}),
    ],
)  # fmt: skip
def test_flags_become_the_variables_that_mean_the_same(flags: list[str], variables: dict[str, str]) -> None:
    assert install_service.agent_variables(flags) == variables


def test_a_kubeconfig_of_ones_own_is_in_the_unit() -> None:
    printed = run("--print", "--init", "systemd", *PROGRAM, "--", "--kubeconfig", "/srv/k").stdout
    assert "ExecStart=/usr/local/bin/nodemanager --kubeconfig /srv/k\n" in printed
    assert "ConditionPathExists=/srv/k\n" in printed


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--log-level", "loud"], "'loud' is not one of"),
        (["--configset.reconcile-period", "2"], "2"),
        (["--no-such-flag"], "No such option"),
        (["word"], "unexpected extra argument"),
        (["--config.verify"], "it is not for a service"),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_written(flags: list[str], why: str) -> None:
    ran = run("--print", "--init", "systemd", *PROGRAM, "--", *flags)
    assert ran.code == 2
    assert why in ran.stderr
    assert ran.stdout == ""


def test_operator_and_server_keep_their_flags_as_one_variable(tmp_path: Path) -> None:
    program = tmp_path / "usr/local/bin/nodemanager"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    for service, flags in (("operator", ["-n", "infra"]), ("server", ["--san", "a", "--san=fd00::5"])):
        ran = run(service, "--root", str(tmp_path), "--init", "systemd", "--no-start", *PROGRAM, "--", *flags)
        assert ran.code == 0, ran.stderr
        variables = (tmp_path / f"etc/default/nodemanager-{service}").read_text()
        assert variables.endswith(f'\nNODEMANAGER_FLAGS="{" ".join(flags)}"\n')
    assert not (tmp_path / "etc/default/nodemanager").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["operator", "--", "--no-such-flag"], "No such option"),
        (["operator", "--", "--kubeconfig", "/etc/k"], "--kubeconfig is fixed in a service"),
        (["server", "--", "--data-dir", "/srv"], "--data-dir is fixed in a service"),
        (["server", "--", "--bind-address", "nowhere"], "has no port"),
        (["operator", "--", "-n", "a b"], "'a b' cannot be kept: a service takes no blanks"),
        (["kubelet"], "unexpected extra argument"),
    ],
)
def test_wrong_flags_of_the_others_are_refused_too(words: list[str], why: str) -> None:
    ran = run("--print", "--init", "systemd", *PROGRAM, *words)
    assert ran.code == 2
    assert why in ran.stderr
    assert ran.stdout == ""

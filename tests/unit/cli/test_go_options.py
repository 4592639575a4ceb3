"""Every option of the Go program is accepted with the default that it had there, and means the same here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.cli import main
from nodemanager.cli.commands.running import agent
from nodemanager.cli.settings import expansion, go_options, logs
from support import cli

DEFAULTS = {
    "config.expand-env": "false",
    "config.verify": "false",
    "log-level": "INFO",
    "kubeconfig": "",
    "namespace": "nodemanager",
    "gomplate-path": "gomplate",
    "metrics-bind-address": ":8080",
    "metrics-secure": "false",
    "health-probe-bind-address": ":8081",
    "leader-elect": "false",
    "enable-http2": "false",
    "managednode.forgiveness-period": "1m",
    "managednode.drain-timeout": "5m",
    "configset.reconcile-period": "0",
    "configset.file-bucket.enabled": "false",
    "configset.file-bucket.path": "/var/lib/nodemanager/filebucket",
    "configset.file-bucket.max-file-size-bytes": "102400",
    "configset.file-bucket.max-age": "168h",
    "locker.backoff-min-period": "3s",
    "locker.backoff-max-period": "3m",
    "locker.backoff-max-retries": "0",
    "locker.lease-duration": "7m",
    "freebsd.allow-in-jail": "false",
    "jail.data-path": "/usr/local/nodemanager",
    "jail.zfs-dataset": "zroot/nodemanager",
    "jail.mirror": "https://download.freebsd.org/releases",
    "notification.enabled": "false",
    "notification.socket-path": "/run/nodemanager/notify.sock",
}
OTHERWISE = {"configset.reconcile-period", "configset.file-bucket.max-file-size-bytes"}
"""Those that have another default here, and are documented so."""
GO_FILE = """\
LogLevel: INFO
ControllerConfig:
  MetricsAddr: ":8080"
  EnableLeaderElection: false
  ProbeAddr: ":8081"
  SecureMetrics: false
  EnableHTTP2: false
  Namespace: nodemanager
  GomplatePath: gomplate
  ManagedNode: {ForgivenessPeriod: 60000000000, DrainTimeout: 300000000000}
  ConfigSet:
    fileBucket: {enabled: false, path: /var/lib/nodemanager/filebucket, maxFileSizeBytes: 102400, maxAge: 1}
    reconcilePeriod: 0
  Locker: {Backoff: {MinBackoff: 3000000000, MaxBackoff: 180000000000, MaxRetries: 0}, LeaseDuration: 1}
  FreeBSD: {AllowInJail: false, Jail: {JailDataPath: /j, ZfsDataset: z, Mirror: "https://m.test"}}
  Notification: {enabled: false, socketPath: /run/nodemanager/notify.sock}
"""


def parsed(*args: str) -> dict[str, Any]:
    return agent.command.make_context("agent", list(args), **main.cli.context_settings).params


@pytest.mark.parametrize("flag", DEFAULTS)
@pytest.mark.parametrize("dashes", ["-", "--"])
@pytest.mark.parametrize("apart", ["=", " "])
def test_each_is_accepted_with_the_default_it_had(flag: str, dashes: str, apart: str) -> None:
    name, value = f"{dashes}{flag}", DEFAULTS[flag]
    given = [f"{name}={value}"] if apart == "=" else [name, value]
    done = cli.run(*given, *([] if flag == "config.verify" else ["--config.verify"]), "--kubeconfig", "/none")
    if flag == "config.verify":  # false: it goes on, and there is no such kubeconfig
        assert (done.code, "/none" in done.stderr) == (1, True)
    else:
        assert (done.code, done.stdout) == (0, "the configuration is valid\n"), done.stderr


@pytest.mark.parametrize("flag", sorted(set(DEFAULTS) - set(go_options.IGNORED) - {"config.expand-env"}))
def test_each_has_that_default_here(flag: str) -> None:
    option = next(one for one in agent.command.params if f"--{flag}" in one.opts)
    assert option.name is not None
    same = parsed()[option.name] == parsed(f"--{flag}={DEFAULTS[flag]}")[option.name]
    assert same is (flag not in OTHERWISE)


def test_a_file_of_the_go_program_with_every_key_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(GO_FILE)
    done = cli.run("-config.file", str(path), "-config.verify=true")
    assert (done.code, done.stdout) == (0, "the configuration is valid\n"), done.stderr
    found = parsed("--config.file", str(path))
    assert (found["forgiveness"], found["drain"], found["max_size"]) == (60.0, 300.0, 102400)


def test_the_list_is_complete() -> None:
    known = {one for option in agent.command.params for one in option.opts}
    assert {f"--{flag}" for flag in DEFAULTS} < known
    assert set(go_options.LAYOUT.values()) <= set(DEFAULTS)
    assert set(go_options.IGNORED) <= set(DEFAULTS)


@pytest.mark.parametrize("order", [1, -1])
def test_variables_in_the_file(order: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "namespace: ${HERE}\nlog-level: ${LEVEL:-WARN}\nhostname: a$$b\nmetrics-bind-address: ':${P}'\n"
    )
    monkeypatch.setenv("HERE", "there")
    monkeypatch.setenv("P", "9")
    monkeypatch.delenv("LEVEL", raising=False)
    file, expand = ["--config.file", str(path)], ["--config.expand-env"]
    found = parsed(*(file + expand if order > 0 else expand + file))
    assert (found["namespace"], found["log_level"], found["hostname"]) == ("there", "WARN", "a$b")
    assert found["metrics_bind_address"] == ":9"
    monkeypatch.setenv("NODEMANAGER_CONFIG_EXPAND_ENV", "true")
    assert parsed(*file)["namespace"] == "there"
    monkeypatch.delenv("NODEMANAGER_CONFIG_EXPAND_ENV")
    path.write_text("namespace: ${HERE}\n")
    assert parsed(*file)["namespace"] == "${HERE}"


def test_what_looks_like_a_variable_and_is_none_is_told(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("namespace: ${a b}\n")
    done = cli.run("--config.file", str(path), "--config.expand-env", "--config.verify")
    assert done.code == 1
    assert f"cannot read {path}: '${{a b}}' is not understood; write ${{NAME}}" in done.stderr


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("${A}", "1"), ("${E}", ""), ("${N}", ""), ("${N:-x}", "x"), ("${E:-x}", "x"), ("${E-x}", ""),
        ("${N-x}", "x"), ("${N:=x y}", "x y"), ("${A:-x}", "1"), ("$A", "$A"), ("$", "$"), ("$${A}", "${A}"),
        ("a${A}b${A}", "a1b1"), ("${N:-}", ""),
    ],
)  # fmt: skip
def test_the_forms_of_a_variable(text: str, wanted: str) -> None:
    assert expansion.expand(text, {"A": "1", "E": ""}) == wanted


@given(text=st.text(alphabet="${}:-=A \n", max_size=30), value=st.text(max_size=5))
def test_values_are_not_expanded_again_and_nothing_else_is_touched(text: str, value: str) -> None:
    try:
        found = expansion.expand(text, {"A": value})
    except expansion.ExpansionError:
        assert "${" in text
        return
    if "${" not in text:
        assert found == text.replace("$$", "$")


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ("info", 20),
        ("INFO+2", 25),
        ("WARN-4", 20),
        ("error", 40),
        ("DEBUG-4", 1),
        ("Warn", 30),
        ("ERROR+8", 60),
    ],
)
def test_levels_between_the_names(given: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr("logging.basicConfig", lambda **options: seen.append(options["level"]))
    logs.configure(logs.Level().convert(given, None, None), "text")
    assert seen == [number]


@pytest.mark.parametrize("given", ["LOUD", "INFO+", "INFO+2x", "+2", "LOUD+2"])
def test_levels_that_are_none(given: str) -> None:
    with pytest.raises(click.BadParameter, match="is not one of"):
        logs.Level().convert(given, None, None)

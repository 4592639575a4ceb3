"""Flags of the agent: command line before environment before file before default, and no typo unnoticed."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import click
import pytest

from nodemanager.cli import main
from nodemanager.cli.commands.running import agent
from nodemanager.cli.settings import agent_config
from support import cli

FLAGS = {
    "kubeconfig": ("kubeconfig", "/a", "/b", "/c"),
    "namespace": ("namespace", "a", "b", "c"),
    "hostname": ("hostname", "a", "b", "c"),
    "metrics-bind-address": ("metrics_bind_address", ":1", ":2", ":3"),
    "health-probe-bind-address": ("health_probe_bind_address", ":1", ":2", ":3"),
    "configset.reconcile-period": ("period", "1m", "2m", "3m"),
    "configset.start-verify-delay": ("start_delay", "1s", "2s", "3s"),
    "configset.file-bucket.max-age": ("max_age", "1h", "2h", "3h"),
    "configset.file-bucket.max-file-size-bytes": ("max_size", "1", "2", "3"),
    "log-level": ("log_level", "debug", "warn", "error"),
    "label": ("labels", "a=1", "b=2", "d=4"),
}


def parsed(*args: str) -> dict[str, Any]:
    """Return what the agent would be told."""
    return agent.command.make_context("agent", list(args), **main.cli.context_settings).params


def said(folder: Path, text: str) -> str:
    path = folder / "agent.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("flag", FLAGS)
def test_flag_before_variable_before_file_before_default(
    flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, *values = FLAGS[flag]
    texts = dict(zip(("flag", "variable", "file"), values, strict=True))
    alone = {source: parsed(f"--{flag}", text)[name] for source, text in texts.items()}
    default = parsed()[name]
    for given in itertools.product([True, False], repeat=3):
        chosen = [source for source, wanted in zip(texts, given, strict=True) if wanted]
        args = [f"--{flag}", texts["flag"]] if "flag" in chosen else []
        if "variable" in chosen:
            monkeypatch.setenv(agent_config.variable(flag), texts["variable"])
        else:
            monkeypatch.delenv(agent_config.variable(flag), raising=False)
        if "file" in chosen:
            args += ["--config.file", said(tmp_path, f'{flag}: "{texts["file"]}"\n')]
        assert parsed(*args)[name] == (alone[chosen[0]] if chosen else default)


def test_the_defaults_of_the_documentation() -> None:
    found = parsed()
    assert (found["namespace"], found["kubeconfig"]) == ("nodemanager", "")
    assert (found["metrics_bind_address"], found["health_probe_bind_address"]) == (":8080", ":8081")


def test_every_flag_has_a_variable_of_its_own() -> None:
    names = [one.envvar for one in agent.command.params if isinstance(one, click.Option) and one.expose_value]
    names = [one for one in names if one is not None]
    assert len(set(map(str, names))) == len(names) >= 13
    assert agent_config.variable("configset.file-bucket.max-age") in names


def test_nested_and_in_the_layout_of_the_go_program(tmp_path: Path) -> None:
    nested = said(tmp_path, "configset: {reconcile-period: 2m, file-bucket.max-age: 0}\nlog-level: WARN\n")
    found = parsed("--config.file", nested)
    assert (found["period"], found["max_age"], found["log_level"].upper()) == (120.0, 0.0, "WARN")
    go = said(
        tmp_path,
        "LogLevel: DEBUG\nControllerConfig:\n  MetricsAddr: ':1'\n  EnableLeaderElection: true\n"
        "  ConfigSet: {reconcilePeriod: 120000000000, fileBucket: {enabled: true, maxFileSizeBytes: 7}}\n",
    )
    found = parsed("--config.file", go)
    assert (found["period"], found["max_size"], found["metrics_bind_address"]) == (120.0, 7, ":1")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("log-levle: INFO", "there is no flag log-levle; did you mean log-level?", id="typo"),
        pytest.param("config.file: x", "there is no flag config.file", id="itself"),
        pytest.param("configset.reconcile-period: 5", "has no unit", id="no unit"),
        pytest.param("log-level: LOUD", "'LOUD' is not one of", id="no such choice"),
        pytest.param("log-level: [INFO]", "log-level should be a text or a number", id="a list"),
        pytest.param("log-level:", "log-level should be a text or a number", id="nothing"),
        pytest.param("log-level: INFO\nLogLevel: INFO", "which is set already", id="twice"),
        pytest.param("- a", "it should be one object", id="no object"),
        pytest.param("a: b: c", "cannot read", id="no YAML"),
        pytest.param("log-level: INFO\nlog-level: WARN", "cannot read", id="a key twice"),
        pytest.param("metrics-bind-address: there", "cannot listen on 'there': no port", id="address"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, text: str, why: str) -> None:
    done = cli.run("--config.file", said(tmp_path, text), "--config.verify")
    assert done.code in {1, 2}
    assert why in done.stderr
    assert "a bug in nodemanager" not in done.stderr


def test_a_good_one_is_verified_and_nothing_is_done(tmp_path: Path) -> None:
    path = said(tmp_path, "# nothing but a comment\n")
    for verify in (["--config.verify"], ["-config.verify=true"], ["--config.verify", "--log-level", "WARN"]):
        done = cli.run("--config.file", path, *verify)
        assert (done.code, done.stdout, done.stderr) == (0, "the configuration is valid\n", "")
    missing = cli.run("--config.file", str(tmp_path / "none"), "--config.verify")
    assert (missing.code, "does not exist" in missing.stderr) == (2, True)


def test_labels_are_a_list_in_a_file_and_words_in_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = said(tmp_path, "label: [role=web, example.com/site=berlin]\n")
    assert parsed("--config.file", file)["labels"] == {"role": "web", "example.com/site": "berlin"}
    monkeypatch.setenv("NODEMANAGER_LABEL", "role=db tier=gold")
    assert parsed("--config.file", file)["labels"] == {"role": "db", "tier": "gold"}


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (["role"], "write it like role=web"),
        (["role!=web"], "write it like role=web"),
        (["a=b,c=d"], "write it like role=web"),
        (["-role=web"], "is not a label key"),
        (["role=we b"], "cannot read label 'role=we b': write it like role=web"),
        (["kubernetes.io/hostname=other"], "its agent sets it by itself"),
        (["role=web", "role=db"], "role cannot be both 'web' and 'db'"),
    ],
)
def test_labels_that_no_host_can_have(labels: list[str], why: str) -> None:
    for command in (["agent"], ["rbac", "--hostname", "web1"]):
        done = cli.run(*command, *(word for one in labels for word in ("--label", one)))
        assert done.code == 2
        assert why in " ".join(done.stderr.split())

"""What the environment says, it says to every command: what one of them prints, the next one finds."""

from __future__ import annotations

import importlib

import click
import pytest
import yaml

from nodemanager.cli.subcommands import COMMANDS
from support import cli


def options(name: str) -> list[tuple[str, click.Option]]:
    """Return all options of this name, with the commands that have them."""
    commands = {key: importlib.import_module(entry.module).command for key, entry in COMMANDS.items()}
    return [
        (key, option)
        for key, command in commands.items()
        for option in command.params
        if isinstance(option, click.Option) and option.name == name
    ]


def test_the_namespace_is_the_same_for_all() -> None:
    found = options("namespace")
    assert {"rbac", "token", "bootstrap", "agent"} <= {key for key, _ in found}
    for key, option in found:
        assert option.envvar == "NODEMANAGER_NAMESPACE", key


def test_the_name_of_this_host_is_the_same_for_all() -> None:
    found = options("hostname")
    for key, option in found:
        elsewhere = option.required  # these are about another host than the one they run on
        assert option.envvar == (None if elsewhere else "NODEMANAGER_HOSTNAME"), key


def test_rbac_prints_for_the_namespace_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODEMANAGER_NAMESPACE", "lab")
    printed = list(yaml.safe_load_all(cli.run("rbac", "--hostname", "web1").stdout))
    assert {obj["metadata"].get("namespace", "lab") for obj in printed} == {"lab"}
    assert "lab" in [obj["metadata"]["name"] for obj in printed if obj["kind"] == "Namespace"]


def test_an_empty_namespace_is_wrong_usage() -> None:
    assert cli.run("rbac", "--hostname", "web1", "-n", "").code == 2

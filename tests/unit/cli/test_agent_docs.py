"""The page about the agent names every option and variable that there is."""

from __future__ import annotations

from pathlib import Path

import click

from nodemanager.cli.commands.running import agent

PAGE = Path(__file__).parents[3] / "docs" / "agent.md"


def test_every_option_is_in_the_docs() -> None:
    text = PAGE.read_text()
    for option in agent.command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        assert f"`{option.opts[-1]}" in text, option.opts
        if option.envvar:
            assert f"`{option.envvar}`" in text, option.envvar

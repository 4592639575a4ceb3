"""The documentation is complete: every page can be found, every command is told about."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodemanager.cli.subcommands import COMMANDS

REPOSITORY = Path(__file__).parents[3]
DOCS = REPOSITORY / "docs"


@pytest.mark.parametrize("page", sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")))
def test_a_page_is_in_the_navigation(page: str) -> None:
    assert f" {page}\n" in (REPOSITORY / "mkdocs.yml").read_text()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("page", ["README.md", "docs/commands.md"])
def test_a_command_is_in_the_table(page: str, command: str) -> None:
    rows = [line for line in (REPOSITORY / page).read_text().splitlines() if line.startswith("|")]
    names = " ".join(row.split("|")[1] for row in rows)
    assert f"`nodemanager {command}" in names or f"`{command}" in names

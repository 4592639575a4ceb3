"""docs/templates.md: its examples run, and it names every function there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nodemanager.plan.templates import render
from nodemanager.plan.templates.functions.library import names
from nodemanager.plan.templates.functions.refused import REFUSED
from nodemanager.plan.templates.jinja_filters import FILTERS, GLOBALS, METHODS
from support.template_cases import data

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "templates.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```(gotemplate|jinja)\n(.*?)```\n\n```output\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("engine", "template", "output"), EXAMPLES)
def test_an_example_renders_to_what_the_page_shows(engine: str, template: str, output: str) -> None:
    assert render(template, data(), engine=engine) == output


def test_the_page_has_examples_of_both_languages_and_names_everything() -> None:
    assert {engine for engine, _, _ in EXAMPLES} == {"gotemplate", "jinja"}
    missing = [name for name in (*names(), *REFUSED, *FILTERS, *GLOBALS, *METHODS) if f"`{name}`" not in PAGE]
    assert missing == []

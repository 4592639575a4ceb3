"""Pages and pictures as they are in the repository: links lead on, and nothing comes from another host."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from support.doc_blocks import PAGES, ROOT, indented_commands

LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
PICTURES = sorted(
    path for folder in ("pictures", "assets") for path in (ROOT / "docs" / folder).glob("*.svg")
)
TEXTS = ("CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md", *PAGES)


def prose(page: str) -> str:
    return CODE.sub("", FENCE.sub("", (ROOT / page).read_text(encoding="utf-8")))


def sections(path: Path) -> set[str]:
    """Return the anchors of a page, made of its headings as mkdocs and GitHub make them."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


@pytest.mark.parametrize("page", TEXTS)
def test_every_link_leads_on(page: str) -> None:
    lost = []
    for link in LINK.findall(prose(page)):
        address, _, section = link.partition("#")
        target = (ROOT / page).parent / address if address else ROOT / page
        if "://" in address:
            continue
        if not target.exists() or (section and target.suffix == ".md" and section not in sections(target)):
            lost.append(link)
    assert lost == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_diagram_as_text_and_loads_nothing(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "```mermaid" not in text, "draw it in tools/website/pictures.py"
    assert re.findall(r"!\[[^]]*\]\((?:https?:)?//", text) == []
    assert re.findall(r"<(?:script|link|img|iframe)\b", CODE.sub("", FENCE.sub("", text))) == []
    assert re.findall(r"!\[\s*\]", text) == [], "say what a picture shows"


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_in_blocks_that_tests_find(page: str) -> None:
    assert indented_commands(page) == []


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_whole_and_asks_nobody(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    drawing = ET.fromstring(text)
    assert {each.tag.rpartition("}")[2] for each in drawing.iter()}.isdisjoint(
        {"script", "image", "use", "a"}
    )
    assert drawing.get("aria-label")
    assert re.findall(r"url\((?!#)|@import|href=", text) == []
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("https://127.0.0.1:6443", "")


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_shown_somewhere(path: Path) -> None:
    shown = "".join((ROOT / page).read_text(encoding="utf-8") for page in (*PAGES, "mkdocs.yml"))
    assert str(path.relative_to(ROOT / "docs")) in shown


def test_the_site_takes_no_font_and_no_script_from_others() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert settings["theme"]["font"] is False
    assert settings["extra"]["polyfills"] == [
        "assets/iframe-worker.js"
    ]  # the plugin takes another host's else
    assert (ROOT / "docs/assets/iframe-worker.js").is_file()
    assert "repo_url" not in settings  # with which pages ask the host of the repository for its stars


def test_the_navigation_has_five_parts() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    parts = [next(iter(entry)) for entry in settings["nav"]]
    assert parts == ["Home", "Learn", "Use", "Operate", "Reference", "Understand"]

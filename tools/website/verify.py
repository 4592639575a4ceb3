"""Check a built site: `python -m tools.website.verify site`.

Every link leads somewhere, every picture says what it shows, no diagram is left as text, and no page loads
anything from another host: people read it in networks that reach nobody.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_LOADING: Final = {
    ("script", "src"), ("link", "href"), ("img", "src"), ("img", "srcset"), ("iframe", "src"),
    ("source", "src"), ("source", "srcset"), ("video", "src"), ("audio", "src"), ("embed", "src"),
    ("object", "data"), ("use", "href"), ("image", "href"),
}  # fmt: skip
"""What a browser fetches by itself, unlike a link that somebody has to follow."""
_NOT_FETCHED: Final = {"canonical", "prev", "next"}
_FETCHED_BY_CSS: Final = re.compile(r"(?:@import\s+|url\()\s*[\"']?([^\"')\s]+)")
_DIAGRAM: Final = re.compile(r"mermaid")


class Page(HTMLParser):
    """What a page links to, loads and can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: set[str] = set()
        self.faults: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of one element."""
        found = {name: value or "" for name, value in attrs}
        self.names.update(found[name] for name in ("id", "name") if name in found)
        if tag == "img" and not found.get("alt"):
            self.faults.append(f"a picture that says nothing to who cannot see it: {found.get('src')}")
        if _DIAGRAM.search(found.get("class", "")):
            self.faults.append("a diagram as text: draw it in tools/website/pictures.py")
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        fetched = not _NOT_FETCHED & set(found.get("rel", "").split())
        self.loads += [found[name] for each, name in _LOADING if fetched and each == tag and name in found]


def faults(site: Path) -> list[str]:
    """Return everything that is wrong with a site, as lines that name the file."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = [] if pages else [f"{site}: no page at all; run make docs"]
    for path, page in pages.items():
        said = [*page.faults, *_foreign(page.loads), *_missing(site, path, page, pages)]
        found += [f"{path.relative_to(site)}: {each}" for each in said]
    for path in sorted((*site.rglob("*.css"), *site.rglob("*.svg"))):
        text = path.read_text(encoding="utf-8")
        fetched = [*_FETCHED_BY_CSS.findall(text), *Page(text).loads]
        found += [f"{path.relative_to(site)}: {each}" for each in _foreign(fetched)]
    return found


def _foreign(addresses: list[str]) -> Iterator[str]:
    for address in addresses:
        parts = urlsplit(address)
        if parts.netloc or parts.scheme not in ("", "data"):
            yield f"loads {address} from another host"


def _missing(site: Path, path: Path, page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    """Yield what a page links to or loads that is not there."""
    for address in (*page.links, *page.loads):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        base = site if parts.path.startswith("/") else path.parent
        target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        if not target.is_file():
            if path.name != "404.html":  # which is shown at any depth, and names its files from the top
                yield f"{address} leads nowhere"
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names:
            yield f"{address} leads to a page that has no such section"


def main(argv: list[str]) -> int:
    """Say what is wrong with a site; return the exit code."""
    site = Path(argv[0]).resolve()
    found = faults(site)
    for line in found:
        sys.stderr.write(f"{line}\n")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    if not found:
        sys.stdout.write(
            f"{argv[0]}: {len(list(site.rglob('*.html')))} pages, {size / 1e6:.1f} MB, all links lead on\n"
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

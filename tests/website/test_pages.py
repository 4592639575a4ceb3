"""The built documentation in Chromium: wide and narrow, light and dark, with a web server and without one."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from support import debian_packages

SITE = Path(__file__).parents[2] / "site"
PAGES = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html") if path.name != "404.html")
SHOTS = os.environ.get("SHOTS", "")
"""A folder for screenshots, to look at by eye; none are made without it."""
VIEWS: dict[str, ViewportSize] = {
    "wide": {"width": 1280, "height": 900},
    "phone": {"width": 390, "height": 844},
}
SCHEMES: dict[Literal["light", "dark"], str] = {"light": "default", "dark": "slate"}
NAMES = ("chromium", "chromium-browser", "google-chrome")

TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
BROKEN = "[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"
SCHEME = "document.body.dataset.mdColorScheme"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name is the library's
        pass


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not any(map(shutil.which, NAMES)):
        debian_packages.ensure("chromium")
    found = next(path for path in map(shutil.which, NAMES) if path)
    with sync_playwright() as playwright:
        # Root can have no sandbox, and these pages are our own.
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def served() -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """Open a page, on which nothing may go wrong until the end of the block."""
    context = browser.new_context(reduced_motion="reduce", **options)
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("requestfailed", lambda request: faults.append(f"{request.url}: {request.failure}"))
    page.on("request", lambda request: faults.extend(foreign(request.url, address)))
    page.goto(address, wait_until="load")
    try:
        yield page
        assert faults == []
    finally:
        context.close()


def foreign(url: str, address: str) -> list[str]:
    ours = urlsplit(url).scheme in ("data", "blob") or urlsplit(url).netloc == urlsplit(address).netloc
    return [] if ours else [f"{url} is fetched from another host"]


def shoot(page: Page, name: str) -> None:
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{SHOTS}/{name.replace('/', '-')}.png", full_page=True)


def test_there_are_pages() -> None:
    assert len(PAGES) > 20, "run make docs first"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_and_fits(name: str, browser: Browser, served: str) -> None:
    with opened(browser, f"{served}/{name}") as page:
        assert page.evaluate(BROKEN) == []
        for view, scheme in itertools.product(VIEWS, SCHEMES):
            page.set_viewport_size(VIEWS[view])
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(f"{SCHEME} == '{SCHEMES[scheme]}'")
            assert page.evaluate(TOO_WIDE) <= 0, f"something is wider than the screen: {view}"
            shoot(page, f"{name.removesuffix('.html')}-{view}-{scheme}")


@pytest.mark.parametrize("how", ["served", "from a folder"])
@pytest.mark.parametrize("view", VIEWS)
def test_search_finds_things(how: str, view: str, browser: Browser, served: str) -> None:
    base = served if how == "served" else SITE.as_uri()
    with opened(browser, f"{base}/index.html", viewport=VIEWS[view]) as page:
        if view == "phone":
            page.locator("label[for=__search].md-header__button").click()
        page.locator(".md-search__input").click()
        page.keyboard.type("inotify")
        found = page.locator(".md-search-result__link")
        found.first.wait_for()
        assert any("realtime" in (link.get_attribute("href") or "") for link in found.all())
        shoot(page, f"search-{view}")


def test_the_switch_turns_the_pictures_too(browser: Browser, served: str) -> None:
    with opened(browser, f"{served}/architecture.html", viewport=VIEWS["wide"], color_scheme="light") as page:
        picture = page.locator("img[src$='process.svg']")
        light = picture.screenshot()
        for _ in range(2):  # from what the system says to light, from light to dark
            page.locator("label.md-header__button[for^=__palette]:not([hidden])").click()
        assert page.evaluate(SCHEME) == "slate"
        assert picture.screenshot() != light


def test_the_menu_of_a_phone_has_the_five_parts(browser: Browser, served: str) -> None:
    with opened(browser, f"{served}/index.html", viewport=VIEWS["phone"]) as page:
        page.locator("label[for=__drawer].md-header__button").click()
        for part in ("Learn", "Use", "Operate", "Reference", "Understand"):
            page.locator(".md-nav--primary").get_by_text(part, exact=True).first.wait_for(state="visible")
        shoot(page, "menu-phone")

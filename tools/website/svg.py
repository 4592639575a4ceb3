"""Drawings as text: SVG that is read on light and on dark pages, and asks no other host for anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from xml.sax.saxutils import escape, quoteattr

SANS: Final = (
    "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', 'Liberation Sans', Arial, sans-serif"
)
MONO: Final = (
    "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', monospace"
)

_COLOURS: Final = {  # name: on light pages, on dark pages
    "ink": ("#17303a", "#e2ecef"),
    "soft": ("#4d6771", "#a3b8c0"),
    "line": ("#7d98a3", "#6c8792"),
    "grid": ("#d8e3e7", "#2f3f47"),
    "paper": ("#ffffff", "#1d2a31"),
    "frame": ("#edf4f5", "#16222800"),
    "accent": ("#0d857a", "#2dd4bf"),
    "wash": ("#d9f2ee", "#123f3d"),
    "warm": ("#b45309", "#fbbf24"),
}


def document(size: tuple[float, float], title: str, body: Iterable[str], style: str = "") -> str:
    """Return a whole drawing.

    A browser decides between light and dark by the `color-scheme` of the page that shows it, so that a
    drawing follows the switch of the page, and not only the wish of the reader's system.
    """
    width, height = (number(value) for value in size)
    light, dark = (_variables(which) for which in (0, 1))
    opening = element(
        "svg", "", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}",
        width=width, height=height, role="img", aria_label=title,
    ).removesuffix("</svg>")  # fmt: skip
    rules = (
        f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"text{{font-family:{SANS};font-size:13px;fill:var(--ink)}}{style}"
    )
    return "\n".join([opening, element("title", title), f"<style>{rules}</style>", *body, "</svg>\n"])


def element(name: str, text: str | None = None, /, **attributes: float | str) -> str:
    """Return an element: `element("line", x1=0)`; `class_` is `class`, and `text_anchor` `text-anchor`."""
    words = [name]
    for key, value in attributes.items():
        shown = value if isinstance(value, str) else number(value)
        words.append(f"{key.rstrip('_').replace('_', '-')}={quoteattr(shown)}")
    opening = " ".join(words)
    return f"<{opening}/>" if text is None else f"<{opening}>{escape(text)}</{name}>"


def number(value: float) -> str:
    """Return a coordinate as short as it can be written: two places are finer than any screen."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _variables(which: int) -> str:
    return ";".join(f"--{name}:{colours[which]}" for name, colours in _COLOURS.items())

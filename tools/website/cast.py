"""Recorded terminals in asciinema's format, version 2: a header and one line of JSON per piece of output."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cast:
    """What a terminal of so many columns showed, piece by piece, at which second."""

    title: str
    columns: int
    pieces: tuple[tuple[float, str], ...]

    def text(self) -> str:
        """Return everything that was shown."""
        return "".join(piece for _, piece in self.pieces)

    def dump(self) -> str:
        """Return the file."""
        rows = self.text().count("\n") + 1
        header = {"version": 2, "width": self.columns, "height": rows, "title": self.title}
        lines = [header, *([round(second, 3), "o", piece] for second, piece in self.pieces)]
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def load(text: str) -> Cast:
    """Read a file."""
    header, *events = (json.loads(line) for line in text.splitlines())
    pieces = tuple((float(second), str(piece)) for second, kind, piece in events if kind == "o")
    return Cast(str(header["title"]), int(header["width"]), pieces)

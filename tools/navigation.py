"""The pages of our kinds in the navigation of the documentation; the rest of mkdocs.yml is handwritten."""

from __future__ import annotations

from typing import Final

from nodemanager.api import kinds

FILE: Final = "mkdocs.yml"
_BEGIN: Final = "      # Our kinds, from src/nodemanager/api/kinds.py: make generate\n"
_END: Final = "      # End of our kinds\n"


def updated(text: str) -> str:
    """Return the file with the pages of all kinds between its two marks."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(
            f"cannot list our kinds in {FILE}: a line {_BEGIN.strip()!r} or {_END.strip()!r} is missing"
        )
    pages = "".join(f"      - {kind.resource.kind}: {kind.page}\n" for kind in kinds.BY_NAME)
    return before + begin + pages + end + after

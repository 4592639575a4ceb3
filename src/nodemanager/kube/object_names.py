"""What objects can be called: names that are safe in rules, selectors and paths."""

from __future__ import annotations

import re
from typing import Final

FORM: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
"""A DNS subdomain, as a regular expression without anchors."""
MAX: Final = 253
_FORM: Final = re.compile(FORM)


def is_object_name(text: str) -> bool:
    """Tell whether an object can be called so.

    Ask this of every text of somebody else before it becomes a name: in a role, an empty one means all.
    """
    return len(text) <= MAX and _FORM.fullmatch(text) is not None

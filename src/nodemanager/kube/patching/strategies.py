"""Which lists of built-in kinds a strategic merge patch merges, and by which key.

Everything of which their schemas say nothing is merged when it is a map, and replaced when it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Strategy:
    """How one field is patched, and the fields inside of it (or inside of its items)."""

    how: str = ""
    """`merge` for lists that merge, `replace` for maps that do not."""
    key: str = ""
    """The field by which items are told apart; empty for lists of scalars."""
    fields: Mapping[str, Strategy] = field(default_factory=dict)

    def of(self, name: str) -> Strategy:
        """Return how a field inside is patched."""
        return self.fields.get(name, _PLAIN)


_PLAIN = Strategy()


def of_schema(schema: Mapping[str, Any]) -> Strategy:
    """Return what the OpenAPI schema of a built-in kind says, which has no references left."""
    inside = schema["items"] if schema.get("type") == "array" else schema
    fields = {name: of_schema(part) for name, part in inside.get("properties", {}).items()}
    how = schema.get("x-kubernetes-patch-strategy", "").partition(",")[0]  # what follows is for clients
    known = {name: strategy for name, strategy in fields.items() if strategy != _PLAIN}
    return Strategy(how, schema.get("x-kubernetes-patch-merge-key", ""), known)

"""Makes reports of hosts fit to be written where other programs read them.

Templates of other hosts write addresses, keys and versions into files that root reads line by line, and
YAML, for one, takes U+0085, U+2028 and U+2029 for line breaks. So what a host reports is printable ASCII,
but for texts that name files or repeat what programs said; and of those, nothing that ends a line, steers
a terminal or turns the direction of what follows.

The schema has the same rules (`api.hints`). The sender checks them, too, as its write would be refused, and
so does the reader, because an older server does not check them.
"""

from __future__ import annotations

import re
from typing import Any, Final

from nodemanager.kube import printable

_NOT_ASCII: Final = re.compile("[^ -~]")
_NOT_IN_A_NAME: Final = re.compile("[^!-.0-~]")
_TEXTS: Final = frozenset({"message", "error", "waiting"})
"""Fields of several lines."""
_LINES: Final = frozenset({"conflicts", "resource", "lastResource", "by", "fileBackups"})
"""Fields that name files, which may be called anything."""


text = printable.text
line = printable.line


def status(found: Any) -> Any:
    """Return the status of a ManagedNode, as plain values, fit to be sent."""
    return _clean(found, "", lines=False)


def status_of_other(found: Any) -> Any:
    """Return the status of a ManagedNode as plain values, with every text on one line."""
    return _clean(found, "", lines=True)


def _clean(value: Any, field: str, *, lines: bool) -> Any:
    if isinstance(value, str):
        return value if printable.is_plain(value) else _replaced(value, field, lines=lines)
    if isinstance(value, list):
        return [_clean(each, field, lines=lines) for each in value]
    if not isinstance(value, dict):
        return value
    if field == "interfaces":
        return {_NOT_IN_A_NAME.sub("?", key): _clean(each, "", lines=lines) for key, each in value.items()}
    if field == "fileBackups":
        return {line(key): _clean(each, "", lines=lines) for key, each in value.items()}
    return {key: _clean(each, key, lines=lines) for key, each in value.items()}


def _replaced(said: str, field: str, *, lines: bool) -> str:
    if field in _LINES or (lines and field in _TEXTS):
        return line(said)
    return text(said) if field in _TEXTS else _NOT_ASCII.sub("?", said)

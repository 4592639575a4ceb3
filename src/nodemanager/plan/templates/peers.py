"""Which templates read other nodes, or the data of their host: only these depend on them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from nodemanager.api.common.declarations import File

_ACTION: Final = {
    "gotemplate": re.compile(r"\{\{(.*?)(?:\}\}|\Z)", re.DOTALL),
    "jinja": re.compile(r"\{[{%](.*?)(?:[%}]\}|\Z)", re.DOTALL),
}
"""One that nobody closes reaches to the end: to look for the end from every beginning would take hours."""
_FIELD_OF_DATA: Final = re.compile(r"""\(\s*(?:ds|datasource)\s+(?:"data"|`data`)\s*\)\s*(?=\.\w)""")
_WHOLE: Final = re.compile(r"\b(?:ds|datasource)\b|(?<![\w.)\]])[.$](?![\w.])")
"""The data, or the context, without a field: it may end anywhere, the nodes in it included."""
_DATA: Final = re.compile("data", re.IGNORECASE)
_DATA_AS_A_WHOLE: Final = re.compile(r"data(?!\.\w)", re.IGNORECASE)


def reads_peers(file: File) -> bool:
    """Tell whether a file may depend on other nodes; in doubt it does: that costs one idle pass.

    Entries of `secretRefs` see their own node only.
    """
    text = file.template
    if "nodes" in text.lower():  # a field of the data is found in any case
        return True
    # In Jinja2 the data is these few names, nothing else.
    return file.engine != "jinja" and bool(_WHOLE.search(_actions(file)))


def reads_data(file: File) -> bool:
    """Tell whether a file may depend on the data of its host; in doubt it does."""
    code = _actions(file)
    return bool(_DATA.search(code)) or (file.engine != "jinja" and bool(_WHOLE.search(code)))


def may_read(file: File, keys: Collection[str]) -> bool:
    """Tell whether a file that reads the data of its host may read one of these keys at its top.

    In doubt it may. Who may not is to be given the data without them, so that nothing depends on our reading.
    """
    code = _actions(file)
    whole = _DATA_AS_A_WHOLE.search(code) or (file.engine != "jinja" and _WHOLE.search(code))
    return bool(whole) or any(key in code for key in keys)


def _actions(file: File) -> str:
    """Return what is no plain text of a template; in one of Go, `$` stands for the data."""
    found = _ACTION[file.engine].findall(file.template)
    if any(action.count(quote) % 2 for action in found for quote in "\"'`"):
        return file.template  # its end may be in a text that it writes
    return "\n".join(_FIELD_OF_DATA.sub("$", action) for action in found)

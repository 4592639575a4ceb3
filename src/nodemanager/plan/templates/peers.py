"""Which templates read other nodes: only these are rendered again when another node changes."""

from __future__ import annotations

import re
from typing import Final

from nodemanager.api.common.declarations import File

_ACTION: Final = re.compile(r"\{\{(.*?)(?:\}\}|\Z)", re.DOTALL)
"""One that nobody closes reaches to the end: to look for the end from every beginning would take hours."""
_FIELD_OF_DATA: Final = re.compile(r"""\(\s*(?:ds|datasource)\s+(?:"data"|`data`)\s*\)\s*\.\w""")
_WHOLE: Final = re.compile(r"\b(?:ds|datasource)\b|(?<![\w.)\]])[.$](?![\w.])")
"""The data, or the context, without a field: it may end anywhere, the nodes in it included."""


def reads_peers(file: File) -> bool:
    """Tell whether a file may depend on other nodes; in doubt it does: that costs one idle pass.

    Entries of `secretRefs` see their own node only.
    """
    text = file.template
    if "nodes" in text.lower():  # a field of the data is found in any case
        return True
    if file.engine == "jinja":  # there the data is these two names, nothing else
        return False
    return any(_WHOLE.search(_FIELD_OF_DATA.sub(" ", action)) for action in _ACTION.findall(text))

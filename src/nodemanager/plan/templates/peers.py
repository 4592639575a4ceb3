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
"""An action that is never closed reaches to the end of the text: searching for its end again and again could
take hours."""
_FIELD_OF_DATA: Final = re.compile(r"""\(\s*(?:ds|datasource)\s+(?:"data"|`data`)\s*\)\s*(?=\.\w)""")
_WHOLE: Final = re.compile(r"\b(?:ds|datasource|tpl|tmpl)\b|(?<![\w.)\]])[.$](?![\w.])")
"""The data, or the context, without a field: a function that gets all of it may read all of it, nodes
included. So may a template that is made of data."""
_COMMENT: Final = re.compile(r"-?\s*/\*")
_DATA: Final = re.compile("data", re.IGNORECASE)
_DATA_AS_A_WHOLE: Final = {
    "gotemplate": re.compile(r"data(?!\.\w)", re.IGNORECASE),
    "jinja": re.compile(r"data(?!\.\w)|data\.(?:get|items|keys|values)\b", re.IGNORECASE),
}
"""The data of the host without a key."""


def reads_peers(file: File) -> bool:
    """Tell whether a file may depend on other nodes; in doubt it does: that costs one idle pass.

    Entries of `secretRefs` see their own node only.
    """
    text = file.template
    if "nodes" in text.lower():  # a field of the data is found in any case
        return True
    # In Jinja2 the data is these few names, nothing else.
    return file.engine != "jinja" and any(map(_WHOLE.search, _actions(file)))


def reads_data(file: File) -> bool:
    """Tell whether a file may depend on the data of its host; in doubt it does."""
    code = _code(file)
    return bool(_DATA.search(code)) or (file.engine != "jinja" and bool(_WHOLE.search(code)))


def may_read(file: File, keys: Collection[str]) -> bool:
    """Tell whether a file that reads the data of its host may read one of these keys at its top.

    In doubt it may. A file that may not is given the data without these keys: so it reads none of them, even
    if we are wrong about it.
    """
    code = _code(file)
    whole = _DATA_AS_A_WHOLE[_engine(file)].search(code) or (file.engine != "jinja" and _WHOLE.search(code))
    return bool(whole) or any(key in code for key in keys)


def _engine(file: File) -> str:
    return file.engine if file.engine in _ACTION else "gotemplate"


def _actions(file: File) -> list[str]:
    """Return what is no plain text of a template; in one of Go, `$` stands for the data."""
    return [_FIELD_OF_DATA.sub("$", action) for action in _ACTION[_engine(file)].findall(file.template)]


def _code(file: File) -> str:
    """Return all actions; everything, if one seems to end within a text that it writes."""
    found = [action for action in _actions(file) if not _COMMENT.match(action)]
    quotes = "\"'" if file.engine == "jinja" else '"`'
    cut = any(action.replace('\\"', "").count(quote) % 2 for action in found for quote in quotes)
    return file.template if cut else "\n".join(found)

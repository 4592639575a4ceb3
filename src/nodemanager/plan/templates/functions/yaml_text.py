"""YAML as templates read and write it; imported with the first one that does."""

from __future__ import annotations

from typing import Any

import yaml

from nodemanager.plan.templates.budget import DEPTH_MAX
from nodemanager.plan.templates.errors import FunctionError, TooMuch


class _Loader(yaml.CSafeLoader):
    """Leaves dates as the texts they are: JSON has none."""


_Loader.yaml_implicit_resolvers = {
    first: [rule for rule in rules if rule[0] != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def parsed(text: str) -> Any:
    """Return what a YAML text says, of the first document."""
    try:
        _check(text)
        return next(yaml.load_all(text, Loader=_Loader), None)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f": line {mark.line + 1}, column {mark.column + 1}"
        raise FunctionError(f"the text is not YAML{where}") from None
    except yaml.YAMLError:
        raise FunctionError("the text is not YAML") from None


def _check(text: str) -> None:
    """Refuse what the loader must not see: it is written in C, and what is too deep ends the process."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise FunctionError("YAML aliases are not supported: a few of them can stand for terabytes")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_MAX:
            raise TooMuch(f"the YAML text is nested deeper than {DEPTH_MAX} levels")


class _Dumper(yaml.SafeDumper):
    """Block style, no anchors, lists indented below their key as gomplate's library does it."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, *_: Any, **__: Any) -> Any:
        return super().increase_indent(flow, False)


def written(plain: Any) -> str:
    """Return plain values in block style with sorted keys."""
    text = yaml.dump(plain, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=1 << 30)
    return str(text).removesuffix("...\n")

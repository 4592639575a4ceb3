"""Labels of hosts, as the options of several commands take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from nodemanager.api.rights.host_rights import OWN_LABELS
from nodemanager.kube import selectors


def option(words: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command --label, which may be given again, as `labels`: values by name."""
    return click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", callback=_labels, help=words)


def _labels(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in values:
        try:
            key, value = selectors.parse_label(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
        if key in OWN_LABELS:
            raise click.BadParameter(f"{key} is what the host is: its agent sets it by itself")
        if found.get(key, value) != value:
            raise click.BadParameter(f"{key} cannot be both {found[key]!r} and {value!r}")
        found[key] = value
    return found

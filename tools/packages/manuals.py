"""Manual pages: one for the program, and one for each command, from what it says with --help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from nodemanager.cli.subcommands import COMMANDS, EMBEDDED
from nodemanager.host.init.systems import System
from tools import commands

TEMPLATE: Final = Path(__file__).resolve().parent / "nodemanager.8"
SECTION: Final = 8
SERVICES: Final = {"systemd": "nodemanager.service", "openrc": "nodemanager", "rc.d": "nodemanager"}
_AS_IT_IS: Final = "\b"
"""How click marks a paragraph whose lines stay."""


def pages(version: str, system: System, *, unpacked: bool = False) -> dict[str, str]:
    """Return all pages by the names of their files; `unpacked`: the program unpacks itself."""
    found = {f"nodemanager.{SECTION}": program_page(version, system, unpacked=unpacked)}
    for ctx in commands.contexts():
        if ctx.parent is not None and ctx.command_path.split()[1] not in EMBEDDED:
            found[f"{_page_name(ctx)}.{SECTION}"] = command_page(ctx, version)
    return found


def program_page(version: str, system: System, *, unpacked: bool) -> str:
    """Return the page of the program, as it is installed with an init system."""
    entries = [
        f".TP\n.B {escape(name)}\n{escape(one.help)}"
        for name, one in COMMANDS.items()
        if name not in EMBEDDED
    ]
    cache = ".TP\n.I /var/cache/nodemanager\nThe program, unpacked.\n" if unpacked else ""
    values = {
        "VERSION": version, "COMMANDS": "\n".join(entries), "SERVICE": SERVICES[system.name],
        "KUBECONFIG": system.kubeconfig, "ENVIRONMENT": system.environment, "CACHE": cache,
    }  # fmt: skip
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], TEMPLATE.read_text(encoding="utf-8"))


def command_page(ctx: click.Context, version: str) -> str:
    """Return the page of one command."""
    command, name = ctx.command, _page_name(ctx)
    title = escape(name.upper())
    lines = [f'.TH {title} {SECTION} "" "nodemanager {version}" "System administration"', ".SH NAME"]
    lines.append(f"{escape(name)} \\- {escape(_summary(ctx))}")
    usage = " ".join(command.collect_usage_pieces(ctx))
    lines += [".SH SYNOPSIS", f".B {escape(ctx.command_path)}", escape(usage)]
    lines += [".SH DESCRIPTION", *_paragraphs(command.help or "")]
    records = [record for each in command.get_params(ctx) if (record := each.get_help_record(ctx))]
    if records:
        lines.append(".SH OPTIONS")
        lines += [f".TP\n.B {escape(option)}\n{escape(' '.join(said.split()))}" for option, said in records]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for inner, one in sorted(command.commands.items()):
            lines.append(
                f".TP\n.BR {escape(f'{name}-{inner}')} ({SECTION})\n{escape(one.get_short_help_str(200))}"
            )
    if command.epilog:
        lines += [".SH EXAMPLES", *_paragraphs(_without_heading(command.epilog))]
    lines += [".SH SEE ALSO", f".BR nodemanager ({SECTION})"]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Return a text as roff prints it unchanged."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in text.split("\n"))


def _page_name(ctx: click.Context) -> str:
    return ctx.command_path.replace(" ", "-")


def _summary(ctx: click.Context) -> str:
    return ctx.command.get_short_help_str(200).rstrip(".")


def _without_heading(epilog: str) -> str:
    return re.sub(r"^Examples:\n", "", inspect.cleandoc(epilog), flags=re.MULTILINE)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs of a help text; those that click leaves alone keep their lines."""
    first = True
    for paragraph in re.split(r"\n[ \t]*\n", inspect.cleandoc(text).partition("\f")[0].strip("\n")):
        if not first:
            yield ".PP"
        first = False
        if paragraph.startswith(_AS_IT_IS):
            yield f".nf\n{escape(paragraph.lstrip(_AS_IT_IS).strip(chr(10)))}\n.fi"
        else:
            yield escape(" ".join(paragraph.split()))

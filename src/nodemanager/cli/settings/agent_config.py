"""Where the flags of the agent come from: command line, environment, a file, their defaults; in this order.

    nodemanager --log-level DEBUG            beats
    NODEMANAGER_LOG_LEVEL=WARN               beats
    log-level: INFO                          in the file of --config.file

The file is YAML. Its keys are the names of the flags, written whole or nested at the dots; the layout of the
Go program is understood too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from nodemanager.cli.settings import expansion, go_options
from nodemanager.cli.settings.durations import Duration
from nodemanager.kube import manifests

PREFIX: Final = "NODEMANAGER_"
MAX_BYTES: Final = 1024 * 1024
_OWN: Final = ("config.file", "config.verify", "config.expand-env", "help")
"""Flags that a file cannot set: they are about it."""


def options(command: click.Command) -> click.Command:
    """Give a command --config.file and what belongs to it, and every flag of it a variable."""
    file = click.Option(
        ["--config.file", "config_file"], type=click.Path(exists=True, dir_okay=False), is_eager=True,
        expose_value=False, callback=_remember, metavar="FILE", envvar=f"{PREFIX}CONFIG_FILE",
        show_envvar=True,
        help="Read flags from this file (YAML); flags given here and variables beat it.",
    )  # fmt: skip
    expand = click.Option(
        ["--config.expand-env", "expand_env"], type=bool, is_flag=False, flag_value="true", default="false",
        is_eager=True, expose_value=False, callback=_remember, envvar=f"{PREFIX}CONFIG_EXPAND_ENV",
        show_envvar=True,
        help="Put variables into that file: ${NAME}, ${NAME:-default}; $$ is a dollar.",
    )  # fmt: skip
    verify = click.Option(
        ["--config.verify", "verify"], type=bool, is_flag=False, flag_value="true", default="false",
        help="Check flags, variables and the file, and do nothing.",
    )  # fmt: skip
    command.params += [file, expand, verify]
    for param in command.params:
        if isinstance(param, click.Option) and param.expose_value and param is not verify:
            param.envvar = param.envvar or variable(_flag(param))
            param.show_envvar = True
    return command


def variable(flag: str) -> str:
    """Return the environment variable that sets a flag."""
    return PREFIX + flag.upper().translate(str.maketrans(".-", "__"))


def _remember(ctx: click.Context, param: click.Parameter, value: str | bool | None) -> None:
    """Read the file as soon as both are known; the user decides which comes first."""
    given = ctx.meta.setdefault(__name__, {})
    given[param.name] = value
    if given.keys() >= {"config_file", "expand_env"} and given["config_file"]:
        found = _defaults(ctx.command, Path(given["config_file"]), expand=given["expand_env"])
        ctx.default_map = {**(ctx.default_map or {}), **found}


def _defaults(command: click.Command, path: Path, *, expand: bool) -> dict[str, str | list[str]]:
    """Return what a file says, by the name of the parameter."""
    flags = {_flag(one): one for one in command.params if isinstance(one, click.Option)}
    flags = {name: one for name, one in flags.items() if name not in _OWN}
    found: dict[str, str | list[str]] = {}
    for key, value in _flat(_read(path, expand=expand), ""):
        name = key if key in flags else go_options.LAYOUT.get(key.lower(), "")
        if name not in flags:
            raise _unknown(path, key, flags)
        param = flags[name]
        if param.name in found:
            raise click.ClickException(f"cannot read {path}: {key} sets --{name}, which is set already")
        if param.multiple:
            several = value if isinstance(value, list) else [value]
            found[param.name or ""] = [_text(path, key, one, nanoseconds=False) for one in several]
            continue
        found[param.name or ""] = _text(path, key, value, nanoseconds=name != key and _is_duration(param))
    for flag, param in sorted(flags.items()):
        if not param.expose_value and param.name in found:
            go_options.tell(f"{path}: {flag}", str(found.pop(param.name)))
    return found


def _read(path: Path, *, expand: bool) -> Mapping[str, Any]:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise click.ClickException(f"cannot read {path}: it is larger than {MAX_BYTES} bytes")
        text = expansion.expand(text, os.environ) if expand else text
        documents = [value for _, value in manifests.documents(text, str(path)) if value is not None]
    except (OSError, UnicodeDecodeError, expansion.ExpansionError, manifests.ManifestError) as error:
        raise click.ClickException(f"cannot read {path}: {error}") from error
    if len(documents) > 1 or not all(isinstance(one, dict) for one in documents):
        raise click.ClickException(f"cannot read {path}: it should be one object, its keys names of flags")
    return documents[0] if documents else {}


def _flat(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Return the leaves of nested objects, their keys joined by dots."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _text(path: Path, key: str, value: Any, *, nanoseconds: bool) -> str:
    """Return a value as it would be on the command line; the Go program wrote durations as nanoseconds."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value}ns" if nanoseconds else str(value)
    if not isinstance(value, str):
        raise click.ClickException(f"cannot read {path}: {key} should be a text or a number")
    return value


def _unknown(path: Path, key: str, known: Mapping[str, object]) -> click.ClickException:
    import difflib  # a host that is set up well never needs it

    alike = difflib.get_close_matches(key, known, 1)
    hint = f"; did you mean {alike[0]}?" if alike else "; its keys are the names of flags"
    return click.ClickException(f"cannot read {path}: there is no flag {key}{hint}")


def _flag(option: click.Option) -> str:
    return next(name for name in option.opts if name.startswith("--")).removeprefix("--")


def _is_duration(param: click.Parameter) -> bool:
    return isinstance(param.type, Duration)

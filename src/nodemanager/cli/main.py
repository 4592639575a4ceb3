"""The `nodemanager` command: how a subcommand is found and run, and how a failure ends.

A subcommand is imported when it is used, so that `nodemanager version` costs nothing that only
`nodemanager operator` needs.

Exit codes: 0 done, 1 an error that the message explains, 2 wrong usage, 70 a bug of ours,
130 interrupted.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

import click
from click.shell_completion import CompletionItem

from nodemanager.cli import program
from nodemanager.cli.subcommands import COMMANDS, GROUPS, OPTIONAL, Lazy
from nodemanager.cli.views import output

COMPLETION: Final = "_NODEMANAGER_COMPLETE"
"""The variable with which the script of a shell asks what a word may become."""
EXIT_ERROR: Final = 1
EXIT_BUG: Final = 70
EXIT_INTERRUPTED: Final = 130


class ProgramOptions:
    """What the options of the whole program say."""

    debug = False


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used; help and completion need none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order to show them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; a name that is none ends with the ones that look like it."""
        entry = COMMANDS.get(cmd_name)
        if entry is not None:
            return _as_called(_load(cmd_name, entry), ctx)
        if not ctx.resilient_parsing and not cmd_name.startswith("-"):
            import difflib

            alike = difflib.get_close_matches(cmd_name, COMMANDS)
            hint = f" Did you mean {' or '.join(map(repr, alike))}?" if alike else ""
            ctx.fail(f"No such command {cmd_name!r}.{hint}")
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, by what people are about to do."""
        del ctx
        width = max(map(len, COMMANDS))
        placed = {name for names in GROUPS.values() for name in names}
        groups = {**GROUPS, "More": tuple(name for name in COMMANDS if name not in placed)}
        for title, names in groups.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:<{width}}", COMMANDS[name].help) for name in names if name in COMMANDS]
                )

    def get_help(self, ctx: click.Context) -> str:
        """Return the help, with the program called as it was."""
        return _speaker().say(super().get_help(ctx), ctx.info_name or program.NAME)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands and options."""
        found = [
            CompletionItem(name, help=entry.help)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)


def _speaker() -> program.Speaker:
    return program.Speaker(COMMANDS)


def _as_called(command: click.Command, ctx: click.Context) -> click.Command:
    """Return a command whose help calls the program as it was called: that cannot change any more."""
    name = ctx.find_root().info_name or program.NAME
    if name != program.NAME:
        command.help, command.epilog = (
            text and _speaker().say(text, name) for text in (command.help, command.epilog)
        )
    return command


def _load(name: str, entry: Lazy) -> click.Command:
    try:
        command: click.Command = importlib.import_module(entry.module).command
    except ModuleNotFoundError as error:
        missing = f"{error.name}."
        if not any(missing.startswith(f"{each}.") for each in OPTIONAL):
            raise
        raise click.ClickException(
            f"cannot run {name}: this is the program for hosts, without the embedded API ({error.name});"
            f" run it where the sources are: make .venv/.dev && .venv/bin/nodemanager {name}"
        ) from error
    return command


def _show_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from nodemanager.cli.commands import version

        click.echo(version.facts().line())
        ctx.exit()


def _set_debug(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        import logging

        ctx.ensure_object(ProgramOptions).debug = True
        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Show what a command does, with examples: nodemanager COMMAND --help",
)
@click.option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    envvar="NODEMANAGER_DEBUG",
    show_envvar=True,
    callback=_set_debug,
    help="Log everything to stderr, and show where in the code an error came from.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Print the version and exit.",
)
@click.option(
    "-version",  # as the Go program spelt it
    "go_version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    hidden=True,
)
def cli() -> None:
    """Configure and maintain hosts, with Kubernetes as the configuration plane.

    \b
    nodemanager demo                      see in a few seconds what this is about
    nodemanager up                        run everything here, with a cluster or without one
    nodemanager --kubeconfig FILE         run the agent of this host, as its service does
    nodemanager plan -f manifests/        see what would change on this host
    nodemanager apply --manifest-dir DIR  change it, without any API
    nodemanager get mn,cs                 see hosts and configuration sets
    nodemanager describe mn web1          see how one host is doing, and why
    """


AGENT: Final = "agent"
_DEBUG: Final = "--debug"
_OURS: Final = ("-h", "--help", "--version", "-version")


def with_agent(args: Sequence[str]) -> list[str]:
    """Return the arguments with `agent` in front where no command is named: that is what a host runs.

    `nodemanager --kubeconfig FILE` is how unit files start the agent, and, as the Go program's, its
    flags may have one dash or two.
    """
    rest = list(args)
    if rest[:1] == [_DEBUG]:  # as we ask for when something went wrong, whatever was run
        return [_DEBUG, *with_agent(rest[1:])]
    if rest and (not rest[0].startswith("-") or rest[0].partition("=")[0] in _OURS):
        return rest
    return [AGENT, *(f"-{word}" if _has_one_dash(word) else word for word in rest)]


def _has_one_dash(word: str) -> bool:
    return len(word) > 2 and word[0] == "-" and word[1] != "-"


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the program and exit."""
    given = with_agent(sys.argv[1:] if args is None else args)
    if given[1 if given[0] == _DEBUG else 0] == AGENT:
        # To look at everything again is what SIGHUP asks for, and what an agent that starts does anyway.
        # Until it listens, the signal would end it; and systemd takes that for an end in order.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.exit(run(given, program.called(sys.argv[0], os.environ.get("PATH", ""))))


def run(args: Sequence[str] | None = None, name: str = program.NAME) -> int:
    """Run the program, which was called by this name, and return its exit code."""
    _tolerate_odd_text()
    state = ProgramOptions()
    try:
        given = with_agent(sys.argv[1:] if args is None else args)
        code = cli.main(given, prog_name=name, complete_var=COMPLETION, standalone_mode=False, obj=state)
        sys.stdout.flush()  # here, where a reader that has left can still be noticed
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        _show(error, name)
        return error.exit_code
    except BrokenPipeError:
        _forget_stdout()
        return EXIT_ERROR
    except Exception as error:  # noqa: BLE001 - the last resort: whatever it is, it ends as one line
        return _report(error, name, state.debug)
    return code if isinstance(code, int) else 0


def _show(error: click.ClickException, name: str) -> None:
    """Tell what is wrong with the command line, or with what it names, in the form of every other error."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)  # the help, which is no sentence
        return
    if isinstance(error, click.UsageError) and error.ctx is not None:
        help_option = error.ctx.help_option_names[0]
        click.echo(error.ctx.get_usage(), err=True)
        click.echo(f"Try '{error.ctx.command_path} {help_option}' for help.\n", err=True)
    _tell(error.format_message(), name)


def _tell(message: str, name: str) -> None:
    click.echo(f"error: {output.one_line(_speaker().say(message, name))}", err=True)


def _report(error: Exception, name: str, debug: bool) -> int:
    """Tell what went wrong, in one line unless asked for more."""
    if debug:
        traceback.print_exception(error)
    if isinstance(error, _expected()):
        _tell(_words(error), name)
        return EXIT_ERROR
    more = "" if debug else "; run it again as nodemanager --debug ... and report what it prints"
    _tell(f"this is a bug in nodemanager: {type(error).__name__}: {error}{more}", name)
    return EXIT_BUG


def _words(error: Exception) -> str:
    """Return what an error says; that of a system call, without its number and in the order of our own."""
    if isinstance(error, OSError) and error.errno and error.strerror:
        where = " and ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
        return f"cannot use {where}: {error.strerror}" if where else error.strerror
    return str(error)


def _expected() -> tuple[type[BaseException], ...]:
    """Return the errors that are no bugs; the module of an error that was raised is loaded already."""
    kinds: list[type[BaseException]] = [OSError]
    for module, name in (
        ("nodemanager.kube.errors", "KubeError"),
        ("nodemanager.kube.manifests", "ManifestError"),
        ("nodemanager.native.ed25519", "Unavailable"),
        ("nodemanager.runtime.manager", "ManagerError"),
        ("nodemanager.store.base", "StoreError"),
    ):
        if module in sys.modules:
            kinds.append(getattr(sys.modules[module], name))
    return tuple(kinds)


def _tolerate_odd_text() -> None:
    """Make sure that nothing we print can end us: no odd name, and no stream that is closed."""
    if sys.stdout is None:  # as cron jobs and daemons like to start us; typeshed does not know
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    """Send what is still buffered nowhere, so that Python does not complain about it at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)

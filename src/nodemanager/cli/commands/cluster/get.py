"""`nodemanager get`: hosts and ConfigSets, in columns, as names, or whole; now, or as they change."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

import click

from nodemanager.cli import completing, kinds, sources
from nodemanager.cli.settings import connect
from nodemanager.cli.views import forms, output, printers, tables
from nodemanager.cli.watch_printer import WatchPrinter
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.kube import errors, selectors


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked for, and how to show it."""

    targets: list[kinds.Target]
    settings: connect.Settings
    everywhere: bool = False
    selector: str = ""
    form: str = "table"

    def selection(self, target: kinds.Target) -> Selection:
        """Return the selection that lists, or watches, a target."""
        name = f"metadata.name={target.names[0]}" if target.names else ""
        return Selection("" if self.everywhere else self.settings.namespace, self.selector, name)


@click.command(
    epilog="""\b
Examples:
  nodemanager get mn                       all hosts
  nodemanager get mn web1 web2 -o wide     two of them, with more columns
  nodemanager get mn,cs -A                 hosts and ConfigSets of all namespaces
  nodemanager get mn -l nodemanager.io/os=debian
  nodemanager get mn -w                    and every change from now on
  nodemanager get cs base -o yaml          one ConfigSet, whole
"""
)
@click.argument(
    "words", nargs=-1, required=True, metavar="KIND [NAME]...", shell_complete=completing.kinds_and_names
)
@connect.options(namespaced=True)
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces, not of one.")
@click.option("-l", "--selector", default="", help='By label, such as "role=db,env!=test".')
@click.option(
    "-o", "--output", "form", type=click.Choice(printers.FORMATS), default="table", help="How to show them."
)
@click.option("-w", "--watch", is_flag=True, help="Go on and show every change, until interrupted.")
def command(
    words: tuple[str, ...],
    settings: connect.Settings,
    all_namespaces: bool,
    selector: str,
    form: str,
    watch: bool,
) -> None:
    """List hosts (ManagedNodes) and ConfigSets, or watch them change.

    KIND is mn, cs, a full name such as managednodes, several with commas, or "all". Objects can
    also be given as KIND/NAME.
    """
    query = Query(kinds.parse(words), settings, all_namespaces, selector, form)
    _check(query, watch)
    raise click.exceptions.Exit(asyncio.run(_run(query, watch)))


def _check(query: Query, watch: bool) -> None:
    named = any(target.names for target in query.targets)
    if named and query.everywhere:
        raise click.UsageError("a name is of one namespace: give NAME or --all-namespaces, not both")
    if named and query.selector:
        raise click.UsageError("give NAME or --selector, not both")
    if watch and (len(query.targets) > 1 or len(query.targets[0].names) > 1):
        raise click.UsageError("only one kind, or one object, can be watched at a time")
    try:
        selectors.parse_selector(query.selector)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'-l' / '--selector'") from None


async def _run(query: Query, watch: bool) -> int:
    """Read and print; return the exit code."""
    wrap = tables.TableTransport if query.form in printers.TABULAR else None
    async with connect.connect(query.settings, wrap) as client:
        if watch:
            await _watch(client, query)
        if query.form in ("yaml", "json"):
            return await _print_whole(client, query)
        return await _print_each(client, query)


async def _print_each(client: Client, query: Query) -> int:
    """Print one kind below the other."""
    shown, code = 0, 0
    for target in query.targets:
        source = _source(client, query, target)
        items, failed = await _read(source, query, target)
        code = code or failed
        if items:
            if shown and query.form in printers.TABULAR:
                click.echo()
            _printer(source, query, target).show(items)
            shown += 1
    if not shown and not code:
        _say_empty(query)
    return code


async def _print_whole(client: Client, query: Query) -> int:
    """Print one object as it is, several as a List."""
    everything: list[sources.ListedObject] = []
    code = 0
    for target in query.targets:
        items, failed = await _read(_source(client, query, target), query, target)
        everything += items
        code = code or failed
    single = len(query.targets) == 1 and len(query.targets[0].names) == 1
    if not (single and not everything):
        whole = everything[0].payload if single else printers.as_list(everything)
        click.echo(forms.dump(whole, query.form), nl=False)
    return code


async def _read(
    source: sources.Source, query: Query, target: kinds.Target
) -> tuple[list[sources.ListedObject], int]:
    """Return the objects of a target, and exit code 1 if some that were named do not exist."""
    with kinds.installed(source.resource):
        if not target.names:
            return (await source.fetch(query.selection(target))).items, 0
        found: list[sources.ListedObject] = []
        code = 0
        for name in target.names:
            try:
                found += await source.get(name, query.settings.namespace)
            except errors.NotFound as error:
                if not error.details.name:
                    raise
                click.echo(f"error: {output.one_line(str(error))}", err=True)
                code = 1
        return found, code


async def _watch(client: Client, query: Query) -> None:
    """Print what is there, then every change; never returns."""
    (target,) = query.targets
    source = _source(client, query, target)
    printer = _printer(source, query, target)
    selection = query.selection(target)
    with kinds.installed(source.resource):
        if target.names:
            await source.get(target.names[0], query.settings.namespace)  # to say so if it is not there
        listing = await source.fetch(selection)
        if listing.items:
            printer.show(listing.items)
        else:
            _say_empty(query)
        await WatchPrinter(source, selection, show=printer.show, warn=_warn).run(listing)


def _source(client: Client, query: Query, target: kinds.Target) -> sources.Source:
    kind = sources.TableSource if query.form in printers.TABULAR else sources.ObjectSource
    return kind(client, target.kind.resource)


def _printer(source: sources.Source, query: Query, target: kinds.Target) -> printers.Printer:
    if isinstance(source, sources.TableSource):
        return printers.TablePrinter(
            source,
            wide=query.form == "wide",
            namespaces=query.everywhere,
            prefix=f"{target.kind.short_names[-1]}/" if len(query.targets) > 1 else "",
            style=output.Style.of(sys.stdout, query.settings.environ),
        )
    return printers.NamePrinter(target.kind) if query.form == "name" else printers.ObjectPrinter(query.form)


def _say_empty(query: Query) -> None:
    where = "" if query.everywhere else f" in {query.settings.namespace} namespace"
    click.echo(f"No resources found{where}.", err=True)


def _warn(message: str) -> None:
    click.echo(f"warning: {output.one_line(message)}", err=True)

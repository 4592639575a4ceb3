"""How `get` prints what its sources bring: tables, names, YAML or JSON, at once or as it changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import click

from nodemanager.api.kind_parts import KindEntry
from nodemanager.cli.sources import ListedObject, TableSource
from nodemanager.cli.views import forms, output, tables

TABULAR: Final = ("table", "wide")
FORMATS: Final = (*TABULAR, "name", "yaml", "json")
DELETED: Final = " (deleted)"


class Printer(Protocol):
    """Prints objects of one kind, in as many portions as they come in."""

    def show(self, items: Sequence[ListedObject]) -> None:
        """Print some objects."""
        ...


def now() -> datetime:
    """Return the time that ages are counted to."""
    return datetime.now(UTC)


class TablePrinter:
    """Prints rows below one heading."""

    def __init__(
        self,
        source: TableSource,
        *,
        wide: bool = False,
        namespaces: bool = False,
        prefix: str = "",
        style: output.Style = output.PLAIN,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self._source = source
        self._options: dict[str, Any] = {"wide": wide, "namespaces": namespaces, "prefix": prefix}
        self._style = style
        self._clock = clock
        self._layout: tables.TableLayout | None = None
        self._writer: output.TableWriter | None = None

    def show(self, items: Sequence[ListedObject]) -> None:
        """Print a row for each object; one that was deleted says so behind its last column."""
        if self._layout is None or self._layout.columns != self._source.columns:
            # The first rows, or the CRD was changed during a watch.
            self._layout = tables.TableLayout(self._source.columns, **self._options)
            self._writer = output.TableWriter(self._layout.headers(), self._style)
        if self._writer is not None:
            self._writer.write([self._cells(self._layout, item) for item in items])

    def _cells(self, layout: tables.TableLayout, item: ListedObject) -> list[str]:
        cells = layout.cells(item.payload, self._clock())
        if item.deleted and cells:
            cells[-1] += DELETED
        return cells


class NamePrinter:
    """Prints references that `get` takes back."""

    def __init__(self, kind: KindEntry) -> None:
        self._kind = kind

    def show(self, items: Sequence[ListedObject]) -> None:
        """Print one reference per line."""
        for item in items:
            click.echo(output.one_line(self._kind.reference(item.key.name)))


class ObjectPrinter:
    """Prints whole objects one after the other, as a watch brings them."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._begun = False

    def show(self, items: Sequence[ListedObject]) -> None:
        """Print each object as a document of its own."""
        for item in items:
            if self._begun and self._form == "yaml":
                click.echo("---")
            self._begun = True
            click.echo(forms.dump(item.payload, self._form), nl=False)
        sys.stdout.flush()


def as_list(items: Sequence[ListedObject]) -> dict[str, Any]:
    """Return objects as one `v1` List, which `kubectl apply` takes."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [item.payload for item in items]}

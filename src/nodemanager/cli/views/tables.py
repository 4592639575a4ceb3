"""Tables as the API server lays them out: it knows the columns of a kind, we only align them.

`TableTransport` asks for them on the wire, below a client that needs not know.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any, Final

import msgspec

from nodemanager.cli.views import output
from nodemanager.client.calls import Call, Selection
from nodemanager.client.http.transport import Request, Response, Transport
from nodemanager.client.verbs import PAGE_SIZE, Client
from nodemanager.kube import errors
from nodemanager.kube.objects import ListMeta, ObjectKey, ObjectMeta, Resource, Struct

ACCEPT: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Column(Struct):
    """What a cell means; priority 0 is always shown, more only when asked for."""

    name: str = ""
    type: str = ""
    priority: int = 0


class PartialObject(Struct):
    """The metadata of the object that a row is about."""

    metadata: ObjectMeta = ObjectMeta()


class TableRow(Struct):
    """One object."""

    cells: list[Any] = []
    object: PartialObject = PartialObject()

    @property
    def key(self) -> ObjectKey:
        """Namespace and name of the object."""
        return ObjectKey(self.object.metadata.namespace, self.object.metadata.name)


class Table(Struct):
    """`meta.k8s.io/v1` Table; in a watch, only the first one has columns."""

    kind: str = ""
    metadata: ListMeta = ListMeta()
    column_definitions: list[Column] | None = None
    rows: list[TableRow] | None = None


class TableTransport:
    """Asks for tables in every request."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request) -> Response:
        """Send a request that accepts a table."""
        headers = {**request.headers, "accept": ACCEPT}
        return await self._transport.send(dataclasses.replace(request, headers=headers))

    async def reauthenticate(self) -> bool:
        """Leave it to the transport below."""
        return await self._transport.reauthenticate()

    async def close(self) -> None:
        """Close the transport below."""
        await self._transport.close()


def resource_of(resource: Resource[Any]) -> Resource[Table]:
    """Return a kind as it comes out of a `TableTransport`."""
    return Resource(
        resource.group, resource.version, resource.kind, resource.plural, Table, resource.namespaced
    )


def check(table: Table, resource: Resource[Any]) -> Table:
    """Return a table, or say that it is none."""
    if table.kind != "Table":
        raise errors.ProtocolError(
            f"cannot show {resource.qualified_name}: the server does not serve tables; use -o yaml or -o json"
        )
    return table


async def fetch(client: Client, resource: Resource[Any], selection: Selection) -> Table:
    """Return a whole list as one table: page by page, begun anew once when a page expired."""
    try:
        return await _pages(client, resource, selection, PAGE_SIZE)
    except errors.Gone:
        return await _pages(client, resource, selection, 0)


async def _pages(client: Client, resource: Resource[Any], selection: Selection, limit: int) -> Table:
    doing = f"list {resource.qualified_name}{selection}"
    query = {**selection.query(), **({"limit": str(limit)} if limit else {})}
    columns: list[Column] | None = None
    rows: list[TableRow] = []
    while True:
        body = await client.send(Call("GET", resource.path(selection.namespace), doing, query, accept=ACCEPT))
        try:
            table = check(msgspec.json.decode(body, type=Table), resource)
        except errors.UNREADABLE as error:
            raise errors.ProtocolError(f"cannot {doing}: the answer does not decode: {error}") from error
        columns = columns or table.column_definitions
        rows += table.rows or []
        if not table.metadata.continue_:
            return msgspec.structs.replace(table, column_definitions=columns, rows=rows)
        query = {**query, "continue": table.metadata.continue_}


@dataclasses.dataclass(frozen=True, slots=True)
class TableLayout:
    """Which columns to show."""

    columns: list[Column]
    wide: bool = False
    namespaces: bool = False
    """Show the namespace in front."""
    prefix: str = ""
    """Put in front of every name: the kind, when there are several."""

    def headers(self) -> list[str]:
        """Return the heading of every column that is shown."""
        shown = [column.name.upper() for column in self.columns if self._shows(column)]
        return ["NAMESPACE", *shown] if self.namespaces else shown

    def cells(self, row: TableRow, now: datetime) -> list[str]:
        """Return the text of every cell that is shown; a row that is too short is filled up."""
        values = [*row.cells, *[None] * (len(self.columns) - len(row.cells))]
        pairs = zip(self.columns, values, strict=False)
        shown = [_text(column, value, now) for column, value in pairs if self._shows(column)]
        if self.prefix and shown:
            shown[0] = self.prefix + shown[0]
        return [row.key.namespace or output.NONE, *shown] if self.namespaces else shown

    def _shows(self, column: Column) -> bool:
        return self.wide or column.priority == 0


def _text(column: Column, value: object, now: datetime) -> str:
    if value is None or value == "":
        return output.NONE
    if column.type == "date" and isinstance(value, str) and output.parse_time(value):
        return output.age(value, now)  # most servers send the age themselves
    return output.one_line(str(value))

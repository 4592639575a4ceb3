"""Where `get` takes objects from: as rows of a table, or as they are; listed, named or watched."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from nodemanager.cli.views import tables
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.kube.objects import ObjectKey, Resource, Untyped


class ListedObject(NamedTuple):
    """One object in one version; the payload is what its source makes of it."""

    key: ObjectKey
    version: str
    payload: Any
    deleted: bool = False


class Listing(NamedTuple):
    """The objects of a list, and the version from which a watch goes on."""

    items: list[ListedObject]
    version: str


class Source(Protocol):
    """A way to read objects of one kind."""

    @property
    def client(self) -> Client:
        """The client it reads with."""
        ...

    @property
    def resource(self) -> Resource[Any]:
        """The kind, typed as watch events are to be decoded."""
        ...

    async def fetch(self, selection: Selection) -> Listing:
        """Return all objects of a selection."""
        ...

    async def get(self, name: str, namespace: str) -> list[ListedObject]:
        """Return one object."""
        ...

    def items(self, decoded: Any) -> list[ListedObject]:
        """Return what is in an answer or a watch event."""
        ...


class TableSource:
    """Objects as rows; `columns` says what their cells mean, once something was read."""

    def __init__(self, client: Client, resource: Resource[Any]) -> None:
        self.client = client
        self.resource = tables.resource_of(resource)
        self.columns: list[tables.Column] = []

    async def fetch(self, selection: Selection) -> Listing:
        """Return all rows of a selection."""
        table = await tables.fetch(self.client, self.resource, selection)
        return Listing(self.items(table), table.metadata.resource_version)

    async def get(self, name: str, namespace: str) -> list[ListedObject]:
        """Return the row of one object."""
        return self.items(tables.check(await self.client.get(self.resource, name, namespace), self.resource))

    def items(self, decoded: tables.Table) -> list[ListedObject]:
        """Return the rows of a table, and learn its columns."""
        self.columns = decoded.column_definitions or self.columns
        return [
            ListedObject(row.key, row.object.metadata.resource_version, row) for row in decoded.rows or []
        ]


class ObjectSource:
    """Objects as they are, without the records of who set which field."""

    def __init__(self, client: Client, resource: Resource[Any]) -> None:
        self.client = client
        self.resource = resource.untyped()

    async def fetch(self, selection: Selection) -> Listing:
        """Return all objects of a selection."""
        page = await self.client.list(self.resource, selection)
        return Listing([item for obj in page.items for item in self.items(obj)], page.resource_version)

    async def get(self, name: str, namespace: str) -> list[ListedObject]:
        """Return one object."""
        return self.items(await self.client.get(self.resource, name, namespace))

    def items(self, decoded: Untyped) -> list[ListedObject]:
        """Return an object with its kind put in, as lists may leave it out."""
        meta = {name: value for name, value in decoded.get("metadata", {}).items() if name != "managedFields"}
        head = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        key = ObjectKey(meta.get("namespace", ""), meta.get("name", ""))
        return [ListedObject(key, meta.get("resourceVersion", ""), {**head, **decoded, "metadata": meta})]

"""All functions and names of types that an expression can use, in one table."""

from __future__ import annotations

from nodemanager.kube.cel import conversions, standard
from nodemanager.kube.cel.ast import AstNode, Ident, Select
from nodemanager.kube.cel.lib import (
    authz,
    formatting,
    kube_formats,
    lists,
    net,
    quantity,
    semver,
    strings,
    url,
)
from nodemanager.kube.cel.registry import Library, Overload

FUNCTIONS: dict[str, list[Overload]] = Library(
    standard.LIBRARY, conversions.LIBRARY, strings.LIBRARY, formatting.LIBRARY, lists.LIBRARY,
    url.LIBRARY, net.LIBRARY, quantity.LIBRARY, semver.LIBRARY, kube_formats.LIBRARY,
    authz.LIBRARY,
).functions  # fmt: skip
"""Every function by its name, those of a namespace with the namespace in front."""

TYPE_NAMES = {
    "bool": "bool", "int": "int", "uint": "uint", "double": "double", "string": "string", "bytes": "bytes",
    "list": "list", "map": "map", "type": "type", "null_type": "null", "optional_type": "optional_type",
    "google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration",
    "net.IP": "net.IP", "net.CIDR": "net.CIDR",
    "kubernetes.Quantity": "kubernetes.Quantity", "kubernetes.URL": "kubernetes.URL",
    "kubernetes.Semver": "kubernetes.Semver",
}  # fmt: skip
"""Names that stand for a type -> that type."""


def qualified(node: AstNode) -> str:
    """Return the dotted name that a chain of selections spells, or nothing."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test and not node.optional:
        parts.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(parts)]) if isinstance(node, Ident) else ""

"""What a request is about, read from method, path and query as Kubernetes reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from nodemanager.kube import errors
from nodemanager.server.http import refusals
from nodemanager.server.kinds.resources import Catalogue, ServedKind

_VERBS = {
    "POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete",
}  # fmt: skip
_OWN_OF_NAMESPACES = ("status", "finalize")
MAX_PARTS = 12


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """Verb and target. `resource` is empty for paths that are not about a resource."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def is_resource(self) -> bool:
        """Whether this is about objects rather than about the server."""
        return bool(self.resource)


class PageNotFound(errors.NotFound):
    """A path that is not served: answered in plain text, as Go's router does."""


def parse(method: str, raw_path: str, query: Mapping[str, str]) -> RequestInfo:
    """Return what a request is about; never fails, an unknown path is just not about a resource."""
    path = unquote(raw_path)
    parts = [unquote(part) for part in raw_path.strip("/").split("/")]
    plain = RequestInfo(method.lower(), path)
    verb = _VERBS.get(method)
    if verb is None or len(parts) > MAX_PARTS:
        return plain
    group, version, rest = _version(parts)
    if not rest:
        return plain
    if rest[0] == "watch" and len(rest) > 1:  # the old spelling of ?watch=1
        verb, rest = "watch", rest[1:]
    namespace, rest = _namespace(rest)
    resource, name, subresource = (*rest, "", "", "")[:3]
    if not name:
        verb = _of_collection(verb, query)
    if len(rest) > 3:
        subresource = "/".join(rest[2:])
    return RequestInfo(verb, path, group, version, namespace, resource, name, subresource)


def _version(parts: list[str]) -> tuple[str, str, list[str]]:
    match parts:
        case ["api", version, *rest]:
            return "", version, rest
        case ["apis", group, version, *rest]:
            return group, version, rest
    return "", "", []


def _namespace(parts: list[str]) -> tuple[str, list[str]]:
    if parts[0] != "namespaces" or len(parts) < 2:
        return "", parts
    if len(parts) > 2 and parts[2] not in _OWN_OF_NAMESPACES:
        return parts[1], parts[2:]
    return parts[1], parts  # the namespace itself


def _of_collection(verb: str, query: Mapping[str, str]) -> str:
    if verb == "delete":
        return "deletecollection"
    if verb != "get":
        return verb
    return "watch" if is_true(query.get("watch")) else "list"


def is_true(text: str | None) -> bool:
    """Read a query parameter as Go's ParseBool does; a bare `?watch` counts as yes."""
    return text is not None and text not in ("0", "f", "F", "false", "FALSE", "False")


def resolve(info: RequestInfo, catalogue: Catalogue) -> ServedKind:
    """Return the kind a request is about, or refuse by name: no such resource, or no such verb."""
    kind = catalogue.find(info.group, info.version, info.resource)
    if kind is None:
        if catalogue.is_builtin_group(info.group):
            raise refusals.no_such_resource(info.resource)
        raise PageNotFound("404 page not found")
    if info.subresource and info.subresource not in kind.subresources:
        if kind.custom:
            raise refusals.not_found(kind, info.name)
        raise refusals.no_such_resource(f"{info.resource}/{info.subresource}")
    if not _scope_fits(info, kind):
        raise PageNotFound("404 page not found") if kind.custom else refusals.no_such_resource()
    if kind.custom and info.verb in ("update", "patch") and not info.name:
        raise errors.BadRequest("name must be provided")
    if kind.custom and info.verb == "create" and kind.namespaced and not info.namespace:
        raise PageNotFound("404 page not found")
    verbs = kind.subresources[info.subresource] if info.subresource else kind.verbs
    if info.verb not in verbs or not _verb_fits(info, kind):
        raise refusals.not_allowed()
    return kind


def _scope_fits(info: RequestInfo, kind: ServedKind) -> bool:
    if kind.namespaced:
        # Without a namespace there is only the list of everything.
        return bool(info.namespace) or not info.name
    return not info.namespace or info.resource == "namespaces"


def _verb_fits(info: RequestInfo, kind: ServedKind) -> bool:
    if info.verb in ("update", "patch", "delete"):
        return bool(info.name)
    if info.verb == "create" and info.subresource:
        return bool(info.name)
    if info.verb == "create":
        return not info.name and (bool(info.namespace) or not kind.namespaced)
    return info.verb != "deletecollection" or bool(info.namespace) or not kind.namespaced

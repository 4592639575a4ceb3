"""The operations on a kind, path by path, in OpenAPI v3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from nodemanager.server.kinds.schemas.notation import META, REF
from nodemanager.server.openapi.kinds import Published

Item = dict[str, Any]

_MEDIA = ("application/json", "application/yaml")
_WATCH = "application/json;stream=watch"
_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_STATUS = f"{META}.Status"
_DELETED_OBJECT = {("", "Pod"), ("", "ServiceAccount")}
"""Kinds whose deletion is answered with the object, not with a Status."""

_PARAMETERS: dict[str, tuple[str, str]] = {
    "allowWatchBookmarks": ("boolean", "Whether a watch may report progress without a change."),
    "continue": ("string", "Token of the next page, from the page before."),
    "dryRun": ("string", "All: do everything except keeping the result."),
    "fieldManager": ("string", "Name of who makes the change."),
    "fieldSelector": ("string", "Limits the objects by their fields."),
    "fieldValidation": ("string", "Ignore, Warn or Strict: what unknown or duplicate fields lead to."),
    "force": ("boolean", "Whether an apply takes fields that others own."),
    "gracePeriodSeconds": ("integer", "Seconds to end in peace; 0 is at once."),
    "ignoreStoreReadErrorWithClusterBreakingPotential": (
        "boolean",
        "Whether to delete what cannot be read.",
    ),
    "labelSelector": ("string", "Limits the objects by their labels."),
    "limit": ("integer", "The most objects on a page."),
    "name": ("string", "Name of the object."),
    "namespace": ("string", "Namespace of the object."),
    "orphanDependents": ("boolean", "The older form of propagationPolicy."),
    "pretty": ("string", "Whether to indent the answer."),
    "propagationPolicy": ("string", "Orphan, Background or Foreground: what becomes of dependents."),
    "resourceVersion": ("string", "How recent the answer must be."),
    "resourceVersionMatch": ("string", "How resourceVersion is meant: NotOlderThan or Exact."),
    "sendInitialEvents": ("boolean", "Whether a watch starts with what is there."),
    "timeoutSeconds": ("integer", "Seconds after which a list or watch ends."),
    "watch": ("boolean", "Whether to report changes instead of a list."),
}
_LIST = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
    "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch",
)  # fmt: skip
_DELETE = (
    "dryRun", "gracePeriodSeconds", "ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents",
    "propagationPolicy",
)  # fmt: skip
_DELETE_MANY = tuple(sorted({*_LIST, *_DELETE} - {"allowWatchBookmarks", "watch"}))
_WRITE = ("dryRun", "fieldManager", "fieldValidation")


class _Verb(NamedTuple):
    """How a verb appears in a document."""

    method: str
    action: str
    word: str
    text: str
    codes: tuple[str, ...]


_VERBS = {
    "list": _Verb("get", "list", "list", "list or watch objects of kind {kind}", ("200",)),
    "create": _Verb("post", "post", "create", "create {a}{kind}", ("200", "201", "202")),
    "deletecollection": _Verb(
        "delete", "deletecollection", "delete", "delete collection of {kind}", ("200",)
    ),
    "get": _Verb("get", "get", "read", "read {of}the specified {kind}", ("200",)),
    "update": _Verb("put", "put", "replace", "replace {of}the specified {kind}", ("200", "201")),
    "delete": _Verb("delete", "delete", "delete", "delete {a}{kind}", ("200", "202")),
    "patch": _Verb("patch", "patch", "patch", "partially update {of}the specified {kind}", ("200", "201")),
}
_MEANINGS = {"200": "OK", "201": "Created", "202": "Accepted", "401": "Unauthorized"}


def paths_of(kind: Published) -> dict[str, Item]:
    """Return every path of a kind and its subresources, with what can be done there."""
    found: dict[str, Item] = {}
    for path, verbs, subresource in _places(kind):
        everywhere = kind.namespaced and "{namespace}" not in path
        found_here = {
            _VERBS[verb].method: _operation(kind, verb, subresource, everywhere=everywhere)
            for verb in _VERBS
            if verb in verbs
        }
        if found_here:
            found[path] = _share_parameters(found_here, _path_parameters(path))
    return found


def _places(kind: Published) -> Iterator[tuple[str, tuple[str, ...], str]]:
    base = f"/{kind.group_path}"
    collection = (
        f"{base}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
    )
    item = f"{collection}/{{name}}"
    if kind.namespaced:
        yield f"{base}/{kind.plural}", _only(kind.verbs, "list"), ""
    yield collection, _only(kind.verbs, "list", "create", "deletecollection"), ""
    yield item, _only(kind.verbs, "get", "update", "delete", "patch"), ""
    for name, verbs in kind.subresources.items():
        yield f"{item}/{name}", verbs, name


def _only(verbs: tuple[str, ...], *wanted: str) -> tuple[str, ...]:
    return tuple(verb for verb in wanted if verb in verbs)


def _operation(kind: Published, verb: str, subresource: str, *, everywhere: bool) -> Item:
    how = _VERBS[verb]
    operation: Item = {
        "tags": [kind.tag],
        "description": _description(kind, verb, subresource),
        "operationId": _operation_id(kind, verb, subresource, everywhere=everywhere),
        "parameters": [_parameter(name) for name in _query(kind, verb)],
        "responses": _responses(kind, verb, subresource),
        "x-kubernetes-action": how.action,
        "x-kubernetes-group-version-kind": kind.subresource_kind(subresource),
    }
    body = _body(kind, verb, subresource)
    return {**operation, "requestBody": body} if body else operation


def _description(kind: Published, verb: str, subresource: str) -> str:
    of = f"{subresource} of " if subresource else ""
    article = f"{of}a " if of else _article(kind.kind)
    text = _VERBS[verb].text
    if kind.custom and verb == "list":
        text = "list objects of kind {kind}"
    return text.format(kind=kind.kind, of=of, a=article)


def _article(noun: str) -> str:
    """Return the article of a kind, as Kubernetes has it: one that ends like a plural has none."""
    if noun.endswith("s") and not noun.endswith("ss"):
        return ""
    return "an " if noun[0] in "AEIOU" else "a "


def _operation_id(kind: Published, verb: str, subresource: str, *, everywhere: bool) -> str:
    many = "Collection" if verb == "deletecollection" else ""
    scope = "Namespaced" if kind.namespaced and not everywhere else ""
    rest = "ForAllNamespaces" if everywhere else subresource[:1].upper() + subresource[1:]
    return f"{_VERBS[verb].word}{kind.operation_words}{many}{scope}{kind.kind}{rest}"


def _query(kind: Published, verb: str) -> tuple[str, ...]:
    match verb:
        case "list":
            return _LIST
        case "deletecollection":
            return _LIST if kind.custom else _DELETE_MANY
        case "delete":
            return _DELETE
        case "patch":
            return (*_WRITE, "force")
        case "create" | "update":
            return _WRITE
    return ("resourceVersion",) if kind.custom else ()


def _parameter(name: str) -> Item:
    kind, description = _PARAMETERS[name]
    place = {"in": "path", "required": True} if name in ("name", "namespace") else {"in": "query"}
    return {"name": name, **place, "description": description, "schema": {"type": kind, "uniqueItems": True}}


def _path_parameters(path: str) -> list[Item]:
    names = [name for name in ("name", "namespace") if f"{{{name}}}" in path]
    return [_parameter(name) for name in (*names, "pretty")]


def _share_parameters(operations: Item, shared: list[Item]) -> Item:
    """Move what all operations of a path have in common to the path."""
    lists = [operation["parameters"] for operation in operations.values()]
    common = [parameter for parameter in lists[0] if all(parameter in others for others in lists)]
    for operation in operations.values():
        own = [parameter for parameter in operation.pop("parameters") if parameter not in common]
        if own:
            operation["parameters"] = own
    return {
        **operations,
        "parameters": sorted([*shared, *common], key=lambda parameter: str(parameter["name"])),
    }


def _body(kind: Published, verb: str, subresource: str) -> Item | None:
    media = _MEDIA if kind.custom else ("*/*",)
    if verb in ("create", "update"):
        return {"content": _content(kind.subresource_definition(subresource), media), "required": True}
    if verb == "patch":
        formats = tuple(name for name in _PATCHES if not (kind.custom and "strategic" in name))
        return {"content": _content(f"{META}.Patch", formats), "required": True}
    if verb == "delete" or (verb == "deletecollection" and not kind.custom):
        return {"content": _content(f"{META}.DeleteOptions", media)}
    return None


def _responses(kind: Published, verb: str, subresource: str) -> Item:
    codes = ("200",) if kind.custom and verb == "patch" else _VERBS[verb].codes
    media = (*_MEDIA, _WATCH) if verb == "list" and not kind.custom else _MEDIA
    content = _content(_answer(kind, verb, subresource), media)
    answers: Item = {code: {"description": _MEANINGS[code], "content": content} for code in codes}
    return {**answers, "401": {"description": _MEANINGS["401"]}}


def _answer(kind: Published, verb: str, subresource: str) -> str:
    if verb == "list":
        return kind.list_definition
    if verb == "deletecollection":
        return _STATUS
    if verb == "delete" and (kind.group, kind.kind) not in _DELETED_OBJECT:
        return _STATUS
    return kind.subresource_definition(subresource)


def _content(definition: str, media: tuple[str, ...]) -> Item:
    return {name: {"schema": {"$ref": REF + definition}} for name in media}

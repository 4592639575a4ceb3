"""Answers of two servers in symbols, and where the two may differ."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from support.duel import Answer, Symbols

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_TEXT_REVISION = re.compile(r"(\(|ResourceVersion: |current: |\"resourceVersion\":\"|version: )\d+")
_MADE = re.compile(r"(?:fuzz-\w+-)?[abc]-[bcdfghjklmnpqrstvwxz2456789]{5}\b()")
_UNDECLARED = "field not declared in schema"
_AGE = re.compile(r"(\d+[smhd])+|<unknown>|<invalid>")
_OWN_TIMES = ("lastTransitionTime",)


class Difference(NamedTuple):
    """A difference on purpose, as docs/embedded-server.md tells it."""

    why: str
    code: int
    message: re.Pattern[str]
    """The message of kube-apiserver; ours is in words of our own, with the same code and reason."""


DOCUMENTED = (
    Difference(
        "wrong types in built-in kinds are told in other words than Go's",
        400,
        re.compile(r"cannot be handled as a \w+: (?!strict decoding error)"),
    ),
    Difference(
        "and so they are when a patch brings them",
        422,
        re.compile(r"patch: Invalid value: .*(?<!strict decoding error): ", re.DOTALL),
    ),
    Difference(
        "selectors that do not parse are told in other words",
        400,
        re.compile(r"unable to parse requirement: "),
    ),
    Difference(
        "and when an apply brings them, or meets them in what is stored",
        500,
        re.compile(r"to proper version: unable to convert|failed to create manager for existing fields: "),
    ),
    Difference("bodies are quoted up to a bound", 400, re.compile(r"Object 'Kind' is missing in ")),
)
"""Everything that is not compared; the rest of an answer of that code is."""


def read(raw: tuple[int, Any, list[str]], symbols: Symbols) -> Answer:
    """Return an answer in symbols."""
    code, body, warnings = raw
    texts = sorted(text.partition('"')[2].removesuffix('"').replace('\\"', '"') for text in warnings)
    return Answer(code, in_symbols(body, symbols), tuple(symbols.in_text(text) for text in texts))


def in_symbols(body: Any, symbols: Symbols) -> Any:
    """Return a body in symbols."""
    if not isinstance(body, dict):
        return symbols.in_text(body) if isinstance(body, str) else body
    if body.get("kind") == "Status":
        return _status(body, symbols)
    if body.get("kind") == "Table":
        return _table(body, symbols)
    if "items" in body and str(body.get("kind", "")).endswith("List"):
        meta, items = _list_meta(body["metadata"], symbols), body["items"]
        return {**body, "metadata": meta, "items": items and [_object(item, symbols) for item in items]}
    return _object(body, symbols)


def event(body: Any, symbols: Symbols) -> Any:
    """Return an event of a watch in symbols."""
    return {**body, "object": in_symbols(body.get("object"), symbols)}


def _list_meta(meta: dict[str, Any], symbols: Symbols) -> dict[str, Any]:
    meta = dict(meta)
    if "resourceVersion" in meta:  # others write, too: the number is not comparable
        meta["resourceVersion"] = symbols.remember("@list", meta["resourceVersion"])
    if meta.get("continue"):
        meta["continue"] = symbols.remember("@continue", meta["continue"])
    return meta


def _object(obj: Any, symbols: Symbols) -> Any:
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        return obj
    meta = dict(obj["metadata"])
    made = meta.get("generateName")
    if made and meta.get("name", "").startswith(made):
        meta["name"] = symbols.name("name", meta["name"])
    uid = symbols.name("uid", meta["uid"]) if "uid" in meta else ""
    if uid:
        meta["uid"] = uid
    if "resourceVersion" in meta:
        meta["resourceVersion"] = symbols.name("rv", meta["resourceVersion"])
    for key, sort in (("creationTimestamp", "created"), ("deletionTimestamp", "deleted")):
        if meta.get(key):
            meta[key] = symbols.remember(f"@{sort}{uid.removeprefix('@uid')}", meta[key])
    if obj.get("kind") == "Namespace" and meta.get("deletionTimestamp"):
        meta["finalizers"] = sorted(meta.get("finalizers", []))  # Kubernetes writes them in random order
    return {**obj, "metadata": meta | _others(meta, symbols)}


def _others(meta: dict[str, Any], symbols: Symbols) -> dict[str, Any]:
    """Return the fields of metadata that may name other objects."""
    found: dict[str, Any] = {}
    if "managedFields" in meta:
        entries = [_entry(one, symbols) for one in meta["managedFields"]]
        found["managedFields"] = sorted(entries, key=_sorted_text)
    for key in ("labels", "ownerReferences"):  # one label is the name of a namespace
        if meta.get(key):
            found[key] = _renamed(meta[key], symbols)
    return found


def _entry(entry: dict[str, Any], symbols: Symbols) -> dict[str, Any]:
    named: dict[str, Any] = _renamed(entry, symbols)
    return {**named, "time": "@time"} if "time" in named else named


def _renamed(value: Any, symbols: Symbols) -> Any:
    """Return a value with the symbols of all uids and generated names in it, which may be keys, too."""
    return json.loads(symbols.in_text(json.dumps(value)))


def _status(body: dict[str, Any], symbols: Symbols) -> dict[str, Any]:
    details = dict(body.get("details") or {})
    causes = [
        {**one, "message": _text(one.get("message", ""), symbols)} for one in details.get("causes") or []
    ]
    causes = list({_sorted_text(one): one for one in causes}.values())  # some are told twice
    details["causes"] = sorted(causes, key=_sorted_text)
    if "uid" in details:
        details["uid"] = symbols.name("uid", details["uid"])
    if "name" in details:
        details["name"] = _text(details["name"], symbols)
    message = _text(body.get("message", ""), symbols)
    if len(causes) > 1:  # of several causes the order is random, and so is that of their texts
        message = ""
    return {**body, "details": details, "message": message}


def _sorted_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _text(text: str, symbols: Symbols) -> str:
    text = re.sub(r"Key: \S+", "Key: @key", text)  # where the store keeps it
    text = _STAMP.sub("@time", _UUID.sub("@uid", symbols.in_text(text)))
    text = _MADE.sub(r"\1@name", re.sub(r"@name\d+", "@name", re.sub(r"@uid\d+", "@uid", text)))
    head, several, lines = _TEXT_REVISION.sub(r"\1@rv", text).partition("errors:\n")
    if _UNDECLARED in text:  # of several faults, any are told
        return text.partition("): ")[0] + _UNDECLARED
    return head + several + "\n".join(sorted(set(lines.split("\n"))))


def _table(body: dict[str, Any], symbols: Symbols) -> dict[str, Any]:
    rows = [
        {
            "cells": [_cell(cell, symbols) for cell in row["cells"]],
            "object": _object(row.get("object"), symbols),
        }
        for row in body.get("rows") or []
    ]
    columns = [{**one, "description": ""} for one in body.get("columnDefinitions") or []]  # words of our own
    return {
        **body,
        "columnDefinitions": columns,
        "rows": rows,
        "metadata": _list_meta(body.get("metadata") or {}, symbols),
    }


def _cell(cell: Any, symbols: Symbols) -> Any:
    if not isinstance(cell, str):
        return cell
    return "@age" if _AGE.fullmatch(cell) else symbols.in_text(cell)


def difference(ours: Answer, theirs: Answer) -> str:
    """Return in what two answers differ, or nothing."""
    if ours.code != theirs.code:
        return f"code: ours {ours.code} {_short(ours.body)}, theirs {theirs.code} {_short(theirs.body)}"
    if ours.warnings != theirs.warnings:
        return f"warnings: ours {ours.warnings}, theirs {theirs.warnings}"
    mine, their = ours.body, theirs.body
    if isinstance(their, dict) and isinstance(mine, dict) and is_documented(theirs):
        mine, their = ({**body, "message": "", "details": {}} for body in (mine, their))
    return "; ".join(_unlike(mine, their, ""))[:3000]


def is_documented(theirs: Answer) -> bool:
    """Tell whether the words of a refusal are known to be others than ours."""
    message = str(theirs.body.get("message", "")) if isinstance(theirs.body, dict) else ""
    return any(one.code == theirs.code and one.message.search(message) for one in DOCUMENTED)


def _unlike(ours: Any, theirs: Any, path: str) -> list[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for key in sorted({*ours, *theirs}):
            if key not in ours:
                found.append(f"{path}.{key}: we lack {_short(theirs[key])}")
            elif key not in theirs:
                found.append(f"{path}.{key}: only we have {_short(ours[key])}")
            else:
                found += _unlike(ours[key], theirs[key], f"{path}.{key}")
        return found
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [text for index, (mine, their) in pairs for text in _unlike(mine, their, f"{path}[{index}]")]
    if ours == theirs and type(ours) is type(theirs):
        return []
    return [f"{path}: ours {_short(ours)}, theirs {_short(theirs)}"]


def _short(value: Any) -> str:
    if isinstance(value, dict) and value.get("kind") == "Status" and value.get("message"):
        return f"{value.get('reason')}: {value['message'][:500]}"
    return json.dumps(value, ensure_ascii=False)[:450]

"""The body of a message, for each type of receiver. Pure."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.api.maintenance.notifications import MAIL, SLACK, WEBHOOK
from nodemanager.controllers.notifications.due import Due
from nodemanager.kube import wording
from nodemanager.plan.templates import Job
from nodemanager.plan.templates.shapes import Data

MAX_TEXT: Final = 8192
MAX_BODY: Final = 32768
JSON: Final = "application/json"
PLAIN: Final = "text/plain; charset=utf-8"


class Message(NamedTuple):
    """What a receiver gets."""

    body: bytes
    content_type: str = JSON


def id_of(maintenance: NodeMaintenance, due: Due) -> str:
    """Return the id by which a receiver recognises a message that it has already received."""
    return f"{maintenance.metadata.uid}-{due.notice.number}"


def job(maintenance: NodeMaintenance, due: Due) -> Job:
    """Return the template of a receiver, with the values that it may use."""
    data = Data(node=_plain(fields(maintenance, due), slack=due.target.type == SLACK))
    name = f"template of notification {due.target.name}"
    text = "{{with .Node}}" + due.target.template + "{{end}}"
    return Job(text, data, name=name, owner=maintenance.metadata.uid)


def fields(maintenance: NodeMaintenance, due: Due) -> dict[str, Any]:
    """Return all fields of a notice."""
    meta, notice = maintenance.metadata, due.notice
    hosts = msgspec.to_builtins(notice.hosts) if notice.hosts is not None else {}
    counts = ("total", "waiting", "running", "succeeded", "failed", "skipped")
    return {
        "id": id_of(maintenance, due), "event": notice.event, "maintenance": meta.name,
        "namespace": meta.namespace, "run": notice.run, "at": notice.at or "", "message": notice.message,
        "hosts": {name: hosts.get(name, 0) for name in counts},
    }  # fmt: skip


def message(maintenance: NodeMaintenance, due: Due, rendered: str | None) -> Message:
    """Return the message; `rendered` is the text from the template, if there is one."""
    kind, known = due.target.type, fields(maintenance, due)
    if kind == WEBHOOK and rendered is not None:
        return Message(rendered.encode(errors="replace"), JSON if _is_json(rendered) else PLAIN)
    text = _text(known) if rendered is None else rendered
    if kind == SLACK and rendered is None:
        text = _escaped(text)
    text = wording.shorten(text, MAX_TEXT)
    if kind == SLACK:
        return Message(msgspec.json.encode({"text": text}))
    if kind == MAIL:
        subject = f"[nodemanager] {known['namespace']}/{known['maintenance']}: {known['event']}"
        said = {"id": known["id"], "to": due.target.to, "subject": subject, "text": text}
        return Message(msgspec.json.encode(said))
    kinds = {"apiVersion": NODE_MAINTENANCES.api_version, "kind": "Notification"}
    return Message(msgspec.json.encode({**kinds, **known, "text": text}))


def _text(known: dict[str, Any]) -> str:
    return f"{known['namespace']}/{known['maintenance']}: {known['event']}: {known['message']}"


def _plain(known: dict[str, Any], *, slack: bool) -> dict[str, Any]:
    if not slack:
        return known
    return {name: _escaped(value) if isinstance(value, str) else value for name, value in known.items()}


def _escaped(text: str) -> str:
    """Return a text that Slack shows unchanged: it mentions no user, and is no link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True

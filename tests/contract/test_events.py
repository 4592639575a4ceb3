"""What Events may be, in both of their forms: both servers refuse the same for the same reasons."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.client.calls import Call
from nodemanager.kube import errors
from support.agent_process import Api
from support.either import Place

OLDER, NEWER = "/api/v1", "/apis/events.k8s.io/v1"
TIME = "2026-01-01T00:00:00.000000Z"
OLD: dict[str, Any] = {"reason": "Tested", "message": "m", "type": "Normal", "source": {"component": "c"}}
NEW: dict[str, Any] = {
    "eventTime": TIME, "reportingController": "example.com/c", "reportingInstance": "i", "action": "Test",
    "reason": "Tested", "type": "Normal", "note": "n",
}  # fmt: skip
MIXED = {**OLD, "eventTime": TIME, "reportingComponent": "c", "reportingInstance": "i", "action": "Test"}

Wrong = set[str]

CREATED: dict[str, tuple[str, dict[str, Any], Wrong]] = {
    "older": (OLDER, OLD, set()),
    "older, long": (OLDER, {**OLD, "message": "x" * 5000, "reason": "x" * 500, "type": "Odd"}, set()),
    "older with the time of the newer": (OLDER, MIXED, set()),
    "mixed, long": (
        OLDER, {**MIXED, "message": "x" * 1025, "reason": "x" * 129, "action": "x" * 129,
                "reportingInstance": "x" * 129, "reportingComponent": "a b"},
        {"message", "reason", "action", "reportingInstance", "reportingComponent"},
    ),
    "mixed, bytes": (OLDER, {**MIXED, "message": "\u00e9" * 513}, {"message"}),
    "mixed, bare": (
        OLDER, {"eventTime": TIME}, {"reportingComponent", "reportingInstance", "action", "reason"},
    ),
    "newer": (NEWER, NEW, set()),
    "newer, long": (NEWER, {**NEW, "note": "x" * 1025}, {"message"}),
    "newer without a time": (NEWER, {key: value for key, value in NEW.items() if key != "eventTime"},
                             {"eventTime"}),
    "newer, odd": (NEWER, {**NEW, "type": "Odd", "series": {"count": 1, "lastObservedTime": TIME}},
                   {"type", "series.count"}),
    "newer with parts of the older": (
        NEWER, {**NEW, "deprecatedCount": 1, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
                "deprecatedLastTimestamp": "2026-01-01T00:00:00Z", "deprecatedSource": {"host": "h"}},
        {"count", "firstTimestamp", "lastTimestamp", "source"},
    ),
}  # fmt: skip


async def refused(api: Api, method: str, path: str, body: Any, content: str = "application/json") -> Wrong:
    """Return the fields that are complained about."""
    try:
        await api.client.send(Call(method, path, "try", {}, msgspec.json.encode(body), content))
    except errors.Invalid as error:
        return {cause.field for cause in error.details.causes}
    return set()


def whole(place: Place, group: str, fields: dict[str, Any]) -> dict[str, Any]:
    about = {"kind": "ConfigMap", "name": "x", "namespace": place.namespace}
    return {
        "metadata": {"name": "e", "namespace": place.namespace}, "kind": "Event",
        "apiVersion": "v1" if group == OLDER else "events.k8s.io/v1",
        "involvedObject" if group == OLDER else "regarding": about, **fields,
    }  # fmt: skip


@pytest.mark.parametrize("what", CREATED)
async def test_a_new_event(place: Place, api: Api, what: str) -> None:
    group, fields, wrong = CREATED[what]
    folder = f"{group}/namespaces/{place.namespace}/events"
    assert await refused(api, "POST", folder, whole(place, group, fields)) == wrong


async def test_one_of_the_newer_form_is_changed_in_its_series_only(place: Place, api: Api) -> None:
    folder = f"{NEWER}/namespaces/{place.namespace}/events"
    assert await refused(api, "POST", folder, whole(place, NEWER, NEW)) == set()

    async def changed(change: dict[str, Any], group: str = NEWER) -> Wrong:
        path = f"{group}/namespaces/{place.namespace}/events/e"
        return await refused(api, "PATCH", path, change, "application/merge-patch+json")

    assert await changed({"series": {"count": 2, "lastObservedTime": TIME}}) == set()
    assert await changed({"series": {"count": 1, "lastObservedTime": TIME}}) == {"series.count"}
    found = await changed({"note": "other", "reason": "Other", "action": "Other", "type": "Warning",
                           "reportingInstance": "j", "reportingController": "example.com/d"})  # fmt: skip
    assert found == {"message", "reason", "action", "type", "reportingInstance", "reportingController"}
    assert await changed({"regarding": {"name": "y"}}) == {"involvedObject"}
    assert await changed({"message": "through the older form"}, OLDER) == set()


async def test_in_the_default_namespace_it_may_be_about_what_is_in_none(place: Place, api: Api) -> None:
    name = f"n{place.namespace}"
    body = {"metadata": {"name": name}, "involvedObject": {"kind": "Node", "name": "x"}, **OLD}
    full = {"apiVersion": "v1", "kind": "Event", **body}
    assert await refused(api, "POST", f"{OLDER}/namespaces/default/events", full) == set()
    there = f"{OLDER}/namespaces/{place.namespace}/events"
    assert await refused(api, "POST", there, full) == {"involvedObject.namespace"}
    await api.client.send(Call("DELETE", f"{OLDER}/namespaces/default/events/{name}", "clean up", {}))

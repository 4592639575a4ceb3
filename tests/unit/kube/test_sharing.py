"""What objects of a cache share: they say the same, are written the same, and take less memory."""

from __future__ import annotations

import msgspec

from nodemanager.kube import sharing
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from nodemanager.kube.sharing import shared, shared_conditions, shared_meta


def decoded(name: str) -> ObjectMeta:
    """Return metadata whose texts are nobody else's."""
    body = msgspec.json.encode({"name": name, "namespace": "prod", "labels": {"role": "web"}})
    return msgspec.json.decode(body, type=ObjectMeta)


def test_what_is_empty_is_there_once_and_everything_else_stays() -> None:
    one, other = (shared_meta(decoded(name)) for name in ("a", "b"))
    assert one == decoded("a")
    assert one.annotations is other.annotations
    assert one.finalizers is other.finalizers
    assert one.namespace is other.namespace
    assert one.labels is not other.labels


def test_what_is_shared_is_written_as_before() -> None:
    assert msgspec.json.encode(shared_meta(decoded("a"))) == msgspec.json.encode(decoded("a"))


def test_a_struct_without_anything_empty_is_the_same() -> None:
    one = Condition(type="Ready")
    assert shared(one) is one


def test_words_of_conditions_are_there_once() -> None:
    body = msgspec.json.encode([{"type": "Ready", "status": "True", "reason": "AsDeclared", "message": "ok"}])
    (one,), (other,) = (shared_conditions(msgspec.json.decode(body, type=list[Condition])) for _ in range(2))
    assert one == msgspec.json.decode(body, type=list[Condition])[0]
    assert (one.type is other.type, one.status is other.status, one.reason is other.reason) == (True,) * 3


def test_nothing_that_is_shared_was_changed() -> None:
    assert {dict: {}, list: []} == sharing._EMPTY

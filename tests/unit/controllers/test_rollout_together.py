"""Which ConfigSets are looked at together, in which order they are written, and what is asked about them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.api.common import configsetrevision
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import ConfigSetRevision
from nodemanager.api.common.rollout import RolloutStatus
from nodemanager.api.common.rolloutpolicy import RolloutPolicy
from nodemanager.controllers.rollouts import looked_at, membership
from nodemanager.controllers.rollouts.following import FollowedSet
from nodemanager.controllers.rollouts.looked_at import LookedAt

LABELS = {"role": "web"}
NEXT = {"next": {"name": "n", "revision": 2, "digest": "b" * 64, "labels": LABELS}}
AT_ONCE = {"strategy": "AllAtOnce", "group": "g"}
LEFT: dict[str, Any] = {"policy": {"name": "default"}, "group": {"name": "g"}}


def config_set(
    name: str = "web", namespace: str = "x", rollout: Any = None, published: Any = None, **meta: Any
) -> ConfigSet:
    body = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": LABELS, **meta},
        "spec": {"rollout": rollout}, "status": {"rollout": published},
    }  # fmt: skip
    return msgspec.convert(body, ConfigSet)


def staged(name: str = "web", group: str = "g", **more: Any) -> ConfigSet:
    return config_set(name, rollout={"strategy": "Staged", "group": group}, **more)


def policy(**spec: Any) -> RolloutPolicy:
    return msgspec.convert({"metadata": {"name": "default"}, "spec": spec}, RolloutPolicy)


DEFAULT = policy(strategy="Staged", group="d")


@pytest.mark.parametrize(
    ("one", "default", "group"),
    [
        pytest.param(staged(), None, "g", id="says it"),
        pytest.param(staged(), DEFAULT, "g", id="says it, whatever the default"),
        pytest.param(staged(group=""), DEFAULT, "", id="moves alone"),
        pytest.param(
            config_set(rollout={"strategy": "AllAtOnce", "group": "g"}), DEFAULT, "", id="in no stages"
        ),
        pytest.param(staged(deletionTimestamp="2026-11-16T06:00:00Z"), None, "", id="deleted"),
        pytest.param(config_set(), DEFAULT, "d", id="follows"),
        pytest.param(
            config_set(), policy(strategy="AllAtOnce", group="d"), "", id="follows one in no stages"
        ),
        pytest.param(config_set(), None, "", id="follows nothing"),
        pytest.param(config_set(published={**LEFT, **NEXT}), None, "g", id="on its way"),
        pytest.param(config_set(published={**LEFT, "refused": NEXT["next"]}), None, "g", id="returns"),
        pytest.param(config_set(published=LEFT), None, "", id="arrived"),
        pytest.param(
            config_set(published={"group": {"name": "g"}, **NEXT}), None, "", id="by its own rollout"
        ),
        pytest.param(config_set(published={"policy": {"name": "default"}, **NEXT}), None, "", id="alone"),
        pytest.param(
            config_set(published={**LEFT, **NEXT}), DEFAULT, "d", id="half-way, and follows another"
        ),
    ],
)
def test_the_group_of_a_set(one: ConfigSet, default: RolloutPolicy | None, group: str) -> None:
    assert membership.group_of(one, default) == group


def test_sets_that_move_together_are_looked_at_by_name() -> None:
    one, far = staged("b"), staged("a", namespace="y")
    others = [one, staged("c"), staged("a"), staged("d", "h"), config_set("e"), far]
    found = membership.together(one, others, None)
    assert [member.metadata.name for member in found] == ["a", "b", "c"]
    assert all(member.metadata.namespace == "x" for member in found)
    alone = config_set("e")
    assert membership.together(alone, others, None) == [alone]


def looked(one: ConfigSet, text: str = "new", number: int = 2) -> LookedAt:
    content = configsetrevision.content_of(one.spec) | {"files": [{"path": "/x", "template": text}]}
    spec = {
        "configSet": one.metadata.name, "revision": number, "labels": LABELS, "content": content,
        "digest": configsetrevision.digest_of(LABELS, content),
    }  # fmt: skip
    meta = {"name": f"{one.metadata.name}-{number}"}
    made = msgspec.convert({"metadata": meta, "spec": spec}, ConfigSetRevision)
    return LookedAt(one, [made], made, FollowedSet(one))


def names(found: list[LookedAt]) -> list[str]:
    return [one.name for one in found]


def test_sets_are_parted_as_their_rollouts_apply_now() -> None:
    all_ = [
        looked(one) for one in (
            staged("a"), staged("b", ""), staged("c"), staged("d", "h"), config_set("e"),
            config_set("f", rollout=AT_ONCE), config_set("g"),
        )
    ]  # fmt: skip
    assert [names(part) for part in looked_at.parted(all_)] == [
        ["a", "c"], ["b"], ["d"], ["e"], ["f"], ["g"],
    ]  # fmt: skip


def test_a_set_that_is_tried_again_is_written_last() -> None:
    old = {"restarted": "1"}
    sets = [looked(staged(name, published=old)) for name in ("b", "a", "c")]
    told = {name: RolloutStatus(restarted="2" if name == "a" else "1") for name in "abc"}
    assert names(looked_at.in_order(sets, told)) == ["b", "c", "a"]
    new = [looked(staged(name)) for name in ("b", "a")]
    assert names(looked_at.in_order(new, dict.fromkeys("ab", RolloutStatus()))) == ["a", "b"]


def test_gates_are_asked_about_all_sets_with_a_change() -> None:
    moving, stays = staged("b", published=NEXT), staged("a", published={"stable": NEXT["next"]})
    found = looked_at.asked_about([looked(stays), looked(moving), looked(staged("c"))])
    assert found.config_set == stays
    assert [one.name for one in found.parts] == ["b"]
    assert found.published == moving.status.rollout
    nothing = looked_at.asked_about([looked(stays), looked(staged("c"))])
    assert (nothing.published, list(nothing.parts)) == (stays.status.rollout, [])
    alone = looked_at.asked_about([looked(staged("d", "", published={"stable": NEXT["next"]}))])
    assert [one.name for one in alone.parts] == ["d"]


def test_changes_of_sets_that_move_together_are_approved_one_by_one() -> None:
    has = msgspec.to_builtins(configsetrevision.reference(looked(staged("a")).current))
    unchanged = looked(staged("a", published={"stable": has}))
    changed = looked(staged("b", published={"stable": has}), "newer")
    found = looked_at.asked_changes([unchanged, changed])
    assert [one.revision.config_set for one in found] == ["b"]
    alone = looked_at.asked_changes([looked(staged("d", ""))])
    assert [(one.revision.config_set, one.rollout is not None) for one in alone] == [("d", True)]


def test_a_set_that_was_never_rolled_out_says_which_revisions_hosts_may_have() -> None:
    known = looked(staged("a"))
    assert [one.name for one in known.member.known] == ["a-2"]
    begun = looked(staged("a", published=NEXT))
    assert list(begun.member.known) == []
    assert begun.member.current.digest == begun.current.spec.digest

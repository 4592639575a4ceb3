"""Random histories of a host of a set in stages: what is published, outages, restarts, lost revisions.

Whatever happens, a host has what somebody published for it, keeps that until it hears of something else that
it can have, and returns when `next` is taken away.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from nodemanager.api.common import choosing, configsetrevision
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import ConfigSetRevision
from nodemanager.api.common.rollout import SCALE, RolloutStatus, is_staged
from nodemanager.kube.objects import ObjectMeta
from support.staged import HOST, LABELS, StagedHost, revision

HISTORIES, STEPS = 150, 60
FORGED = "forged"
CANARY = {"matchLabels": {"canary": "true"}}


def text_of(one: ConfigSet | None) -> str:
    return one.spec.files[0].content if one is not None else ""


@dataclass
class Site:
    """A set as the API has it, a host, and what that host has heard and may have."""

    chance: random.Random
    host: StagedHost = field(default_factory=StagedHost)
    me: ObjectMeta = HOST
    generation: int = 1
    spec: str = "text 1"
    staged: bool = True
    status: dict[str, Any] | None = None
    made: list[ConfigSetRevision] = field(default_factory=list)
    lost: dict[str, ConfigSetRevision] = field(default_factory=dict)
    heard: ConfigSet | None = None
    moves: int = 0

    # What the operator and people do

    def published(self) -> ConfigSet:
        rollout = {"rollout": {"strategy": "Staged"}} if self.staged else {}
        body = {
            "metadata": {"name": "web", "uid": "s", "labels": LABELS, "generation": self.generation},
            "spec": {"files": [{"path": "/motd", "content": self.spec}], **rollout},
            "status": {"rollout": self.status} if self.status else {},
        }
        return msgspec.convert(body, ConfigSet)

    def change(self) -> None:
        """Somebody changes the set, and no operator has seen it yet."""
        self.generation += 1
        self.spec = f"text {self.chance.randint(1, 6)}"
        self.staged = self.chance.random() < 0.85

    def decide(self) -> None:
        """The operator sees it."""
        old = self.status or {}
        last = self.made[-1] if self.made else None
        if last is None or last.spec.content["files"][0]["content"] != self.spec:
            last = revision(len(self.made) + 1, self.spec, self.generation)
            self.made.append(last)
            self.host.known[last.metadata.name] = last
        ref = msgspec.to_builtins(configsetrevision.reference(last))
        stable = old.get("stable")
        seen = {"observedGeneration": self.generation, "current": last.metadata.name}
        if not self.staged or (stable and stable["digest"] == ref["digest"]):
            self.status = {**seen, "stable": ref}
            return
        kept = {"stable": stable} if stable else {}
        if old.get("next") and old["next"]["digest"] == ref["digest"]:
            self.status = {**old, **seen, "next": ref}
        else:
            canary = {"canary": CANARY} if self.chance.random() < 0.3 else {}
            self.status = {**seen, **kept, "next": ref, "threshold": 0, **canary}

    def advance(self) -> None:
        if self.status and self.status.get("next"):
            self.status["threshold"] = self.chance.randint(self.status.get("threshold", 0), SCALE)

    def finish(self) -> None:
        if self.status and self.status.get("next"):
            seen = {key: self.status[key] for key in ("observedGeneration", "current")}
            self.status = {**seen, "stable": self.status["next"]}

    def undo(self) -> None:
        if self.status and self.status.get("next"):
            left = {
                key: one for key, one in self.status.items() if key not in ("next", "canary", "threshold")
            }
            self.status = {**left, "refused": self.status["next"]}

    # What happens to the host

    def lose(self) -> None:
        """A revision is gone, says something else, or is there again."""
        if self.lost:
            self.host.known.update(self.lost)
            self.lost.clear()
        elif self.made:
            one = self.chance.choice(self.made)
            self.lost[one.metadata.name] = one
            del self.host.known[one.metadata.name]
            if self.chance.random() < 0.5:
                forged = msgspec.structs.replace(one.spec, content=revision(9, FORGED).spec.content)
                self.host.known[one.metadata.name] = msgspec.structs.replace(one, spec=forged)

    def switch(self) -> None:
        self.host.offline = not self.host.offline

    def restart(self) -> None:
        self.host.kept = msgspec.json.decode(msgspec.json.encode(self.host.kept), type=list[ConfigSet])
        self.host.restart()
        self.heard = None  # offline there is nothing but what it kept

    async def look(self) -> None:
        """Make a pass, and see that the host has what it may have."""
        if not self.host.offline:
            self.heard = self.published()
        had = self.host.kept[0] if self.host.kept else None
        sets = self.host.kept if self.heard is None else [self.heard]
        self.host.kept = await self.host.staged.choose(sets, self.me)
        has = self.host.kept[0] if self.host.kept else None
        assert FORGED not in text_of(has)
        if has is not None and (ref := choosing.applied(has)).revision:
            assert ref.digest == self.digest(text_of(has))
            assert any(text_of(has) == one.spec.content["files"][0]["content"] for one in self.made)
        if self.heard is None:
            assert text_of(has) == text_of(had)  # a start without the API changes nothing
        else:
            self.judge(self.heard, had, has)
        self.moves += text_of(has) != text_of(had)

    @staticmethod
    def digest(text: str) -> str:
        return revision(1, text).spec.digest

    def judge(self, heard: ConfigSet, had: ConfigSet | None, has: ConfigSet | None) -> None:
        """Compare what the host has with what is published, by a reading of its own."""
        status = heard.status.rollout
        if not is_staged(heard.spec.rollout):
            assert text_of(has) == text_of(heard)
        elif status is None or status.observed_generation < heard.metadata.generation:
            stable = status.stable if status else None
            if had is not None or stable is None:
                assert has == had  # nobody has decided about it
        else:
            self.judge_decided(status, had, has)

    def judge_decided(self, status: RolloutStatus, had: ConfigSet | None, has: ConfigSet | None) -> None:
        turn = status.next is not None and (
            (status.canary is not None and self.me.labels.get("canary") == "true")
            or self.place(status.next.digest) * SCALE < status.threshold
        )
        target = status.next if turn else status.stable
        took = choosing.applied(had) if had is not None else None
        if (
            had is not None
            and took is not None
            and not took.revision
            and not turn
            and (status.next or status.refused)
        ):  # it is from the spec, when that reached all hosts at once
            newer = [one for one in self.made if target and one.metadata.name == target.name]
            older = all(one.spec.generation <= had.metadata.generation for one in newer)
            assert text_of(has) == text_of(had) or not older
        elif target is None:
            assert has is None
        elif not self.host.offline and self.host.known.get(target.name) in self.made:
            assert self.digest(text_of(has)) == target.digest
            assert has is None or choosing.applied(has).revision == target.revision
        elif text_of(has) != text_of(had):
            assert has is not None
            assert choosing.applied(has).digest == target.digest  # it was read before

    def place(self, digest: str) -> float:
        return int.from_bytes(hashlib.sha256(f"{self.me.uid}/{digest}".encode()).digest()[:8]) / 2**64


@pytest.mark.parametrize("canary", ["true", "false"])
async def test_a_host_has_what_was_published_for_it_whatever_happens(canary: str) -> None:
    moves = 0
    for seed in range(HISTORIES):
        chance = random.Random(seed)
        me = msgspec.structs.replace(HOST, uid=f"u{seed}", labels={**LABELS, "canary": canary})
        site = Site(chance, me=me)
        acts = [site.change, site.decide, site.decide, site.advance, site.advance, site.finish, site.undo,
                site.lose, site.switch, site.restart]  # fmt: skip
        for _ in range(STEPS):
            chance.choice(acts)()
            if chance.random() < 0.7:
                await site.look()
        moves += site.moves
        site.host.offline = False
        site.host.known.update(site.lost)
        site.decide()
        site.undo()
        await site.look()
        had = choosing.applied(site.host.kept[0]).revision if site.host.kept else 1
        if site.staged and had:  # whatever it was, it has returned
            stable = (site.status or {}).get("stable")
            text = text_of(site.host.kept[0]) if site.host.kept else ""
            assert (site.digest(text) if text else "") == (stable["digest"] if stable else "")
    assert moves > HISTORIES  # much has happened

"""How files, directories and links are restored to their state before we declared them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from nodemanager.api.common.declarations import File
from nodemanager.plan import resources
from nodemanager.plan.attributes import POWERS
from nodemanager.plan.desired import Desired, Item
from nodemanager.plan.facts import NOBODY, Facts, FileFact, Kind
from nodemanager.plan.host_kinds import Owning
from nodemanager.plan.needs import ANY_SIZE, FileNeeds
from nodemanager.plan.ownership import Owned, PutBack, State
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import (
    FileStep,
    MakeDirectory,
    MakeLink,
    Noop,
    RemovePath,
    SetAttributes,
    Step,
    WriteFile,
)

_CONTENT: Final = ("kind", "digest", "target")
_NO_PARENT: Final = "its directory is gone, so what was there before is not put back"
_UNSURE_NAME: Final = "its path has a backslash, or a character that records cannot show as it is"


def _state(kind: Kind, mode: int, uid: int, gid: int, *, digest: str = "", target: str = "") -> State:
    if kind is Kind.ABSENT:
        return {"kind": kind.value}
    found = {"kind": kind.value, "uid": str(uid), "gid": str(gid)}
    if kind is not Kind.SYMLINK:
        found["mode"] = f"{mode:04o}"
    return found | ({"digest": digest} if digest else {}) | ({"target": target} if target else {})


def state_of(fact: FileFact) -> State:
    """Return what is at a path as it is kept.

    Where others can write, they may have moved a program of root's there: setuid is not theirs to have back.
    """
    mode = fact.mode if fact.writer == NOBODY else fact.mode & ~POWERS
    return _state(fact.kind, mode, fact.uid, fact.gid, digest=fact.digest, target=fact.target)


def _left_by(step: FileStep) -> State | None:
    """Return what is at a path once a step is done."""
    before = step.before
    if isinstance(step, WriteFile):
        return _state(Kind.FILE, step.mode, step.uid, step.gid, digest=step.content.digest)
    if isinstance(step, MakeDirectory):
        return _state(Kind.DIRECTORY, step.mode, step.uid, step.gid)
    if isinstance(step, MakeLink):
        return _state(Kind.SYMLINK, 0, step.uid, step.gid, target=step.target)
    if isinstance(step, RemovePath):
        return _state(Kind.ABSENT, 0, 0, 0)
    if isinstance(step, SetAttributes):
        mode = before.mode if step.mode is None else step.mode
        uid = before.uid if step.uid is None else step.uid
        gid = before.gid if step.gid is None else step.gid
        return _state(before.kind, mode, uid, gid, digest=before.digest, target=before.target)
    return None


def _seen(item: Item[File], step: Step, facts: Facts) -> tuple[State, State] | None:
    if isinstance(step, FileStep):
        then = _left_by(step)
        return None if then is None else (state_of(step.before), then)
    fact = facts.files.get(item.declaration.path)
    if not isinstance(step, Noop) or fact is None or fact.error:
        return None
    return state_of(fact), state_of(fact)


def _needs(owned: Mapping[ResourceId, Owned]) -> FileNeeds:
    """Return what has to be looked at; what is left for good is read no more, only whether it is there."""
    paths = [one.name for one in owned]
    sizes: dict[str, int | None] = dict.fromkeys(map(_parent, paths))
    sizes |= {one.name: None if entry.final else ANY_SIZE for one, entry in owned.items()}
    return FileNeeds(sizes, tuple(paths), frozenset(), frozenset())


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _put_back(owned: Mapping[ResourceId, Owned], facts: Facts) -> dict[ResourceId, PutBack]:
    """Return what is to be done about each, the deepest first: what is in a directory goes before it."""
    going: set[str] = set()
    coming = _coming(owned, facts)
    found: dict[ResourceId, PutBack] = {}
    for one in sorted(owned, key=lambda each: each.name.count("/"), reverse=True):
        path = one.name
        found[one] = back = _one(path, owned[one], facts, going)
        if back.declaration is not None and _lacks_parent(path, facts, coming):
            found[one] = back = PutBack(left=_NO_PARENT, final=True)
        if isinstance(back.declaration, File) and back.declaration.ensure == "absent":
            going.add(path)
    return found


def _coming(owned: Mapping[ResourceId, Owned], facts: Facts) -> set[str]:
    """Return the directories that are put back, and not only were there before."""
    coming: set[str] = set()
    for one in sorted(owned, key=lambda each: each.name.count("/")):
        is_folder = (owned[one].before or {}).get("kind") == Kind.DIRECTORY
        if is_folder and _one(one.name, owned[one], facts, set()).declaration is not None:
            coming |= set() if _lacks_parent(one.name, facts, coming) else {one.name}
    return coming


def _lacks_parent(path: str, facts: Facts, coming: AbstractSet[str]) -> bool:
    """Tell whether the directory of a path is gone, and does not come back either."""
    above = _parent(path)
    fact = facts.files.get(above, FileFact(error="was not observed"))
    return fact.kind is Kind.ABSENT and not fact.error and above not in coming


def _one(path: str, entry: Owned, facts: Facts, going: set[str]) -> PutBack:
    if "\\" in path:
        return PutBack(left=_UNSURE_NAME, final=True)
    fact = facts.files.get(path, FileFact(error="was not observed"))
    if fact.error:
        return PutBack(left=fact.error)
    now, before = state_of(fact), entry.before or {}
    if now == before or entry.untouched:
        return PutBack()
    if _part(now, _CONTENT) not in [_part(one, _CONTENT) for one in entry.ours]:
        return PutBack(left=_by_hand(fact), final=True)
    if _part(now, _CONTENT) == _part(before, _CONTENT) and fact.kind is not Kind.ABSENT:
        if not _attributes_are_ours(now, [before, *entry.ours]):
            return PutBack(left="its owner or mode was changed since by somebody else", final=True)
        why = f"its owner and mode were {before['uid']}:{before['gid']} {before.get('mode', '')}".rstrip()
        return PutBack(_declared(path, before), why, before.get("digest", ""))
    return _restored(path, before, fact, facts, going)


def _attributes_are_ours(now: State, known: Sequence[State]) -> bool:
    """Tell whether no other program changed owner or mode; after a crash, half of the change may be done.

    A change of the owner clears setuid and setgid by itself.
    """
    owners = all(now.get(key, "") in {one.get(key, "") for one in known} for key in ("uid", "gid"))
    return owners and _bits(now) in {_bits(one) for one in known}


def _bits(state: State) -> int:
    return int(state.get("mode", "0"), 8) & 0o777


def _restored(path: str, before: State, fact: FileFact, facts: Facts, going: set[str]) -> PutBack:
    if before.get("kind") not in set(Kind):
        return PutBack(left="what was there before is of a kind that this agent does not know", final=True)
    kind = Kind(before["kind"])
    if kind is Kind.OTHER:
        return PutBack(left=f"it was {kind.words} before, which cannot be made again", final=True)
    if kind is Kind.ABSENT:
        others = [one for one in facts.listings.get(path) or () if f"{path}/{one}" not in going]
        if fact.kind is Kind.DIRECTORY and (others or facts.listings.get(path) is None):
            names = ", ".join(resources.shown(one) for one in others[:3])
            return PutBack(
                left=f"the directory is not empty: it has {names or 'entries that nobody can list'}"
            )
        return PutBack(File(path=path, ensure="absent"), "it was not there before")
    if kind is Kind.FILE and "digest" not in before:
        return PutBack(left="there is no backup of the file that was there before", final=True)
    whats = {Kind.FILE: "it had other content before", Kind.DIRECTORY: "it was a directory before"}
    why = whats.get(kind, f"it was a link to {before.get('target', '')} before")
    return PutBack(_declared(path, before), why, before.get("digest", ""))


def _by_hand(fact: FileFact) -> str:
    if fact.kind is Kind.ABSENT:
        return "it was removed since by somebody else, so what was there before is not put back"
    return "it was changed since by somebody else"


def _declared(path: str, state: State) -> File:
    return File(
        path=path, ensure=state["kind"], mode=state.get("mode", ""), owner=state["uid"], group=state["gid"],
        target=state.get("target", ""),
    )  # fmt: skip


def _part(state: State, keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(state.get(key, "") for key in keys)


def _covered(one: ResourceId, desired: Desired) -> bool:
    """Tell whether a directory that is purged decides about a path: nothing but what is declared is in it."""
    folder = one.name.rpartition("/")[0] or "/"
    return any(item.declaration.purge and item.declaration.path == folder for item in desired.files)


OWNING: Final[Owning[File, FileNeeds, Facts]] = Owning(_seen, _needs, _put_back, _covered)

"""Files, directories and links: the plan from their present to their wanted state.

Parents come before their entries; removals come last and from the bottom up, so that no file
is removed before its replacement exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from nodemanager.api.common.declarations import File
from nodemanager.plan import attributes, resources, unmade
from nodemanager.plan.attributes import FileAttributes, UnknownOwner
from nodemanager.plan.desired import Content, Contents, Desired, Failure, Item
from nodemanager.plan.facts import NOBODY, Facts, FileFact, Kind
from nodemanager.plan.file_ownership import OWNING
from nodemanager.plan.host_kinds import Brought, DriftRule, HostKind, KindDeclaration, Metric, PlanInput
from nodemanager.plan.layout import Layout, layout
from nodemanager.plan.needs import FileNeeds, file_needs
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import (
    Blocked,
    Lack,
    MakeDirectory,
    MakeLink,
    Noop,
    RemovePath,
    SetAttributes,
    Step,
    WriteFile,
)

_REMOVALS = (RemovePath,)
_UNSEEN = FileFact(error="was not observed")


@dataclass(frozen=True, slots=True)
class _Scene:
    """Everything that the plan for one file looks at."""

    desired: Desired
    contents: Contents
    facts: Facts
    notified: Mapping[str, tuple[ResourceId, ...]]
    declared: frozenset[str]
    leaves: Mapping[str, str]


def plan_files(desired: Desired, contents: Contents, facts: Facts, whole: Layout | None = None) -> list[Step]:
    """Return a step for each declared path, and one for each entry that is purged, in order.

    Where `desired` is only a part of what is declared, `whole` is the layout of all of it.
    """
    whole = whole or layout(desired)
    scene = _Scene(desired, contents, facts, whole.notified, whole.declared, whole.leaves)
    steps: list[Step] = []
    for item in desired.files:
        steps.append(_plan(item, scene))
        if item.declaration.purge and item.declaration.ensure == "directory":
            steps += _purge(item, scene)
    removals = [step for step in steps if isinstance(step, _REMOVALS)]
    others = [step for step in steps if not isinstance(step, _REMOVALS)]
    return [
        *sorted(others, key=lambda step: step.id.name.split("/")),
        *sorted(removals, key=lambda step: step.id.name.split("/"), reverse=True),
    ]


def _plan(item: Item[File], scene: _Scene) -> Step:
    wanted = item.declaration
    before = scene.facts.files.get(wanted.path, _UNSEEN)
    held = _held_above(wanted.path, scene.desired)
    if held:
        return _blocked(item, f"waits for {held}, which is in conflict")
    leaf = next((one for one in _above(wanted.path) if one in scene.leaves), "")
    if leaf and wanted.ensure != "absent":
        said = f"cannot be below {leaf}, which is declared to be {scene.leaves[leaf]}; correct one of the two"
        return _blocked(item, said)
    if before.error:
        return _blocked(item, before.error)
    if wanted.ensure == "absent":
        return _absent(item, before, scene)
    if wanted.create_only and before.kind is not Kind.ABSENT:
        return _noop(item, "exists, and is created only")
    try:
        declared = attributes.declared(wanted, scene.facts)
    except UnknownOwner as error:
        lack = Lack("its owner or group", "will write")
        return Blocked(id=item.id, sources=item.sources, reason=str(error), lack=lack)
    if wanted.ensure == "directory":
        return _directory(item, before, declared, scene)
    if wanted.ensure == "symlink":
        return _link(item, before, declared, scene)
    return _file(item, before, declared, scene)


def _file(item: Item[File], before: FileFact, declared: FileAttributes, scene: _Scene) -> Step:
    path = item.declaration.path
    content = scene.contents.get(path, Failure("its content was not made"))
    if isinstance(content, Failure):
        return unmade.put_off(item.id, item.sources, content.message, content.awaits)
    if before.kind in (Kind.DIRECTORY, Kind.OTHER):
        return _blocked(item, f"cannot write {path}: it is {before.kind.words}; move it out of the way")
    reasons = {Kind.ABSENT: "does not exist", Kind.SYMLINK: f"is a link to {resources.shown(before.target)}"}
    reason = reasons.get(before.kind, "content differs")
    if before.kind is Kind.FILE and before.digest == content.digest:
        hardened = attributes.hardened(declared, before, secret=content.secret)
        lacking = attributes.lacking(hardened, before)
        if not lacking or attributes.file_may_stay(hardened, before):
            return _attributes(item, before, hardened, lacking, scene)
        reason = "; ".join(lacking)
    if before.kind is Kind.FILE and before.links > 1:
        reason += f"; it has {before.links} names, and the others keep the old content"
    uid, gid, mode = attributes.of_new_file(declared, before, secret=content.secret)
    return WriteFile(
        id=item.id, sources=item.sources, reason=reason, path=path, before=before,
        notifies=scene.notified.get(path, ()), needs=_needs(path, scene.declared),
        content=content, mode=mode, uid=uid, gid=gid, validation=item.declaration.validate,
    )  # fmt: skip


def _directory(item: Item[File], before: FileFact, declared: FileAttributes, scene: _Scene) -> Step:
    path, reason = item.declaration.path, "does not exist"
    if before.kind is Kind.DIRECTORY:
        lacking = attributes.lacking(declared, before)
        renewed = _is_strange(item, before) and not scene.facts.listings.get(path)
        if not renewed and (not lacking or attributes.directory_may_stay(declared, before)):
            return _attributes(item, before, declared, lacking, scene)
        reason = "; ".join(lacking) or "others than root can have moved it there, and it is to be purged"
    elif before.kind is not Kind.ABSENT:
        is_link = before.kind is Kind.SYMLINK
        what = f"a link to {resources.shown(before.target)}" if is_link else before.kind.words
        return _blocked(item, f"cannot make directory {path}: it is {what}; move it out of the way")
    return MakeDirectory(
        id=item.id, sources=item.sources, reason=reason, path=path, before=before,
        notifies=scene.notified.get(path, ()), needs=_needs(path, scene.declared),
        mode=attributes.NEW_DIRECTORY if declared.mode is None else declared.mode,
        uid=declared.uid or 0, gid=declared.gid or 0,
    )  # fmt: skip


def _is_strange(item: Item[File], before: FileFact) -> bool:
    """Tell whether a directory is to be purged and may be another one than was meant."""
    return item.declaration.purge and not attributes.may_be_purged(before)


def _link(item: Item[File], before: FileFact, declared: FileAttributes, scene: _Scene) -> Step:
    path, target = item.declaration.path, item.declaration.target
    if before.kind in (Kind.DIRECTORY, Kind.OTHER):
        what = "a directory" if before.kind is Kind.DIRECTORY else "a device, socket or pipe"
        return _blocked(item, f"cannot make link {path}: it is {what}; move it out of the way")
    reasons = {Kind.ABSENT: "does not exist", Kind.FILE: "is a file"}
    reason = reasons.get(before.kind, f"points to {resources.shown(before.target)}")
    if before.kind is Kind.SYMLINK and before.target == target:
        declared = FileAttributes(None, declared.uid, declared.gid)
        lacking = attributes.lacking(declared, before)
        if not lacking or before.writer == NOBODY:
            return _attributes(item, before, declared, lacking, scene)
        reason = "; ".join(lacking)
    return MakeLink(
        id=item.id, sources=item.sources, path=path, before=before, target=target, reason=reason,
        notifies=scene.notified.get(path, ()), needs=_needs(path, scene.declared),
        uid=declared.uid or 0, gid=declared.gid or 0,
    )  # fmt: skip


def _absent(item: Item[File], before: FileFact, scene: _Scene) -> Step:
    if before.kind is Kind.ABSENT:
        return _noop(item, "does not exist")
    return _removal(item, item.declaration.path, before, f"{before.kind.words} is there", scene)


def _purge(item: Item[File], scene: _Scene) -> Iterator[Step]:
    """Yield the removal of every undeclared entry; none if the directory cannot be read."""
    folder = item.declaration.path
    before = scene.facts.files.get(folder, FileFact())
    if before.kind is Kind.ABSENT:
        return
    names = scene.facts.listings.get(folder)
    if names and _is_strange(item, before):
        yield _blocked(
            item,
            f"cannot purge {folder}: others than root can have moved it there; look at it and remove it,"
            " then it is made anew",
        )
        return
    if names is None:
        yield _blocked(item, f"cannot purge {folder}: its entries cannot be listed, so none is removed")
        return
    for name in names:
        path = f"{folder.rstrip('/')}/{name}"
        fact = scene.facts.files.get(path, FileFact())
        if path in scene.declared or fact.error or fact.kind in (Kind.ABSENT, Kind.DIRECTORY):
            continue
        reason = f"no ConfigSet of this host declares it, and {folder} is purged"
        yield _removal(item, path, fact, reason, scene, purged=True)


def _removal(
    item: Item[File], path: str, before: FileFact, reason: str, scene: _Scene, *, purged: bool = False
) -> Step:
    owed = dict.fromkeys((*scene.notified.get(path, ()), *scene.notified.get(item.declaration.path, ())))
    return RemovePath(
        id=resources.file_id(path), sources=item.sources, reason=reason, path=path, before=before,
        notifies=tuple(owed), purged=purged,
    )  # fmt: skip


def _attributes(
    item: Item[File], before: FileFact, declared: FileAttributes, lacking: list[str], scene: _Scene
) -> Step:
    """Return what it takes to give an existing path its owner and mode."""
    if not lacking:
        return _noop(item, f"is as declared ({before.kind})")
    path = item.declaration.path
    return SetAttributes(
        id=item.id, sources=item.sources, reason="; ".join(lacking), path=path, before=before,
        notifies=scene.notified.get(path, ()), needs=_needs(path, scene.declared),
        mode=declared.mode, uid=declared.uid, gid=declared.gid,
    )  # fmt: skip


def _needs(path: str, declared: frozenset[str]) -> tuple[ResourceId, ...]:
    """Return the nearest declared path above, without which nothing can be here."""
    return next(((resources.file_id(above),) for above in _above(path) if above in declared), ())


def _held_above(path: str, desired: Desired) -> str:
    if not desired.held:
        return ""
    return next((str(one) for one in map(resources.file_id, _above(path)) if one in desired.held), "")


def _above(path: str) -> Iterator[str]:
    """Yield the directories that a path is in, the nearest first."""
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        yield path


def _noop(item: Item[File], reason: str) -> Noop:
    return Noop(id=item.id, sources=item.sources, reason=reason)


def _blocked(item: Item[File], reason: str) -> Blocked:
    return Blocked(id=item.id, sources=item.sources, reason=reason)


def _plan_input(given: PlanInput, facts: Facts) -> list[Step]:
    return plan_files(given.desired, given.contents, facts, given.layout)


def _plain(file: File) -> File:
    """Return the declaration in one spelling, so that what means the same is equal."""
    path, ensure = file.path.rstrip("/") or "/", file.ensure or "file"
    if (path, ensure) == (file.path, file.ensure):
        return file
    return msgspec.structs.replace(file, path=path, ensure=ensure)


def _content(file: File, contents: Contents) -> str:
    content = contents.get(file.path)
    return content.digest if isinstance(content, Content) else ""


def _folder(resource: ResourceId) -> ResourceId:
    """Return the directory of an entry: an undeclared one is removed because its directory is purged."""
    return resources.file_id(resource.name.rpartition("/")[0] or "/")


def _moves_links(steps: Sequence[Step], given: PlanInput) -> bool:
    """Tell whether a link on the way to some declared path leads elsewhere now."""
    links = [f"{step.path}/" for step in steps if isinstance(step, MakeLink)]
    paths = [item.declaration.path for item in given.desired.files] if links else []
    return any(path.startswith(link) for link in links for path in paths)


KIND: Final[HostKind[File, FileNeeds, Facts]] = HostKind(
    name=resources.FILE,
    words=("file", "files"),
    declaring=KindDeclaration(
        field="files", identify=lambda _set, file: resources.file_id(file.path), plain=_plain
    ),
    needs=lambda given: file_needs(given.desired, given.contents),
    plan=_plan_input,
    count=Metric("nodemanager_file_changes_total", "Files changed.", by="configset"),
    drift=DriftRule(_content, _folder),
    owning=OWNING,
    public=False,
    brings=lambda step: Brought.ITSELF if isinstance(step, WriteFile | MakeLink) else Brought.NOTHING,
    naming=None,
    again=_moves_links,
)

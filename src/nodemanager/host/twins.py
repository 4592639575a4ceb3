"""Which resources are one and the same under two names: paths through links, aliases of units, packages with
and without their architecture.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

from nodemanager.host.files.tree import Tree, TreeError
from nodemanager.host.kind_parts import StageWork, Twin
from nodemanager.host.process.threads import in_thread
from nodemanager.plan import services
from nodemanager.plan.needs import PackageNeeds
from nodemanager.plan.resources import ResourceId


async def of_files(
    going: Sequence[ResourceId], declared: Sequence[ResourceId], work: StageWork
) -> Mapping[ResourceId, Twin]:
    """Return the declared files that files which go are, or lead to: as links, or as directories."""
    return await in_thread(lambda: _of_files(work.observer.tree, going, declared))


def _of_files(
    tree: Tree, going: Sequence[ResourceId], declared: Sequence[ResourceId]
) -> dict[ResourceId, Twin]:
    tree.forget()
    at: dict[tuple[object, ...], ResourceId] = {}
    for one in declared:
        for key in _whereabouts(tree, one.name):
            at.setdefault(key, one)
    found: dict[ResourceId, Twin] = {}
    for one in going:
        for key in _whereabouts(tree, one.name):
            if key in at and one not in found:
                found[one] = Twin(at[key], same_place=len(key) == _PLACE)
    found = {**_leading(tree, [one for one in going if one not in found], declared), **found}
    tree.forget()
    return found


_PLACE = 3


def _leading(
    tree: Tree, going: Sequence[ResourceId], declared: Sequence[ResourceId]
) -> dict[ResourceId, Twin]:
    """Return which links and directories are on the way to something that is declared."""
    at = {key: one for one in going for key in _whereabouts(tree, one.name)}
    found: dict[ResourceId, Twin] = {}
    passed: set[str] = set()
    for one in declared if at else ():
        above = one.name.rpartition("/")[0]
        if above not in passed:
            passed.add(above)
            found |= {at[key]: Twin(one, same_place=False) for key in _way(tree, above) if key in at}
    return found


def _way(tree: Tree, folder: str) -> set[tuple[object, ...]]:
    """Return everything on the way to a directory, links that lead to other links included."""
    found: set[tuple[object, ...]] = set()

    def pass_by(here: int, name: str, _again: bool) -> None:
        found.update(_keys(here, name))

    with contextlib.suppress(TreeError, OSError):
        os.close(tree.walk(folder or "/", pass_by))
    return found


def _whereabouts(tree: Tree, path: str) -> Iterator[tuple[object, ...]]:
    """Yield the name in its directory, whatever leads there, and the inode."""
    with contextlib.suppress(TreeError, OSError):
        place = tree.place(path)
        yield from _keys(place.folder, place.name)


def _keys(folder: int, name: str) -> Iterator[tuple[object, ...]]:
    above = os.fstat(folder)
    yield above.st_dev, above.st_ino, name
    with contextlib.suppress(OSError):  # it is not there
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        yield found.st_dev, found.st_ino


async def of_services(
    going: Sequence[ResourceId], declared: Sequence[ResourceId], work: StageWork
) -> Mapping[ResourceId, Twin]:
    """Return the declared services that services which go are: systemd knows a unit by several names."""
    facts = (await work.observer.see_services(services.needs_of([*going, *declared]), {})).services
    units = {_unit(one, fact.unit): one for one in declared if (fact := facts[one]).unit}
    return {
        one: Twin(units[_unit(one, facts[one].unit)])
        for one in going
        if facts[one].unit and _unit(one, facts[one].unit) in units
    }


async def of_packages(
    going: Sequence[ResourceId], declared: Sequence[ResourceId], work: StageWork
) -> Mapping[ResourceId, Twin]:
    """Return the declared packages that packages which go are: `jq`, `jq:amd64` and `jq.x86_64`."""
    installed = (await work.observer.see_packages(PackageNeeds(any=True, latest=()))).packages.installed
    names = {one.name: one for one in declared}
    longer = {name: one for one in declared for name in _without_architecture(one.name)}
    found: dict[ResourceId, Twin] = {}
    for one in going:
        twins = [longer.get(one.name), *map(names.get, _without_architecture(one.name))]
        for twin in filter(None, twins):
            if installed.get(one.name) == installed.get(twin.name):
                found[one] = Twin(twin, same_place=_is_one_package(one.name, twin.name, installed))
    return found


def _is_one_package(one: str, other: str, installed: Mapping[str, str]) -> bool:
    """Tell whether names with and without architecture are one package; no if several packages fit."""
    short, long = sorted((one, other), key=len)
    start = long[: len(short) + 1]
    found = {name for name in installed if name.startswith(start)}
    return found <= {long, f"{start}all", f"{start}noarch"}


def _without_architecture(name: str) -> list[str]:
    """Return what a package is called without its architecture, if what follows the last dot is one."""
    return [short for sign in (":", ".") if (short := name.rpartition(sign)[0])]


def _unit(one: ResourceId, unit: str) -> tuple[str, str]:
    return one.name.rpartition("/")[0], unit

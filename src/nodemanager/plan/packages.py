"""Packages: the plan from installed to wanted ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nodemanager.api.common.declarations import Package
from nodemanager.plan import resources
from nodemanager.plan.desired import Desired, Item
from nodemanager.plan.facts import Facts, PackageFacts
from nodemanager.plan.host_kinds import Brought, DriftRule, HostKind, KindDeclaration, Metric, Owning
from nodemanager.plan.needs import PackageNeeds, package_needs
from nodemanager.plan.ownership import Owned, PutBack, State
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.set_doubts import Prune
from nodemanager.plan.steps import Blocked, InstallPackage, Noop, RemovePackage, Step


def plan_packages(desired: Desired, facts: Facts) -> Iterator[Step]:
    """Yield one step for each declared package."""
    for item in desired.packages:
        if facts.packages.error:
            yield Blocked(id=item.id, sources=item.sources, reason=facts.packages.error)
        else:
            yield _plan(item, facts.packages)


def _plan(item: Item[Package], facts: PackageFacts) -> Step:
    wanted = item.declaration
    have = facts.installed.get(wanted.name)
    if wanted.ensure == "absent":
        if have is None:
            return Noop(id=item.id, sources=item.sources, reason="is not installed")
        return RemovePackage(
            id=item.id, sources=item.sources, reason=f"{have} is installed", name=wanted.name
        )
    reason = _lack(wanted, have, facts)
    if not reason:
        return Noop(id=item.id, sources=item.sources, reason=f"{have} is installed")
    newer = have is not None and wanted.version in ("", have)
    return InstallPackage(
        id=item.id, sources=item.sources, reason=reason, name=wanted.name, version=wanted.version, newer=newer
    )


def _lack(wanted: Package, have: str | None, facts: PackageFacts) -> str:
    """Return why the package has to be installed, or an empty string."""
    if have is None:
        return "is not installed"
    if wanted.version and have != wanted.version:
        return f"{have} is installed, not {wanted.version}"
    if wanted.ensure == "latest":
        newest = facts.candidates.get(wanted.name, have)
        if newest != have:
            return f"{have} is installed, {newest} is offered"
    return ""


_INSTALLED: Final = {"installed": "true"}


def _seen(item: Item[Package], step: Step, facts: Facts) -> tuple[State, State] | None:
    """Return whether it is installed."""
    if not isinstance(step, InstallPackage | RemovePackage | Noop):
        return None
    now = "true" if item.declaration.name in facts.packages.installed else "false"
    return {"installed": now}, {"installed": "false" if item.declaration.ensure == "absent" else "true"}


def _put_back(owned: Mapping[ResourceId, Owned], facts: Facts) -> dict[ResourceId, PutBack]:
    """Remove what we installed; what we removed is not installed again."""
    found = {}
    for one, entry in owned.items():
        found[one] = PutBack()
        ours = entry.before != _INSTALLED and entry.ours[-1:] == (_INSTALLED,)
        if facts.packages.error:
            found[one] = PutBack(left=facts.packages.error)
        elif ours and one.name in facts.packages.installed:
            found[one] = PutBack(Package(name=one.name, ensure="absent"), "it was not installed before")
    return found


def _brings(step: Step) -> Brought:
    """Say that a package has files; a newer version of one that is there has none that would be missed."""
    return Brought.MORE if isinstance(step, InstallPackage) and not step.newer else Brought.NOTHING


KIND: Final[HostKind[Package, PackageNeeds, Facts]] = HostKind(
    name=resources.PACKAGE,
    words=("package", "packages"),
    declaring=KindDeclaration(
        field="packages", identify=lambda _set, package: resources.package_id(package.name)
    ),
    needs=lambda given: package_needs(given.desired),
    plan=lambda given, facts: list(plan_packages(given.desired, facts)),
    count=Metric("nodemanager_package_operations_total", "Packages changed.", by="operation"),
    drift=DriftRule(),
    owning=Owning(_seen, lambda _ids: PackageNeeds(any=True, latest=()), _put_back, rank=Prune.PACKAGES),
    public=True,
    brings=_brings,
    naming=None,
    slow=True,
)

"""Whether an EdgeProfile is older than one that a site was looked at with: old ones are signed, too. Pure.

What was seen of a profile is kept by its name, and only of versions that somebody signed, where the site asks
for that: else anybody who may write a profile could keep a site from all that come.
"""

from __future__ import annotations

from nodemanager.api.edge.edgecluster import EdgeCluster, SeenProfile, UsedProfile
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.fleet.edge import findings
from nodemanager.kube import conditions


def remembered(cluster: EdgeCluster) -> SeenProfile | None:
    """Return what was seen before; nothing where a signature is asked for, and was not then."""
    status = cluster.status
    unasked = status.profile is not None and not conditions.get(status.conditions, findings.PROFILE_SIGNED)
    return None if cluster.spec.signature is not None and unasked else status.newest_profile


def newer_one(seen: SeenProfile | None, profile: EdgeProfile) -> str:
    """Return the version that was seen and is higher than that of a profile; empty: there is none."""
    if seen is None or seen.name != profile.metadata.name:
        return ""
    return seen.version if _parts(seen.version) > _parts(profile.spec.version) else ""


def highest(seen: SeenProfile | None, used: UsedProfile | None, *, trusted: bool) -> SeenProfile | None:
    """Return what is to be kept in mind after a look with a profile, or with none that may be used."""
    if used is None or not trusted:
        return seen
    if seen is not None and seen.name == used.name and _parts(seen.version) >= _parts(used.version):
        return seen
    return SeenProfile(name=used.name, version=used.version)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(one) if one.isdecimal() else 0 for one in version.split("."))

"""Whether an EdgeProfile is older than one that the site had before: an old profile is signed, too. Pure.

Versions are remembered by the profile's name. If the site asks for signatures, only signed versions are, as
else anybody who may write a profile could make the site refuse all later ones.
"""

from __future__ import annotations

from nodemanager.api.edge.edgecluster import EdgeCluster, SeenProfile, UsedProfile
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.fleet.edge import findings
from nodemanager.kube import conditions


def remembered(cluster: EdgeCluster) -> SeenProfile | None:
    """Return the remembered version; None where a signature is required now and was not at the last look."""
    status = cluster.status
    unasked = status.profile is not None and not conditions.get(status.conditions, findings.PROFILE_SIGNED)
    return None if cluster.spec.signature is not None and unasked else status.newest_profile


def newer_one(seen: SeenProfile | None, profile: EdgeProfile) -> str:
    """Return the remembered version that is higher than that of a profile; empty = there is none."""
    if seen is None or seen.name != profile.metadata.name:
        return ""
    return seen.version if _parts(seen.version) > _parts(profile.spec.version) else ""


def highest(seen: SeenProfile | None, used: UsedProfile | None, *, trusted: bool) -> SeenProfile | None:
    """Return the version to remember after a look with a profile, or without one that may be used."""
    if used is None or not trusted:
        return seen
    if seen is not None and seen.name == used.name and _parts(seen.version) >= _parts(used.version):
        return seen
    return SeenProfile(name=used.name, version=used.version)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(one) if one.isdecimal() else 0 for one in version.split("."))

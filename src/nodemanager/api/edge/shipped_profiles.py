"""The EdgeProfiles that we ship: files of this package, one per profile, in `profiles/`. Pure."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Final

from nodemanager.api import edge
from nodemanager.kube import manifests
from nodemanager.kube.objects import Untyped

_FOLDER: Final = "profiles"


@functools.cache
def profiles() -> dict[str, Untyped]:
    """Return all of them, by name."""
    folder = resources.files(edge) / _FOLDER
    found = (one for one in folder.iterdir() if one.name.endswith(".yaml"))
    objects = (manifests.load_all(one.read_text(encoding="utf-8"), one.name)[0] for one in found)
    return {obj["metadata"]["name"]: obj for obj in sorted(objects, key=lambda obj: obj["metadata"]["name"])}

"""Which operating system a profile names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodemanager.backends.systems.conventional import Debian, RhelLike, Ubuntu
from nodemanager.backends.systems.kairos import Kairos
from nodemanager.backends.systems.seam import OperatingSystem

SYSTEMS: Final[Mapping[str, OperatingSystem]] = {
    one.name: one for one in (Kairos(), Debian(), Ubuntu(), RhelLike())
}
"""By the value of spec.os.provider."""

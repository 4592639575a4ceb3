"""Systems whose /etc lasts: Debian, Ubuntu, and those like RHEL. Pure.

They keep the files themselves. `networkctl reload` does not report whether a link was
changed: the mode of a bond that is up, or has slaves, is left as it is without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nodemanager.api.edge import capabilities
from nodemanager.backends.systems import texts
from nodemanager.backends.systems.seam import Argv, PlannedFile, SystemPlan


class RhelLike:
    """RHEL and its likes: NetworkManager keeps the network there, and is not touched."""

    name = "rhel"

    @property
    def capabilities(self) -> frozenset[str]:
        """What the table says of it."""
        return capabilities.SYSTEM.choices[self.name]

    def tuning(self, settings: Mapping[str, str], modules: Sequence[str] = ()) -> SystemPlan:
        """Write the files, load what has to be there for the settings, and set them."""
        files = [PlannedFile(texts.MODULES, texts.modules(modules))] if modules else []
        commands: list[Argv] = [("modprobe", "--", name) for name in sorted(modules)]
        if settings:
            files.append(PlannedFile(texts.SYSCTL, texts.sysctl(settings)))
            commands.append(("sysctl", "--load", texts.SYSCTL))
        return SystemPlan(tuple(files), commands=tuple(commands))


class Debian(RhelLike):
    """Debian, whose systemd-networkd reads /etc/systemd/network."""

    name = "debian"

    def network(self, files: Mapping[str, str]) -> SystemPlan:
        """Write the files, and have systemd-networkd read them."""
        wanted = tuple(PlannedFile(path, text) for path, text in texts.network(files).items())
        return SystemPlan(wanted, commands=(("networkctl", "reload"),) if wanted else ())


class Ubuntu(Debian):
    """Ubuntu, which does the same where netplan leaves those links alone."""

    name = "ubuntu"

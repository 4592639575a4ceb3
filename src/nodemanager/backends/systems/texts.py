"""Texts of files that several systems have, and what may be in them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nodemanager.backends.errors import Unusable

NETWORK: Final = "/etc/systemd/network"
SYSCTL: Final = "/etc/sysctl.d/95-nodemanager.conf"
MODULES: Final = "/etc/modules-load.d/nodemanager.conf"
HEADER: Final = "# Written by nodemanager: edits are lost.\n"
_SETTING: Final = re.compile(r"[a-z0-9_]+([./][A-Za-z0-9_-]+)+")
_VALUE: Final = re.compile(r"[A-Za-z0-9_.,:/ \t-]{1,256}")
_MODULE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,100}\.(netdev|network|link)")
_IMAGE: Final = re.compile(r"[a-z0-9][A-Za-z0-9_.:/@-]{0,400}")
MOST_TEXT: Final = 65536


def sysctl(settings: Mapping[str, str]) -> str:
    """Return a file of /etc/sysctl.d."""
    for key, value in settings.items():
        if not _SETTING.fullmatch(key) or not _VALUE.fullmatch(value):
            raise Unusable(f"cannot set {key[:64]!r}: write it as sysctl prints it, with a plain value")
    return HEADER + "".join(f"{key} = {value}\n" for key, value in sorted(settings.items()))


def modules(names: Sequence[str]) -> str:
    """Return a file of /etc/modules-load.d."""
    for name in names:
        if not _MODULE.fullmatch(name):
            raise Unusable(f"cannot load {name[:64]!r}: that is no name of a module")
    return HEADER + "".join(f"{name}\n" for name in sorted(names))


def network(files: Mapping[str, str]) -> dict[str, str]:
    """Return files of systemd-networkd by their paths."""
    for name, content in files.items():
        if not _FILE.fullmatch(name):
            raise Unusable(f"cannot write {name[:64]!r}: name it NAME.netdev, NAME.network or NAME.link")
        if len(content) > MOST_TEXT or "\0" in content:
            raise Unusable(f"cannot write {name}: it is longer than {MOST_TEXT} characters, or no text")
    return {f"{NETWORK}/{name}": files[name] for name in sorted(files)}


def image(name: str) -> str:
    """Return the name of an image, if it is one and no option."""
    if not _IMAGE.fullmatch(name):
        raise Unusable(f"cannot use the image {name[:64]!r}: write REGISTRY/NAME:TAG or ...@sha256:...")
    return name

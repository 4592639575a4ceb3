"""Manifests that this program has found right are not checked again until they change.

Reading YAML and checking it (schema and CEL, as an API would) is half of an `apply` that has nothing to do.
What comes of it depends on nothing but the bytes of the files and the program. So both are digested, and what
the manifests declare is kept in the state of the host, for its owner only. With other files, or by another
program, everything is checked anew. Nothing is kept of manifests with Secrets, which are to be in one place.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from nodemanager import native
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.cli.manifests import manifest_files
from nodemanager.host.base import HostError
from nodemanager.host.state.vault import Vault
from nodemanager.kube.errors import UNREADABLE
from nodemanager.kube.objects import Struct

NAME: Final = "checked"
"""The name of the file in the state folder."""
MAX_BYTES: Final = 16 * 1024 * 1024
"""More is not kept: hosts are small."""
_NO_NODES: Final = msgspec.msgpack.encode(())


class _Checked(Struct):
    """What is kept."""

    digest: str
    """A digest of the program and of the files."""
    config_sets: list[ConfigSet] = []
    nodes: msgspec.Raw = msgspec.Raw(_NO_NODES)
    """Read only if there are any: their type is large, and hosts that are given manifests have hardly any."""
    config_maps: dict[str, dict[str, str]] = {}


@dataclass(slots=True)
class CheckedManifests:
    """Loads manifests, and remembers what they declare."""

    vault: Vault
    program: str
    """An id of this build; empty if it is unknown, and then nothing is remembered."""
    check: Callable[[Sequence[Path]], DeclaredInputs]
    """Loads and checks them, or raises ManifestError."""
    _new: tuple[str, DeclaredInputs] | None = field(default=None, init=False)

    def load(self, paths: Sequence[Path]) -> DeclaredInputs:
        """Return what manifests declare, or raise ManifestError."""
        digest = self._digest(paths) if self.program else ""
        known = self._known(digest) if digest else None
        if known is not None:
            return known
        found = self.check(paths)
        # If a file was being changed meanwhile, the checked content differs from the digested one.
        if digest and self._digest(paths) == digest:
            self._new = digest, found
        return found

    def keep(self) -> None:
        """Remember what was checked; where that fails, it is checked again the next time."""
        if self._new is None:
            return
        data = _encoded(*self._new)
        with contextlib.suppress(HostError):
            if data is not None:
                self.vault.save(NAME, data)
            else:
                self.vault.remove(NAME)

    def close(self) -> None:
        """Give back what is held open."""
        self.vault.close()

    def _digest(self, paths: Sequence[Path]) -> str:
        """Return the digest of all that decides what is declared; empty if a file cannot be read twice."""
        digest = hashlib.sha256(f"{self.program}\n".encode())
        with contextlib.suppress(OSError):
            for path in manifest_files.files(paths):
                if not path.is_file():  # a pipe: another reader would not get what we read from it
                    return ""
                digest.update(hashlib.sha256(path.read_bytes()).digest())
            return digest.hexdigest()
        return ""

    def _known(self, digest: str) -> DeclaredInputs | None:
        with contextlib.suppress(HostError, *UNREADABLE, ValueError):
            data = self.vault.load(NAME)
            return None if data is None else _decoded(data, digest)
        return None


def _encoded(digest: str, inputs: DeclaredInputs) -> bytes | None:
    """Return what to keep; None for what is not to be kept, or would not come back as it is."""
    if inputs.secrets:
        return None
    texts = {
        name: {key: value for key, value in values.items() if isinstance(value, str)}
        for name, values in inputs.config_maps.items()
    }
    try:
        nodes = msgspec.Raw(msgspec.msgpack.encode(inputs.nodes))
        kept = _Checked(digest=digest, config_sets=list(inputs.config_sets), nodes=nodes, config_maps=texts)
        data = msgspec.msgpack.encode(kept)
        same = len(data) <= MAX_BYTES and _decoded(data, digest) == inputs
    except (*UNREADABLE, ValueError, OverflowError):  # a number or a text that has no such form
        return None
    return data if same else None


def _decoded(data: bytes, digest: str) -> DeclaredInputs | None:
    kept = msgspec.msgpack.decode(data, type=_Checked)
    if kept.digest != digest:
        return None
    nodes: tuple[ManagedNode, ...] = ()
    if bytes(kept.nodes) != _NO_NODES:
        nodes = msgspec.msgpack.decode(kept.nodes, type=tuple[ManagedNode, ...])
    return DeclaredInputs(tuple(kept.config_sets), nodes, {}, kept.config_maps)


def of_host(root: str) -> CheckedManifests:
    """Return what remembers manifests in the state of the host below a root."""
    return CheckedManifests(Vault(root), native.BUILD, _check)


def _check(paths: Sequence[Path]) -> DeclaredInputs:
    from nodemanager.cli.manifests import (
        manifest_folder,  # a hundred modules, for which there is mostly no need
    )

    return manifest_folder.load(paths)

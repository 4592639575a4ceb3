"""What a host knows without its API: its wanted state, the Secrets for it, and reports that it owes.

    desired     ConfigSets that match, the own ManagedNode, ConfigMaps, other nodes if templates read them
    secrets     Secrets that templates read; encrypted if there is a key
    owed        backups that were made and are not reported yet
    held        which declarations held when the agent last looked

Four small files below the state folder, each written when its content changes. Contents of files
are not kept: rendering is pure, and takes a thousand templates less than a second.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.report import backup_records
from nodemanager.api.common.configset import ConfigSet, ConfigSetStatus
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rollout import is_staged
from nodemanager.host.state.vault import Vault, VaultError
from nodemanager.kube.errors import UNREADABLE
from nodemanager.kube.objects import ObjectKey, Struct

log = logging.getLogger(__name__)
DESIRED: Final = "desired"
SECRETS: Final = "secrets"
OWED: Final = "owed"
HELD: Final = "held"
T = TypeVar("T")
K = TypeVar("K", ConfigSet, ManagedNode)


class _Desired(Struct):
    node: ManagedNode = ManagedNode()
    config_sets: list[ConfigSet] = []
    nodes: list[ManagedNode] = []
    config_maps: dict[str, dict[str, str]] = {}
    binary_data: dict[str, dict[str, bytes]] = {}
    """The bytes in the same ConfigMaps."""


class _Secrets(Struct):
    secrets: dict[str, dict[str, bytes]] = {}


class _Owed(Struct):
    backups: dict[str, str] = {}


class _Held(Struct):
    held: dict[str, str] = {}


class HeldStore(Protocol):
    """Stores which declarations held: digests by the text of a resource's id."""

    def load_held(self) -> dict[str, str]:
        """Return what the last process saved; empty if it cannot be read."""
        ...

    def save_held(self, held: Mapping[str, str]) -> bool:
        """Save it if it is new, and tell whether it is on disk; a failing disk only costs a log line."""
        ...


class InputsMemory:
    """The memory of one host."""

    def __init__(self, plain: Vault, secret: Vault | None, key: ObjectKey) -> None:
        self._plain = plain
        self._secret = secret
        """None = Secrets are not kept, because their key cannot be used."""
        self._key = key
        self._failing: set[str] = set()
        found = self._load(plain, DESIRED, _Desired) or _Desired()
        if found.node.metadata.name != key.name or found.node.metadata.namespace != key.namespace:
            found = _Desired()
        self.node: ManagedNode | None = found.node if found.node.metadata.name else None
        """Our own ManagedNode as we last knew it; None = unknown, so we need the API."""
        self._desired = found
        kept = self._load(secret, SECRETS, _Secrets) if secret is not None and self.node else None
        self._secrets = kept or _Secrets()
        owed = self._load(plain, OWED, _Owed)
        self.owed: Mapping[str, str] = owed.backups if owed else {}
        """SHA-256 of replaced contents of files, by path, that no status shows yet."""

    def inputs(self) -> DeclaredInputs:
        """Return the inputs from when the API last answered."""
        found = self._desired
        nodes = (found.node, *(one for one in found.nodes if one.metadata.name != self._key.name))
        config_maps: dict[str, dict[str, str | bytes]] = {
            name: {**texts, **found.binary_data.get(name, {})} for name, texts in found.config_maps.items()
        }
        return DeclaredInputs(tuple(found.config_sets), nodes, self._secrets.secrets, config_maps)

    def keep(
        self, sets: Sequence[ConfigSet], inputs: DeclaredInputs, node: ManagedNode, *, peers: bool
    ) -> None:
        """Remember the inputs of a pass, with `inputs` and the status of `node` as templates saw them."""
        new = _Desired(
            node=node,
            config_sets=[_remembered(one) for one in sets],
            nodes=list(inputs.nodes) if peers else [],
            config_maps={name: _only(str, data) for name, data in inputs.config_maps.items()},
            binary_data={name: _only(bytes, data) for name, data in inputs.config_maps.items()},
        )
        if self.node is None and not sets:
            return  # nothing is declared, so no file of ours is needed here
        news = _unversioned(new) != _unversioned(self._desired)
        self.node, self._desired = node, new
        if news or DESIRED in self._failing:
            self._save(self._plain, DESIRED, new)
        self._keep_secrets({name: dict(data) for name, data in inputs.secrets.items()})

    def _keep_secrets(self, secrets: dict[str, dict[str, bytes]]) -> None:
        self._secrets = _Secrets(secrets=secrets)
        if self._secret is None:
            return
        if secrets:
            self._save(self._secret, SECRETS, self._secrets)
        else:
            self.forget_secrets()

    def forget_secrets(self) -> bool:
        """Remove all Secrets, in memory and on disk; tell whether there were any."""
        had, self._secrets = bool(self._secrets.secrets), _Secrets()
        try:
            return (self._secret or self._plain).remove(SECRETS) or had
        except VaultError as error:
            log.warning("%s; remove it by hand", error)
            return had

    def owe(self, backups: Mapping[str, str], declared: Collection[str] = ()) -> int:
        """Remember backups that the status must show when the API is back; the first one of a file counts.

        Only as many as the status has room for, those of `declared` files first; return how many are not.
        """
        everything = {**backups, **self.owed}
        owed = backup_records.fitting(everything, declared)
        if owed != self.owed or OWED in self._failing:
            self.owed = owed
            self._save(self._plain, OWED, _Owed(backups=owed))
        return len(everything) - len(owed)

    def settle(self) -> None:
        """Remember that the status shows everything."""
        if self.owed:
            self.owed = {}
            try:
                self._plain.remove(OWED)
            except VaultError as error:
                log.warning("%s", error)

    def load_held(self) -> dict[str, str]:
        """Return which declarations held when the last process looked."""
        found = self._load(self._plain, HELD, _Held)
        return found.held if found else {}

    def save_held(self, held: Mapping[str, str]) -> bool:
        """Remember which declarations hold, as digests by the text of a resource's id."""
        return self._save(self._plain, HELD, _Held(held=dict(held)))

    def close(self) -> None:
        """Give back what is held open."""
        self._plain.close()
        if self._secret is not None:
            self._secret.close()

    def _load(self, vault: Vault, name: str, kind: type[T]) -> T | None:
        """Return what is kept under a name; what is of no use is set aside, and the API has it anew."""
        try:
            data = vault.load(name)
            return None if data is None else msgspec.json.decode(data, type=kind)
        except (VaultError, *UNREADABLE, ValueError) as error:
            log.warning("%s; this host goes on without, until the API is there", error)
            if name != SECRETS:  # the right key may still come
                vault.set_aside(name)
            return None

    def _save(self, vault: Vault, name: str, what: object) -> bool:
        """Tell whether it is on disk."""
        try:
            vault.save(name, msgspec.json.encode(what))
        except VaultError as error:
            if name not in self._failing:
                log.warning("%s; without the API, this host would go on with what is there", error)
            self._failing.add(name)
        else:
            self._failing.discard(name)
        return name not in self._failing


def _only(kind: type[T], data: Mapping[str, object]) -> dict[str, T]:
    return {key: value for key, value in data.items() if isinstance(value, kind)}


def declaring_sets(vault: Vault, path: str) -> list[str]:
    """Return the names of the ConfigSets that declared a file when the agent last read them."""
    try:
        data = vault.load(DESIRED)
        found = msgspec.json.decode(data, type=_Desired) if data else _Desired()
    except (VaultError, *UNREADABLE, ValueError):
        return []
    return [
        one.metadata.name
        for one in found.config_sets
        if any(file.path.rstrip("/") == path.rstrip("/") for file in one.spec.files)
    ]


def _remembered(config_set: ConfigSet) -> ConfigSet:
    """Return a set without the operator's counts; a staged one names its revision."""
    staged = is_staged(config_set.spec.rollout)
    return config_set if staged else msgspec.structs.replace(config_set, status=ConfigSetStatus())


def _unversioned(desired: _Desired) -> _Desired:
    """Return what matters: the operator counts hosts in ConfigSets, and we report in our ManagedNode."""
    return msgspec.structs.replace(
        desired,
        node=_without_version(desired.node),
        config_sets=[_without_version(one) for one in desired.config_sets],
        nodes=[_without_version(one) for one in desired.nodes],
    )


def _without_version(one: K) -> K:
    meta = msgspec.structs.replace(one.metadata, resource_version="")
    return msgspec.structs.replace(one, metadata=meta)

"""The key that signs checkpoints: in a Secret that only the operator reads, made if there is none.

    data.origin  the name of the log, which is the name of the key, too
    data.seed    the key
    data.next    the next key, while the log is handed over to it

A writer of the Secret asks for another key by the annotation `audit.nodemanager/rotate`. The old key
signs the record that names the new one; only then the new one signs alone. A key that is lost, or is not the
one that signed before, is not used in silence: the log is broken until the Secret is back, or somebody has
asked for another key by the annotation `audit.nodemanager/replace-lost-key`.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nodemanager.api.audit.actors import GROUP
from nodemanager.api.audit.auditcheckpoint import KEY_SECRET
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import SECRETS, Secret
from nodemanager.native import ed25519
from nodemanager.tlog import notes
from nodemanager.tlog.notes import Signer

ROTATE: Final = f"{GROUP}/rotate"
REPLACE: Final = f"{GROUP}/replace-lost-key"


class KeyLost(Exception):
    """The key that signed the log is missing or unreadable; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The key of a log, and the key to which the log is handed over."""

    now: Signer
    next: Signer | None = None
    version: str = ""
    """The version of the Secret."""
    wanted: bool = False
    """Whether a person asks for another key."""

    @property
    def origin(self) -> str:
        """The name of the log."""
        return self.now.name

    @property
    def signers(self) -> tuple[Signer, ...]:
        """The keys that sign: during a handover, both."""
        return (self.now,) if self.next is None else (self.now, self.next)


async def load(client: Client, namespace: str, signed_by: Sequence[str]) -> Keys:
    """Return the key, made now if there is none; `signed_by` are those that the log has been signed by.

    Raises KeyLost if it is none of these, and nobody asked for a replacement.
    """
    try:
        secret = await client.get(SECRETS, KEY_SECRET, namespace)
    except errors.NotFound:
        if signed_by:
            raise KeyLost(
                f"cannot sign: the Secret {KEY_SECRET} is gone; restore it from a backup, or create it empty"
                f" with the annotation {REPLACE}: yes, and note the new key"
            ) from None
        return await _make(client, namespace)
    keys, replaced = _read(secret), secret.metadata.annotations.get(REPLACE, "")
    if keys is None:
        if signed_by and not replaced:
            raise KeyLost(
                f"cannot sign: the Secret {KEY_SECRET} has no readable seed and origin; restore it from a"
                f" backup, or annotate it with {REPLACE}: yes, and note the new key"
            )
        made = _new(namespace)
        said = {"data": _encoded(made), "metadata": {"annotations": {REPLACE: made.key.id.hex()}}}
        return await _write(client, namespace, said, secret.metadata.resource_version)
    known = {str(one.key) for one in keys.signers} & set(signed_by[-1:])
    if signed_by and not known and replaced != keys.now.key.id.hex():
        raise KeyLost(
            f"cannot sign: the key in the Secret {KEY_SECRET} is not the one that has signed; restore it, or,"
            f" if it shall be so, annotate the Secret with {REPLACE}: {keys.now.key.id.hex()}"
        )
    return keys


async def begin_rotation(client: Client, namespace: str, keys: Keys) -> Keys:
    """Make the next key."""
    following = Signer(keys.origin, secrets.token_bytes(ed25519.SEED_SIZE))
    change = {"data": {"next": _base64(following.seed)}, "metadata": {"annotations": {ROTATE: None}}}
    return await _write(client, namespace, change, keys.version)


async def end_rotation(client: Client, namespace: str, keys: Keys) -> Keys:
    """Make the next key the only one."""
    if keys.next is None:
        return keys
    change = {"data": {"seed": _base64(keys.next.seed), "next": None}}
    return await _write(client, namespace, change, keys.version)


async def _make(client: Client, namespace: str) -> Keys:
    body = {"metadata": {"name": KEY_SECRET}, "type": "Opaque", "data": _encoded(_new(namespace))}
    try:
        made = await client.create(SECRETS, body, namespace)
    except errors.AlreadyExists:  # another operator was faster: its key counts
        made = await client.get(SECRETS, KEY_SECRET, namespace)
    keys = _read(made)
    if keys is None:
        raise KeyLost(f"cannot sign: the Secret {KEY_SECRET} has no readable seed and origin; delete it")
    ed25519.public_key(keys.now.seed)  # raises Unavailable where no package can sign
    return keys


def _new(namespace: str) -> Signer:
    # Checkpoints of two logs must not be confused, whatever their namespaces are called.
    return Signer(f"nodemanager/{namespace}/{secrets.token_hex(4)}", secrets.token_bytes(ed25519.SEED_SIZE))


async def _write(client: Client, namespace: str, change: Mapping[str, Any], version: str) -> Keys:
    about = {**change.get("metadata", {}), "resourceVersion": version}
    patch = MergePatch({**change, "metadata": about})
    keys = _read(await client.patch(SECRETS, KEY_SECRET, namespace, patch))
    if keys is None:
        raise KeyLost(f"cannot sign: the Secret {KEY_SECRET} was changed meanwhile; look at who did")
    return keys


def _read(secret: Secret) -> Keys | None:
    values, meta = secret.values, secret.metadata
    try:
        origin = notes.checked_name(values.get("origin", b"").decode())
    except (notes.BadNote, UnicodeDecodeError):
        return None
    seed, following = values.get("seed", b""), values.get("next", b"")
    if len(seed) != ed25519.SEED_SIZE or len(following) not in (0, ed25519.SEED_SIZE):
        return None
    after = Signer(origin, following) if following else None
    return Keys(Signer(origin, seed), after, meta.resource_version, ROTATE in meta.annotations)


def _encoded(signer: Signer) -> dict[str, str]:
    return {"origin": _base64(signer.name.encode()), "seed": _base64(signer.seed)}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()

"""The checkpoint of the log: signed with the operator's key, published, handed over to the next key."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import msgspec

from nodemanager.api.audit.auditcheckpoint import (
    AUDIT_CHECKPOINTS,
    MAX_KEYS,
    NAME,
    AuditCheckpoint,
    AuditCheckpointSpec,
    AuditCheckpointStatus,
)
from nodemanager.api.audit.record import OPERATOR, Actor, Record, RecordedObject
from nodemanager.api.rights.operator_rights import NAME as ACCOUNT
from nodemanager.client import patches
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers.audit import keys
from nodemanager.controllers.audit.checking import Soundness
from nodemanager.controllers.audit.keys import Keys
from nodemanager.fleet.audit.unproven import ROTATE
from nodemanager.kube import errors
from nodemanager.native import ed25519
from nodemanager.tlog import checkpoints, notes
from nodemanager.tlog.checkpoints import Checkpoint
from nodemanager.tlog.merkle import Frontier
from nodemanager.tlog.notes import Note

log = logging.getLogger("nodemanager.operator.audit")


@dataclass(slots=True)
class Signing:
    """Signs what is in the log."""

    client: Client
    namespace: str
    sound: Soundness
    keys: Keys | None = None
    published: AuditCheckpoint | None = None
    blind: bool = False
    """Whether this Python can neither make nor check signatures."""

    async def load(self) -> None:
        """Read the published checkpoint and the key; if there is none, `sound` has the reason."""
        published = await self._read()
        found, lost_key, unsigned, blind = None, "", "", False
        try:
            found = await keys.load(self.client, self.namespace, published.spec.keys if published else [])
        except keys.KeyLost as error:
            lost_key = str(error)
        except ed25519.Unavailable as error:
            unsigned, blind = str(error), True
        except errors.Forbidden as error:  # rights that are older than this operator: records need no key
            unsigned = f"cannot sign: {error}; give the operator its rights: config/rbac or the chart"
        # Assigned only now that all is known: if the API does not answer, an earlier fault stays.
        self.published, self.keys, self.blind = published, found, blind
        before, self.sound.lost_key, self.sound.unsigned = self.sound.unsigned, lost_key, unsigned
        if self.sound.unsigned not in ("", before):  # there may be no object yet that could report it
            log.warning("the audit log is written, and not signed: %s", self.sound.unsigned)

    async def _read(self) -> AuditCheckpoint | None:
        try:
            return await self.client.get(AUDIT_CHECKPOINTS, NAME, self.namespace)
        except errors.NotFound:
            return None

    @property
    def size(self) -> int:
        """How many records are signed."""
        return self.published.spec.size if self.published else 0

    def trusted(self) -> list[notes.Key]:
        """Return the keys that have signed, as far as they can be read."""
        named = self.published.spec.keys if self.published else []
        found = [key for text in named if (key := _key(text)) is not None]
        own = [one.key for one in self.keys.signers[:1]] if self.keys else []
        return [*found, *own]

    def expected(self) -> dict[int, bytes]:
        """Return the published root, by its size."""
        if self.published is None:
            return {}
        point = checkpoints.read(notes.read(self.published.spec.note).text)
        return {point.size: point.root}

    def sign(self, size: int, root: bytes) -> str:
        """Return a signed checkpoint; empty if there is no key, or if the log was altered."""
        if self.keys is None or self.sound.findings:
            return ""
        return str(Note(str(Checkpoint(self.keys.origin, size, root))).signed_by(*self.keys.signers))

    async def publish(self, tree: Frontier) -> None:
        """Publish a checkpoint of the log as it is, if it has grown.

        An altered log is not published: our signature would turn the alteration into history.
        """
        if self.keys is None or self.sound.findings or tree.size <= self.size:
            return
        root = tree.root()
        spec = AuditCheckpointSpec(
            size=tree.size, root=root.hex(), note=self.sign(tree.size, root), keys=self._all_keys(self.keys)
        )
        if self.published is None:
            body = {"metadata": {"name": NAME}, "spec": msgspec.to_builtins(spec)}
            self.published = await self.client.create(AUDIT_CHECKPOINTS, body, self.namespace)
        else:
            self.published = await self._patch({"spec": msgspec.to_builtins(spec)}, "")

    async def say(self, status: AuditCheckpointStatus) -> None:
        """Write the status if it changed."""
        if self.published is None:
            return
        old, new = msgspec.to_builtins(self.published.status), msgspec.to_builtins(status)
        if change := patches.difference(old, new):
            self.published = await self._patch({"status": change}, "status")

    async def _patch(self, change: dict[str, Any], subresource: str) -> AuditCheckpoint:
        return await self.client.patch(
            AUDIT_CHECKPOINTS, NAME, self.namespace, MergePatch(change), subresource=subresource
        )

    def _all_keys(self, own: Keys) -> list[str]:
        before = self.published.spec.keys if self.published else []
        new = [str(one.key) for one in own.signers]
        return [*(one for one in before if one not in new), *new][-MAX_KEYS:]

    # Handing over

    async def begin_handover(self) -> None:
        """Make the next key, if a person asks for one."""
        if self.keys is None or self.sound.findings:
            return  # without a key that signs, no handover is possible
        if self.keys.wanted and self.keys.next is None:
            self.keys = await keys.begin_rotation(self.client, self.namespace, self.keys)

    def handover(self, written: str) -> Record | None:
        """Return the record that names the next key, unless it is `written`."""
        if self.keys is None or self.sound.findings:
            return None
        if self.keys.next is None or str(self.keys.next.key) == written:
            return None
        return self.about(ROTATE, "key", str(self.keys.now.key), str(self.keys.next.key))

    def hands_over(self, written: str) -> bool:
        """Tell whether the record that names the next key is `written`, and the old one still signs, too."""
        if self.keys is None or self.keys.next is None or self.sound.findings:
            return False
        return str(self.keys.next.key) == written

    async def end_handover(self, written: str) -> None:
        """Let the next key sign alone, once the old one has signed the record that names it."""
        if self.keys is not None and self.hands_over(written):
            self.keys = await keys.end_rotation(self.client, self.namespace, self.keys)

    def about(self, verb: str, aspect: str, before: str, after: str) -> Record:
        """Return a record about the log itself."""
        about = RecordedObject(kind=AUDIT_CHECKPOINTS.kind, namespace=self.namespace, name=NAME)
        actor = Actor(name=ACCOUNT, known=OPERATOR)
        return Record(verb=verb, aspect=aspect, object=about, actor=actor, from_=before, to=after)


def _key(text: str) -> notes.Key | None:
    try:
        return notes.read_key(text)
    except notes.BadNote:
        return None

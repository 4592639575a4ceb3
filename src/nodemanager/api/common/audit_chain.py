"""How far a host's own chain of what was done on it has got, as its ManagedNode tells."""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.kube.hints import HEX, meta
from nodemanager.kube.objects import Struct

CHAIN_ACCEPTED: Final = "audit.nodemanager/chain-accepted"
"""Annotation of a ManagedNode by which a person says that they know why the chain is not what it was."""
MAX_TOLD: Final = 8
"""Records of the chain that the status tells, so that the operator can merge them."""
MAX_TOLD_LINE: Final = 1024
"""Characters of such a record; a longer one stays on the host."""


class AuditChain(Struct):
    """The end of a host's own chain of records: whoever saw this notices when older ones are changed."""

    id: Annotated[
        str, meta("Drawn when the chain began: another one is another chain.", pattern=HEX, max_length=32)
    ] = ""
    size: Annotated[int, meta("Records that were written so far, those included that are dropped by now.",
                              minimum=0)] = 0  # fmt: skip
    head: Annotated[str, meta("Hash of the last of them.", pattern=HEX, max_length=64)] = ""
    first_kept: Annotated[
        int, meta("Number of the first record that the host still has; they count from 0.", minimum=0)
    ] = 0

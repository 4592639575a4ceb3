"""Return codes of LINSTOR: signed numbers of 64 bits, which alone say how something went.

    bits 62-63  error, warning, information or success      bits 24-25  create, modify, delete
    bits 18-22  which kind of object                        bits 0-14   the code itself

In JSON an error is a large negative number. The HTTP status is made of the first error, and is 500 for
most of them: `already exists` as well as `too few nodes`. So nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nodemanager.backends.errors import NoRoom, NoSuchThing, NotReady, Occupied, Refused

ERROR: Final = 0xC000_0000_0000_0000
WARNING: Final = 0x8000_0000_0000_0000
INFORMATION: Final = 0x4000_0000_0000_0000
_CODE: Final = 0x7FFF

MISSING: Final = range(300, 400)
DENIED: Final = range(400, 500)
SIGN_IN: Final = (10000, 10001)
"""The sender is unknown: its credential is not known, or missing."""
EXISTS: Final = range(500, 529)
SNAPSHOT_NOT_UP_TO_DATE: Final = 979
NO_SPACE: Final = 980
BUSY: Final = 992
NOT_CONNECTED: Final = 995
NOT_ENOUGH_NODES: Final = 996
IN_USE: Final = 997

_BY_CODE: Final[dict[int, type[Refused]]] = {
    SNAPSHOT_NOT_UP_TO_DATE: NotReady,
    NOT_CONNECTED: NotReady,
    NO_SPACE: NoRoom,
    NOT_ENOUGH_NODES: NoRoom,
    BUSY: Occupied,
    IN_USE: Occupied,
}


@dataclass(frozen=True, slots=True)
class ReturnCode:
    """A return code, split into its parts."""

    kind: int
    """ERROR, WARNING, INFORMATION, or 0 for success."""
    operation: int
    subject: int
    code: int

    @property
    def is_error(self) -> bool:
        """Whether that was refused."""
        return self.kind == ERROR

    @property
    def is_warning(self) -> bool:
        """Whether that was done, and something is to be said of it."""
        return self.kind == WARNING


def parse(number: int) -> ReturnCode:
    """Take a code apart; the bits of an error are all those of a warning and one more."""
    kind = next((mask for mask in (ERROR, WARNING, INFORMATION) if number & mask == mask), 0)
    return ReturnCode(kind, number >> 24 & 0x3, number >> 18 & 0x1F, number & _CODE)


def is_denied(code: ReturnCode) -> bool:
    """Tell whether the sender is unknown, or has no right."""
    return code.code in DENIED or code.code in SIGN_IN


def refusal(code: ReturnCode) -> type[Refused]:
    """Return which error of ours an error of LINSTOR is."""
    return NoSuchThing if code.code in MISSING else _BY_CODE.get(code.code, Refused)

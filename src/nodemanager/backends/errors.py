"""What can go wrong between us and a backend.

    BackendError
    +-- Unsupported        it cannot do that, and says so beforehand
    +-- Unreachable        the request did not arrive: nothing happened
    +-- Undecided          no whole answer came: it may have happened, so look again before anything else
    +-- Denied             it does not know us, or we have no right
    +-- Garbled            what came is no answer of such a backend
    +-- Unusable           what it is given cannot be used: a name, a value, a Secret
    +-- Premature          it would do more than was asked for: what has to come first is said
    +-- Refused            it said no, with a code
        +-- NoSuchThing    what was named is not there
        +-- Occupied       it is in use, or busy: later, perhaps
        +-- NoRoom         there are too few nodes, or too little space
        +-- NotReady       not in this state: not up to date, not connected

Messages of a backend are foreign text: they are cut and made printable.
"""

from __future__ import annotations

from nodemanager.fleet.edge.decoding import printable

WORDS = 400


class BackendError(Exception):
    """The root of the tree."""


class Unsupported(BackendError):
    """A backend was asked for something that it cannot do."""


class Unreachable(BackendError):
    """The request did not arrive, so nothing happened."""


class Undecided(BackendError):
    """It is not known whether a change was made."""


class Denied(BackendError):
    """The backend refuses us."""


class Garbled(BackendError):
    """The answer is not one of such a backend."""


class Unusable(BackendError):
    """An input cannot be used."""


class Premature(BackendError):
    """Something else has to be done first."""


class Refused(BackendError):
    """The backend refused."""

    def __init__(self, doing: str, said: str, *, code: int = 0, reports: tuple[str, ...] = ()) -> None:
        more = f" (error reports {', '.join(reports)})" if reports else ""
        super().__init__(f"cannot {doing}: {printable(said, WORDS)} [code {code}]{printable(more, WORDS)}")
        self.code = code
        self.reports = reports


class NoSuchThing(Refused):
    """The named object does not exist."""


class Occupied(Refused):
    """It is in use, or busy."""


class NoRoom(Refused):
    """There are too few nodes, or too little space."""


class NotReady(Refused):
    """It is not in a state that allows the action."""

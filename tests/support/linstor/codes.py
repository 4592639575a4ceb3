"""Return codes and HTTP statuses as a controller makes them; written apart from the code that reads them."""

from __future__ import annotations

from typing import Any

Line = dict[str, Any]
SUCCESS, INFO, WARN, ERROR = 0, 0x4000_0000_0000_0000, 0x8000_0000_0000_0000, 0xC000_0000_0000_0000
CREATE, MODIFY, DELETE = 1, 2, 3
NODE, RSC_DFN, RSC, NET_IF, STOR_POOL, SNAPSHOT, KVS, RSC_GRP = 15, 14, 13, 7, 5, 3, 16, 17

NO_NODE, NO_RSC_DFN, NO_RSC, NO_SNAPSHOT, NO_RSC_GRP = 300, 301, 302, 313, 315
ACCESS_DENIED = 401
SIGN_IN, MISSING_CREDENTIALS = 10000, 10001
EXISTS_NODE, EXISTS_RSC_DFN, EXISTS_RSC, EXISTS_NET_IF, EXISTS_SNAPSHOT = 500, 501, 502, 505, 514
SNAPSHOT_NOT_UP_TO_DATE, NO_SPACE, BUSY, NO_SNAPSHOTS = 979, 980, 992, 994
NOT_CONNECTED, NOT_ENOUGH_NODES, IN_USE = 995, 996, 997
OTHER = 999
"""Where the facts say that it is an error, and not which."""


def number(kind: int, operation: int, subject: int, code: int) -> int:
    """Return a code as it is in JSON: signed, so that errors and warnings are negative."""
    bits = kind | operation << 24 | subject << 18 | code
    return bits - (1 << 64) if bits >> 63 else bits


def line(
    kind: int, operation: int, subject: int, code: int, message: str, reports: tuple[str, ...] = ()
) -> Line:
    """Return one ApiCallRc."""
    said: Line = {"ret_code": number(kind, operation, subject, code), "message": message, "obj_refs": {}}
    return said | ({"error_report_ids": list(reports)} if reports else {})


class Refusal(Exception):
    """A request that is refused."""

    def __init__(self, operation: int, subject: int, code: int, message: str, reports: tuple[str, ...] = ()):
        super().__init__(message)
        self.line = line(ERROR, operation, subject, code, message, reports)


def http_status(lines: list[Line], success: int) -> int:
    """Return the status of an answer: by its first error, and otherwise that of success."""
    for one in lines:
        bits = one["ret_code"] & 0xFFFF_FFFF_FFFF_FFFF
        if bits & ERROR != ERROR:
            continue
        code = bits & 0x7FFF
        if 300 <= code < 400:
            return 404
        if code == MISSING_CREDENTIALS:
            return 401
        return 403 if 400 <= code < 500 or code == SIGN_IN else 500
    return success

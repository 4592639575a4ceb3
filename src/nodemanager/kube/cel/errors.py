"""What can go wrong with an expression: while it is read, while it is checked, while it runs."""

from __future__ import annotations


class CelError(Exception):
    """An evaluation that has no value: overflow, missing key, division by zero and the like."""


class CostExceeded(CelError):
    """The expression did more work than one evaluation may; no operator can absorb it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


MAX_SHOWN = 2000
"""Most characters of a line of an expression that a message repeats."""


class CompileError(Exception):
    """The expression cannot be compiled; the text shows the place as Kubernetes does."""

    def __init__(self, message: str, source: str = "", position: int = 0) -> None:
        self.message = message
        self.position = position
        self.line = source.count("\n", 0, position) + 1
        start = source.rfind("\n", 0, position) + 1
        self.column = position - start + 1
        end = source.find("\n", position)
        end = end if end >= 0 else len(source)
        if end - start > MAX_SHOWN:  # only what is around the place
            start = max(start, position - MAX_SHOWN // 2)
            end = min(end, start + MAX_SHOWN)
        shown = source[start:end]
        pointer = "." * (position - start) + "^"
        super().__init__(f"ERROR: <input>:{self.line}:{self.column}: {message}\n | {shown}\n | {pointer}")


def no_such_overload() -> CelError:
    """Return the error for arguments of types that no function takes."""
    return CelError("no such overload")

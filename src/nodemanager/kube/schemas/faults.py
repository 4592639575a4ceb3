"""What validation found, in the words of kube-apiserver.

Kubernetes validates with one library and reports with another. The first names a place "in body",
the second quotes that sentence behind the refused value; both texts are clients' business by now.
"""

from __future__ import annotations

from typing import Any

from nodemanager.kube.errors import Cause
from nodemanager.kube.go import text as gotext

Path = tuple[Any, str | int] | None
"""Where a value is: its parent's path and its own name or index. The root is None."""

INVALID = "FieldValueInvalid"
REQUIRED = "FieldValueRequired"
TYPE_INVALID = "FieldValueTypeInvalid"
NOT_SUPPORTED = "FieldValueNotSupported"
DUPLICATE = "FieldValueDuplicate"
FORBIDDEN = "FieldValueForbidden"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
NOWHERE = "<nil>"
"""The field of a fault that Kubernetes attributes to no field: Go's nil."""


def render(path: Path) -> str:
    """Return a path as Kubernetes writes it: `spec.list[0].name`."""
    parts: list[str] = []
    while path is not None:
        path, step = path
        parts.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(parts)).removeprefix(".")


def invalid(field: str, value: Any, detail: str) -> Cause:
    """Return the cause for a malformed value."""
    return Cause(field=field, reason=INVALID, message=_body("Invalid value", value, detail))


def required(field: str, detail: str = "") -> Cause:
    """Return the cause for a missing value."""
    message = f"Required value: {detail}" if detail else "Required value"
    return Cause(field=field, reason=REQUIRED, message=message)


def forbidden(field: str, detail: str) -> Cause:
    """Return the cause for something that may not be there at all."""
    return Cause(field=field, reason=FORBIDDEN, message=f"Forbidden: {detail}")


def not_supported(field: str, value: Any, allowed: list[str]) -> Cause:
    """Return the cause for a value that is none of the allowed ones."""
    detail = "supported values: " + ", ".join(map(gotext.quote, allowed)) if allowed else ""
    return Cause(field=field, reason=NOT_SUPPORTED, message=_body("Unsupported value", value, detail))


def duplicate(field: str, value: Any) -> Cause:
    """Return the cause for a value that occurs twice."""
    return Cause(field=field, reason=DUPLICATE, message=_body("Duplicate value", value, ""))


def _body(what: str, value: Any, detail: str) -> str:
    text = f"{what}: {gotext.bad_value(value)}"
    return f"{text}: {detail}" if detail else text


class FaultReport:
    """Collects faults of one validation, each only once however many ways led to it."""

    def __init__(self, at: str = "") -> None:
        self.at = at
        self.found: list[tuple[str, Cause]] = []

    def causes(self) -> list[Cause]:
        """Return the causes without repetitions."""
        return list(dict(reversed(self.found)).values())[::-1]

    def _field(self, name: str) -> str:
        name = name.removeprefix(".")
        if not name:
            return self.at or NOWHERE
        return f"{self.at}.{name}" if self.at else name

    def composite(self, text: str) -> None:
        """Add a fault that Kubernetes does not attribute to a field."""
        self.found.append((text, invalid(self.at or NOWHERE, "", text)))

    def invalid(self, path: Path, value: Any, text: str) -> None:
        """Add a malformed value; `text` says what "should" be."""
        self.stated(path, value, f"{render(path)} in body {text}")

    def stated(self, path: Path, value: Any, text: str) -> None:
        """Add a malformed value; `text` is the whole sentence."""
        self.found.append((text, invalid(self._field(render(path)), value, text)))

    def wrong_type(self, path: Path, expected: str, got: str) -> None:
        """Add a value of the wrong type or format; `got` is the type's name or the text itself."""
        name = render(path)
        text = f"{name} in body must be of type {expected}: {gotext.quote(got)}"
        cause = Cause(field=self._field(name), reason=TYPE_INVALID, message=_body("Invalid value", got, text))
        self.found.append((text, cause))

    def required(self, path: Path, missing: str) -> None:
        """Add a property that is not there."""
        name = render((path, missing))
        self.found.append((f"{name} in body is required", required(self._field(name))))

    def forbidden_property(self, path: Path, name: str) -> None:
        """Add a property that a map without additional properties does not know."""
        self.stated(path, name, f"{render(path)}.{name} in body is a forbidden property")

    def not_supported(self, path: Path, value: Any, allowed: tuple[Any, ...]) -> None:
        """Add a value that is none of an enum's."""
        name = render(path)
        texts = [item if isinstance(item, str) else gotext.json_text(item) for item in allowed]
        self.found.append((f"{name} one of {texts}", not_supported(self._field(name), value, texts)))

    def too_long(self, path: Path, limit: int) -> None:
        """Add a string of too many characters, which Kubernetes calls bytes."""
        name = render(path)
        message = f"Too long: may not be more than {limit} byte{'' if limit == 1 else 's'}"
        cause = Cause(field=self._field(name), reason=TOO_LONG, message=message)
        self.found.append((f"{name} long {limit}", cause))

    def too_many(self, path: Path, size: int, limit: int) -> None:
        """Add a list or a map with too many entries."""
        name = render(path)
        message = f"Too many: {size}: must have at most {limit} item{'' if limit == 1 else 's'}"
        cause = Cause(field=self._field(name), reason=TOO_MANY, message=message)
        self.found.append((f"{name} many {limit}", cause))

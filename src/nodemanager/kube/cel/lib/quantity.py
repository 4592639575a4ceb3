"""quantity: amounts such as "1.5Gi" and "200m", compared and added exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor
from typing import ClassVar

from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.registry import Library
from nodemanager.kube.cel.values import INT_MAX, INT_MIN, CelExtension

LIBRARY = Library()
_add = LIBRARY.add
_TYPE = "kubernetes.Quantity"
_MAX_TEXT = 64
_TEXT = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?|[eE]([+-]?[0-9]{1,3}))"
)
_SUFFIXES: dict[str, Fraction] = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 10**3),
    **{suffix: Fraction(1000 ** (power + 1)) for power, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024 ** (power + 1)) for power, suffix in enumerate("KMGTPE")},
}  # fmt: skip
_POWERS = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_NANO = 10**9


@dataclass(frozen=True, slots=True)
class Quantity(CelExtension):
    """An exact amount; `scale` is the power of ten Kubernetes holds it in, None where it cannot."""

    TYPE: ClassVar[str] = _TYPE
    amount: Fraction
    scale: int | None = field(default=0, compare=False)


def parse(text: str) -> Quantity:
    """Read a quantity; what is finer than a billionth is rounded up, as Kubernetes does."""
    found = _TEXT.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if found is None or not (found[2] or found[3]):
        raise CelError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    fraction = found[3] or ""
    amount = Fraction(int((found[2] or "") + fraction or "0"), 10 ** len(fraction))
    amount *= Fraction(10) ** int(found[5]) if found[5] else _SUFFIXES[found[4] or ""]
    amount = Fraction(ceil(amount * _NANO), _NANO)
    return Quantity(-amount if found[1] == "-" else amount, _scale(found[4] or "", found[5], fraction))


def _scale(suffix: str, exponent: str | None, fraction: str) -> int | None:
    if suffix.endswith("i"):
        return None if fraction else 0
    power = int(exponent) if exponent else _POWERS[suffix]
    scale = power - len(fraction)
    return scale if scale >= -9 else None


LIBRARY.add_parsing("quantity", "isQuantity", _TYPE, parse)
LIBRARY.add_order(_TYPE, lambda value: value.amount)


@_add("sign", f"({_TYPE}) -> int")
def _sign(value: Quantity) -> int:
    return (value.amount > 0) - (value.amount < 0)


@_add("asApproximateFloat", f"{_TYPE}.() -> double")
def _as_float(value: Quantity) -> float:
    return float(value.amount)


@_add("isInteger", f"{_TYPE}.() -> bool")
def _is_integer(value: Quantity) -> bool:
    # Kubernetes does not look at the amount: 1000m is no integer to it, and neither is 1.5Gi.
    return value.scale is not None and value.scale >= 0 and INT_MIN <= value.amount <= INT_MAX


@_add("asInteger", f"{_TYPE}.() -> int")
def _as_integer(value: Quantity) -> int:
    if not _is_integer(value):
        raise CelError("cannot convert value to integer")
    return floor(value.amount)


def _sum(value: Quantity, other: Quantity | int, sign: int) -> Quantity:
    second = other if isinstance(other, Quantity) else Quantity(Fraction(other))
    amount = value.amount + sign * second.amount
    if value.scale is None or second.scale is None:
        return Quantity(amount, None)
    return Quantity(amount, min(value.scale, second.scale))


@_add("add", f"{_TYPE}.({_TYPE}) -> {_TYPE}", f"{_TYPE}.(int) -> {_TYPE}")
def _plus(value: Quantity, other: Quantity | int) -> Quantity:
    return _sum(value, other, 1)


@_add("sub", f"{_TYPE}.({_TYPE}) -> {_TYPE}", f"{_TYPE}.(int) -> {_TYPE}")
def _minus(value: Quantity, other: Quantity | int) -> Quantity:
    return _sum(value, other, -1)

"""The string formats that Kubernetes checks in schemas, as loosely as Kubernetes checks them."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
import unicodedata
from collections.abc import Callable, Mapping

from nodemanager.kube.go import durations

_ASCII = re.ASCII
_UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?[0-9a-f]{12}"
_UUIDS = {
    "uuid": re.compile(_UUID % "[0-9a-f]{4}-?[0-9a-f]{4}", re.IGNORECASE | _ASCII),
    "uuid3": re.compile(_UUID % "3[0-9a-f]{3}-?[0-9a-f]{4}", re.IGNORECASE | _ASCII),
    "uuid4": re.compile(_UUID % "4[0-9a-f]{3}-?[89ab][0-9a-f]{3}", re.IGNORECASE | _ASCII),
    "uuid5": re.compile(_UUID % "5[0-9a-f]{3}-?[89ab][0-9a-f]{3}", re.IGNORECASE | _ASCII),
}
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_CHANNEL = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_RGB = re.compile(rf"rgb\({_CHANNEL},{_CHANNEL},{_CHANNEL}\)", _ASCII)
_HEX_COLOUR = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_CARD = re.compile(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})",
    _ASCII,
)
_SSN = re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}", _ASCII)
_SHORT_NAME = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SHORT = re.compile(_SHORT_NAME)
_LONG = re.compile(rf"{_SHORT_NAME}(?:\.{_SHORT_NAME})*")
_MAC = re.compile(
    r"[0-9a-f]{2}(?:(?::[0-9a-f]{2})+|(?:-[0-9a-f]{2})+)|[0-9a-f]{4}(?:\.[0-9a-f]{4})+|[0-9a-f]+",
    re.IGNORECASE | _ASCII,
)
_MAC_DIGITS = (12, 16, 40)
_LOOSE_DURATION = re.compile(r"(\d+)\s*([A-Za-zµ]+)", _ASCII)
_DURATION_UNITS = {"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"}
_DURATION_STEMS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_ATOM_CHARACTER = r"A-Za-z0-9!#$%&'*+\-/=?^_`{|}~\u0080-\U0010ffff"
_ATOM = f"[{_ATOM_CHARACTER}]+"
_MAILBOX = rf'(?:{_ATOM}(?:\.{_ATOM})*|"(?:[^"\\\r\n]|\\.)+")@(?:{_ATOM}(?:\.{_ATOM})*|\[[^\[\]\\\r\n]*\])'
_PHRASE = rf'(?:[{_ATOM_CHARACTER} \t.]|"(?:[^"\\\r\n]|\\.)*")*'
_EMAIL = rf"\s*(?:{_MAILBOX}|{_PHRASE}<{_MAILBOX}>)\s*"
"""Takes 20 ms to compile, which every start would have to wait for."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_HOST = re.compile(r"[^\x00-\x20#%/?@\\^`{|}\x7f]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def is_date(text: str) -> bool:
    """Tell whether this is a day that exists, as RFC 3339 writes it."""
    if not _DATE.fullmatch(text):
        return False
    year, month, day = map(int, text.split("-"))
    try:
        dt.date(year or 4, month, day)  # Go knows a leap year 0, Python does not.
    except ValueError:
        return False
    return True


def is_date_time(text: str) -> bool:
    """Tell whether this is a point in time, as RFC 3339 writes it and Kubernetes reads it."""
    parts = text.lower().split("t")
    if len(parts) < 2 or not is_date(parts[0]):
        return False
    time = _TIME.fullmatch(parts[1])
    return time is not None and time[1] <= "23" and time[2] <= "59" and time[3] <= "59"


def is_duration(text: str) -> bool:
    """Tell whether this is a duration of Go, or of Scala ("2 days")."""
    try:
        durations.parse(text)
    except ValueError:
        return any(_is_unit(unit.lower()) for _, unit in _LOOSE_DURATION.findall(text))
    return True


def _is_unit(unit: str) -> bool:
    return unit in _DURATION_UNITS or unit.startswith(_DURATION_STEMS)


def _without_leading_zeros(text: str) -> str:
    return re.sub(r"(?<![0-9a-fA-F:])0+(?=[0-9]+(\.|/|$))", "", text) if "." in text else text


def _is_ip(text: str) -> bool:
    if "%" in text or not text.isascii():
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_ipv4(text: str) -> bool:
    """Tell whether this is an IPv4 address; leading zeros are tolerated."""
    return "." in text and (_is_ip(text) or _is_ip(_without_leading_zeros(text)))


def is_ipv6(text: str) -> bool:
    """Tell whether this is an IPv6 address without a zone."""
    return ":" in text and _is_ip(text)


def is_cidr(text: str) -> bool:
    """Tell whether this is an address with a prefix length."""
    address, slash, length = text.partition("/")
    if not slash or not length.isascii() or not length.isdigit() or len(length) > 3:
        return False
    if ":" in address:
        return is_ipv6(address) and int(length) <= 128
    return is_ipv4(address) and int(length) <= 32


def is_mac(text: str) -> bool:
    """Tell whether this is a hardware address of 6, 8 or 20 bytes."""
    return _MAC.fullmatch(text) is not None and sum(c.isalnum() for c in text) in _MAC_DIGITS


def is_hostname(text: str) -> bool:
    """Tell whether this is a host name; letters and symbols of all scripts are allowed."""
    if len(text.encode()) > 255:
        return False
    labels = text.split(".")
    if any(len(label.encode()) > 63 for label in labels):
        return False
    if len(labels) == 1:
        # A single label may have one dash, behind its first character, and may even end there.
        return bool(text) and all(_is_word(c) for c in text[0] + text[1:].removeprefix("-"))
    return all(map(_is_label, labels)) and len(labels[-1]) >= 2 and all(_is_letter(c) for c in labels[-1])


def _is_label(label: str) -> bool:
    if not label or not _is_word(label[0]):
        return False
    if label.endswith("-"):
        return False
    return all(c == "-" or _is_word(c) for c in label)


def _is_letter(character: str) -> bool:
    return unicodedata.category(character).startswith("L")


def _is_word(character: str) -> bool:
    return character in "0123456789" or unicodedata.category(character)[0] in "LS"


def is_uri(text: str) -> bool:
    """Tell whether this is an absolute URI or an absolute path."""
    if not text or any(c < " " or c == "\x7f" for c in text):
        return False
    found = _SCHEME.match(text)
    rest = (text[found.end() :] if found else text).partition("?")[0]
    if not rest.startswith("/"):
        return found is not None or text == "*"
    if found and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        return _is_authority(authority) and not _BAD_ESCAPE.search(slash + path)
    return not _BAD_ESCAPE.search(rest)


def _is_authority(text: str) -> bool:
    user, _, host = text.rpartition("@")
    if host.startswith("["):
        host, closed, port = host.rpartition("]")
    else:
        host, closed, port = host.partition(":")
    if not closed:
        port, host = "", host + port
    port = port.removeprefix(":")
    return (
        _USER.fullmatch(user) is not None
        and _HOST.fullmatch(host) is not None
        and (not port or (port.isascii() and port.isdigit()))
        and (bool(closed) or not host.startswith("["))
    )


def is_card(text: str) -> bool:
    """Tell whether the digits of this are a credit card number with a right check digit."""
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(doubled) + sum(map(int, digits[-1::-2]))) % 10 == 0


def is_isbn10(text: str) -> bool:
    """Tell whether this is an ISBN of ten characters with a right check digit."""
    digits = re.sub(r"[\s-]+", "", text, flags=_ASCII)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    return sum(i * (10 if c == "X" else int(c)) for i, c in enumerate(digits, 1)) % 11 == 0


def is_isbn13(text: str) -> bool:
    """Tell whether this is an ISBN of thirteen digits with a right check digit."""
    digits = re.sub(r"[\s-]+", "", text, flags=_ASCII)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(c) * (3 if i % 2 else 1) for i, c in enumerate(digits)) % 10 == 0


STRING_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches(re.compile(r"[0-9a-fA-F]{24}")),
    "uri": is_uri,
    "email": lambda text: re.fullmatch(_EMAIL, text) is not None,
    "hostname": is_hostname,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "cidr": is_cidr,
    "mac": is_mac,
    **{name: _matches(pattern) for name, pattern in _UUIDS.items()},
    "isbn": lambda text: is_isbn10(text) or is_isbn13(text),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "creditcard": is_card,
    "ssn": lambda text: len(text) == 11 and _SSN.fullmatch(text) is not None,
    "hexcolor": _matches(_HEX_COLOUR),
    "rgbcolor": _matches(_RGB),
    "byte": _matches(_BASE64),
    "password": lambda _text: True,
    "date": is_date,
    "duration": is_duration,
    "datetime": is_date_time,
    "k8sshortname": lambda text: len(text) <= 63 and _SHORT.fullmatch(text) is not None,
    "k8slongname": lambda text: len(text) <= 253 and _LONG.fullmatch(text) is not None,
}
"""The formats by name without dashes, as Kubernetes compares the names."""

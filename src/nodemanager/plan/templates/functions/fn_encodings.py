"""base64.*, crypto.* and data.*: other notations of the same thing."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
from typing import Any

from nodemanager.plan.templates.errors import FunctionError, TooMuch
from nodemanager.plan.templates.functions.registry import add, checked_size
from nodemanager.plan.templates.functions.values import as_text, entries, integer, items, raw, text

_HTML = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
_YAML_COST = 8
_TOML_COST = 8
_ITERATIONS_MAX = 1_000_000


def decoded(value: str) -> bytes:
    """Return what a base64 text says, in either alphabet."""
    try:
        return base64.b64decode(
            value.translate({0x2D: "+", 0x5F: "/", 0x0A: None, 0x0D: None}), validate=True
        )
    except (binascii.Error, ValueError):
        raise FunctionError("the text is not base64") from None


@add("base64.Encode")
def _encode(value: Any) -> str:
    return base64.b64encode(raw(value)).decode()


@add("base64.Decode")
def _decode(value: Any) -> str:
    return as_text(decoded(text(value)))


@add("base64.DecodeBytes")
def _decode_bytes(value: Any) -> bytes:
    return decoded(text(value))


def _hash(name: str) -> None:
    @add(f"crypto.{name.upper()}")
    def _digest(value: Any) -> str:
        return hashlib.new(name.replace("SHA", "sha"), raw(value)).hexdigest()

    del _digest


for _name in ("sha1", "sha224", "sha256", "sha384", "sha512", "sha512_224", "sha512_256"):
    _hash(_name)


@add("crypto.WPAPSK")
def _wpa_psk(ssid: Any, password: Any) -> str:
    checked_size(_ITERATIONS_MAX)  # 4096 rounds cost as much as a long text
    return hashlib.pbkdf2_hmac("sha1", raw(password), raw(ssid), 4096, 32).hex()


@add("crypto.PBKDF2")
def _pbkdf2(password: Any, salt: Any, rounds: Any, length: Any, *algorithm: str) -> str:
    count, size = integer(rounds, "the number of rounds"), integer(length, "the length")
    name = (algorithm[0] if algorithm else "SHA-1").lower().replace("-", "")
    if name not in ("sha1", "sha224", "sha256", "sha384", "sha512"):
        raise FunctionError("the hash must be SHA-1, SHA-224, SHA-256, SHA-384 or SHA-512")
    if not (0 < size <= 1024 and 0 < count <= _ITERATIONS_MAX):
        raise FunctionError(f"rounds must be 1 to {_ITERATIONS_MAX}, the length 1 to 1024")
    checked_size(count * 256)
    return hashlib.pbkdf2_hmac(name, raw(password), raw(salt), count, size).hex()


def to_json(value: Any, indent: str | None = None) -> str:
    """Return JSON as Go writes it: keys sorted, and <, > and & escaped."""
    separators = (",", ":") if indent is None else (",", ": ")
    written = json.dumps(
        _textual(value), ensure_ascii=False, sort_keys=True, separators=separators, indent=indent
    )
    return written.translate(_HTML)


def _textual(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {text(key): _textual(each) for key, each in value.items()}
    if isinstance(value, str):
        value.encode()  # bytes that are no text have no place in JSON: raises UnicodeError
    return [_textual(each) for each in value] if isinstance(value, (list, tuple)) else value


@add("data.ToJSON", "toJSON")
def _to_json(value: Any) -> str:
    return to_json(value)


@add("data.ToJSONPretty", "toJSONPretty")
def _to_json_pretty(indent: str, value: Any) -> str:
    if len(indent) > 16:
        raise FunctionError("the indentation is longer than 16 characters")
    return to_json(value, indent)


def parsed_json(value: Any) -> Any:
    """Return what a JSON text says; a fault is told by its place only."""
    try:
        return json.loads(text(value), parse_constant=lambda _: None)
    except json.JSONDecodeError as error:
        raise FunctionError(f"the text is not JSON: line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise TooMuch("the JSON text is nested too deeply") from None


@add("data.JSON", "json")
def _json(value: Any) -> dict[str, Any]:
    return entries(parsed_json(value), "the JSON text")


@add("data.JSONArray", "jsonArray")
def _json_array(value: Any) -> list[Any]:
    return items(parsed_json(value), "the JSON text")


def parsed_yaml(value: Any) -> Any:
    """Return what a YAML text says, of the first document."""
    from nodemanager.plan.templates.functions import yaml_text  # PyYAML is a mebibyte that few need

    checked_size(len(text(value)) * _YAML_COST)
    return yaml_text.parsed(text(value))


@add("data.YAML", "yaml")
def _yaml(value: Any) -> dict[str, Any]:
    return entries(parsed_yaml(value) or {}, "the YAML text")


@add("data.YAMLArray", "yamlArray")
def _yaml_array(value: Any) -> list[Any]:
    return items(parsed_yaml(value) or [], "the YAML text")


def to_yaml(value: Any) -> str:
    """Return YAML in block style with sorted keys."""
    from nodemanager.plan.templates.functions import yaml_text

    plain = json.loads(json.dumps(_textual(value)))
    checked_size(len(json.dumps(plain)) * _YAML_COST)
    return yaml_text.written(plain)


@add("data.ToYAML", "toYAML")
def _to_yaml(value: Any) -> str:
    return to_yaml(value)


@add("data.TOML", "toml")
def _toml(value: Any) -> dict[str, Any]:
    from nodemanager.plan.templates.functions import toml_text

    checked_size(len(text(value)) * _TOML_COST)
    loaded = toml_text.parsed(text(value))
    plain: dict[str, Any] = json.loads(json.dumps(loaded, default=str))
    return plain


@add("data.CSV", "csv")
def _csv(value: Any) -> list[list[str]]:
    import csv

    return list(csv.reader(io.StringIO(text(value))))

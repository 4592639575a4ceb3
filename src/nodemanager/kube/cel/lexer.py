"""Text of an expression -> tokens, with literals already read."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from nodemanager.kube.cel.errors import CompileError
from nodemanager.kube.cel.values import UInt

MAX_SOURCE = 100_000
"""How many characters an expression may have."""

_TOKEN = re.compile(
    r"""(?P<space>[\t\n\f\r ]+|//[^\n]*)
    |(?P<string>(?:[rR][bB]?|[bB][rR]?)?(?:\"{3}|'{3}|\"|'))
    |(?P<number>0x[0-9a-fA-F]+[uU]?|(?:[0-9]+\.[0-9]+|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+
        |[0-9]+[uU]?)
    |(?P<ident>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<op>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:(?P<plain>[abfnrtv\\?\"'`])|[xX](?P<hex>[0-9a-fA-F]{2})|u(?P<u4>[0-9a-fA-F]{4})"
    r"|U(?P<u8>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<bad>.?))",
    re.DOTALL,
)
_PLAIN = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


class LexToken(NamedTuple):
    """One word of an expression: ident, literal, op or end."""

    kind: str
    value: Any
    position: int


def tokenize(source: str) -> list[LexToken]:
    """Return the tokens of an expression, the last one being `end`."""
    if len(source) > MAX_SOURCE:
        size = len(source)
        raise CompileError(f"expression code point size exceeds limit: size: {size}, limit {MAX_SOURCE}")
    tokens: list[LexToken] = []
    position = 0
    while position < len(source):
        found = _TOKEN.match(source, position)
        if found is None:
            raise _syntax(f"token recognition error at: '{source[position]}'", source, position)
        kind, text, start = str(found.lastgroup), found.group(), position
        position = found.end()
        if kind == "string":
            value, position = _string(source, text, start, position)
            tokens.append(LexToken("literal", value, start))
        elif kind == "number":
            tokens.append(LexToken("literal", _number(text, source, start), start))
        elif kind != "space":
            tokens.append(LexToken(kind, text, start))
    tokens.append(LexToken("end", "<EOF>", len(source)))
    return tokens


def _syntax(message: str, source: str, position: int) -> CompileError:
    return CompileError(f"Syntax error: {message}", source, position)


def _number(text: str, source: str, position: int) -> int | float | UInt:
    if text[-1] in "uU":
        digits = text[:-1]
        value = int(digits, 16 if digits.startswith("0x") else 10) if len(digits) < 30 else 1 << 64
        if value >= 1 << 64:
            raise _syntax("invalid uint literal", source, position)
        return UInt(value)
    if text.startswith("0x") or text.isdigit():
        number = int(text, 0 if text.startswith("0x") else 10) if len(text) < 30 else 1 << 64
        if number > 1 << 63:  # one more than fits: the parser knows whether a minus stands before it
            raise _syntax("invalid int literal", source, position)
        return number
    return float(text)


def _string(source: str, opening: str, start: int, position: int) -> tuple[str | bytes, int]:
    quote = opening.lstrip("rRbB")
    prefix = opening[: -len(quote)].lower()
    end = _closing(source, quote, position, raw="r" in prefix)
    body = source[position:end] if end >= 0 else ""
    if end < 0 or (len(quote) == 1 and ("\n" in body or "\r" in body)):
        raise _syntax(f"token recognition error at: '{source[start : start + 20]}'", source, start)
    after = end + len(quote)
    if "b" in prefix:
        return (body.encode() if "r" in prefix else _bytes(body, source, start)), after
    return (body if "r" in prefix else _text(body, source, start)), after


def _closing(source: str, quote: str, position: int, *, raw: bool) -> int:
    while True:
        end = source.find(quote, position)
        escape = -1 if raw else source.find("\\", position, end if end >= 0 else None)
        if escape < 0 or end < 0:
            return end
        position = escape + 2


def _text(body: str, source: str, position: int) -> str:
    def one(found: re.Match[str]) -> str:
        code = _code(found, source, position)
        if isinstance(code, int):
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                raise _syntax("invalid unicode code point", source, position)
            return chr(code)
        return code

    return _ESCAPE.sub(one, body)


def _bytes(body: str, source: str, position: int) -> bytes:
    parts: list[bytes] = []
    last = 0
    for found in _ESCAPE.finditer(body):
        parts.append(body[last : found.start()].encode())
        code = _code(found, source, position)
        if found["u4"] or found["u8"]:
            raise _syntax("unable to unescape string: unicode escapes are not for bytes", source, position)
        parts.append(bytes([code]) if isinstance(code, int) else code.encode())
        last = found.end()
    return b"".join([*parts, body[last:].encode()])


def _code(found: re.Match[str], source: str, position: int) -> int | str:
    if plain := found["plain"]:
        return _PLAIN.get(plain, plain)
    if octal := found["octal"]:
        return int(octal, 8)
    digits = found["hex"] or found["u4"] or found["u8"]
    if not digits:
        raise _syntax(f"unable to unescape string: {found.group()}", source, position)
    return int(digits, 16)

"""url: absolute URLs and absolute paths, read as Go's url.ParseRequestURI reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import unquote_plus

from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.registry import Library
from nodemanager.kube.cel.values import CelExtension

LIBRARY = Library()
_add = LIBRARY.add
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]*(?:%25[^\]]*)?\]|[^\[\]:\s<>\"\\^`{|}#?/@%]*)(?::[0-9]*)?")
_USER = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:%@]*")
_KEPT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~$&+,/:;=@!'()*[]%")


@dataclass(frozen=True, slots=True)
class Url(CelExtension):
    """The parts of a URL; `path` is as it was written."""

    TYPE: ClassVar[str] = "kubernetes.URL"
    scheme: str
    host: str
    path: str
    query: str


def parse(text: str) -> Url:
    """Return the parts of an absolute URL or an absolute path."""
    if not text or any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise CelError("URL parse error during conversion from string: invalid text")
    scheme, rest = "", text
    if found := _SCHEME.match(text):
        scheme, rest = found[1].lower(), text[found.end() :]
    elif text.startswith(":"):
        raise CelError("URL parse error during conversion from string: missing protocol scheme")
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, "", "", query)
        raise CelError(
            f'URL parse error during conversion from string: parse "{text[:200]}": invalid URI for request'
        )
    host, path = "", rest
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, tail = rest[2:].partition("/")
        host, path = _host(authority), slash + tail
    if _BAD_ESCAPE.search(path):
        raise CelError("URL parse error during conversion from string: invalid URL escape")
    return Url(scheme, host, path, query)


def _host(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if (at and not _USER.fullmatch(user)) or not _HOST.fullmatch(host):
        raise CelError("URL parse error during conversion from string: invalid host or port")
    return host


LIBRARY.add_parsing("url", "isURL", "kubernetes.URL", parse)
_add("getScheme", "kubernetes.URL.() -> string")(lambda value: value.scheme)
_add("getHost", "kubernetes.URL.() -> string")(lambda value: value.host)


@_add("getHostname", "kubernetes.URL.() -> string")
def _hostname(value: Url) -> str:
    if value.host.startswith("["):
        return value.host[1:].partition("]")[0]
    return value.host.partition(":")[0]


@_add("getPort", "kubernetes.URL.() -> string")
def _port(value: Url) -> str:
    return value.host.rpartition("]")[2].partition(":")[2]


@_add("getEscapedPath", "kubernetes.URL.() -> string")
def _escaped_path(value: Url) -> str:
    if all(char in _KEPT for char in value.path):
        return value.path
    return "".join(
        char
        if char in _KEPT - {"!", "'", "(", ")", "*", "[", "]"}
        else "".join(f"%{byte:02X}" for byte in char.encode())
        for char in value.path
    )


@_add("getQuery", "kubernetes.URL.() -> map<string, list<string>>")
def _query(value: Url) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for pair in value.query.split("&"):
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue  # Go leaves out what it cannot read
        key, _, item = pair.partition("=")
        result.setdefault(unquote_plus(key), []).append(unquote_plus(item))
    return result

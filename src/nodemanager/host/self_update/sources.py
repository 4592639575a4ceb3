"""The source of a new program: a local file, or an address; it is read once, in pieces, up to a limit."""

from __future__ import annotations

import contextlib
import errno
import http.client
import io
import os
import ssl
import stat
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import IO, Final

from nodemanager.host import web
from nodemanager.host.base import HostError

MAX_BYTES: Final = 256 * 1024 * 1024
"""Ten times the size of a program."""
PIECE: Final = 256 * 1024
ANSWER_SECONDS: Final = 30.0
SIGNATURE: Final = ".minisig"
"""The suffix of a signature's file name."""
_SCHEMES: Final = ("http", "https")


class WebOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects within the web, but never from an encrypted address to an unencrypted one."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str,
        headers: http.client.HTTPMessage, newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        """Return what is asked next."""
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme not in _SCHEMES or (req.type == "https" and scheme != "https"):
            raise HostError(f"cannot fetch {req.full_url}: it leads to {newurl[:200]}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def pieces(source: str, seconds: float, limit: int = MAX_BYTES) -> Iterator[bytes]:
    """Yield what a file or an address has, within so many seconds; raises HostError if that is too much."""
    total = 0
    with web.Deadline(seconds) as deadline, _told(source, deadline), _opened(source, deadline) as stream:
        # What has come, and not a whole piece: one that comes drop by drop would be waited for without end.
        while piece := stream.read1(PIECE):
            total += len(piece)
            if total > limit:
                raise HostError(f"cannot use {source}: it has more than {limit // 1024} KiB")
            deadline.check()
            yield piece
        deadline.check()  # what was cut has an end, too
        if missing := getattr(stream, "length", None):  # what the server has promised, and not sent
            raise HostError(f"cannot fetch {source}: it ended {missing} bytes too early")


def text(source: str, seconds: float, limit: int) -> str:
    """Return a small text, such as a signature."""
    return b"".join(pieces(source, seconds, limit)).decode("utf-8", "replace")


def is_address(source: str) -> bool:
    """Tell whether a source is an address, and no path."""
    return urllib.parse.urlsplit(source).scheme in _SCHEMES


def signature_of(source: str) -> str:
    """Return where the signature of a file or an address is by default: beside it."""
    if not is_address(source):
        return source + SIGNATURE
    parts = urllib.parse.urlsplit(source)  # what comes after the path, as a token, is for both
    return parts._replace(path=parts.path + SIGNATURE).geturl()


def _opened(source: str, deadline: web.Deadline) -> io.BufferedIOBase:
    if is_address(source):
        opened: io.BufferedIOBase = web.opener(deadline, WebOnly()).open(source, timeout=ANSWER_SECONDS)
        return opened
    if not source.startswith("/"):
        raise HostError(f"cannot use {source!r}: give a whole path, or an address with http:// or https://")
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise HostError(f"cannot use {source}: it is not a file")
    return os.fdopen(descriptor, "rb")


@contextlib.contextmanager
def _told(source: str, deadline: web.Deadline) -> Iterator[None]:
    """Tell what is wrong with a source in our words."""
    try:
        yield
    except HostError:
        raise
    except urllib.error.HTTPError as error:
        with error:
            raise HostError(f"cannot fetch {source}: the server answers {error.code}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise HostError(_why(source, deadline, error)) from error


def _why(source: str, deadline: web.Deadline, error: Exception) -> str:
    if deadline.passed:
        return f"cannot fetch {source}: it takes longer than {deadline.seconds:g} s"
    of_the_web = isinstance(error, urllib.error.URLError | ssl.SSLError | http.client.HTTPException)
    if of_the_web or not isinstance(error, OSError):  # no name of a host, or not in ASCII; a path with a NUL
        return f"cannot fetch {source}: {getattr(error, 'reason', error)}"
    link = "; it is a link: name the file that it points to" if error.errno == errno.ELOOP else ""
    return f"cannot read {source}: {error.strerror or error}{link}"

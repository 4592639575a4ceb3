"""Asks an address, for probes."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request

from nodemanager.host import web


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Has an answer be the one of the address that was asked, and of no other."""

    def redirect_request(self, *_: object) -> None:
        """Follow nothing."""


def http_status(url: str, seconds: float) -> int:
    """Return the status code that an address answers; it is asked from this host, without a proxy."""
    with web.Deadline(seconds) as deadline:
        try:
            opener = web.opener(deadline, urllib.request.ProxyHandler({}), _NoRedirects())
            status = _asked(opener, url, seconds)
        except (ValueError, EOFError, http.client.HTTPException) as error:
            raise OSError(f"cannot ask {url}: {error}") from error
    if deadline.passed:  # what was cut has an end, too
        raise OSError(f"cannot ask {url}: it takes longer than {seconds:g} s")
    return status


def _asked(opener: urllib.request.OpenerDirector, url: str, seconds: float) -> int:
    try:
        with opener.open(url, timeout=seconds) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code

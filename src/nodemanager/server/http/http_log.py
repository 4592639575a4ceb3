"""The log of the HTTP library, without the records that strangers can cause.

aiohttp writes a traceback for every request that it cannot read or whose client leaves; every client that
reaches the port can cause those, as many as they like.
"""

from __future__ import annotations

import logging

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

LOG = logging.getLogger(__name__)
_THEIRS = (HttpProcessingError, web.RequestPayloadError, ConnectionError, TimeoutError)


class _OnlyOurs(logging.Filter):
    """Drops records about failures of clients, except at the debug level."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether to log a record."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, _THEIRS) or LOG.isEnabledFor(logging.DEBUG)


LOG.addFilter(_OnlyOurs())

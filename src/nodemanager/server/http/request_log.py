"""One line per request: user, verb, object, address, result. No query, no body, no credential."""

from __future__ import annotations

import json
import logging
from typing import Any

from nodemanager.server.http.observation import Observation

LOG = logging.getLogger("nodemanager.server.request_log")  # a name that collectors know
MAX_TEXT = 256
"""Characters of anything that a client chose."""


class RequestLog:
    """Writes requests to the log when they have ended."""

    def __init__(self, level: int = logging.INFO) -> None:
        self._level = level

    def begun(self, seen: Observation) -> None:
        """Nothing: a line is written at the end, when the outcome is known."""

    def ended(self, seen: Observation) -> None:
        """Write the line."""
        if not LOG.isEnabledFor(self._level):
            return
        facts = _facts(seen)
        LOG.log(self._level, "%s", _line(facts), extra={"fields": facts})


def _facts(seen: Observation) -> dict[str, Any]:
    return {
        "method": seen.method[:MAX_TEXT],
        "path": _cut(seen.path),
        "verb": seen.info.verb[:MAX_TEXT] if seen.info else "",
        "user": _cut(seen.user),
        "code": seen.code,
        "ms": round(seen.seconds * 1000, 1),
        "bytes": seen.size,
        "agent": _cut(seen.user_agent),
        "remote": seen.remote,
    }


def _line(facts: dict[str, Any]) -> str:
    """Return the same for people; what a client chose is quoted, so that it cannot pose as another field."""
    return (
        f"{facts['method']} {json.dumps(facts['path'], ensure_ascii=False)} {facts['code']}"
        f" {facts['ms']:g}ms {facts['bytes']}B verb={facts['verb']}"
        f" user={json.dumps(facts['user'], ensure_ascii=False)}"
        f" agent={json.dumps(facts['agent'], ensure_ascii=False)} remote={facts['remote']}"
    )


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "..."

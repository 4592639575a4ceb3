"""What upgrades would do on hosts: those that say the same are told together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, TextIO

from nodemanager.cli.maintenance.previews import PreviewAnswer
from nodemanager.cli.views import output
from nodemanager.kube.wording import listed, plural

PACKAGES: Final = 5
"""Packages that are named of each group."""
HOSTS: Final = 5


class AnswerCounter:
    """How many hosts have answered: in place on a terminal, a line for each change elsewhere."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_unused: object) -> None:
        if self._live:
            self._out.write("\r\x1b[K")
            self._out.flush()

    def show(self, ended: int, asked: int) -> None:
        """Show the newest."""
        said = f"{ended} of {plural(asked, 'host')} answered"
        self._out.write(f"\r\x1b[K{said}" if self._live else f"{said}\n")
        self._out.flush()


def text(answers: Mapping[str, PreviewAnswer]) -> str:
    """Return the answers for people: the most frequent one comes first, hosts without an answer last."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    silent: dict[tuple[str, str], list[str]] = {}
    for host, one in answers.items():
        if one.is_good:
            groups.setdefault(tuple(sorted(one.packages.items())), []).append(host)
        else:
            silent.setdefault((one.state, one.message), []).append(host)
    told = [
        (hosts, f"{plural(len(hosts), 'host')}: {_packages(found, answers[hosts[0]].total)}")
        for found, hosts in sorted(groups.items(), key=lambda one: (-len(one[1]), one[1]))
    ]
    told += [
        (hosts, f"{plural(len(hosts), 'host')} said nothing, {state}{f': {message}' if message else ''}")
        for (state, message), hosts in silent.items()
    ]
    lines = [
        f"  {output.one_line(said)}\n    {output.one_line(listed(hosts, HOSTS))}" for hosts, said in told
    ]
    return "\n".join(("What upgrades would do:", *lines))


def _packages(found: tuple[tuple[str, str], ...], total: int) -> str:
    if not total:
        return "nothing to upgrade"
    named = ", ".join(f"{name} {versions}" for name, versions in found[:PACKAGES])
    more = ", ..." if total > PACKAGES else ""
    return f"{plural(total, 'package')} ({named}{more})"


def plain(answers: Mapping[str, PreviewAnswer]) -> list[dict[str, Any]]:
    """Return the answers for programs."""
    return [
        {
            "host": host, "state": one.state, "total": one.total if one.is_good else None,
            "packages": dict(one.packages), "message": one.message,
        }
        for host, one in answers.items()
    ]  # fmt: skip

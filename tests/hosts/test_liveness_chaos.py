"""Agents are killed, frozen and given wrong clocks, the API goes away, operators fail over: all stay alive.

    NODEMANAGER_CHAOS_SECONDS=1800 NODEMANAGER_CHAOS_SEED=7 pytest -n 0 -s tests/hosts/test_liveness_chaos.py

And who really falls silent is marked within one and a half Leases. Without these it is a short run with short
Leases.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from support.liveness_chaos import CALM, LONGEST, SILENT_LEASES, schedule, watched

HOSTS = ("h1", "h2", "h3")
SECONDS = float(os.environ.get("NODEMANAGER_CHAOS_SECONDS", "30"))
SEED = int(os.environ.get("NODEMANAGER_CHAOS_SEED", "2553"))
"""The one that is used if none is given has everything happen in a short time."""
LEASE = 60 if SECONDS >= 600 else 20
"""Seconds; in a long run as in use."""


@pytest.mark.timeout(SECONDS * 3 + 600)
def test_whatever_happens_only_silent_hosts_are_called_silent(tmp_path: Path) -> None:
    acts = schedule(SEED, SECONDS, LEASE, HOSTS)
    say(f"seed {SEED}, {SECONDS:g} s, a Lease of {LEASE} s, {len(acts)} acts")
    with watched(tmp_path, LEASE, HOSTS) as watch:
        began, lag = time.monotonic(), 0.0
        for act in acts:
            watch.rest(max(0.0, began + lag + act.at - time.monotonic()))
            say(str(act))
            started = time.monotonic()
            watch.do(act)
            if act.kind == "silence":  # as long as it takes; the rest keeps its distance
                lag += max(0.0, time.monotonic() - started - (SILENT_LEASES + CALM) * LEASE)
            assert not watch.false_alarms(), f"{act}: {watch.false_alarms()}"
        watch.rest(LEASE)
        assert watch.alarms() == watch.expected
        assert set(watch.marks().values()) == {"True"}
    say(f"seed {SEED}: {dict(watch.done)}; {watch.expected.total()} silent hosts, the slowest marked after "
        f"{watch.slowest:.1f} s of {SILENT_LEASES * LEASE:g} s; no false alarm")  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_decides_everything_and_leaves_hosts_time_for_a_sign_of_life(seed: int) -> None:
    acts = schedule(seed, 1800, 60, HOSTS)
    assert acts == schedule(seed, 1800, 60, HOSTS)
    assert {one.kind for one in acts} == {"kill", "freeze", "clock", "outage", "operator", "silence"}
    assert all(one.seconds <= LONGEST * 60 for one in acts if one.kind in ("freeze", "outage"))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()

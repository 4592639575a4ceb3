r"""Operators fail over, the API goes away, hosts fall silent, people edit: budgets, windows and cordons hold.

    NODEMANAGER_CHAOS_SECONDS=1800 NODEMANAGER_CHAOS_SEED=7 \
        pytest -n 0 -s tests/contract/test_maintenance_chaos.py

And no step is done twice, and when it is over, everything ends. Without these it is a short run.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from pathlib import Path

import pytest

from nodemanager.controllers import assembly
from nodemanager.controllers.disruption import forgotten
from nodemanager.controllers.node_maintenances import reconciling
from nodemanager.runtime.lease import LeaseLock, Timings
from support.maintenance_chaos import WEIGHTS, chaos_in, schedule

SECONDS = float(os.environ.get("NODEMANAGER_CHAOS_SECONDS", "5"))
SEED = int(os.environ.get("NODEMANAGER_CHAOS_SEED", "14"))
LEASE = Timings() if SECONDS >= 600 else Timings(6, 4.5, 0.5)
"""In a long run as in use."""


@pytest.mark.long
@pytest.mark.timeout(SECONDS * 2 + 300)
async def test_whatever_happens_what_was_promised_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.2)
    monkeypatch.setattr(forgotten, "SETTLE_SECONDS", 0.5)
    monkeypatch.setattr(assembly, "LeaseLock", functools.partial(LeaseLock, timings=LEASE))
    async with chaos_in(tmp_path, SEED) as chaos:
        acts = schedule(SEED, SECONDS, list(chaos.hosts))
        say(f"seed {SEED}, {SECONDS:g} s, {len(acts)} acts")
        began = time.monotonic()
        for act in acts:
            await chaos.rest(max(0.0, began + act.at - time.monotonic()))
            if SECONDS >= 60:
                say(str(act))
            await chaos.do(act)
            assert not chaos.faults, f"{act}: {chaos.faults}"
        await chaos.rest(max(0.0, began + SECONDS - time.monotonic()))
        await chaos.calm()
        assert chaos.faults == []
        assert chaos.twice() == []
        await chaos.site.nothing_is_left()
        assert chaos.steps() > len(chaos.hosts)
    say(f"seed {SEED}: {dict(chaos.done)}; {len(chaos.visits)} visits, {chaos.steps()} steps, at most"
        f" {chaos.busiest} hosts in work; no fault")  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_decides_everything(seed: int) -> None:
    hosts = ("a", "b", "c")
    acts = schedule(seed, 1800, hosts)
    assert acts == schedule(seed, 1800, hosts)
    assert {one.kind for one in acts} == set(WEIGHTS)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()

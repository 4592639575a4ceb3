"""Everything that can happen to three real hosts and their API, in an order that a seed decides.

    NODEMANAGER_CHAOS_SECONDS=1800 NODEMANAGER_CHAOS_SEED=7 pytest -n 0 -s tests/hosts/test_chaos.py

Without that it is a short run. What happens is printed; the seed brings the same again.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator

import pytest

from support import apiserver
from support.chaos import Chaos, Victim, prepare
from support.chaos_plan import CHECK, Act, schedule
from support.fleet import Fleet

HOSTS = ("alpha", "beta", "gamma")
SECONDS = float(os.environ.get("NODEMANAGER_CHAOS_SECONDS", "40"))
SEED = int(os.environ.get("NODEMANAGER_CHAOS_SEED", "1"))
needs_our_server = pytest.mark.skipif(
    apiserver.assets() is not None, reason="the API is killed and started again, which is done to our own"
)


@pytest.fixture
def chaos(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Chaos]:
    """Three hosts with agents, ready for what comes."""
    folder = tmp_path_factory.mktemp("chaos")
    with Fleet.up(folder, *HOSTS) as fleet, contextlib.ExitStack() as stack, fleet.watched(request):
        assert fleet.api.server is not None
        chaos = Chaos(fleet, fleet.api.server)
        for name, host in fleet.hosts.items():
            chaos.victims[name] = Victim(host)
            prepare(chaos.victims[name], stack)
            host.join()
        yield chaos


@needs_our_server
@pytest.mark.timeout(SECONDS * 4 + 900)
def test_whatever_happens_hosts_keep_what_was_promised(chaos: Chaos) -> None:
    acts = schedule(SEED, SECONDS, HOSTS)
    say(f"seed {SEED}, {SECONDS:g} s, {len(acts)} acts")
    lag = 0.0  # checkpoints wait; the rest keeps its distance
    began = time.monotonic()
    with chaos.watched():
        for act in acts:
            time.sleep(max(0.0, began + lag + act.at - time.monotonic()))
            say(str(act))
            started = time.monotonic()
            chaos.do(act)
            if act.kind == CHECK:
                lag += time.monotonic() - started
                say(f"all is well after {time.monotonic() - started:.1f} s; {chaos.reads} reads")
    assert not chaos.torn, chaos.torn
    assert chaos.reads > 100
    say(f"seed {SEED}: {dict(chaos.done)}, {chaos.version} versions, {chaos.reads} reads, none torn")


def test_a_seed_decides_everything() -> None:
    assert schedule(7, 1800, HOSTS) == schedule(7, 1800, HOSTS)
    assert schedule(7, 1800, HOSTS) != schedule(8, 1800, HOSTS)


@pytest.mark.parametrize("seed", range(5))
def test_every_spell_is_over_at_a_checkpoint(seed: int) -> None:
    open_spells: set[tuple[str, str]] = set()
    for act in schedule(seed, 600, HOSTS):
        kind, _, ends = act.kind.partition("-")
        if ends:
            open_spells.remove((kind, act.host))
        elif act.kind in ("outage", "cut", "full", "clock", "contest"):
            open_spells.add((kind, act.host))
        elif act.kind == CHECK:
            assert not open_spells
    assert acts_of(seed, "kill")


def acts_of(seed: int, kind: str) -> list[Act]:
    return [act for act in schedule(seed, 600, HOSTS) if act.kind == kind]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()

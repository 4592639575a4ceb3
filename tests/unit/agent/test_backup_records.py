"""A status tells of as many backups as it has room for, and of the right ones."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.agent.report import status
from nodemanager.agent.report.backup_records import MAX_BYTES, fitting
from nodemanager.agent.report.status import Pass
from nodemanager.api.common.managednode import ManagedNodeStatus

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PATHS = st.lists(
    st.text(min_size=1, max_size=200).map(lambda name: "/" + name * 50), unique=True, max_size=200
)


@given(PATHS, st.integers(0, 200))
def test_it_fits_and_nothing_is_dropped_for_something_worse(paths: list[str], every: int) -> None:
    declared = set(paths[:: every + 1])
    records = dict.fromkeys(paths, "0" * 64)
    kept = fitting(records, declared)
    assert len(msgspec.json.encode(kept)) <= 6 * MAX_BYTES  # an escaped character has six
    assert list(kept) == [path for path in paths if path in kept]
    assert fitting(kept, declared) == kept
    dropped = [path for path in paths if path not in kept]
    worth = {path: (path in declared, -place) for place, path in enumerate(paths)}
    assert all(worth[one] < worth[other] for one in dropped for other in kept)
    if sum(len(path.encode()) + 80 for path in paths) <= MAX_BYTES:
        assert not dropped


def test_a_status_comes_to_rest_when_it_is_full() -> None:
    old = ManagedNodeStatus(file_backups={f"/etc/{n}": "0" * 64 for n in range(100)})
    declared = frozenset(old.file_backups)
    for first in range(0, 9000, 3000):
        strays = {f"/etc/conf.d/{n}": "1" * 64 for n in range(first, first + 3000)}
        done = Pass((), {}, (), None, backups=strays, declared=declared)
        new = status.of_pass(old, done, NOW, 1)
        assert len(msgspec.json.encode(new.file_backups)) <= MAX_BYTES
        assert new.file_backups.keys() >= declared
        assert f"/etc/conf.d/{first}" in new.file_backups
        shuffled = msgspec.structs.replace(new, file_backups=dict(sorted(new.file_backups.items())))
        assert status.of_pass(shuffled, done, NOW, 1) == new  # what an API gives back has another order
        old = shuffled

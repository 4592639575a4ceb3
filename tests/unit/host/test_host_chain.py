"""The chain of what was done on a host: several writers, power cuts, full disks, and a bounded size."""

from __future__ import annotations

import errno
import os
import random
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import Record
from nodemanager.fleet.audit import host_chains
from nodemanager.host.state import chain_files, host_chain
from nodemanager.host.state.host_chain import ChainError, HostChain
from support import examples

STATE = "/state"


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[HostChain]:
    made = HostChain(str(tmp_path), STATE, "web1")
    yield made
    made.close()


def verbs(chain: HostChain) -> list[str]:
    return [records.decode(line).verb for part in chain.read() for line in part]


def is_fine(chain: HostChain) -> bool:
    return not host_chains.check(*chain.read())


def test_records_are_numbered_linked_and_private(chain: HostChain, tmp_path: Path) -> None:
    first = chain.append([Record(verb="hold"), Record(verb="restore")])
    again = HostChain(str(tmp_path), STATE, "web1")
    second = again.append([Record(verb="apply")])
    assert verbs(chain) == ["begin", "hold", "restore", "apply"]
    assert (first.size, second.size, second.first_kept, first.id) == (3, 4, 0, second.id)
    assert is_fine(chain)
    assert chain.anchor() == again.anchor() == second
    again.close()
    for one in (tmp_path / "state").iterdir():
        assert stat.S_IMODE(one.stat().st_mode) == 0o600


def test_a_host_without_a_record_has_no_file(chain: HostChain, tmp_path: Path) -> None:
    assert chain.anchor() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limit", [4000, 20_000])
def test_old_records_are_dropped_and_the_chain_says_which(tmp_path: Path, limit: int) -> None:
    chain = HostChain(str(tmp_path), STATE, "web1", limit=limit)
    anchors = [chain.append([Record(verb="apply", message="x" * 400)]) for _ in range(120)]
    last, files = anchors[-1], list((tmp_path / "state").glob("audit.chain*"))
    assert 0 < last.first_kept < last.size - 5
    assert sum(one.stat().st_size for one in files) <= 2 * limit
    assert is_fine(chain)
    old, new = chain.read()
    assert records.decode(old[0]).sequence == last.first_kept
    assert records.decode(new[0]).verb == "continue"
    assert {one.id for one in anchors} == {last.id}
    judged = host_chains.judge(host_chains.KnownChain(tuple(anchors[:-1])), last, [*old, *new])
    assert judged.verdict == host_chains.ChainVerdict.FINE, judged
    chain.close()


def test_a_torn_end_is_cut_off_and_said(chain: HostChain, tmp_path: Path) -> None:
    anchor = chain.append([Record(verb="hold")])
    path = tmp_path / "state" / "audit.chain"
    for torn in (b'{"verb":"app', b"\0" * 5000, b'{"a\0\0\n\0\0', b'{"x":\n{"sequence":9}\n'):
        with path.open("ab") as file:
            file.write(torn)
        assert chain.anchor() == anchor
        anchor = chain.append([Record(verb="apply")])
    assert verbs(chain) == ["begin", "hold", *["cut", "apply"] * 4]
    assert is_fine(chain)


def test_what_was_damaged_long_ago_is_left_to_be_found(chain: HostChain, tmp_path: Path) -> None:
    for _ in range(40):
        chain.append([Record(verb="apply", message="x" * 500)] * 10)
    path = tmp_path / "state" / "audit.chain"
    data = path.read_bytes()
    at = data.index(b"\n", 20_000) + 30
    path.write_bytes(data[:at] + b"?" * 20 + data[at + 20 :])
    size = chain.append([Record(verb="hold")]).size
    assert size == 403 - 1
    (found,) = host_chains.check(*chain.read())
    number = data[:at].count(b"\n")
    assert (found.kind, found.first, found.last) == ("altered", number, number)


def test_a_file_of_which_nothing_is_left_begins_a_new_chain(chain: HostChain, tmp_path: Path) -> None:
    old = chain.append([Record(verb="hold")])
    (tmp_path / "state" / "audit.chain").write_bytes(b"\xff" * 100_000)
    new = chain.append([Record(verb="apply")])
    assert (new.id != old.id, new.size, verbs(chain)) == (True, 2, ["begin", "apply"])
    assert (tmp_path / "state" / "audit.chain.damaged").stat().st_size == 100_000


def test_a_full_disk_is_counted_and_the_chain_says_so(
    chain: HostChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = chain.append([Record(verb="hold")])
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) <= 60:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, bytes(data)[:-60])  # as much as there is room for

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(ChainError, match=r"cannot record what was done in .*: No space left"):
            chain.append([Record(verb="apply")])
        chain.lose(1)
    assert chain.anchor() == before
    other = HostChain(str(tmp_path), STATE, "web1")  # as after a restart
    other.append([Record(verb="restore")], lost=2)
    lost = [records.decode(line) for line in other.read()[1]][-2]
    assert (lost.verb, lost.count, is_fine(other)) == ("lost", 3, True)
    other.append([Record(verb="hold")])
    assert verbs(other).count("lost") == 1
    other.close()


def test_whoever_stopped_while_writing_stops_nobody_for_ever(chain: HostChain, tmp_path: Path) -> None:
    chain.append([Record(verb="hold")])
    naps: list[float] = []
    other = HostChain(str(tmp_path), STATE, "web1", pause=naps.append)
    with chain._locked(), pytest.raises(ChainError, match="another nodemanager has been writing"):
        other.append([Record(verb="apply")])
    assert sum(naps) == pytest.approx(host_chain.PATIENCE, rel=0.01)
    other.close()


def test_a_read_only_folder_is_told_and_what_is_there_stays(
    chain: HostChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain.append([Record(verb="hold")])
    before = (tmp_path / "state/audit.chain").read_bytes()
    real = os.open

    def read_only(path: str, flags: int, *args: Any, **more: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *args, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", read_only)
        with pytest.raises(ChainError, match=r"cannot record what was done in .*: Read-only file system"):
            chain.append([Record(verb="apply")])
        with pytest.raises(OSError, match="Read-only"):
            chain.lose(1)
        assert verbs(chain) == ["begin", "hold"]
    assert (tmp_path / "state/audit.chain").read_bytes() == before


def test_an_older_version_goes_on_with_what_a_newer_one_wrote(chain: HostChain, tmp_path: Path) -> None:
    """As after an upgrade of the agent that was taken back: a field it does not know is not torn."""
    last = chain.append([Record(verb="hold")])
    newer = b'{"fromTheFuture":{"a":1},"previous":"%s","sequence":2,"verb":"teleport"}' % last.head.encode()
    with (tmp_path / "state/audit.chain").open("ab") as file:
        file.write(newer + b"\n")
    assert chain.append([Record(verb="apply")]).size == 4
    assert verbs(chain) == ["begin", "hold", "teleport", "apply"]
    assert is_fine(chain)


def test_a_clock_that_jumps_bends_nothing(chain: HostChain) -> None:
    for moment in ("2031-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2026-01-01T00:00:00Z"):
        chain.append([Record(verb="hold", time=moment)])
    assert is_fine(chain)
    assert [records.decode(line).sequence for line in chain.read()[1]] == [0, 1, 2, 3]


def test_links_are_not_followed(chain: HostChain, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "state" / "audit.chain").symlink_to(tmp_path / "victim")
    with pytest.raises(ChainError):
        chain.append([Record(verb="apply")])
    assert (tmp_path / "victim").read_text() == "precious"


WRITER = """
import sys
from nodemanager.api.audit.record import Record
from nodemanager.host.state.host_chain import HostChain
chain = HostChain(sys.argv[1], "/state", "web1", limit=30000)
for number in range(30):
    chain.append([Record(verb="apply", reason=sys.argv[2], count=number + 1)])
"""


def test_processes_write_one_chain(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(n)]) for n in range(3)]
    assert [one.wait(60) for one in writers] == [0, 0, 0]
    chain = HostChain(str(tmp_path), STATE, "web1", limit=30000)
    assert is_fine(chain)
    found = [records.decode(line) for part in chain.read() for line in part]
    for writer in "012":
        assert [one.count for one in found if one.reason == writer] == list(range(1, 31))
    chain.close()


class PowerCut(BaseException):
    """The machine is gone."""


CALLS = ("write", "fsync", "rename", "ftruncate", "pwrite", "mkdir")


@pytest.mark.parametrize("after_call", [False, True])
def test_a_kill_at_any_call_loses_nothing_that_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_call: bool
) -> None:
    """Every call that changes the disk is the last one once; the next process goes on with what is there."""
    point, ended = 0, False
    while not ended:
        root = tmp_path / str(point)
        root.mkdir()
        told: list[Any] = []
        ended = _writes_until(root, point, told, monkeypatch, after_call=after_call)
        chain = HostChain(str(root), STATE, "web1", limit=3000)
        seen = chain.anchor()
        assert (seen.size if seen else 0) >= (told[-1].size if told else 0)
        now = chain.append([Record(verb="hold")])
        old, new = chain.read()
        assert not host_chains.check(old, new), point
        judged = host_chains.judge(host_chains.KnownChain(tuple(told)), now, [*old, *new])
        assert judged.verdict == host_chains.ChainVerdict.FINE, (point, judged)
        chain.close()
        point += 1
    assert point > 20


def _writes_until(
    root: Path, point: int, told: list[Any], monkeypatch: pytest.MonkeyPatch, *, after_call: bool
) -> bool:
    left = [point]

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] == -1 and not after_call:
                raise PowerCut
            made = real(*args, **more)
            if left[0] <= -1:
                raise PowerCut
            return made

        return call

    chain = HostChain(str(root), STATE, "web1", limit=3000)
    try:
        with monkeypatch.context() as patched:
            for name in CALLS:
                patched.setattr(os, name, wrapped(getattr(os, name)))
            for one in [Record(verb="apply", message="y" * 300)] * 8:
                told += [chain.append([one])]
    except PowerCut:
        return False
    finally:
        chain.close()
    return True


def test_a_power_cut_tears_what_was_not_synced(tmp_path: Path) -> None:
    """What was written since the last sync is there in part: cut short, or with pages that never came."""
    drawn = random.Random(examples.seed())
    for number in range(20):
        root = tmp_path / str(number)
        root.mkdir()
        chain = HostChain(str(root), STATE, "web1")
        told = [chain.append([Record(verb="apply", message="z" * drawn.randrange(500))]) for _ in range(3)]
        path = root / "state" / "audit.chain"
        durable = path.stat().st_size
        chain.append([Record(verb="restore", message="w" * 500)] * drawn.randrange(1, 60))
        data = bytearray(path.read_bytes())
        for page in range(durable // 4096, len(data) // 4096 + 1):
            if drawn.random() < 0.5:
                low, high = max(page * 4096, durable), min((page + 1) * 4096, len(data))
                data[low:high] = bytes(max(high - low, 0))
        path.write_bytes(data[: drawn.randrange(durable, len(data) + 1)])
        chain.close()
        chain = HostChain(str(root), STATE, "web1")
        now = chain.append([Record(verb="hold")])
        old, new = chain.read()
        assert not host_chains.check(old, new)
        judged = host_chains.judge(host_chains.KnownChain(tuple(told)), now, new)
        assert judged.verdict == host_chains.ChainVerdict.FINE
        chain.close()


def test_what_is_written_at_once_is_bounded(chain: HostChain, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = os.write

    def write(descriptor: int, data: bytes) -> int:
        sizes.append(len(data))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    chain.append([Record(verb="apply", message="x" * 500)] * 300)
    assert len(sizes) > 1
    assert max(sizes) <= chain_files.MAX_WRITE
    assert is_fine(chain)

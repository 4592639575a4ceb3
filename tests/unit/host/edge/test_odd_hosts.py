"""Hosts that say odd things of their links and disks: what is told of them is what the schema takes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Unpack

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.api import crds
from nodemanager.api.common import reported
from nodemanager.api.common.edge_state import EdgeState
from nodemanager.host.base import How
from nodemanager.host.edge import drbd, drbd_9, drbd_84, observing
from nodemanager.host.process.runner import Completed
from nodemanager.kube.schemas import structural, validation
from nodemanager.kube.schemas.structural import Structural

LONG = "x" * 300
HUGE = 2**64 - 1


@cache
def schema() -> Structural:
    (crd,) = [one for one in crds.all_crds() if one["spec"]["names"]["kind"] == "ManagedNode"]
    status = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    return structural.compile_schema(status["properties"]["edge"])


def refused(state: EdgeState) -> list[str]:
    """Return what the API would refuse of it."""
    sent = reported.status({"edge": msgspec.to_builtins(state)})["edge"]
    return [f"{one.field}: {one.message}" for one in validation.validate(sent, schema())]


async def seen(root: Path, proc: str, printed: bytes = b"") -> EdgeState:
    async def run(argv: Sequence[str], **_how: Unpack[How]) -> Completed:
        return Completed(tuple(argv), 0, printed, b"")

    (root / "proc").mkdir(parents=True, exist_ok=True)
    (root / "proc/drbd").write_text(proc)
    return await observing.observe(root, run)


def resource(name: str, word: str, number: int) -> dict[str, Any]:
    """Return a resource of DRBD 9 with the same word and number everywhere."""
    there = {"volume": number, "replication-state": word, "peer-disk-state": word, "peer-client": False,
             "resync-suspended": word, "out-of-sync": number,
             "percent-resync-done": float(number)}  # fmt: skip
    peer = {"peer-node-id": number, "name": name, "connection-state": word, "peer-role": word,
            "peer_devices": [there] * 40}  # fmt: skip
    here = {"volume": number, "minor": number, "disk-state": word, "client": False}
    return {"name": name, "role": word, "devices": [here] * 40, "connections": [peer] * 40}


@pytest.mark.parametrize("number", [-1, HUGE])
@pytest.mark.parametrize("word", [LONG, "Diskless"])
async def test_odd_words_and_numbers_of_drbd(tmp_path: Path, number: int, word: str) -> None:
    names = (f"{LONG}1", f"{LONG}2", "a", "a")
    printed = json.dumps([resource(name, word, number) for name in names]).encode()
    state = await seen(tmp_path, "version: 9.2\n", printed)
    assert state.drbd is not None
    assert (state.drbd.error, refused(state)) == ("", [])
    assert len(state.drbd.resources) + state.drbd.omitted == len(names)


async def test_a_version_without_end(tmp_path: Path) -> None:
    assert refused(await seen(tmp_path, f"version: 9.{LONG}\n", b"[]")) == []


async def test_json_that_is_too_deep_is_an_error(tmp_path: Path) -> None:
    state = await seen(tmp_path, "version: 9.2\n", b'[{"name": ' + b"[" * 100_000)
    assert state.drbd is not None
    assert state.drbd.error.startswith("cannot read DRBD")


FIELDS = st.sampled_from(["name", "devices", "connections", "volume", "minor", "peer-node-id"])
JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda one: st.lists(one) | st.dictionaries(FIELDS, one)
)


@given(JSON)
def test_any_json_of_drbdsetup_is_read_or_refused(printed: Any) -> None:
    try:
        found = drbd_9.parse(json.dumps([printed]).encode())
    except msgspec.MsgspecError:
        return
    assert refused(EdgeState(drbd=drbd.bounded("9", found))) == []


@given(st.text(alphabet=" :/0123456789csrodABCUpToDate-oos\n", max_size=300))
def test_any_proc_of_84_is_read(text: str) -> None:
    found = drbd_84.parse(f"version: 8.4\n 0: cs:Connected {text}", {})
    assert refused(EdgeState(drbd=drbd.bounded("8", found))) == []


def card(folder: Path) -> None:
    """Make a card of which the kernel says nothing but digits."""
    (folder / "device").mkdir(parents=True)
    for file in ("operstate", "mtu", "speed"):
        (folder / file).write_text("9" * 4000)


async def test_odd_names_of_links(tmp_path: Path) -> None:
    """The kernel takes any byte but a slash, a colon and white space."""
    for name in (b"eth0", b"\xc3\xa9", b"\xc3\xa8", b"-x", b"x" * 40):
        card(tmp_path / "sys/class/net" / os.fsdecode(name))
    state = await seen(tmp_path, "version: 9.2\n", b"[]")
    assert [one.name for one in state.links] == ["-x", "eth0"]
    assert refused(state) == []

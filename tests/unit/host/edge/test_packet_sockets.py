"""The probe of cards over real packet sockets: virtual cards in a network namespace of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.root_tree import needs_root

pytestmark = [
    needs_root,
    pytest.mark.skipif(not (shutil.which("ip") and shutil.which("unshare")), reason="needs ip and unshare"),
]
PROBE = """
import asyncio, json, subprocess, sys
from nodemanager.host.edge.path_probe import FrameProbe

def ip(*argv):
    subprocess.run(["ip", *argv], check=True)

async def main(root, cut):
    for number in (1, 2):
        ip("link", "add", f"a{number}", "type", "veth", "peer", "name", f"b{number}")
        ip("link", "set", f"a{number}", "up")
        if str(number) != cut:
            ip("link", "set", f"b{number}", "up")
    seconds = 60 if cut == "0" else 10
    probes = [FrameProbe(f"{root}/{host}", "s", host, 5, interval=0.01, linger=0.5) for host in ("a", "b")]
    found = await asyncio.gather(*(one.run("bond0", seconds) for one in probes))
    proofs = {card: proof for one in found for card, proof in one.items()}
    print(json.dumps({card: [one.proven(5), sorted(one.cards)] for card, one in proofs.items()}))

asyncio.run(main(*sys.argv[1:]))
"""


def probe(folder: Path, cut: str) -> Any:
    for host in ("a", "b"):
        bonding = folder / host / "sys/class/net/bond0/bonding"
        bonding.mkdir(parents=True)
        (bonding / "slaves").write_text(f"{host}1 {host}2")
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", PROBE, str(folder), cut],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "Operation not permitted" in done.stderr or "Operation not supported" in done.stderr:
        pytest.skip(f"this machine has no virtual cards for tests: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_frames_pass_real_cards_in_both_directions(tmp_path: Path) -> None:
    assert probe(tmp_path, "0") == {
        "a1": [True, ["b1"]], "a2": [True, ["b2"]], "b1": [True, ["a1"]], "b2": [True, ["a2"]],
    }  # fmt: skip


def test_a_card_that_is_down_is_not_proven_and_the_other_is(tmp_path: Path) -> None:
    assert probe(tmp_path, "2") == {
        "a1": [True, ["b1"]], "a2": [False, []], "b1": [True, ["a1"]], "b2": [False, []],
    }  # fmt: skip

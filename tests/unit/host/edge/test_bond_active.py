"""The card that sends is the same one after a bond was put back: the far end listens to that one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nodemanager.host.base import HostError
from nodemanager.host.edge import bond_changes, bond_records
from support.edge_host import AFTER, BEFORE, BOND, CARDS, NETDEV, STATE, EdgeHost

SECONDS = 300
ACTIVE = f"{BOND}/bonding/active_slave"
REFUSING = 'case "$*" in *active_slave*) exit 2 ;; esac; exec "$0-of-kernel" "$@"'


@pytest.fixture(name="host", params=CARDS)
def _host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> EdgeHost:
    """A host that sends by a card, and where links of the other one come up first."""
    monkeypatch.setattr(bond_changes, "SETTLE", 0.0)
    host = EdgeHost(tmp_path)
    host.make()
    host.link(ACTIVE, request.param)
    (host.world / "first").write_text(next(one for one in CARDS if one != request.param))
    return host


async def flipped(host: EdgeHost, mode: str = AFTER, before: str = BEFORE, primary: str = "") -> None:
    await host.changes().stage(BOND, mode, before, primary)
    await host.changes().arm(BOND, mode, SECONDS, "a")
    await host.changes().flip(BOND, mode, 30)


def folder(host: EdgeHost) -> Path:
    return host.root / STATE.lstrip("/") / "bonds" / BOND


async def put_back(host: EdgeHost, way: str) -> dict[str, str]:
    if way == "revert":
        return await host.changes().revert(BOND)
    host.fire()
    return {}


@pytest.mark.parametrize("way", ["revert", "dead-man"])
async def test_the_same_card_sends_again(host: EdgeHost, way: str) -> None:
    card = host.bonding("active_slave")
    await flipped(host)
    assert host.bonding("active_slave") == ""
    assert "sends" not in await put_back(host, way)
    assert (host.mode(), host.bonding("active_slave")) == (BEFORE, card)


@pytest.mark.parametrize("way", ["revert", "dead-man"])
async def test_one_that_is_dead_cannot_and_that_is_no_failure(host: EdgeHost, way: str) -> None:
    card = host.bonding("active_slave")
    other = next(one for one in CARDS if one != card)
    await flipped(host)
    host.link(f"{card}/bonding_slave/mii_status", "down")
    said = await put_back(host, way)
    assert (host.mode(), host.bonding("active_slave")) == (BEFORE, other)
    assert (folder(host) / "restored").read_text() == "0\n"
    if way == "revert":
        assert said["sends"] == f"{other} of {BOND} sends, and not {card}"
        assert said["down"] == card


async def test_a_card_that_has_a_link_and_does_not_send_is_not_put_back(host: EdgeHost) -> None:
    card = host.bonding("active_slave")
    await flipped(host)
    good = host.bin / "ip"
    good.rename(host.bin / "ip-of-kernel")
    good.write_text(f"#!/bin/sh\n{REFUSING}\n")
    good.chmod(0o755)
    host.fire(whole=False)
    assert [one.phase for one in host.changes().observe()] == ["RestoreFailed"]
    (host.bin / "ip-of-kernel").rename(good)
    await host.changes().revert(BOND)
    assert host.bonding("active_slave") == card


async def test_one_who_only_looks_finds_that_another_card_sends(host: EdgeHost) -> None:
    """As where systemd-networkd took the card down once more when the script had ended."""
    card = host.bonding("active_slave")
    await flipped(host)
    script = folder(host) / "bond.sh"
    later = 'echo none >"$bonding/active_slave"; exit "$status"'
    whole = script.read_text()
    script.write_text(whole.replace('exit "$status"', later))
    with pytest.raises(HostError, match=f"cannot put {BOND} back: none of {BOND} sends, and not {card}"):
        await host.changes().revert(BOND)
    script.write_text(whole)
    await host.changes().revert(BOND)
    assert host.bonding("active_slave") == card, "the bond is as it was, and is not taken apart for it"


@pytest.mark.parametrize("mode", [BEFORE, "balance-alb"])
async def test_a_flip_between_modes_in_which_one_card_sends_keeps_it(host: EdgeHost, mode: str) -> None:
    card = host.bonding("active_slave")
    before = "balance-tlb"
    host.link(f"{BOND}/bonding/mode", f"{before} 5")
    host.file("10-bond.netdev", NETDEV.replace(BEFORE, before))
    await flipped(host, mode, before)
    assert (host.mode(), host.bonding("active_slave")) == (mode, card)


async def test_a_primary_card_that_a_flip_names_is_the_one_that_sends(host: EdgeHost) -> None:
    card = host.bonding("active_slave")
    other = next(one for one in CARDS if one != card)
    await flipped(host, BEFORE, BEFORE, other)
    assert host.bonding("active_slave") == other
    host.fire()
    assert (host.bonding("primary"), host.bonding("active_slave")) == ("", card)


@pytest.mark.parametrize("reselect", ["always 0", "failure 2"])
async def test_a_primary_card_decides_only_if_the_kernel_always_goes_back_to_it(
    host: EdgeHost, reselect: str
) -> None:
    card = host.bonding("active_slave")
    other = next(one for one in CARDS if one != card)
    host.link(f"{BOND}/bonding/primary", other)
    host.link(f"{BOND}/bonding/primary_reselect", reselect)
    await flipped(host)
    await host.changes().revert(BOND)
    assert host.bonding("active_slave") == (other if reselect == "always 0" else card)


@pytest.mark.parametrize("way", ["revert", "dead-man"])
async def test_what_an_agent_of_the_version_before_staged_is_put_back(host: EdgeHost, way: str) -> None:
    """Its record says neither which card did send, nor what was on the bond."""
    await flipped(host)
    path = folder(host) / bond_records.PLAN
    plan = msgspec.json.decode(path.read_bytes())
    for name in ("active", "links"):
        del plan[name]
    path.write_bytes(msgspec.json.encode(plan))
    (folder(host) / bond_records.ACTIVE).unlink()
    await put_back(host, way)
    assert (host.mode(), host.cards(), host.files()["10-bond.netdev"]) == (BEFORE, sorted(CARDS), NETDEV)


async def test_a_mode_change_that_fails_is_tried_again_by_who_puts_back(host: EdgeHost) -> None:
    card = host.bonding("active_slave")
    for way in ("revert", "dead-man"):
        await flipped(host)
        (host.world / "refuse").write_text("2\n")
        await put_back(host, way)
        assert (host.mode(), host.cards(), host.bonding("active_slave")) == (BEFORE, sorted(CARDS), card)
        assert (folder(host) / "restored").read_text() == "0\n"
    await flipped(host)
    (host.world / "refuse").write_text("3\n")
    host.fire(whole=False)
    assert [one.phase for one in host.changes().observe()] == ["RestoreFailed"], "not for ever"
    assert host.cards() == sorted(CARDS)

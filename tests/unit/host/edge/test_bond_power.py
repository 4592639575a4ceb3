"""Files of a bond that are replaced one by one: between any two the power may go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.edge import bond_changes
from nodemanager.host.init import placing
from nodemanager.host.process.runner import RunError
from support import scripts
from support.edge_host import AFTER, BEFORE, BOND, NETDEV, EdgeHost

SECONDS = 300
NETDEV_FILE = "10-bond.netdev"


@pytest.fixture(name="host")
def _host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EdgeHost:
    monkeypatch.setattr(bond_changes, "SETTLE", 0.0)
    host = EdgeHost(tmp_path)
    host.make()
    return host


def fits(host: EdgeHost) -> bool:
    """Tell whether no file names a primary card that the mode of another one does not know."""
    files = host.files()
    return f"Mode={AFTER}" not in files[NETDEV_FILE] or "PrimarySlave" not in files["20-eth1.network"]


@pytest.mark.parametrize("back", [False, True], ids=["commit", "revert"])
@pytest.mark.parametrize("mode", [BEFORE, AFTER])
async def test_power_that_goes_between_two_files_leaves_no_primary_card_in_a_mode_without(
    host: EdgeHost, monkeypatch: pytest.MonkeyPatch, mode: str, *, back: bool
) -> None:
    """At the next boot systemd-networkd would fail that card, and leave it out of the bond."""
    before = BEFORE if mode == AFTER else AFTER
    (host.root / f"sys/class/net/{BOND}/bonding/mode").write_text(f"{before} 0\n")
    host.file(NETDEV_FILE, NETDEV.replace(BEFORE, before))
    primary = "" if mode == AFTER else "eth1"
    said = "" if mode == BEFORE else "PrimarySlave=yes\n"
    host.file("20-eth1.network", f"[Match]\nName=eth1\n\n[Network]\nBond={BOND}\n{said}")
    assert fits(host)
    await host.changes().stage(BOND, mode, before, primary)
    await host.changes().arm(BOND, mode, SECONDS, "a")
    await host.changes().flip(BOND, mode, 30)
    if back:
        await host.changes().commit(BOND, mode)
        scripts.write(
            host.bin / "mv",
            'case $1$2 in *.nodemanager*) /bin/mv "$@"; kill -KILL "$PPID" ;; *) /bin/mv "$@" ;; esac',
        )
        with pytest.raises(RunError):
            await host.changes().revert(BOND)
    else:
        put, left = placing.put, [1]

        def cut(*what: Any) -> bool:
            if not left:
                raise KeyboardInterrupt
            left.pop()
            return put(*what)

        monkeypatch.setattr(placing, "put", cut)
        with pytest.raises(KeyboardInterrupt):
            await host.changes().commit(BOND, mode)
    assert fits(host)

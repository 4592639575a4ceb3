"""Steps that change the mode of the bond of a lab, as the operator gives them to hosts."""

from __future__ import annotations

from typing import Any, Final

from support.fleet import until
from support.lab.agents import STATE, AgentNode
from support.lab.delivery import SECONDS
from support.lab.site import BOND, VLAN, Site

Step = dict[str, Any]
BEFORE, AFTER = "active-backup", "balance-rr"
_CHANGE: Final = {"bond": BOND, "mode": AFTER}
STAGE: Step = {"name": "stage", "bondStage": {**_CHANGE, "fromMode": BEFORE}}
FLIP: Step = {"name": "flip", "bondFlip": _CHANGE, "timeout": "5m", "onFailure": "undo"}
COMMIT: Step = {"name": "commit", "bondCommit": _CHANGE, "onFailure": "undo"}
REVERT: Step = {"name": "revert", "bondRevert": {"bond": BOND}}
GO_ON: Final = "/run/go-on"
GATE: Step = {"name": "gate", "probe": {"argv": ["test", "-e", GO_ON]}, "timeout": "20m"}
"""A step that lasts until a test writes that file: there is time to do harm."""
LONG, SHORT = "30m", "90s"
"""How long a dead-man waits that is not to act, and one that is; a flip begins only with 20 s of it left."""


def arm(deadline: str) -> Step:
    """Return the step that starts a dead-man."""
    return {"name": "arm", "bondArm": {**_CHANGE, "deadline": deadline}}


def probe(address: str, *, session: str = "", timeout: str = "5m") -> Step:
    """Return the step that proves links: all together and, in a session with the peer, each by itself."""
    action: Step = {"loss": {"address": address, "interface": f"{BOND}.{VLAN}"}}
    if session:
        action["paths"] = {"bond": BOND, "session": session}
    return {"name": "probe", "linkProbe": action, "timeout": timeout, "onFailure": "undo"}


def succeeds(node: AgentNode, *steps: Step) -> dict[str, Any]:
    """Have a node do steps, all of which must succeed."""
    status = node.does(*steps)
    assert status["phase"] == "Succeeded", status
    return status


def back(step: Step, **more: str) -> Step:
    """Return the same step for a change from the new mode to the old one."""
    [action] = [key for key in step if key.startswith("bond")]
    said = {**step[action], "mode": BEFORE, **more}
    return {**step, action: {**said, "fromMode": AFTER} if "fromMode" in said else said}


def all_arrives(site: Site) -> None:
    """Have all packets arrive, either way: both ends have the same mode, and in some the same card sends."""
    until(lambda: site.loss(0, pings=10) == 0, "both ends hear each other", SECONDS)
    assert [site.loss(0), site.loss(1)] == [0, 0]


def restart_networkd(node: AgentNode) -> None:
    """Restart systemd-networkd, as its upgrade does, and wait until it has done its work."""
    node.guest.run("systemctl", "restart", "systemd-networkd.service")
    until(node.has_address, "systemd-networkd has done its work", SECONDS)


def restored(node: AgentNode) -> bool:
    """Tell whether the dead-man has acted, and ended well."""
    return node.guest.run("cat", f"{STATE}/restored", check=False).stdout == "0\n"

"""Who carries out the steps of edge sites; the table of all of them."""

from __future__ import annotations

from collections.abc import Callable

from nodemanager.agent.assembly import ManagedHost
from nodemanager.agent.edge.bond_steps import BondArms, BondCommits, BondFlips, BondStages
from nodemanager.agent.edge.drbd_steps import DrbdPauses, DrbdVerifies
from nodemanager.agent.edge.kairos_steps import KairosPrograms, OemSteps, TellingReverts
from nodemanager.agent.edge.link_probes import LinkProbes
from nodemanager.agent.tasks.attempts import Exclusive, Performer
from nodemanager.agent.tasks.programs import Programs
from nodemanager.host.edge.bond_changes import BondChanges
from nodemanager.host.edge.drbd_control import DrbdControl
from nodemanager.host.edge.oem import OemFiles
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import environment


def performers(
    host: ManagedHost,
    changes: BondChanges,
    programs: Programs,
    exclusive: Exclusive,
    done: Callable[[], None],
) -> dict[str, Performer]:
    """Return who carries out which step; `done` is told that the host looks different now."""
    root, run = host.tree.root, host.converger.observer.run
    control = DrbdControl(root, run, environment.host_follower(root))
    of_bond = changes, exclusive, done
    files = OemFiles(Tree(root), host.state, run)
    kairos = KairosPrograms(programs, root)
    return {
        "bond_stage": BondStages(*of_bond),
        "bond_arm": BondArms(*of_bond),
        "bond_flip": BondFlips(*of_bond),
        "bond_commit": BondCommits(*of_bond),
        "bond_revert": TellingReverts(*of_bond),
        "link_probe": LinkProbes(root, host.identity.hostname, run),
        "drbd_pause": DrbdPauses(control, done),
        "drbd_resume": DrbdPauses(control, done, paused=False),
        "drbd_verify": DrbdVerifies(control, done),
        "oem_file": OemSteps(files, changes, exclusive),
        "kairos_upgrade": kairos,
        "kairos_stage": kairos,
    }

"""The entries of ConfigSet and what belongs to it, and of ManagedNode, in the registry of kinds."""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configsetpreview import CONFIG_SET_PREVIEWS
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.rolloutpolicy import DEFAULT, ROLLOUT_POLICIES
from nodemanager.api.kind_parts import AGE, READ, WRITE, KindColumn, KindEntry, KindRight, condition

_CONFIG_SET: Final = KindEntry(
    resource=CONFIG_SETS,
    # Kubernetes itself answers to "cs" (componentstatuses), so there is a second short name.
    short_names=("cs", "cset"),
    columns=(
        KindColumn("Nodes", ".status.nodes.matched", "Hosts it is meant for.", "integer"),
        KindColumn("Applied", ".status.nodes.applied", "Hosts where all of it holds.", "integer"),
        KindColumn("Failed", ".status.nodes.failed", "Hosts where a part could not be applied.", "integer"),
        KindColumn("Unknown", ".status.nodes.unknown", "Hosts that are silent.", "integer"),
        KindColumn("Held", ".status.nodes.held", "Hosts where it waits for the end of a hold.", "integer"),
        KindColumn(
            "Conflicted", ".status.nodes.conflicted", "Hosts where another set says otherwise.", "integer"
        ),
        AGE,
        KindColumn("Priority", ".spec.priority", "Who wins when sets differ: the highest.", "integer", 1),
        KindColumn("Rollout", ".status.rollout.phase", "Where the newest change is.", priority=1),
        KindColumn("Ready", condition("Ready"), "Whether it holds on all its hosts.", priority=1),
        KindColumn("Message", condition("Ready", "message"), "Why it does not.", priority=1),
        KindColumn("Chosen By", ".status.chosenBy", "What a host needs to get it.", priority=1),
    ),
    page="reference/configset.md",
    hosts=(KindRight(READ),),
    operator=(
        KindRight(("patch",), "status"),
        KindRight(("create", "patch", "delete")),  # the policy keeps it to those of NodeMaintenances
    ),
    viewers=(KindRight(READ),),
    editors=(KindRight(WRITE),),
)

_MANAGED_NODE: Final = KindEntry(
    resource=MANAGED_NODES,
    short_names=("mn",),
    columns=(
        KindColumn("OS", ".status.os.id", "Operating system, as os-release calls it."),
        KindColumn("Agent", ".status.agentVersion", "Version of the agent."),
        KindColumn("Ready", condition("Ready"), "Whether everything declared for the host holds."),
        KindColumn(
            "Drift", condition("Drifted"), "Whether the host differs right now from what is declared."
        ),
        KindColumn("Held", condition("Held"), "Whether nothing on the host is changed for now."),
        KindColumn(
            "Last Seen", ".status.lastSeen", "Time since the last sign of life of a silent host.", "date"
        ),
        AGE,
        KindColumn("System", ".status.os.prettyName", "Operating system in words.", priority=1),
        KindColumn("Release", ".status.release", "Kernel release.", priority=1),
        KindColumn("Reason", condition("Ready", "reason"), "Why it is, or is not, ready.", priority=1),
        KindColumn("Alive", condition("Alive"), "Whether it sends signs of life.", priority=1),
        KindColumn("Repaired", ".status.drift.repaired", "Foreign changes that were undone.", "integer", 1),
        KindColumn(
            "Conflicted", condition("Conflicted"), "Whether ConfigSets contradict each other.", priority=1
        ),
        KindColumn("Upgraded", ".status.lastUpgrade", "Time since the last upgrade.", "date", 1),
        KindColumn("Arch", r".metadata.labels.kubernetes\.io/arch", "Processor architecture.", priority=1),
    ),
    page="reference/managednode.md",
    hosts=(
        KindRight(READ),
        KindRight(("create",)),  # RBAC cannot name what does not exist: the policy does
        KindRight(("update", "patch"), own=True),
        KindRight(("get", "update", "patch"), "status", own=True),
    ),
    operator=(
        KindRight(("patch",), "status"),  # only what the operator alone can know, such as Alive
        KindRight(("patch",)),  # annotations: who works on the host
    ),
    viewers=(KindRight(READ),),
    editors=(KindRight(WRITE),),
)

_REVISION: Final = KindEntry(
    resource=CONFIG_SET_REVISIONS,
    short_names=("csrev",),
    columns=(
        KindColumn("ConfigSet", ".spec.configSet", "The set that said so."),
        KindColumn("Revision", ".spec.revision", "Counts the revisions of the set.", "integer"),
        KindColumn("By", ".spec.changedBy.name", "Who wrote it: a user, or a program."),
        AGE,
        KindColumn("Change", ".spec.change", "Where it came from: a claim.", priority=1),
        KindColumn("Digest", ".spec.digest", "SHA-256 of what it says.", priority=1),
    ),
    page="reference/configsetrevision.md",
    hosts=(KindRight(("get",)),),
    operator=(KindRight(("create", "delete")),),
    viewers=(KindRight(READ),),
    editors=(),  # hosts carry out what it says: it is made by the operator alone, and changed by nobody
)

_PREVIEW: Final = KindEntry(
    resource=CONFIG_SET_PREVIEWS,
    short_names=("cspreview",),
    columns=(
        KindColumn("Phase", ".status.phase", "Whether all hosts were asked."),
        KindColumn("Asked", ".status.asked", "Hosts that have a NodeTask.", "integer"),
        AGE,
        KindColumn("Digest", ".spec.digest", "SHA-256 of what is proposed.", priority=1),
    ),
    page="reference/configsetpreview.md",
    hosts=(KindRight(("get",)),),
    operator=(KindRight(("delete",)), KindRight(("patch",), "status")),
    viewers=(KindRight(READ),),
    # A host tells what it finds, so the policy asks whether they may write ConfigSets, too.
    editors=(KindRight(("create", "delete")),),
)

_POLICY: Final = KindEntry(
    resource=ROLLOUT_POLICIES,
    short_names=("rp",),
    columns=(
        KindColumn("Strategy", ".spec.strategy", "Whether hosts wait for their turn."),
        KindColumn("Soak", ".spec.soak", "How long hosts of a stage have to stay healthy."),
        KindColumn("Paused", ".spec.paused", "Whether no further host takes a change.", "boolean"),
        AGE,
    ),
    page="reference/rolloutpolicy.md",
    hosts=(KindRight(("get",), names=(DEFAULT,)),),
    operator=(),
    viewers=(KindRight(READ),),
    # Who may write ConfigSets may have each of them not follow it, so it is no right more.
    editors=(KindRight(WRITE),),
)

KINDS: Final = (_MANAGED_NODE, _CONFIG_SET, _REVISION, _PREVIEW, _POLICY)

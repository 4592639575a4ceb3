"""The diagrams of the documentation, by their paths below docs/."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tools.website import packages
from tools.website.diagrams import Arrow, Box, Diagram

FLOW: Final = Diagram(
    "People and GitOps declare in the Kubernetes API; the operator decides for many hosts; "
    "an agent on each host makes it so and reports what it sees",
    (480, 424),
    {
        "people": Box(120, 4, 240, 58, "you", ("kubectl, Git, Helm, Argo CD",)),
        "api": Box(
            12, 118, 456, 62, "Kubernetes API", ("your cluster, or the embedded one on SQLite",), "main"
        ),
        "operator": Box(12, 248, 138, 84, "operator", ("decides for many,", "unprivileged")),
        "hosts": Box(176, 248, 292, 168, "your hosts", (), "frame"),
        "metal": Box(190, 282, 82, 58, "agent", ("bare metal",)),
        "machine": Box(281, 282, 82, 58, "agent", ("VM",)),
        "container": Box(372, 282, 82, 58, "agent", ("container",)),
        "things": Box(
            190, 354, 264, 48, "packages, files, services", ("kept as declared, in milliseconds",), "box"
        ),
    },
    (
        Arrow("people:b", "api:t", "declare: a ConfigSet", (250, 95)),
        Arrow("api:b.1", "operator:t.3323", "watch", (52, 218), "end"),
        Arrow("operator:t.6634", "api:b.2", "roll up, grant", (110, 218)),
        Arrow("api:b.5088", "hosts:t.2315", "watch", (238, 218), "end"),
        Arrow("hosts:t.7171", "api:b.8182", "report changes", (379, 218), "end"),
    ),
)

PROCESS: Final = Diagram(
    "One process: the client watches the API, the cache hands names to the work queue, reconcile plans and "
    "acts on the host, and the status goes back when it changed",
    (480, 606),
    {
        "people": Box(150, 4, 180, 40, "people, GitOps"),
        "api": Box(12, 92, 456, 44, "Kubernetes API", (), "main"),
        "process": Box(
            12, 184, 456, 414, "operator or agent: one process, one event loop", (), "frame", low=True
        ),
        "client": Box(66, 204, 164, 64, "client", ("TLS, credentials, verbs",)),
        "cache": Box(66, 296, 164, 64, "cache", ("list + watch",)),
        "queue": Box(66, 398, 164, 64, "work queue", ("dedupe, delay, backoff",)),
        "reconcile": Box(66, 500, 164, 64, "reconcile", ("one name at a time",)),
        "plan": Box(290, 500, 164, 64, "plan", ("pure: steps, reasons",)),
        "host": Box(290, 398, 164, 64, "host", ("files, packages, services",)),
        "status": Box(290, 204, 164, 64, "status", ("what was seen",)),
    },
    (
        Arrow("people:b", "api:t", "ConfigSet, spec", (248, 73)),
        Arrow("api:b.2982", "client:t", "watch", (140, 166), "end"),
        Arrow("client:b", "cache:t"),
        Arrow("cache:b", "queue:t", "name", (156, 384)),
        Arrow("queue:b", "reconcile:t", "name", (156, 486)),
        Arrow("reconcile:l", "cache:l", "reads", (52, 384)),
        Arrow("reconcile:r", "plan:l"),
        Arrow("plan:t", "host:b"),
        Arrow("host:t", "status:b"),
        Arrow("status:t", "api:b.7895", "patch, when changed", (364, 166), "end"),
    ),
)

PASS: Final = Diagram(
    "A pass: matching ConfigSets are merged, contents rendered in a child; each stage observes, plans and "
    "applies; the results become status, events and metrics",
    (480, 434),
    {
        "sets": Box(12, 4, 200, 46, "ConfigSets that match"),
        "sources": Box(268, 4, 200, 46, "sources", ("nodes, Secrets, ConfigMaps",)),
        "desired": Box(12, 106, 200, 46, "Desired"),
        "contents": Box(268, 106, 200, 46, "contents"),
        "stage": Box(
            12,
            204,
            456,
            134,
            "four stages, one after the other",
            ("packages, then files, then services, then executions",),
            "frame",
        ),
        "observe": Box(30, 266, 104, 50, "observe", (), "main"),
        "plan": Box(188, 266, 104, 50, "plan", (), "main"),
        "apply": Box(346, 266, 104, 50, "apply", (), "main"),
        "status": Box(120, 384, 240, 46, "status, events, metrics"),
    },
    (
        Arrow("sets:b", "desired:t", "merge", (122, 82)),
        Arrow("sources:b", "contents:t", "render in a child", (360, 82), "end"),
        Arrow("desired:b", "stage:t.2193"),
        Arrow("contents:b", "stage:t.7807"),
        Arrow("observe:r", "plan:l", "facts", (145, 282)),
        Arrow("plan:r", "apply:l", "steps", (303, 282)),
        Arrow("stage:b", "status:t", "results", (250, 366)),
    ),
)

DRIFT: Final = Diagram(
    "From a drift to its report: what the kernel tells is looked at and repaired, recorded on disk, and "
    "delivered to the API once and in order; one writer has the status; memory serves in outages",
    (576, 660),
    {
        "api": Box(8, 4, 560, 42, "Kubernetes API", (), "main"),
        "writer": Box(8, 104, 122, 64, "status writer", ("the only one",)),
        "declared": Box(154, 104, 122, 64, "declarations", ("what is wanted",)),
        "reach": Box(300, 104, 122, 64, "reachability", ("there, offline,", "refused")),
        "delivery": Box(446, 104, 122, 64, "delivery", ("once, in order",)),
        "memory": Box(154, 204, 90, 64, "memory", ("in the vault",)),
        "kernel": Box(300, 204, 122, 64, "kernel", ("inotify, D-Bus,", "netlink")),
        "log": Box(446, 204, 122, 64, "drift log", ("numbered, on disk",)),
        "watches": Box(300, 304, 122, 64, "host/watches", ("what was touched",)),
        "pass": Box(154, 404, 122, 64, "pass", ("everything",)),
        "repair": Box(300, 404, 122, 64, "repair", ("look, plan, apply:", "these only")),
        "state": Box(154, 510, 268, 58, "host state", ("wanted, done, drifted",), "main"),
        "snapshot": Box(154, 608, 122, 44, "local status"),
        "socket": Box(300, 600, 268, 56, "status socket", ("nodemanager status",)),
        "watchdog": Box(8, 600, 122, 56, "watchdog", ("progress, sd_notify",)),
    },
    (
        Arrow("writer:t", "api:b.1089", "status", (62, 82), "end"),
        Arrow("api:b.3696", "declared:t", "ConfigSets, Secrets", (222, 82)),
        Arrow("delivery:t", "api:b.892", "Event", (500, 82), "end"),
        Arrow("declared:b.3689", "memory:t", looks="both"),
        Arrow("reach:r", "delivery:l", looks="loose"),
        Arrow("log:t", "delivery:b"),
        Arrow("kernel:b", "watches:t"),
        Arrow("watches:b", "repair:t"),
        Arrow("declared:b.86", "pass:t.86"),
        Arrow("pass:b", "state:t.2276"),
        Arrow("repair:b", "state:t.7724"),
        Arrow("state:l", "writer:b"),
        Arrow("state:r", "log:b"),
        Arrow("state:b.2276", "snapshot:t"),
        Arrow("snapshot:r", "socket:l.5357"),
    ),
)

OPERATOR: Final = Diagram(
    "A list of registrations becomes caches, queues, controllers, their health checks and the rights of the "
    "operator",
    (480, 372),
    {
        "entries": Box(100, 4, 280, 58, "controllers/assembly.py", ("a list of registrations",), "main"),
        "caches": Box(12, 118, 210, 58, "caches", ("one per kind and selection",)),
        "rights": Box(258, 118, 210, 58, "rights", ("operator.yaml, the chart",)),
        "queues": Box(12, 222, 210, 46, "a queue each"),
        "controllers": Box(12, 318, 210, 46, "a controller each"),
        "health": Box(258, 312, 210, 56, "/healthz", ("a check each",)),
    },
    (
        Arrow("entries:b.0607", "caches:t"),
        Arrow("entries:b.9393", "rights:t"),
        Arrow("caches:b", "queues:t", "names that a change wakes", (128, 204)),
        Arrow("queues:b", "controllers:t", "name", (128, 298)),
        Arrow("controllers:r", "health:l"),
    ),
)

_ROOT: Final = Path(__file__).resolve().parents[2]
_BY_NAME: Final = {"flow": FLOW, "process": PROCESS, "pass": PASS, "drift": DRIFT, "operator": OPERATOR}


def files() -> dict[str, str]:
    """Return every picture, by its path below the root of the repository."""
    drawn = _BY_NAME | {"packages": packages.picture(_ROOT)}
    return {f"docs/pictures/{name}.svg": diagram.draw() for name, diagram in drawn.items()}

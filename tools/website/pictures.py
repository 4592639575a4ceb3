"""The diagrams of the documentation, by their paths below docs/."""

from __future__ import annotations

from typing import Final

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
    "delivered to the API once and in order; memory serves in outages",
    (576, 660),
    {
        "api": Box(8, 4, 560, 42, "Kubernetes API", (), "main"),
        "memory": Box(8, 104, 122, 64, "memory", ("in the vault",)),
        "wishes": Box(154, 104, 122, 64, "wishes", ("what is declared",)),
        "contact": Box(300, 104, 122, 64, "contact", ("there, alone,", "refused")),
        "delivery": Box(446, 104, 122, 64, "delivery", ("once, in order",)),
        "kernel": Box(300, 204, 122, 64, "kernel", ("inotify, D-Bus,", "netlink")),
        "log": Box(446, 204, 122, 64, "drift log", ("numbered, on disk",)),
        "watches": Box(300, 304, 122, 64, "host/watches", ("what was touched",)),
        "pass": Box(154, 404, 122, 64, "pass", ("everything",)),
        "repair": Box(300, 404, 122, 64, "repair", ("look, plan, apply:", "these only")),
        "standing": Box(154, 510, 268, 58, "standing", ("how the host stands",), "main"),
        "snapshot": Box(154, 608, 122, 44, "local status"),
        "socket": Box(300, 600, 268, 56, "status socket", ("nodemanager status",)),
        "progress": Box(8, 404, 122, 64, "progress", ("and watchdog",)),
        "systemd": Box(8, 510, 122, 58, "systemd", ("sd_notify",)),
    },
    (
        Arrow("api:b.3696", "wishes:t", "ConfigSets, Secrets", (222, 82)),
        Arrow("delivery:t", "api:b.892", "Event, then status", (500, 82), "end"),
        Arrow("wishes:l", "memory:r", looks="both"),
        Arrow("contact:r", "delivery:l", looks="loose"),
        Arrow("log:t", "delivery:b"),
        Arrow("kernel:b", "watches:t"),
        Arrow("watches:b", "repair:t"),
        Arrow("wishes:b", "pass:t"),
        Arrow("pass:b", "standing:t.2276"),
        Arrow("repair:b", "standing:t.7724"),
        Arrow("standing:r", "log:b"),
        Arrow("standing:b.2276", "snapshot:t"),
        Arrow("snapshot:r", "socket:l.5357"),
        Arrow("progress:b", "systemd:t"),
    ),
)

_BY_NAME: Final = {"flow": FLOW, "process": PROCESS, "pass": PASS, "drift": DRIFT}


def files() -> dict[str, str]:
    """Return every picture, by its path below the root of the repository."""
    return {f"docs/pictures/{name}.svg": diagram.draw() for name, diagram in _BY_NAME.items()}

"""What a client wants the server to send, said in the one place both sides have: a label selector."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Script:
    """One list or watch of the benchmark server."""

    nodes: int = 20
    """How many nodes there are."""
    events: int = 0
    """How many modifications to send after the list."""
    pace: int = 0
    """Milliseconds between two events; 0 = as fast as they are read."""
    gated: bool = False
    """Send the modifications only after somebody has asked for /go."""
    paged: bool = False
    """Refuse streamed lists, as servers before Kubernetes 1.32 do."""

    def selector(self) -> str:
        """Return the label selector that says this."""
        return ",".join(f"{field.name}={int(getattr(self, field.name))}" for field in fields(self))


def parse(selector: str) -> Script:
    """Read what `Script.selector` wrote."""
    said = dict(part.split("=", 1) for part in selector.split(",") if part)
    values = {field.name: int(said.get(field.name, 0)) for field in fields(Script)}
    return Script(
        nodes=values["nodes"],
        events=values["events"],
        pace=values["pace"],
        gated=bool(values["gated"]),
        paged=bool(values["paged"]),
    )

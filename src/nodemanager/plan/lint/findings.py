"""A finding: what is wrong, how bad that is, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["error", "warning"]
Step = str | int
"""A key or an index on the way to a value, as in the manifest."""

RULES: Final = {
    "yaml": "the text is no YAML, or no object",
    "schema": "the API would refuse it",
    "duplicate-object": "two manifests declare the same object",
    "template-syntax": "a template cannot be read",
    "template-render": "a template fails on a host: a key is missing, or a function refuses its arguments",
    "data": "a layer of data cannot be used, or replaces a map by something else",
    "missing-reference": "it refers to something that nothing here declares",
    "declared-twice": "a set declares a resource twice",
    "conflict": "sets of equal priority declare a resource differently",
    "below-a-file": "a path is below one that is no directory",
    "path": "a place where no file stays",
    "owner": "no user or group can be called so",
    "open-to-others": "everybody on the host may read a secret, or write what root reads",
    "no-effect": "a field that changes nothing where it is",
    "shell-line": "a command that is no program, but a line for a shell",
    "no-host": "no host can match",
    "site": "an edge site is not what its profile says, or nobody signed that whom it trusts",
    "gitops-labels": "labels of a GitOps tool keep the set from matching by labels",
}
"""All rules, and what each is about."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with an object."""

    rule: str
    severity: Severity
    kind: str
    name: str
    """Kind and name of the object; both empty = unknown."""
    path: tuple[Step, ...]
    """Way to the value that is meant."""
    message: str
    line: int | None = None
    """Within a template, which the path leads to."""
    column: int | None = None

    @property
    def field(self) -> str:
        """The path as Kubernetes writes it, such as `spec.files[0].template`."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).lstrip(".")

    @property
    def place(self) -> str:
        """Line and column within a template, in words; empty where there is none."""
        if self.line is None:
            return ""
        return f"line {self.line}" + (f", column {self.column}" if self.column is not None else "")

    @property
    def text(self) -> str:
        """What to tell people."""
        return ": ".join(part for part in (self.field, self.place, self.message) if part)

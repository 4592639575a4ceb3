"""What an agent at rest does without: every module is memory of every host."""

from __future__ import annotations

import subprocess
import sys

from support import cli

NOT_AT_REST = {
    "difflib": "only previews of proposals and wrong words need it",
    "nodemanager.agent.tasks.agent_upgrades": "a task that replaces the program imports it",
    "nodemanager.agent.tasks.proposals": "a task that previews a proposal imports it",
    "nodemanager.api.crds": "only who installs CRDs makes them",
    "nodemanager.api.kinds": "a host reads four kinds, and the registry imports all",
    "nodemanager.api.manifest_checks": "the API has checked what an agent reads",
    "nodemanager.controllers": "the operator's",
    "nodemanager.host.self_update.upgrading": "a task that replaces the program imports it",
    "nodemanager.kube.cel": "the API evaluates rules",
    "nodemanager.kube.schemas": "the API has schemas",
    "nodemanager.plan.templates.gotemplate": "another process renders",
    "nodemanager.plan.templates.jinja": "another process renders",
    "nodemanager.server": "the embedded API",
    "yaml": "imported where something is YAML",
}
"""Modules, with those below them, and why not."""


NOT_IN_VAIN = {
    "nodemanager.api.kinds": "manifests that were checked before are of two kinds",
    "nodemanager.api.manifest_checks": "only manifests that are new are checked",
    "nodemanager.cli.by_hand": "only what was changed is recorded",
    "nodemanager.kube.cel": "only manifests that are new are checked",
    "nodemanager.kube.schemas": "only manifests that are new are checked",
    "nodemanager.plan.templates.gotemplate": "another process renders",
    "yaml": "only manifests that are new are read",
}
"""The same for an `apply` that finds everything as it is declared."""


def modules(*names: str) -> list[str]:
    """Return all that a process has that imports these."""
    code = f"import sys, {', '.join(names)}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=cli.environment()
    )
    return done.stdout.split()


def unwanted(imported: list[str], why: dict[str, str]) -> list[str]:
    """Return which of them it should do without, and why."""
    return [f"{one} ({reason})" for one, reason in why.items()
            if any(each == one or each.startswith(f"{one}.") for each in imported)]  # fmt: skip


def test_an_agent_at_rest_has_no_module_that_it_does_without() -> None:
    imported = modules("nodemanager.cli.main", "nodemanager.cli.commands.running.agent")
    found = unwanted(imported, NOT_AT_REST)
    assert not found, "the agent imports what it does without; import it where it is used"
    assert len(imported) > 300, "that was no agent"


def test_an_apply_that_changes_nothing_has_no_module_that_it_does_without() -> None:
    applying = "nodemanager.cli.applying.converging", "nodemanager.cli.manifests.checked_manifests"
    imported = modules("nodemanager.cli.main", "nodemanager.cli.commands.host.apply", *applying)
    found = unwanted(imported, NOT_IN_VAIN)
    assert not found, "apply imports what it mostly does without; import it where it is used"

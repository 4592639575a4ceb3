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


def test_an_agent_at_rest_has_no_module_that_it_does_without() -> None:
    code = "import sys, nodemanager.cli.main, nodemanager.cli.commands.agent\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=cli.environment()
    )
    imported = done.stdout.split()
    found = [f"{one} ({why})" for one, why in NOT_AT_REST.items()
             if any(each == one or each.startswith(f"{one}.") for each in imported)]  # fmt: skip
    assert not found, "the agent imports what it does without; import it where it is used"
    assert len(imported) > 300, "that was no agent"

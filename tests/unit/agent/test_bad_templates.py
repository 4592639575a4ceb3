"""Content that cannot be had: that file says why and what to do, and the others are written."""

from __future__ import annotations

from pathlib import Path

from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.host.files import file_facts
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import files, merge, needs
from nodemanager.plan.facts import Facts
from support.rendering import Inline
from support.root_tree import RootTree, config_set, failure, needs_root, outcomes

pytestmark = needs_root


async def test_a_broken_template_and_a_missing_secret_hide_nothing(tmp_path: Path) -> None:
    host = RootTree(tmp_path)
    host.at("/secret").write_text("the old one works")
    declared = config_set(
        "a",
        files=[
            {"path": "/broken", "template": "{{ .Node"},
            {"path": "/secret", "template": "{{ .x }}", "secretRefs": ["gone"]},
            {"path": "/jinja", "template": "{{ nix.nada }}", "engine": "jinja"},
            {"path": "/ok", "template": "host {{ .Node.Name }}"},
        ],
    )
    desired = merge.merge([declared])
    node = ManagedNode(metadata=ObjectMeta(name="web1"))
    made = await Contenter(Inline()).make(desired, DeclaredInputs(nodes=(node,)), node)
    needed = needs.file_needs(desired, made)
    seen, listings = file_facts.observe_all(host.tree, needed.sizes, needed.purged, host.digests)
    results = await host.apply(files.plan_files(desired, made, Facts(files=seen, listings=listings)))
    assert outcomes(results) == {
        "file:/broken": "blocked", "file:/secret": "waiting", "file:/jinja": "blocked", "file:/ok": "changed",
    }  # fmt: skip
    assert failure(results, "file:/broken").startswith("cannot render /broken:")
    assert "Secret gone does not exist, or this host may not read it; create it" in failure(
        results, "file:/secret"
    )
    assert host.at("/secret").read_text() == "the old one works"
    assert host.at("/ok").read_text() == "host web1"
    host.tree.close()

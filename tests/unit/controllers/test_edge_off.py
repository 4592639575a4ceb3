"""Edge sites cost an operator nothing that has none: no watch, no right, no kind that has to be there."""

from __future__ import annotations

import json
import subprocess
import sys

from nodemanager.api.edge.edgeprofile import GROUP
from nodemanager.controllers import assembly
from nodemanager.controllers.edge_clusters import REGISTRATION


def test_without_edge_nothing_of_it_is_watched_or_granted() -> None:
    watched = [watch.resource for entry in assembly.ENTRIES for watch in entry.watches]
    assert not [one for one in watched if one.group in (GROUP, "apps")]
    granted = json.dumps(assembly.manifests("here"))
    assert GROUP not in granted
    assert "daemonsets" not in granted
    assert not [one for one in assembly.own_kinds() if one.group == GROUP]
    assert REGISTRATION not in assembly.ENTRIES


def test_without_edge_no_backend_is_even_loaded() -> None:
    program = (
        "import sys, nodemanager.controllers.assembly;"
        "print([one for one in sys.modules if one.startswith('nodemanager.backends')])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_with_it_the_rights_say_so() -> None:
    granted = json.dumps(assembly.edge_manifests("here"))
    assert "edgeprofiles" in granted
    assert "edgeclusters/status" in granted
    assert not {"create", "update", "delete"} & {
        verb
        for role in assembly.edge_manifests("here")
        for rule in role.get("rules", ())
        if rule["apiGroups"] == [GROUP]
        for verb in rule["verbs"]
    }

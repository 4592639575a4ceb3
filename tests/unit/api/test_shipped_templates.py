"""The templates that we ship: their form, and what becomes of those that are there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.api.maintenance import shipped_templates
from nodemanager.api.maintenance.shipped_templates import (
    DIGEST,
    MANAGED_BY,
    TemplateFate,
    decide,
    digest,
    renewed,
)
from nodemanager.kube.json_values import copy_of
from support import template_scripts

TEMPLATES = {one["metadata"]["name"]: one for one in shipped_templates.templates("ns")}
VERSIONS = Path(__file__).resolve().parents[2] / "cases" / "operation_template_versions.yaml"
EXPECTED = [
    "agent-upgrade", "certificate-renewal", "fstrim", "image-cleanup", "journal-cleanup", "k3s-upgrade",
    "kairos-upgrade", "kernel-cleanup", "kubeadm-upgrade", "package-upgrade", "reboot", "reboot-if-needed",
    "security-updates", "smart-check", "sshd-hardening", "sysctl-hardening", "time-sync",
]  # fmt: skip


def test_the_whole_series_is_there() -> None:
    assert list(TEMPLATES) == EXPECTED
    assert {one["metadata"]["namespace"] for one in TEMPLATES.values()} == {"ns"}


@pytest.mark.parametrize("name", EXPECTED)
def test_it_says_what_it_is(name: str) -> None:
    spec = template_scripts.shipped()[name]
    assert len(spec.description) > 100
    assert all(one.description.endswith(".") and one.type for one in spec.parameters)
    assert all(one.pattern or one.enum or one.type != "string" for one in spec.parameters)
    assert all(one.required or one.default is not None for one in spec.parameters)
    assert all(step.timeout for step in spec.steps)
    assert bool(spec.config_set) == (spec.type == "realtime")


@pytest.mark.parametrize("name", EXPECTED)
def test_who_changes_it_gives_it_another_version(name: str) -> None:
    """Else hosts of two versions of the program would have two templates of one version."""
    known: dict[str, dict[str, str]] = yaml.safe_load(VERSIONS.read_text(encoding="utf-8"))
    spec = TEMPLATES[name]["spec"]
    assert known[name].get(spec["version"]) == digest(spec), (
        f"{name} was changed: raise its version, and add that with digest {digest(spec)} to {VERSIONS.name}"
    )


def changed(**spec: Any) -> dict[str, Any]:
    """One that is there, of which we wrote all."""
    obj: dict[str, Any] = copy_of(TEMPLATES["fstrim"])
    obj["spec"] |= spec
    obj["metadata"]["annotations"][DIGEST] = digest(obj["spec"])
    return obj


def by_others(**metadata: Any) -> dict[str, Any]:
    obj = changed()
    obj["metadata"] |= metadata
    return obj


def edited(**spec: Any) -> dict[str, Any]:
    obj = changed()
    obj["spec"] |= spec
    return obj


@pytest.mark.parametrize(
    ("present", "fate", "why"),
    [
        pytest.param(None, TemplateFate.CREATE, "", id="missing"),
        pytest.param(changed(), TemplateFate.SAME, "", id="the same"),
        pytest.param(changed(version="0.9.9"), TemplateFate.UPDATE, "", id="an older one"),
        pytest.param(changed(version="0.10"), TemplateFate.UPDATE, "", id="compared by numbers"),
        pytest.param(changed(version=""), TemplateFate.UPDATE, "", id="without a version"),
        pytest.param(
            changed(version="10.0.0"),
            TemplateFate.KEEP,
            "it is version 10.0.0, and ours 1.0.0 is older",
            id="newer",
        ),
        pytest.param(edited(description="mine"), TemplateFate.KEEP, "somebody changed it", id="changed"),
        pytest.param(
            edited(version="0.1.0"), TemplateFate.KEEP, "somebody changed it", id="changed to look old"
        ),
        pytest.param(by_others(annotations=None), TemplateFate.KEEP, "somebody changed it", id="no digest"),
        pytest.param(by_others(labels=None), TemplateFate.KEEP, "it is not ours", id="no label"),
        pytest.param(
            by_others(labels={MANAGED_BY: "Helm"}), TemplateFate.KEEP, "Helm manages it", id="of Helm"
        ),
    ],
)
def test_what_becomes_of_one(present: dict[str, Any] | None, fate: TemplateFate, why: str) -> None:
    assert decide(TEMPLATES["fstrim"], present) == (fate, why)


def test_one_that_is_renewed_keeps_what_others_wrote_beside_it() -> None:
    old = changed(version="0.9.0", description="old")
    old["metadata"]["labels"]["team"] = "a"
    old["metadata"]["annotations"]["note"] = "b"
    new = renewed(TEMPLATES["fstrim"], old)
    assert new["spec"] == TEMPLATES["fstrim"]["spec"]
    assert new["metadata"]["labels"] == {MANAGED_BY: "nodemanager", "team": "a"}
    assert new["metadata"]["annotations"] == {DIGEST: digest(new["spec"]), "note": "b"}
    assert decide(TEMPLATES["fstrim"], new).fate is TemplateFate.SAME
    mine = edited(description="mine")
    assert renewed(TEMPLATES["fstrim"], mine) is mine

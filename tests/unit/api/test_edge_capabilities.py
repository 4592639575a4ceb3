"""What a site can do: rules of admission and the table say the same of every choice."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from nodemanager.api.edge import capabilities, shipped_profiles
from nodemanager.api.edge.capabilities import STORAGE, SYSTEM, VIRTUALISATION, WORKFLOWS
from nodemanager.kube.manifests import ManifestError
from support import edge_profiles

CHOICES = list(itertools.product(STORAGE.choices, SYSTEM.choices, VIRTUALISATION.choices))


@pytest.mark.parametrize("workflow", WORKFLOWS)
@pytest.mark.parametrize(("storage", "system", "virtual"), CHOICES)
def test_admission_refuses_what_the_table_says(
    workflow: str, storage: str, system: str, virtual: str
) -> None:
    patch: dict[str, Any] = {
        "storage": {"backend": storage, "mode": "replicated" if storage == "linstor" else "single"},
        "os": {"provider": system}, "virtualisation": virtual, "workflows": [workflow],
        "network": {"modes": {"multi": "balance-rr"}},
    }  # fmt: skip
    chosen = {STORAGE.field: storage, SYSTEM.field: system, VIRTUALISATION.field: virtual}
    wrong = capabilities.faults([workflow], chosen)
    obj = edge_profiles.shipped("k3s-linstor", patch=patch)
    if not wrong:
        assert edge_profiles.typed(obj).spec.choices == chosen
        return
    with pytest.raises(ManifestError) as caught:
        edge_profiles.typed(obj)
    assert not [one for one in wrong if one not in str(caught.value)]


@pytest.mark.parametrize(
    ("workflow", "chosen", "possible"),
    [
        ("ReplicationUpgrade", ("linstor", "kairos", "none"), True),
        ("ReplicationUpgrade", ("local-path", "kairos", "kubevirt"), False),
        ("BondModeFlip", ("local-path", "rhel", "none"), False),
        ("VolumeMigration", ("linstor", "rhel", "kubevirt"), True),
        ("VolumeMigration", ("linstor", "kairos", "none"), False),
    ],
)
def test_some_lines_of_the_table(workflow: str, chosen: tuple[str, str, str], possible: bool) -> None:
    fields = (STORAGE.field, SYSTEM.field, VIRTUALISATION.field)
    wrong = capabilities.faults([workflow], dict(zip(fields, chosen, strict=True)))
    assert bool(wrong) is not possible


def test_a_choice_that_the_table_does_not_know_can_do_nothing() -> None:
    assert all(capabilities.faults([one], {STORAGE.field: "ceph"}) for one in WORKFLOWS)


@pytest.mark.parametrize("case", edge_profiles.REFUSED, ids=lambda case: str(case["name"]))
def test_without_an_api_the_same_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(ManifestError) as caught:
        edge_profiles.typed(edge_profiles.shipped(case["profile"], patch=case["patch"]))
    assert not [part for part in case["says"] if part not in str(caught.value)]


def test_the_observed_machine_has_its_21_states() -> None:
    bridge = edge_profiles.typed(shipped_profiles.profiles()["vx-rail"]).spec.bridge
    assert bridge is not None
    known = ["Idle", "PreconditionsCheck", "AcquireLock", "SuspendMigration"]
    assert (len(bridge.states), bridge.states[:4]) == (21, known)

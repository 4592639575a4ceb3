"""What every operating system of nodes has to do: a class of tests, to be inherited with a `system`."""

from __future__ import annotations

import pytest

from nodemanager.api.edge import capabilities
from nodemanager.backends.declaring import lacks
from nodemanager.backends.errors import Unusable
from nodemanager.backends.systems import seam
from nodemanager.backends.systems.seam import (
    BootRecovery,
    KernelTuning,
    OperatingSystem,
    PersistentNet,
    SystemPlan,
)

FILES = {"10-bondstor.netdev": "[NetDev]\nName=bondstor\nKind=bond\n", "10-bondstor.network": "[Match]\n"}
SETTINGS = {"vm.swappiness": "10", "net.ipv4.conf.bondstor/100.rp_filter": "0"}


def checked(plan: SystemPlan) -> SystemPlan:
    """Return a plan, if it is one that may be carried out: whole paths, argv lists, no shell."""
    for file in plan.files:
        assert file.path.startswith(("/etc/", "/oem/")), file.path
        assert ".." not in file.path
        assert file.content.endswith("\n")
        assert not file.mode & 0o022
    for argv in (*plan.checks, *plan.commands):
        assert argv[0] not in ("sh", "bash", "/bin/sh")
        assert all(word == word.strip() and word for word in argv)
    return plan


class SystemContract:
    """The tests."""

    def test_it_has_what_it_declares_and_nothing_else(self, system: OperatingSystem) -> None:
        assert isinstance(system, OperatingSystem)
        for word, protocol in seam.PROTOCOLS.items():
            assert isinstance(system, protocol) is (word in system.capabilities), word
            if word not in system.capabilities:
                assert f"cannot use {word}: {system.name}" in str(lacks(system, capabilities.SYSTEM, word))

    def test_it_declares_what_profiles_count_on(self, system: OperatingSystem) -> None:
        assert system.capabilities == capabilities.SYSTEM.choices[system.name]

    def test_nothing_to_keep_is_nothing_to_do(self, system: OperatingSystem) -> None:
        if isinstance(system, PersistentNet):
            assert system.network({}) == SystemPlan()
        if isinstance(system, KernelTuning):
            assert system.tuning({}) == SystemPlan()

    def test_the_same_is_planned_the_same_in_any_order(self, system: OperatingSystem) -> None:
        if isinstance(system, PersistentNet):
            plan = checked(system.network(FILES))
            assert plan == system.network(dict(reversed(FILES.items())))
            assert all(any(text in file.content or repr(text)[1:-1] in file.content for file in plan.files)
                       for text in FILES.values())  # fmt: skip
        if isinstance(system, KernelTuning):
            plan = checked(system.tuning(SETTINGS, ["drbd", "bonding"]))
            assert plan == system.tuning(dict(reversed(SETTINGS.items())), ["bonding", "drbd"])
            assert any("vm.swappiness = 10" in file.content for file in plan.files)
            assert any("drbd" in file.content for file in plan.files)

    @pytest.mark.parametrize("name", ["../x.network", "x.conf", ".netdev", "a/b.network", "-x\n.network", ""])
    def test_files_of_other_names_are_refused(self, system: OperatingSystem, name: str) -> None:
        if isinstance(system, PersistentNet):
            with pytest.raises(Unusable):
                system.network({name: "x"})

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("vm.swappiness", "1\nkernel.x = 2"),
            ("x", "1"),
            ("vm swappiness", "1"),
            ("vm.x", ""),
            ("-w.x", "1"),
        ],
    )
    def test_settings_that_are_none_are_refused(self, system: OperatingSystem, key: str, value: str) -> None:
        if isinstance(system, KernelTuning):
            with pytest.raises(Unusable):
                system.tuning({key: value})
            with pytest.raises(Unusable):
                system.tuning({}, ["drbd; reboot"])

    def test_a_boot_is_good_only_if_it_is_known_to_be(self, system: OperatingSystem) -> None:
        if not isinstance(system, BootRecovery):
            return
        checked(SystemPlan(commands=(system.boot_question(), system.upgrade("quay.io/x:1"))))
        for printed in ("", "unknown", "something else", "active_boot passive_boot", "\x1b[31m"):
            found = system.boot_entry(printed)
            assert (found.good, found.kind) == (False, seam.NOT_KNOWN), printed
            assert found.said.isprintable()
        for image in ("--recovery", "x y", "", "/x"):
            with pytest.raises(Unusable):
                system.upgrade(image)

"""Manual pages: all commands have one, and what help says is what they say."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from tools.packages import manuals

from nodemanager.cli.subcommands import COMMANDS, EMBEDDED
from nodemanager.host.init.systems import SYSTEMS

PAGES = manuals.pages("1.2.3", SYSTEMS["systemd"])


def test_every_command_has_a_page() -> None:
    assert {f"nodemanager-{name}.8" for name in COMMANDS if name not in EMBEDDED} <= PAGES.keys()
    assert "nodemanager-rollout-undo.8" in PAGES
    assert ".BR nodemanager\\-rollout\\-undo (8)" in PAGES["nodemanager-rollout.8"]
    assert "nodemanager.8" in PAGES


def test_what_is_not_in_the_programs_for_hosts_has_none() -> None:
    assert EMBEDDED
    for name in EMBEDDED:
        assert f"nodemanager-{name}.8" not in PAGES
        assert f".B {name}\n" not in PAGES["nodemanager.8"]
    assert ".B agent\n" in PAGES["nodemanager.8"]


def test_a_page_has_what_help_says() -> None:
    page = PAGES["nodemanager-install-service.8"]
    assert page.startswith('.TH NODEMANAGER\\-INSTALL\\-SERVICE 8 "" "nodemanager 1.2.3"')
    assert ".SH EXAMPLES\n.nf\n" in page
    assert ".B \\-\\-uninstall\n" in page
    assert "Flags of the agent are kept as variables" in page
    assert "Examples:" not in page


def test_paths_are_those_of_the_system() -> None:
    page = manuals.pages("1", SYSTEMS["rc.d"])["nodemanager.8"]
    assert "/usr/local/etc/nodemanager/kubeconfig" in page
    assert "nodemanager.service" not in page
    assert "/var/cache/nodemanager" not in page
    assert "/var/cache/nodemanager" in manuals.pages("1", SYSTEMS["systemd"], unpacked=True)["nodemanager.8"]


@pytest.mark.parametrize("name", PAGES)
def test_no_line_of_a_text_is_taken_for_a_request(name: str) -> None:
    known = r"\.(TH|SH|TP|PP|B|BR|RI|I|nf|fi|br)\b"
    for line in PAGES[name].splitlines():
        assert not line.startswith("'"), line
        assert not line.startswith(".") or re.match(known, line), line


def test_what_roff_would_change_is_escaped() -> None:
    assert manuals.escape("a-b\\c\n.x\n'y") == "a\\-b\\ec\n\\&.x\n\\&'y"


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff, which reads manual pages")
def test_groff_has_nothing_to_complain_about() -> None:
    for name, page in PAGES.items():
        done = subprocess.run(
            ["groff", "-man", "-ww", "-z", "-Tutf8", "-K", "utf8"], input=page,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.stderr == "", name

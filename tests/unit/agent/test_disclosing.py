"""What of a plan leaves a host that is asked about a proposal: no byte that not everybody may read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.agent.tasks.disclosing import UNTOLD, Disclosure
from nodemanager.host.files.tree import Tree
from nodemanager.plan.desired import Content
from nodemanager.plan.facts import FileFact, Kind
from nodemanager.plan.resources import ResourceId, file_id
from nodemanager.plan.steps import Blocked, InstallPackage, Lack, RemovePath, Waiting, WriteFile

OLD = "old and private\n"
NEW = "new\n"


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> Iterator[Tree]:
    (tmp_path / "etc").mkdir(mode=0o755)
    (tmp_path / "root").mkdir(mode=0o700)
    tree = Tree(str(tmp_path))
    yield tree
    tree.close()


def put(tree: Tree, path: str, mode: int = 0o644, text: str = OLD) -> None:
    file = Path(tree.root + path)
    file.write_text(text)
    file.chmod(mode)


def write(path: str, *, secret: bool = False, mode: int = 0o644, there: Kind = Kind.FILE) -> WriteFile:
    content = Content(NEW, hashlib.sha256(NEW.encode()).hexdigest(), secret)
    return WriteFile(
        id=file_id(path), sources=("a",), reason="content differs", path=path, before=FileFact(there),
        content=content, mode=mode, uid=os.getuid(), gid=os.getgid(),
    )  # fmt: skip


def test_what_everybody_may_read_is_a_diff(tree: Tree) -> None:
    put(tree, "/etc/motd")
    said = Disclosure(tree, frozenset({"/etc/motd"})).change(write("/etc/motd"))
    assert said.details.splitlines() == [
        "--- /etc/motd", "+++ /etc/motd", "@@ -1 +1 @@", "-old and private", "+new",
    ]  # fmt: skip
    new = Disclosure(tree, frozenset({"/etc/new"})).change(write("/etc/new", mode=0o600, there=Kind.ABSENT))
    assert new.details.splitlines()[0] == "--- /dev/null", "what is in the proposal is known anyway"


@pytest.mark.parametrize(
    ("path", "mode"), [("/etc/shadow", 0o600), ("/etc/shadow", 0o640), ("/root/x", 0o644)]
)
def test_what_is_there_and_private_stays_there(tree: Tree, path: str, mode: int) -> None:
    put(tree, path, mode)
    said = Disclosure(tree, frozenset({path})).change(write(path))
    assert said.details.startswith("(what is there is not shown, as not everybody may read it; to be 4 bytes")
    assert hashlib.sha256(OLD.encode()).hexdigest()[:8] not in said.details


def test_behind_a_link_nobody_may_look(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("root")
    put(tree, "/root/x")
    said = Disclosure(tree, frozenset({"/link/x"})).change(write("/link/x"))
    assert OLD.strip() not in said.details


def test_what_was_made_of_secrets_stays_there_when_the_file_becomes_plain(tree: Tree) -> None:
    put(tree, "/etc/app")
    said = Disclosure(tree, frozenset({"/etc/app"}), secret=frozenset({"/etc/app"})).change(write("/etc/app"))
    assert OLD.strip() not in said.details


def test_what_a_config_set_says_is_no_secret_whatever_its_mode(tree: Tree) -> None:
    put(tree, "/etc/app", 0o600)
    known = {"/etc/app": hashlib.sha256(OLD.encode()).hexdigest()}
    step = write("/etc/app", mode=0o600)
    assert "-old and private" in Disclosure(tree, frozenset({"/etc/app"}), known=known).change(step).details
    put(tree, "/etc/app", 0o600, "changed by somebody\n")
    drifted = Disclosure(tree, frozenset({"/etc/app"}), known=known).change(step)
    assert "somebody" not in drifted.details


def test_what_is_made_of_others_and_private_is_not_shown(tree: Tree) -> None:
    """Such as a template with a ConfigMap, which not all may read who read tasks."""
    said = Disclosure(tree).change(write("/etc/app", mode=0o600, there=Kind.ABSENT))
    assert said.details == "(not shown, as not everybody may read it: mode 0600)"


def test_digests_of_secrets_can_only_be_compared_with_the_key(tree: Tree) -> None:
    put(tree, "/etc/app")
    step = write("/etc/app", secret=True)
    one, same, other = (
        Disclosure(tree, keys={"/etc/app": key}).change(step).details
        for key in (b"uid-1", b"uid-1", b"uid-2")
    )
    assert (one == same, one == other) == (True, False)
    assert one.startswith("(made of Secrets, not shown: digest ")
    assert step.content.digest[:8] not in one
    bare = Disclosure(tree).change(step).details
    assert bare == "(made of Secrets, not shown: mode 0644)"


def test_names_in_a_private_directory_are_not_told(tree: Tree) -> None:
    def purge(path: str) -> str:
        step = RemovePath(
            id=file_id(path), sources=("a",), reason="nobody declares it", path=path,
            before=FileFact(Kind.FILE), purged=True,
        )  # fmt: skip
        return Disclosure(tree).change(step).resource

    assert purge("/etc/left-over") == "file:/etc/left-over"
    assert purge("/root/affair.txt") == "file:/root/(not shown)"


def test_what_waits_for_a_secret_is_a_change_and_no_obstacle(tree: Tree) -> None:
    reason = "Secret db does not exist, or this host may not read it"
    step = Waiting(id=file_id("/etc/app"), sources=("a",), reason=reason, awaits="Secret db")
    said = Disclosure(tree).change(step)
    assert (said.verb, said.reason, said.blocked) == ("cannot yet", reason, False)


def test_programs_that_are_not_asked_make_no_obstacle(tree: Tree) -> None:
    lack = Lack("a program", "may run")
    step = Blocked(id=ResourceId("exec", "web/x"), sources=("a",), reason="cannot tell", lack=lack)
    said = Disclosure(tree).change(step)
    assert (said.verb, said.reason, said.blocked) == ("may run", UNTOLD, False)
    package = InstallPackage(
        id=ResourceId("package", "x"), sources=("a",), reason="r\x1b[2J", name="x", version="1"
    )
    told = Disclosure(tree).change(package)
    assert (told.verb, told.details, told.reason) == ("install", "version 1", "r?[2J")

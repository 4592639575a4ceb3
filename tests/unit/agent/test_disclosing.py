"""What of a plan leaves a host that is asked about a proposal: no byte that not everybody may read."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.agent.declared.desired_state import DesiredState
from nodemanager.agent.tasks.disclosing import MAX_LINES, UNSEEN, UNTOLD, Disclosure
from nodemanager.api.common.declarations import Execution
from nodemanager.api.maintenance.task_previews import PreviewedChange
from nodemanager.host.files.tree import Tree
from nodemanager.plan import merge
from nodemanager.plan.desired import Content, Contents, Failure
from nodemanager.plan.facts import FileFact, Kind
from nodemanager.plan.host_kinds import HostKind
from nodemanager.plan.resources import ResourceId, file_id
from nodemanager.plan.steps import (
    Blocked,
    InstallPackage,
    Lack,
    RemovePath,
    RestartService,
    RunCommand,
    Step,
    Waiting,
    WriteFile,
)
from nodemanager.plan.subscribers import because
from support.agent_process import owned
from support.note_kind import NOTE, NOTES, WriteNote, kinds_with, noted_set
from support.root_tree import config_set, literal_contents

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


def state(*declared: dict[str, Any], made: Contents | None = None, **spec: Any) -> DesiredState:
    """Return what these files are, with contents that are `made` of something in place of literal ones."""
    desired = merge.merge([config_set("a", files=[owned(**one) for one in declared], **spec)])
    return DesiredState(desired, {**literal_contents(desired), **(made or {})}, {})


NOTHING = state()


def tell(
    tree: Tree, step: Step, proposed: DesiredState = NOTHING, now: DesiredState = NOTHING
) -> PreviewedChange:
    return Disclosure(tree, proposed, now).change(step)


def plain(path: str, text: str = NEW) -> DesiredState:
    return state({"path": path, "content": text})


def test_what_everybody_may_read_is_a_diff(tree: Tree) -> None:
    put(tree, "/etc/motd")
    said = tell(tree, write("/etc/motd"), plain("/etc/motd"))
    assert said.details.splitlines() == [
        "--- /etc/motd", "+++ /etc/motd", "@@ -1 +1 @@", "-old and private", "+new",
    ]  # fmt: skip
    new = tell(tree, write("/etc/new", mode=0o600, there=Kind.ABSENT), plain("/etc/new"))
    assert new.details.splitlines()[0] == "--- /dev/null", "what is in the proposal is known anyway"


@pytest.mark.parametrize(
    ("path", "mode"), [("/etc/shadow", 0o600), ("/etc/shadow", 0o640), ("/root/x", 0o644)]
)
def test_what_is_there_and_private_stays_there(tree: Tree, path: str, mode: int) -> None:
    put(tree, path, mode)
    said = tell(tree, write(path), plain(path))
    assert said.details.startswith("(what is there is not shown, as not everybody may read it; to be 4 bytes")
    assert hashlib.sha256(OLD.encode()).hexdigest()[:8] not in said.details


def test_behind_a_link_nobody_may_look(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("root")
    put(tree, "/root/x")
    assert OLD.strip() not in tell(tree, write("/link/x"), plain("/link/x")).details


@pytest.mark.parametrize(
    "made", [Content(OLD, "", secret=True), Failure("Secret db does not exist", awaits="Secret db")]
)
def test_what_was_made_of_secrets_stays_there_when_the_file_becomes_plain(
    tree: Tree, made: Content | Failure
) -> None:
    """Also while the Secret cannot be had."""
    put(tree, "/etc/app")
    file = {"path": "/etc/app", "template": "x", "secretRefs": ["db"], "mode": "0644"}
    said = tell(tree, write("/etc/app"), plain("/etc/app"), state(file, made={"/etc/app": made}))
    assert OLD.strip() not in said.details


def test_what_is_in_conflict_now_may_be_made_of_secrets(tree: Tree) -> None:
    put(tree, "/etc/app")
    sets = [config_set(name, files=[owned("/etc/app", content=name)]) for name in ("a", "b")]
    now = DesiredState(merge.merge(sets), {}, {})
    assert now.desired.held
    assert OLD.strip() not in tell(tree, write("/etc/app"), plain("/etc/app"), now).details


def test_what_a_config_set_says_is_no_secret_whatever_its_mode(tree: Tree) -> None:
    put(tree, "/etc/app", 0o600)
    proposed, now = plain("/etc/app"), plain("/etc/app", OLD)
    step = write("/etc/app", mode=0o600)
    assert "-old and private" in tell(tree, step, proposed, now).details
    put(tree, "/etc/app", 0o600, "changed by somebody\n")
    assert "somebody" not in tell(tree, step, proposed, now).details


@pytest.mark.parametrize(
    ("path", "mode", "folder", "shown"),
    [
        ("/etc/app", 0o600, None, False),
        ("/etc/app", 0o644, None, True),
        ("/etc/new.d/app", 0o644, None, True),
        ("/etc/new.d/app", 0o644, {"path": "/etc/new.d", "mode": "0700"}, False),
        ("/etc/new.d/app", 0o644, {"path": "/etc/new.d"}, True),
        ("/etc/app", 0o644, {"path": "/etc", "mode": "0750"}, False),
        ("/root/app", 0o644, None, False),
        ("/root/app", 0o644, {"path": "/root", "mode": "0755"}, False),
    ],
)
def test_what_is_made_of_others_is_shown_where_everybody_may_read_it(
    tree: Tree, path: str, mode: int, folder: dict[str, str] | None, shown: bool
) -> None:
    """Such as a template with a ConfigMap, which not all may read who read tasks."""
    file = {"path": path, "template": "x"}
    folders = [{**folder, "ensure": "directory"}] if folder else []
    said = tell(tree, write(path, mode=mode, there=Kind.ABSENT), state(file, *folders))
    hidden = f"(not shown, as not everybody may read it: mode {mode:04o})"
    assert (said.details.splitlines()[-1] == "+new", said.details == hidden) == (shown, not shown)


def test_digests_of_secrets_can_only_be_compared_with_the_key_and_say_nothing_of_what_is_there(
    tree: Tree,
) -> None:
    step = write("/etc/app", secret=True)

    def told(key: bytes) -> str:
        return Disclosure(tree, NOTHING, NOTHING, {"/etc/app": key}).change(step).details

    put(tree, "/etc/app", 0o600, "1234")
    one, other = told(b"uid-1"), told(b"uid-2")
    put(tree, "/etc/app", 0o600, "5678")
    assert (one == told(b"uid-1"), one == other) == (True, False)
    assert one.startswith("(made of Secrets, not shown: digest ")
    assert step.content.digest[:8] not in one
    assert tell(tree, step).details == "(made of Secrets, not shown: mode 0644)"


def purge(path: str) -> RemovePath:
    return RemovePath(
        id=file_id(path), sources=("a",), reason="nobody declares it", path=path,
        before=FileFact(Kind.FILE), purged=True,
    )  # fmt: skip


def test_names_in_a_private_directory_are_not_told(tree: Tree) -> None:
    assert tell(tree, purge("/etc/left-over")).resource == "file:/etc/left-over"
    assert tell(tree, purge("/root/affair.txt")).resource == "file:/root/(not shown)"


def test_nor_are_they_as_the_reason_of_something_else(tree: Tree) -> None:
    def restart(*causes: str) -> str:
        step = RestartService(
            id=ResourceId("service", "nginx"), sources=("a",), reason=because(causes), name="nginx",
            causes=causes,
        )  # fmt: skip
        return tell(tree, step, plain("/root/declared")).reason

    assert restart("/root/affair.txt", "/root/y") == "a path (not shown) and 1 more changed"
    assert restart("/root/declared") == "/root/declared changed"
    assert restart("/etc/left-over") == "/etc/left-over changed"
    run = RunCommand(
        id=ResourceId("exec", "web/x"), sources=("a",), reason="/root/affair.txt changed",
        execution=Execution(command="true"), causes=("/root/affair.txt",),
    )  # fmt: skip
    assert tell(tree, run).reason == "a path (not shown) changed"


def test_where_a_private_link_points_to_is_not_told(tree: Tree) -> None:
    def link(path: str) -> str:
        fact = FileFact(Kind.SYMLINK, target="/secret/target")
        return tell(
            tree, msgspec.structs.replace(write(path), before=fact, reason="is a link to /secret/target")
        ).reason

    assert link("/etc/link") == "is a link to /secret/target"
    assert link("/root/link") == "is a link to (not shown)"


def test_what_is_in_the_way_where_nobody_may_look_is_not_told(tree: Tree) -> None:
    def blocked(path: str, proposed: DesiredState = NOTHING) -> str:
        step = Blocked(id=file_id(path), sources=("a",), reason="it is a link to /secret/target")
        return tell(tree, step, proposed).reason

    assert blocked("/etc/app.d") == "it is a link to /secret/target"
    assert blocked("/root/app.d") == UNSEEN
    assert blocked("/etc/new.d/x") != UNSEEN, "nothing is there that could be hidden"
    broken = state({"path": "/root/x", "template": "{{"}, made={"/root/x": Failure("a mistake")})
    assert blocked("/root/x", broken) == "it is a link to /secret/target", "a mistake of the proposal is told"


def test_what_is_no_file_on_a_disk_is_neither_told_nor_read() -> None:
    """Of /proc/kallsyms, only root is told the numbers; what is read of /proc/kmsg is gone."""
    tree = Tree("/")
    said = tell(tree, write("/proc/version"), plain("/proc/version"))
    tree.close()
    assert said.details.startswith("(what is there is not shown")


def test_what_waits_for_a_secret_is_a_change_and_no_obstacle(tree: Tree) -> None:
    reason = "Secret db does not exist, or this host may not read it"
    step = Waiting(id=file_id("/etc/app"), sources=("a",), reason=reason, awaits="Secret db")
    said = tell(tree, step)
    assert (said.verb, said.reason, said.blocked) == ("cannot yet", reason, False)


def test_programs_that_are_not_asked_make_no_obstacle_and_it_is_said_what_may_run(tree: Tree) -> None:
    proposed = state(executions=[{"command": "rm", "args": ["-rf", "/srv"], "creates": "/x"}])
    (item,) = proposed.desired.executions
    step = Blocked(id=item.id, sources=("a",), reason="cannot tell", lack=Lack("a program", "may run"))
    said = tell(tree, step, proposed)
    assert (said.verb, said.reason, said.details) == ("may run", UNTOLD, "rm -rf /srv")
    assert not said.blocked
    package = InstallPackage(
        id=ResourceId("package", "x"), sources=("a",), reason="r\x1b[2J", name="x", version="1"
    )
    told = tell(tree, package)
    assert (told.verb, told.details, told.reason) == ("install", "version 1", "r?[2J")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n" * 200_000, "x\n" * 100_000),
        (
            "".join(f"{n % 100}\n" for n in range(MAX_LINES)),
            "".join(f"{n * 7 % 101}\n" for n in range(MAX_LINES)),
        ),
        (
            "".join(f"{n}\n" for n in range(MAX_LINES)),
            "".join(f"{n + n % 2 * 5000}\n" for n in range(MAX_LINES)),
        ),
    ],
    ids=["long", "repeated", "every-other"],
)
def test_no_diff_takes_long(tree: Tree, old: str, new: str) -> None:
    put(tree, "/etc/hosts", text=old)
    content = Content(new, hashlib.sha256(new.encode()).hexdigest())
    began = time.process_time()
    said = tell(tree, msgspec.structs.replace(write("/etc/hosts"), content=content), plain("/etc/hosts", new))
    assert time.process_time() - began < 2
    if new.count("\n") > MAX_LINES:
        assert said.details.startswith("(200000 lines become 100000: 200000 bytes, SHA-256 ")


def test_of_a_kind_that_is_not_public_nothing_is_told_but_the_resource(tree: Tree) -> None:
    desired = merge.merge([noted_set("a", notes=[{"name": "greeting"}])], kinds_with())
    step = WriteNote(id=ResourceId(NOTE, "greeting"), sources=("a",), reason="says: my PIN is 1234", text="x")
    public = DesiredState(desired, {}, {}, kinds_with())
    assert tell(tree, step, public).reason == step.reason
    hidden = DesiredState(desired, {}, {}, kinds_with(replace(NOTES, public=False)))
    said = tell(tree, step, hidden)
    assert (said.resource, said.verb, said.reason, said.details) == ("note:greeting", "note", UNSEEN, "")


def test_a_kind_has_to_say_what_of_it_may_be_told() -> None:
    said = {one.name: getattr(NOTES, one.name) for one in fields(NOTES) if one.name != "public"}
    with pytest.raises(TypeError, match="public"):
        HostKind(**said)

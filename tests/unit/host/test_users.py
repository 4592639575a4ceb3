"""Who is known where the C library reads files only. Aspects: who is asked for, how often, in vain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager import native
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import users
from nodemanager.host.process import environment

GETENT = """#!/bin/sh
echo "$@" >>FOLDER/calls
case "$*" in
"passwd alice") echo "alice:*:70001:70000:Alice:/home/alice:/bin/sh" ;;
"passwd Bob") echo "bob:*:70002:70000::/:" ;;
"group staff of us") echo "staff of us:*:70000:$(seq -s , 20000)" ;;
"passwd slow") exec sleep 60 ;;
*) exit 2 ;;
esac
"""


class Host:
    """This system, with a `getent` that the test has written."""

    def __init__(self, folder: Path) -> None:
        self.tree = Tree("/")
        self.folder = folder
        (folder / "getent").write_text(GETENT.replace("FOLDER", str(folder)))
        (folder / "getent").chmod(0o755)

    def calls(self) -> list[str]:
        """Return what it was asked."""
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    async def users(self, *names: str) -> dict[str, int]:
        await users.learn(self.tree, names)
        return users.user_numbers(self.tree, names)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A program without NSS, as the static executable is."""
    monkeypatch.setattr(native, "HAS_NSS", False)
    monkeypatch.setitem(environment.ENVIRONMENT, "PATH", f"{tmp_path}:{environment.ENVIRONMENT['PATH']}")
    monkeypatch.setattr(users._Answers, "said", {})
    found = Host(tmp_path)
    yield found
    found.tree.close()


async def test_who_is_in_no_file_is_asked_for_and_only_they(host: Host) -> None:
    assert await host.users("root", "alice", "nobody-at-all") == {"root": 0, "alice": 70001}
    assert sorted(host.calls()) == ["passwd alice", "passwd nobody-at-all"]


async def test_an_answer_counts_also_if_it_has_another_name(host: Host) -> None:
    assert await host.users("Bob") == {"Bob": 70002}


async def test_a_pass_asks_once_also_for_those_who_are_not_there(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        assert await host.users("alice", "nobody-at-all") == {"alice": 70001}
    assert len(host.calls()) == 2
    monkeypatch.setattr(users, "VALID_SECONDS", -1.0)
    await host.users("alice")
    assert len(host.calls()) == 3


async def test_groups_have_many_members_and_names_with_spaces(host: Host) -> None:
    await users.learn(host.tree, groups=["staff of us", "root"])
    assert users.group_numbers(host.tree, ["staff of us", "root"]) == {"staff of us": 70000, "root": 0}
    assert users.user_numbers(host.tree, ["staff of us"]) == {}


async def test_what_is_no_name_is_not_asked_for(host: Host) -> None:
    assert await host.users("1000", "--service=x", "a:b") == {}
    assert host.calls() == []


async def test_nobody_waits_for_ever(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(users, "LEARN_SECONDS", 0.2)
    assert await host.users("slow") == {}
    [said] = caplog.messages
    assert said.startswith("cannot ask getent for passwd of slow: ")


async def test_without_getent_the_files_are_all_there_is(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(environment.ENVIRONMENT, "PATH", "/nowhere")
    for _ in range(2):
        assert await host.users("root", "alice") == {"root": 0}
    [said] = caplog.messages  # and not in every pass
    assert "getent (or the interpreter its first line names) is not there" in said


async def test_where_the_c_library_knows_everybody_nothing_is_asked(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = Tree(str(tmp_path))
    await users.learn(other, ["alice"])  # another root has files, and no getent of ours
    other.close()
    monkeypatch.setattr(native, "HAS_NSS", True)
    assert await host.users("root", "alice") == {"root": 0}
    assert host.calls() == []

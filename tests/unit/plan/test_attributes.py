"""Owner, group and mode: what is asked for, what may be inherited, and what may only be made anew."""

from __future__ import annotations

import msgspec
import pytest

from nodemanager.api.common.declarations import File
from nodemanager.plan import attributes
from nodemanager.plan.attributes import FileAttributes, UnknownOwner
from nodemanager.plan.facts import ANYBODY, NOBODY, Facts, FileFact, Kind

EVE, BOB = 1000, 1001
FACTS = Facts(users={"app": 7, "root": 0}, groups={"staff": 8})


def file(
    mode: int = 0o644, uid: int = 0, gid: int = 0, writer: int = NOBODY, *, acl: bool = False
) -> FileFact:
    return FileFact(Kind.FILE, mode, uid, gid, writer=writer, acl=acl)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, FileAttributes(None, 0, 0)),
        ({"ensure": "directory"}, FileAttributes(None, None, None)),
        ({"ensure": "symlink", "target": "/t"}, FileAttributes(None, None, None)),
        ({"owner": "app", "group": "staff"}, FileAttributes(None, 7, 8)),
        ({"owner": "12", "group": "13", "ensure": "directory"}, FileAttributes(None, 12, 13)),
        ({"owner": "app", "ensure": "directory"}, FileAttributes(None, 7, None)),
        ({"owner": "0", "group": "0", "ensure": "directory"}, FileAttributes(None, 0, 0)),
        ({"mode": "0640"}, FileAttributes(0o640, 0, 0)),
        ({"mode": "04755"}, FileAttributes(0o4755, 0, 0)),
        ({"mode": "0o750"}, FileAttributes(0o750, 0, 0)),
        ({"mode": "0"}, FileAttributes(0, 0, 0)),
    ],
)
def test_what_a_declaration_asks_for(declared: dict[str, str], expected: FileAttributes) -> None:
    declaration = msgspec.convert({"path": "/x", **declared}, File)
    assert attributes.declared(declaration, FACTS) == expected


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"owner": "nix"}, "cannot set owner: this host has no user 'nix'; create it, or correct owner"),
        ({"group": "nix"}, "cannot set group: this host has no group 'nix'; create it, or correct group"),
        ({"owner": "\u0661"}, "cannot set owner: this host has no user"),
        ({"owner": "-1"}, "cannot set owner: this host has no user '-1'"),
    ],
)
def test_who_is_not_there_is_told(declared: dict[str, str], said: str) -> None:
    with pytest.raises(UnknownOwner, match=said):
        attributes.declared(msgspec.convert({"path": "/x", **declared}, File), FACTS)


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize(
    ("wanted", "before", "plain", "private"),
    [
        pytest.param(FileAttributes(None, 0, 0), FileFact(), 0o644, 0o600, id="nothing is there"),
        pytest.param(FileAttributes(0o666, 0, 0), file(0o600), 0o666, 0o666, id="declared"),
        pytest.param(FileAttributes(0, 0, 0), file(0o600), 0, 0, id="declared as nothing"),
        pytest.param(FileAttributes(None, 0, 0), file(0o755), 0o755, 0o750, id="root's"),
        pytest.param(FileAttributes(None, 0, 0), file(0o7777), 0o777, 0o770, id="root's, without its powers"),
        pytest.param(
            FileAttributes(None, EVE, 0), file(0o666, EVE), 0o644, 0o640, id="hers, declared as hers"
        ),
        pytest.param(
            FileAttributes(None, EVE, 0),
            file(0o640, EVE, writer=EVE),
            0o640,
            0o640,
            id="in her own directory",
        ),
        pytest.param(
            FileAttributes(None, 0, 0), file(0o755, EVE), 0o644, 0o600, id="hers, declared as root's"
        ),
        pytest.param(FileAttributes(None, EVE, 0), file(0o755, BOB), 0o644, 0o600, id="another user's"),
        pytest.param(
            FileAttributes(None, EVE, 0),
            file(0o755, EVE, writer=BOB),
            0o644,
            0o600,
            id="where another writes",
        ),
        pytest.param(
            FileAttributes(None, 0, 0), file(0o6777, writer=ANYBODY), 0o755, 0o750, id="where anybody writes"
        ),
        pytest.param(
            FileAttributes(None, 0, 0),
            FileFact(Kind.DIRECTORY, 0o755),
            0o644,
            0o600,
            id="a directory's is none",
        ),
        pytest.param(
            FileAttributes(None, 0, 0), FileFact(Kind.SYMLINK, 0o777), 0o644, 0o600, id="a link's is none"
        ),
    ],
)
def test_the_mode_of_a_new_file(
    wanted: FileAttributes, before: FileFact, plain: int, private: int, secret: bool
) -> None:
    expected = (wanted.uid, wanted.gid, private if secret else plain)
    assert attributes.of_new_file(wanted, before, secret=secret) == expected


def test_a_new_file_is_root_s_unless_somebody_is_named() -> None:
    assert attributes.of_new_file(FileAttributes(), FileFact(), secret=False) == (0, 0, 0o644)
    assert attributes.of_new_file(FileAttributes(None, 7, 8), FileFact(), secret=False)[:2] == (7, 8)


@pytest.mark.parametrize(
    ("wanted", "before", "secret", "mode"),
    [
        pytest.param(FileAttributes(0o777, 0, 0), file(0o600, writer=EVE), True, 0o777, id="declared"),
        pytest.param(FileAttributes(None, 0, 0), file(0o755), False, None, id="nothing to take"),
        pytest.param(FileAttributes(None, 0, 0), file(0o755), True, 0o750, id="a secret"),
        pytest.param(FileAttributes(None, 0, 0), file(0o750), True, None, id="a secret that is one"),
        pytest.param(FileAttributes(None, 0, 0), file(0o4777), False, None, id="root's, where root writes"),
        pytest.param(
            FileAttributes(None, 0, 0), file(0o4777, writer=EVE), False, 0o755, id="where she writes"
        ),
        pytest.param(FileAttributes(None, 0, 0), file(0o4777, writer=ANYBODY), True, 0o750, id="both"),
        pytest.param(
            FileAttributes(None, EVE, 0), file(0o666, writer=EVE), False, None, id="hers, where she writes"
        ),
        pytest.param(
            FileAttributes(None, BOB, 0), file(0o666, writer=EVE), False, 0o644, id="his, where she writes"
        ),
    ],
)
def test_an_undeclared_mode_is_no_more_than_it_may_be(
    wanted: FileAttributes, before: FileFact, secret: bool, mode: int | None
) -> None:
    assert attributes.hardened(wanted, before, secret=secret) == FileAttributes(mode, wanted.uid, wanted.gid)


@pytest.mark.parametrize(
    ("wanted", "before", "stays"),
    [
        pytest.param(FileAttributes(0o600, 0, 0), file(0o644), True, id="fewer may read"),
        pytest.param(FileAttributes(None, 0, 0), file(0o666), True, id="as it is"),
        pytest.param(FileAttributes(0o666, 0, 0), file(0o644), True, id="more may write"),
        pytest.param(FileAttributes(0o644, 0, 0), file(0o664), False, id="a group could write"),
        pytest.param(FileAttributes(0o664, 0, 0), file(0o666), False, id="others could write"),
        pytest.param(FileAttributes(0o644, 0, 0), file(0o644, EVE), False, id="she could write"),
        pytest.param(FileAttributes(0o644, EVE, 0), file(0o644, EVE), True, id="hers as declared"),
        pytest.param(FileAttributes(0o644, EVE, 0), file(0o644), True, id="root's becomes hers"),
        pytest.param(FileAttributes(0o644, 0, 0), file(0o644, writer=EVE), False, id="she can exchange it"),
        pytest.param(FileAttributes(0o664, 0, 8), file(0o664, gid=9), False, id="another group could write"),
        pytest.param(FileAttributes(0o644, 0, 8), file(0o644, gid=9), True, id="another group could read"),
        pytest.param(FileAttributes(0o664, 0, 9), file(0o664, gid=9), True, id="its group could write"),
        pytest.param(FileAttributes(0o664, 0, None), file(0o664, gid=9), True, id="whatever its group"),
    ],
)
def test_a_file_that_others_could_write_to_is_made_anew(
    wanted: FileAttributes, before: FileFact, stays: bool
) -> None:
    assert attributes.file_may_stay(wanted, before) is stays


def folder(mode: int = 0o755, uid: int = 0, gid: int = 0, writer: int = EVE) -> FileFact:
    return FileFact(Kind.DIRECTORY, mode, uid, gid, writer=writer)


@pytest.mark.parametrize(
    ("wanted", "before", "stays"),
    [
        pytest.param(
            FileAttributes(0o777, EVE, EVE), folder(writer=NOBODY), True, id="where only root writes"
        ),
        pytest.param(FileAttributes(None, EVE, None), folder(), False, id="root's is not given away"),
        pytest.param(
            FileAttributes(None, 0, None), folder(uid=EVE), False, id="hers is not taken for root's"
        ),
        pytest.param(FileAttributes(0o777, EVE, 8), folder(uid=EVE), True, id="hers is hers anyway"),
        pytest.param(FileAttributes(0o777, None, 8), folder(uid=EVE), True, id="whoever's it is"),
        pytest.param(FileAttributes(0o700, 0, None), folder(), True, id="root's is closed"),
        pytest.param(FileAttributes(None, 0, 0), folder(), True, id="root's as it is"),
        pytest.param(FileAttributes(0o757, 0, None), folder(), False, id="root's is not opened"),
        pytest.param(FileAttributes(0o700, 0, 8), folder(gid=9), False, id="nor to another group"),
        pytest.param(FileAttributes(0o700, 0, 9), folder(gid=9), True, id="its own group"),
    ],
)
def test_a_directory_that_others_can_have_moved_is_neither_given_away_nor_opened(
    wanted: FileAttributes, before: FileFact, stays: bool
) -> None:
    assert attributes.directory_may_stay(wanted, before) is stays


@pytest.mark.parametrize(
    ("wanted", "before", "said"),
    [
        (FileAttributes(), file(0o777, 1, 2), []),
        (FileAttributes(0o644, 1, 2), file(0o644, 1, 2), []),
        (FileAttributes(0o600, 1, 2), file(0o644, 1, 2), ["mode is 0644, not 0600"]),
        (FileAttributes(0o644, 0, 2), file(0o644, 1, 2), ["owner is 1, not 0"]),
        (FileAttributes(0o644, 1, 0), file(0o644, 1, 2), ["group is 2, not 0"]),
        (FileAttributes(0, 3, 2), file(0o4644, 1, 2), ["mode is 4644, not 0000", "owner is 1, not 3"]),
        (FileAttributes(), file(acl=True), ["an access control list says more than its mode"]),
    ],
)  # fmt: skip
def test_what_is_lacking(wanted: FileAttributes, before: FileFact, said: list[str]) -> None:
    assert attributes.lacking(wanted, before) == said

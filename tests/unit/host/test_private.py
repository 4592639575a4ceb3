"""Folders of our own in directories that others may change: made, checked, emptied and gone."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.files import private
from nodemanager.host.files.private import Intruded, PrivateFolder
from support.descriptors import none_left_open
from support.root_tree import needs_root

pytestmark = needs_root
EVE = 1000
LIST = bytes.fromhex("0200000001000700ffffffff02000700e903000004000500ffffffff10000700ffffffff"
                     "20000500ffffffff")  # fmt: skip
DEFAULT = "system.posix_acl_default"


@pytest.fixture
def above(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "hers"
    made.mkdir()
    made.chmod(0o777)
    with none_left_open(made):
        yield made


@pytest.fixture
def opened(above: Path) -> Iterator[int]:
    descriptor = os.open(above, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_names_cannot_be_foreseen() -> None:
    names = {private.temporary_name() for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(".nodemanager-") and len(name.split("-")[1]) == 12 for name in names)


def test_a_folder_is_ours_alone_and_goes_with_what_is_in_it(above: Path, opened: int) -> None:
    os.setxattr(above, DEFAULT, LIST)
    folder = PrivateFolder(opened)
    [made] = above.iterdir()
    assert made.name == folder.name
    assert (made.stat().st_uid, stat.S_IMODE(made.stat().st_mode)) == (0, 0o700)
    assert os.listxattr(made) == []
    (made / ".nodemanager-file").touch()
    (made / ".nodemanager-folder").mkdir()
    (made / ".nodemanager-link").symlink_to("/nowhere")
    folder.close()
    assert list(above.iterdir()) == []
    assert folder.descriptor == -1
    folder.close()  # once more is no harm


def test_it_needs_its_directory_no_longer_than_to_open_it(above: Path) -> None:
    descriptor = os.open(above, os.O_RDONLY)
    folder = PrivateFolder(descriptor)
    os.close(descriptor)
    folder.close()
    assert list(above.iterdir()) == []


def test_a_folder_that_was_renamed_meanwhile_is_emptied_and_left(above: Path, opened: int) -> None:
    folder = PrivateFolder(opened)
    [made] = above.iterdir()
    (made / ".nodemanager-1").write_text("secret")
    made.rename(above / "taken")
    folder.close()
    assert list((above / "taken").iterdir()) == []
    (above / "taken").rmdir()


def test_what_cannot_be_emptied_is_let_go_of(above: Path, opened: int) -> None:
    folder = PrivateFolder(opened)
    [made] = above.iterdir()
    (made / "foreign").write_text("not ours to remove")
    folder.close()
    assert [one.name for one in made.iterdir()] == ["foreign"]


def exchanged(above: Path, monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    """Let somebody exchange the folder between the call that makes it and the one that opens it."""
    real = os.mkdir

    def mkdir(name: str, *args: Any, **kwargs: Any) -> None:
        real(name, *args, **kwargs)
        (above / name).rename(above / "taken")
        monkeypatch.undo()
        make(above / name)

    monkeypatch.setattr(os, "mkdir", mkdir)


def of_eve(path: Path) -> None:
    path.mkdir(mode=0o700)
    os.chown(path, EVE, EVE)


def open_to(mode: int) -> Any:
    def make(path: Path) -> None:
        path.mkdir()
        path.chmod(mode)

    return make


def not_empty(path: Path) -> None:
    path.mkdir(mode=0o700)
    (path / "hers").write_text("")


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(of_eve, id="hers"),
        pytest.param(open_to(0o701), id="that others may enter"),
        pytest.param(open_to(0o720), id="that a group may write to"),
        pytest.param(not_empty, id="that is not empty"),
    ],
)
def test_another_folder_than_the_one_we_made_is_not_used(
    above: Path, opened: int, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    exchanged(above, monkeypatch, make)
    with pytest.raises(Intruded, match="somebody exchanges files in that directory just now"):
        PrivateFolder(opened)


@pytest.mark.parametrize(
    "make", [pytest.param(lambda path: path.symlink_to("/"), id="link"), pytest.param(Path.touch, id="file")]
)
def test_what_is_no_folder_is_not_used(
    above: Path, opened: int, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    exchanged(above, monkeypatch, make)
    with pytest.raises(NotADirectoryError):
        PrivateFolder(opened)


def test_only_what_is_named_as_we_name_it_is_removed(above: Path, opened: int) -> None:
    """Somebody may have renamed another folder of root's to look like this."""
    (above / "precious").write_text("")
    (above / ".nodemanager-1").symlink_to("precious")
    (above / ".nodemanager-2").mkdir()
    (above / ".nodemanager-3").write_text("")
    private.empty(opened)
    assert [one.name for one in above.iterdir()] == ["precious"]


def test_a_directory_with_something_in_it_is_not_removed(above: Path, opened: int) -> None:
    (above / ".nodemanager-1").mkdir()
    (above / ".nodemanager-1/x").write_text("")
    with pytest.raises(OSError, match="not empty"):
        private.empty(opened)
    assert (above / ".nodemanager-1/x").exists()


def test_a_link_to_a_directory_is_removed_as_a_link(above: Path, opened: int) -> None:
    (above / "d").mkdir()
    (above / ".nodemanager-1").symlink_to("d")
    private.empty(opened)
    assert [one.name for one in above.iterdir()] == ["d"]


def test_both_lists_are_taken_off(above: Path, opened: int) -> None:
    for name in (private._ACL, DEFAULT):
        os.setxattr(above, name, LIST)
    assert private.has_acl(opened)
    private.remove_acls(opened)
    assert os.listxattr(above) == []
    assert not private.has_acl(opened)
    private.remove_acls(opened)  # where there is none


def test_a_list_for_what_is_made_later_says_nothing_of_the_directory(above: Path, opened: int) -> None:
    os.setxattr(above, DEFAULT, LIST)
    assert not private.has_acl(opened)


@pytest.mark.parametrize(
    ("number", "matters"),
    [(errno.ENODATA, False), (errno.ENOTSUP, False), (errno.EINVAL, False), (errno.EPERM, True)],
)
def test_a_list_that_stays_is_an_error_and_none_is_not(
    opened: int, monkeypatch: pytest.MonkeyPatch, number: int, matters: bool
) -> None:
    def failing(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "removexattr", failing)
    monkeypatch.setattr(os, "listxattr", failing)
    assert not private.has_acl(opened)
    if matters:
        with pytest.raises(OSError):
            private.remove_acls(opened)
    else:
        private.remove_acls(opened)


def test_a_system_without_lists_has_none(opened: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "removexattr")
    monkeypatch.delattr(os, "listxattr")
    private.remove_acls(opened)
    assert not private.has_acl(opened)

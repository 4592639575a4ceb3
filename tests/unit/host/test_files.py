"""Files, directories and links, from declaration to disk, below a root of their own."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import users
from nodemanager.plan import merge
from nodemanager.plan.desired import Content
from nodemanager.plan.facts import Facts, FileFact
from nodemanager.plan.files import plan_files
from nodemanager.plan.resources import parse_id
from support.root_tree import RootTree, config_set, failure, needs_root, outcomes

pytestmark = needs_root


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RootTree]:
    root = tmp_path / "root"
    root.mkdir()
    found = RootTree(root)
    yield found
    assert found.leftovers() == []
    found.tree.close()


async def test_a_file_is_written_with_its_parents_and_then_left_alone(host: RootTree) -> None:
    declared = config_set("a", files=[{"path": "/etc/app/x.conf", "content": "a=1\n", "mode": "0640"}])
    assert outcomes(await host.converge(declared)) == {"file:/etc/app/x.conf": "changed"}
    found = host.at("/etc/app/x.conf")
    assert found.read_text() == "a=1\n"
    assert stat.S_IMODE(found.stat().st_mode) == 0o640
    assert stat.S_IMODE(found.parent.stat().st_mode) == 0o755
    inode = found.stat().st_ino
    assert outcomes(await host.converge(declared)) == {"file:/etc/app/x.conf": "unchanged"}
    assert found.stat().st_ino == inode


async def test_drift_of_content_is_seen_also_with_the_same_size_and_time(host: RootTree) -> None:
    declared = config_set("a", files=[{"path": "/x", "content": "one"}])
    await host.converge(declared)
    before = host.at("/x").stat()
    host.at("/x").write_text("two")
    os.utime(host.at("/x"), ns=(before.st_atime_ns, before.st_mtime_ns))
    assert outcomes(await host.converge(declared)) == {"file:/x": "changed"}
    assert host.at("/x").read_text() == "one"


async def test_what_is_replaced_or_removed_is_kept_and_comes_back(host: RootTree) -> None:
    host.at("/x").write_text("precious")
    host.at("/y").write_text("also")
    host.at("/x").chmod(0o600)
    await host.converge(
        config_set("a", files=[{"path": "/x", "content": "new"}, {"path": "/y", "ensure": "absent"}])
    )
    await host.converge(config_set("a", files=[{"path": "/x", "content": "newer"}]))
    kept = {(one.meta.path, host.bucket.read(one)) for one in host.bucket.backups()}
    assert kept == {("/x", b"precious"), ("/x", b"new"), ("/y", b"also")}
    digest = hashlib.sha256(b"precious").hexdigest()
    assert host.bucket.find("/x", digest[:10]).meta.mode == "0600"
    for path in host.at("/var/lib/nodemanager").rglob("*"):
        assert not path.stat().st_mode & 0o077 or path.is_dir(), path
    assert not host.at("/var/lib/nodemanager").stat().st_mode & 0o077


async def test_setuid_and_sticky_survive_a_change_of_owner(host: RootTree) -> None:
    declared = config_set(
        "a",
        files=[
            {"path": "/bin/x", "content": "", "mode": "04755", "owner": "7", "group": "8"},
            {"path": "/tmp", "ensure": "directory", "mode": "01777"},
        ],
    )
    await host.converge(declared)
    os.chown(host.at("/bin/x"), 1, 1)  # clears setuid
    host.at("/tmp").chmod(0o755)
    assert outcomes(await host.converge(declared)) == {"file:/bin/x": "changed", "file:/tmp": "changed"}
    found = host.at("/bin/x").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o4755, 7, 8)
    assert stat.S_IMODE(host.at("/tmp").stat().st_mode) == 0o1777


async def test_users_of_a_root_are_those_of_its_own_files(host: RootTree) -> None:
    host.at("/etc").mkdir()
    host.at("/etc/passwd").write_text("root:x:0:0::/:\nbroken\napp:x:4711:4712::/:\n")
    host.at("/etc/group").write_text("staff:x:99:\n")
    declared = config_set(
        "a", files=[{"path": "/x", "owner": "app", "group": "staff"}, {"path": "/y", "owner": "nix"}]
    )
    results = await host.converge(declared)
    found = host.at("/x").stat()
    assert (found.st_uid, found.st_gid) == (4711, 99)
    assert (
        failure(results, "file:/y")
        == "cannot set owner: this host has no user 'nix'; create it, or correct owner"
    )


async def test_links_are_made_retargeted_and_removed_also_dangling(host: RootTree) -> None:
    link = {"path": "/l", "ensure": "symlink", "target": "/nowhere"}
    assert outcomes(await host.converge(config_set("a", files=[link]))) == {"file:/l": "changed"}
    assert host.at("/l").readlink() == Path("/nowhere")
    link["target"] = "../elsewhere"
    assert outcomes(await host.converge(config_set("a", files=[link]))) == {"file:/l": "changed"}
    assert host.at("/l").readlink() == Path("../elsewhere")
    assert outcomes(await host.converge(config_set("a", files=[link]))) == {"file:/l": "unchanged"}
    assert outcomes(await host.converge(config_set("a", files=[{"path": "/l", "ensure": "absent"}]))) == {
        "file:/l": "changed"
    }
    assert not host.at("/l").is_symlink()


async def test_a_file_replaces_a_link_and_not_what_it_points_to(host: RootTree) -> None:
    host.at("/target").write_text("untouched")
    host.at("/x").symlink_to("/target")
    await host.converge(config_set("a", files=[{"path": "/x", "content": "mine"}]))
    assert host.at("/x").read_text() == "mine"
    assert not host.at("/x").is_symlink()
    assert host.at("/target").read_text() == "untouched"


async def test_links_of_root_on_the_way_stay_below_the_root(host: RootTree, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    host.at("/run").mkdir()
    host.at("/var").mkdir()
    host.at("/var/run").symlink_to("/run")  # absolute: means the run of this root
    host.at("/up").symlink_to("../../../../run")
    host.at("/out").symlink_to(outside)
    declared = config_set(
        "a",
        files=[{"path": "/var/run/a", "content": "a"}, {"path": "/up/b", "content": "b"}, {"path": "/out/c"}],
    )
    results = await host.converge(declared)
    assert (host.at("/run/a").read_text(), host.at("/run/b").read_text()) == ("a", "b")
    assert list(outside.iterdir()) == []
    assert outcomes(results)["file:/out/c"] == "changed"  # made below the root, where the link leads there
    assert host.at(str(outside)).joinpath("c").exists()


async def test_a_link_planted_by_somebody_else_is_not_followed(host: RootTree) -> None:
    host.at("/etc").mkdir()
    home = host.at("/home/eve")
    home.mkdir(parents=True)
    os.chown(home, 1000, 1000)
    home.joinpath(".config").symlink_to("/etc")
    os.lchown(home / ".config", 1000, 1000)
    results = await host.converge(
        config_set(
            "a", files=[{"path": "/home/eve/.config/cron", "content": "x"}, {"path": "/ok", "content": "x"}]
        )
    )
    assert "is a link made by user 1000, which is not followed" in failure(
        results, "file:/home/eve/.config/cron"
    )
    assert list(host.at("/etc").iterdir()) == []
    assert outcomes(results)["file:/ok"] == "changed"


async def test_an_inode_with_a_second_name_in_a_foreign_directory_is_replaced_and_not_changed(
    host: RootTree,
) -> None:
    shadow = host.at("/shadow")
    shadow.write_text("root:secret")
    shadow.chmod(0o600)
    home = host.at("/home")
    home.mkdir()
    os.chown(home, 1000, 1000)
    os.link(shadow, home / "x")
    declared = {"path": "/home/x", "content": "root:secret", "owner": "1000", "mode": "0666"}
    results = await host.converge(config_set("a", files=[declared]))
    assert outcomes(results) == {"file:/home/x": "changed"}
    assert ((home / "x").stat().st_uid, stat.S_IMODE((home / "x").stat().st_mode)) == (1000, 0o666)
    assert (shadow.stat().st_uid, stat.S_IMODE(shadow.stat().st_mode)) == (0, 0o600)


async def test_purge_removes_and_keeps_only_files_nobody_declares(host: RootTree) -> None:
    folder = host.at("/etc/app.d")
    (folder / "sub").mkdir(parents=True)
    for name in ("keep", "old", "other"):
        (folder / name).write_text(name)
    (folder / "link").symlink_to("/nowhere")
    results = await host.converge(
        config_set("a", files=[{"path": "/etc/app.d/", "ensure": "directory", "purge": True}]),
        config_set("b", files=[{"path": "/etc/app.d/keep", "content": "keep"}]),
    )
    assert sorted(path.name for path in folder.iterdir()) == ["keep", "sub"]
    assert outcomes(results)["file:/etc/app.d/old"] == "changed"
    assert {host.bucket.read(one) for one in host.bucket.backups()} == {b"old", b"other"}


async def test_validation_sees_the_new_content_and_can_refuse_it(host: RootTree) -> None:
    host.at("/x").write_text("old")
    # The program runs outside of this root, so it needs the path as it is called there.
    check = {"command": "/bin/grep", "args": ["-q", "good", f"{host.path}${{STAGED}}"]}
    first: dict[str, object] = {"path": "/x", "content": "bad", "validate": check}
    files = [first, {"path": "/y", "content": "y"}]
    results = await host.converge(config_set("a", files=files))
    assert failure(results, "file:/x").startswith(
        "cannot put /x in place: its validation failed: cannot run /bin/grep"
    )
    assert host.at("/x").read_text() == "old"
    assert outcomes(results)["file:/y"] == "changed"
    first["content"] = "good"
    assert outcomes(await host.converge(config_set("a", files=files)))["file:/x"] == "changed"


async def test_a_validation_that_fails_twice_says_the_same_twice(host: RootTree) -> None:
    """Events are counted when they are equal: the name of a temporary file would keep them apart."""
    script = (
        f"echo {host.path}${{STAGED}}: line 1: bad; cd {host.path}; ls -A | grep nodemanager- >&2; exit 3"
    )
    check = {"command": "/bin/sh", "args": ["-c", script]}
    declared = config_set("a", files=[{"path": "/x", "content": "bad", "validate": check}])
    first, second = [failure(await host.converge(declared), "file:/x") for _ in range(2)]
    assert first == second
    assert ".nodemanager-" not in first
    assert f"{host.path}/x: line 1: bad" in first


async def test_a_validation_that_fails_does_not_repeat_secrets(host: RootTree) -> None:
    check = {"command": "/bin/sh", "args": ["-c", f"cat {host.path}${{STAGED}} >&2; exit 3"]}
    desired = merge.merge([config_set("a", files=[{"path": "/x", "validate": check}])])
    secret = Content(b"hush", hashlib.sha256(b"hush").hexdigest(), secret=True)
    facts = Facts(files={"/x": FileFact()}, users={"root": 0}, groups={"root": 0})
    results = await host.apply(plan_files(desired, {"/x": secret}, facts))
    said = failure(results, "file:/x")
    assert said.startswith("cannot put /x in place: its validation failed: exit status 3")
    assert "hush" not in said


async def test_abort_holds_back_what_comes_after_in_the_same_set(host: RootTree) -> None:
    check = {"command": "/bin/false", "onFailure": "abort"}
    first = config_set(
        "a", files=[{"path": "/a", "content": "x", "validate": check}, {"path": "/b", "content": "x"}]
    )
    other = config_set("b", files=[{"path": "/c", "content": "x"}])
    assert outcomes(await host.converge(first, other)) == {
        "file:/a": "failed",
        "file:/b": "blocked",
        "file:/c": "changed",
    }


async def test_what_is_owed_is_on_disk_before_the_file_changes(host: RootTree) -> None:
    declared = config_set(
        "a",
        files=[
            {"path": "/x", "content": "x"},
            {"path": "/bad", "content": "x", "validate": {"command": "/bin/false"}},
        ],
        services=[{"name": "app", "ensure": "running", "subscribe_files": ["/x", "/bad"]}],
    )
    real = os.rename
    seen: list[bool] = []

    def spying(source: str, target: str, **kwargs: int) -> None:
        if target == "x":
            seen.append(b"service:app" in host.at("/var/lib/nodemanager/pending.json").read_bytes())
        real(source, target, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rename", spying)
        await host.converge(declared)
    assert seen == [True]
    assert host.journal.pending()[parse_id("service:app")].causes == ("/x",)


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.ENOSPC, "free some space"), (errno.EROFS, "mounted read-only"), (errno.EPERM, "chattr -i")],
)
async def test_a_file_that_cannot_be_replaced_says_what_to_do(
    host: RootTree, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    real = os.rename

    def failing(source: str, target: str, **kwargs: int) -> None:
        if target == "x":
            raise OSError(number, os.strerror(number))
        real(source, target, **kwargs)

    monkeypatch.setattr(os, "rename", failing)
    results = await host.converge(config_set("a", files=[{"path": "/x", "content": "x"}, {"path": "/y"}]))
    assert said in failure(results, "file:/x")
    assert not host.at("/x").exists()
    assert outcomes(results)["file:/y"] == "changed"


async def test_many_files_and_directories_at_once(host: RootTree) -> None:
    files = [{"path": f"/d{number % 150}/f{number}", "content": f"{number}\n"} for number in range(600)]
    results = await host.converge(config_set("a", files=files))
    assert set(outcomes(results).values()) == {"changed"}
    assert all(host.at(one["path"]).read_text() == one["content"] for one in files)
    assert set(outcomes(await host.converge(config_set("a", files=files))).values()) == {"unchanged"}


async def test_extended_attributes_are_kept_but_not_the_powers_of_a_program(host: RootTree) -> None:
    host.at("/x").write_text("old")
    try:
        os.setxattr(host.at("/x"), "user.note", b"mine")
    except OSError:
        pytest.skip("the filesystem of the temporary folder keeps no extended attributes")
    await host.converge(config_set("a", files=[{"path": "/x", "content": "new"}]))
    assert os.getxattr(host.at("/x"), "user.note") == b"mine"


async def test_what_blocks_a_directory_blocks_what_is_in_it(host: RootTree) -> None:
    host.at("/d").write_text("in the way")
    results = await host.converge(
        config_set("a", files=[{"path": "/d", "ensure": "directory"}, {"path": "/d/x"}])
    )
    assert outcomes(results) == {"file:/d": "blocked", "file:/d/x": "blocked"}
    assert "move it out of the way" in failure(results, "file:/d")
    assert "d is not a directory" in failure(results, "file:/d/x")


async def test_a_directory_that_is_not_empty_is_not_removed(host: RootTree) -> None:
    host.at("/d").mkdir()
    host.at("/d/x").write_text("")
    results = await host.converge(config_set("a", files=[{"path": "/d", "ensure": "absent"}]))
    assert "remove its content first" in failure(results, "file:/d")


async def test_a_folder_without_users_still_has_a_root(tmp_path: Path) -> None:
    """So that something can be tried in an empty one."""
    tree = Tree(str(tmp_path))
    assert users.user_numbers(tree, ["root", "www-data"]) == {"root": 0}
    assert users.group_numbers(tree, ["root"]) == {"root": 0}
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("toor:x:0:0::/:\n")
    assert users.user_numbers(tree, ["root", "toor"]) == {"toor": 0}
    tree.close()

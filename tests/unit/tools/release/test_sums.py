"""SHA256SUMS of several runs in one folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tools.release import sums
from tools.release.revision import Revision

HERE = Revision("c" * 40, "clean", "5" * 64)
OTHER = Revision("d" * 40, "clean", "6" * 64)


def make(folder: Path, **contents: str) -> list[Path]:
    for name, text in contents.items():
        (folder / name).write_text(text)
    return [folder / name for name in contents]


def listed(folder: Path) -> dict[str, str]:
    lines = (folder / sums.NAME).read_text().splitlines()
    return {name: said for said, _, name in (line.partition("  ") for line in lines)}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_what_earlier_runs_made_stays_listed(tmp_path: Path) -> None:
    sums.write(tmp_path, make(tmp_path, amd64="a", deb="d"), sums.earlier(tmp_path, HERE), HERE)
    before = sums.earlier(tmp_path, HERE)
    sums.write(tmp_path, make(tmp_path, arm64="b", deb="e"), before, HERE)
    assert listed(tmp_path) == {"amd64": sha256("a"), "arm64": sha256("b"), "deb": sha256("e")}


def test_what_was_changed_or_taken_away_or_is_elsewhere_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "dist"
    folder.mkdir()
    (tmp_path / "outside").write_text("x")
    sums.write(folder, make(folder, gone="1", changed="2", kept="3"), {}, HERE)
    (folder / "gone").unlink()
    (folder / "changed").write_text("other")
    with (folder / sums.NAME).open("a") as file:
        file.write(f"{sha256('x')}  ../outside\nno line at all\n")
    sums.write(folder, make(folder, new="4"), sums.earlier(folder, HERE), HERE)
    assert listed(folder).keys() == {"kept", "new"}


def test_no_signature_stays_of_what_is_another_file_now(tmp_path: Path) -> None:
    sums.write(tmp_path, make(tmp_path, same="s", other="o"), {}, HERE)
    make(tmp_path, **{f"{name}{sums.SIGNATURE}": "" for name in ("same", "other", sums.NAME)})
    before = sums.earlier(tmp_path, HERE)
    sums.write(tmp_path, make(tmp_path, same="s", other="O"), before, HERE)
    assert [path.name for path in sorted(tmp_path.glob(f"*{sums.SIGNATURE}"))] == ["same.minisig"]
    make(tmp_path, **{f"{sums.NAME}{sums.SIGNATURE}": ""})
    sums.write(tmp_path, make(tmp_path, same="s", other="O"), sums.earlier(tmp_path, HERE), HERE)
    assert (tmp_path / f"{sums.NAME}{sums.SIGNATURE}").exists()


def test_what_was_made_of_other_sources_is_not_listed_any_more(tmp_path: Path) -> None:
    sums.write(tmp_path, make(tmp_path, amd64="a", deb="d"), {}, OTHER)
    assert sums.earlier(tmp_path, OTHER).keys() == {"amd64", "deb"}
    assert sums.earlier(tmp_path, HERE) == {}
    sums.write(tmp_path, make(tmp_path, arm64="b"), sums.earlier(tmp_path, HERE), HERE)
    assert listed(tmp_path).keys() == {"arm64"}
    assert sums.earlier(tmp_path, HERE).keys() == {"arm64"}
    assert sums.earlier(tmp_path, OTHER) == {}


def test_a_list_of_which_nobody_knows_the_sources_is_not_gone_on_with(tmp_path: Path) -> None:
    sums.write(tmp_path, make(tmp_path, amd64="a"), {}, HERE)
    (tmp_path / sums.SOURCES).unlink()
    assert sums.earlier(tmp_path, HERE) == {}

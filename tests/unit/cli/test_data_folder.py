"""Backups of a folder that belongs to another user, made and put back by root."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from nodemanager.cli import data_folder
from nodemanager.store.base import StoreError
from nodemanager.store.sqlite import SqliteStore

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can work for another user")
OTHER = 65534


async def _made(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.close()


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == 0 and not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)
    folder = tmp_path / "data"
    folder.mkdir()
    asyncio.run(_made(folder / "state.db"))
    for path in (folder, *folder.iterdir()):
        os.chown(path, OTHER, OTHER)
    return folder


def test_there_and_back(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    data_folder.backup(folder / "state.db", file)
    assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (0, 0o600)
    aside = data_folder.restore(file, folder / "state.db")
    assert aside is not None
    assert {path.stat().st_uid for path in folder.iterdir()} == {OTHER}
    assert os.geteuid() == 0


def test_what_its_user_put_there_leads_root_nowhere(folder: Path, tmp_path: Path) -> None:
    file, target = tmp_path / "backup", tmp_path / "of-root"
    data_folder.backup(folder / "state.db", file)
    target.write_text("untouched")
    target.chmod(0o600)
    (folder / "state.db.lock").unlink(missing_ok=True)
    (folder / "state.db.lock").symlink_to(target)
    with pytest.raises(StoreError, match="Permission denied"):
        data_folder.restore(file, folder / "state.db")
    assert (target.read_text(), target.stat().st_uid) == ("untouched", 0)

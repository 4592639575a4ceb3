"""Every storage backend that we have, held to the contract; that of the docs is in `test_docs_backend.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support import storage_labs
from support.storage_contract import StorageContract, StorageLab


class TestLinstor(StorageContract):
    @pytest.fixture
    async def lab(self) -> AsyncIterator[StorageLab]:
        async with storage_labs.linstor() as found:
            yield found
            storage_labs.harmless(found.controller)


class TestPiraeus(StorageContract):
    @pytest.fixture
    async def lab(self) -> AsyncIterator[StorageLab]:
        async with storage_labs.piraeus() as found:
            yield found
            storage_labs.harmless(found.controller)


class TestPiraeusAlone(StorageContract):
    @pytest.fixture
    async def lab(self) -> AsyncIterator[StorageLab]:
        async with storage_labs.piraeus_alone() as found:
            yield found


class TestLocalPath(StorageContract):
    @pytest.fixture
    async def lab(self) -> AsyncIterator[StorageLab]:
        async with storage_labs.local_path() as found:
            yield found

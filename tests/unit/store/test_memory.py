"""The store in memory passes the conformance suite."""

import pytest

from shepherd.store.base import Store
from shepherd.store.feed import History
from shepherd.store.memory import MemoryStore
from shepherd.testing.store_suite import MakeStore, StoreSuite


class TestMemoryStore(StoreSuite):
    @pytest.fixture
    def make(self) -> MakeStore:
        async def make(history: History) -> Store:
            return MemoryStore(history=history)

        return make

"""Real containers keep the promises that every runtime makes."""

import pytest

from shepherd.testing.runtime_suite import Harness, RuntimeSuite


class TestOciRuntime(RuntimeSuite):
    @pytest.fixture
    def harness(self, request: pytest.FixtureRequest) -> Harness:
        found: Harness = request.getfixturevalue("runtime_harness")
        return found

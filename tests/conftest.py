"""How many cases Hypothesis draws, for every test that uses it (docs/limits.md).

Each run draws the same cases, so that a red test is the change's doing. `make fuzz`, or
SHEPHERD_FUZZ_CASES=5000, draws as many new ones.
"""

import os

from hypothesis import HealthCheck, settings

ASKED = os.environ.get("SHEPHERD_FUZZ_CASES", "")
CASES = int(ASKED or 100)

settings.register_profile(
    "shepherd",
    max_examples=CASES,
    deadline=None,
    derandomize=not ASKED,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("shepherd")

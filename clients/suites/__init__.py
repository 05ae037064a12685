"""The suites, one module each."""

from clients.suite import Suite
from clients.suites import kr8s, lightkube, official, scripts

ALL: tuple[Suite, ...] = (
    kr8s.RELEASED,
    *scripts.SUITES,
    kr8s.LATEST,
    lightkube.SUITE,
    official.SUITE,
)

"""The suites, one module each."""

from clients.suite import Suite
from clients.suites import embedded, kr8s, lightkube, official, scripts

REGISTRIES: tuple[Suite, ...] = (kr8s.RELEASED, *scripts.SUITES, embedded.SUITE)
"""Those that need nothing but what package registries serve."""
ALL: tuple[Suite, ...] = (*REGISTRIES, kr8s.LATEST, lightkube.SUITE, official.SUITE)

"""Claims of operators that are gone need not be waited for."""

from shepherd.testing.peering import aged


def test_aged_claims_were_last_seen_earlier() -> None:
    """nolar/kopf#734."""
    claim = {"priority": 100, "lifetime": 60, "lastseen": "2026-01-01T00:02:00+00:00"}
    (older,) = aged({"me@host": claim}, 120.0).values()
    assert older == claim | {"lastseen": "2026-01-01T00:00:00Z"}

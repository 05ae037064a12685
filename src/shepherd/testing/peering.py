"""kopf's peering objects: who claims to run, and how long that claim holds.

An operator writes into the status of a `KopfPeering` (or `ClusterKopfPeering`), under its identity,
when it was last seen and for how many seconds that counts. One that was killed leaves its claim
behind, and another pauses in its favour until the claim has run out, by the operator's own clock:
nothing that a cluster's clock could hurry. Public report: nolar/kopf 734.
"""

from typing import Any

from shepherd.api.meta import format_time, parse_time
from shepherd.testing.rest import Rest


def age_peers(rest: Rest, path: str, seconds: float) -> None:
    """Make all claims in the peering object under `path` older: those that were to last no longer
    are over at once, and whoever watches hears of it."""
    peers = rest.get(path).get("status", {})
    rest.ask("PATCH", path, {"status": aged(peers, seconds)})


def aged(peers: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The claims as if they had been made so much earlier. Pure."""
    return {
        identity: claim | {"lastseen": format_time(parse_time(claim["lastseen"]) - seconds)}
        for identity, claim in peers.items()
    }

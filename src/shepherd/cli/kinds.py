"""The kinds of the cluster: ours are known, all others it tells by discovery.

A word that names one of ours costs no question. Source: KEP-3352 (aggregated discovery), which
servers have since 1.26.
"""

import json
from collections.abc import Sequence

from shepherd.api.kinds import RESOURCES
from shepherd.api.resource import Object, Resource
from shepherd.cli.session import Usage
from shepherd.cli.targets import Target, UnknownKind, find_targets, one_of
from shepherd.client.base import Client

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_OURS = {(r.group, r.version, r.plural): r for r in RESOURCES}


class Kinds:
    """Finds kinds by what users and manifests call them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._served: list[Resource] = []

    async def served(self) -> Sequence[Resource]:
        """Every kind that the cluster serves, a group's preferred version first."""
        if not self._served:
            documents = [await self._discover(root) for root in ("/api", "/apis")]
            self._served = [kind for document in documents for kind in _kinds_in(document)]
        return self._served

    async def targets(self, arguments: tuple[str, ...]) -> list[Target]:
        """What arguments name, categories too. Raises Usage."""
        try:
            return find_targets(arguments)
        except UnknownKind:
            return find_targets(arguments, await self.served(), categories=True)

    async def target(self, arguments: tuple[str, ...]) -> Target:
        """The one object that arguments name. Raises Usage."""
        return one_of(await self.targets(arguments))

    async def of(self, obj: Object) -> Resource:
        """The kind of a manifest, were it defined a moment ago. Raises Usage."""
        if found := _of(obj, RESOURCES) or _of(obj, await self.served()):
            return found
        self._served = []
        if found := _of(obj, await self.served()):
            return found
        kind, api_version = obj.get("kind"), obj.get("apiVersion")
        raise Usage(f"{kind} of {api_version} is not a kind that this cluster has")

    async def _discover(self, root: str) -> Object:
        answer: Object = json.loads(await self._client.raw("GET", root, accept=_DISCOVERY))
        return answer


def _of(obj: Object, among: Sequence[Resource]) -> Resource | None:
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    return next((r for r in among if (r.kind, r.api_version) == (kind, api_version)), None)


def _kinds_in(document: Object) -> list[Resource]:
    return [
        _kind(group["metadata"].get("name", ""), version["version"], entry)
        for group in document.get("items") or ()
        for version in group["versions"]
        for entry in version.get("resources") or ()
    ]


def _kind(group: str, version: str, entry: Object) -> Resource:
    """As we declare it, or as discovery describes it."""
    subresources = {sub["subresource"] for sub in entry.get("subresources") or ()}
    return _OURS.get((group, version, entry["resource"])) or Resource(
        group,
        version,
        (entry.get("responseKind") or {}).get("kind", ""),
        entry["resource"],
        namespaced=entry["scope"] == "Namespaced",
        singular=entry.get("singularResource", ""),
        short_names=tuple(entry.get("shortNames") or ()),
        categories=tuple(entry.get("categories") or ()),
        verbs=tuple(entry.get("verbs") or ()),
        status="status" in subresources,
        scale="scale" in subresources,
    )

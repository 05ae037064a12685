"""What the API has: /api, /apis and below, in the aggregated form and the old one; OpenAPI.

Source: apiserver endpoints/discovery; KEP-3352 (aggregated discovery).
"""

from dataclasses import dataclass

import msgspec

from shepherd.api import errors
from shepherd.api.resource import Object, Resource
from shepherd.lib.http import Request, Response
from shepherd.server.aggregation.remotes import Remotes, described, ordered
from shepherd.server.handlers import JSON, answer, json_answer
from shepherd.server.openapi import openapi_document, openapi_index
from shepherd.server.served import Served
from shepherd.server.subresources import SUBRESOURCES, Subresource

_AGGREGATED = ("v2", "v2beta1")


@dataclass(frozen=True, slots=True)
class _Resource:
    """A resource as one group and version serves it."""

    group: str
    version: str
    resource: Resource

    @property
    def singular(self) -> str:
        return self.resource.singular or self.resource.kind.lower()

    @property
    def kind(self) -> Object:
        return {"group": self.group, "version": self.version, "kind": self.resource.kind}

    @property
    def subresources(self) -> list[Subresource]:
        found = [sub for sub in SUBRESOURCES if sub.has(self.resource)]
        return sorted(found, key=lambda sub: sub.name)

    def kind_of(self, sub: Subresource) -> Object:
        """The kind that a subresource reads and writes."""
        if not sub.kind:
            return self.kind
        if not sub.version:
            return self.kind | {"kind": sub.kind}
        return {"group": sub.group, "version": sub.version, "kind": sub.kind}


class Discovery:
    """Answers discovery requests; documents are made when first asked for after a change."""

    def __init__(self, served: Served, remotes: Remotes) -> None:
        self._live = served
        self._remotes = remotes
        self._generation = (-1, -1)
        self._roots: dict[tuple[str, str], bytes] = {}
        """Documents of /api and /apis, by their form."""
        self._groups: dict[str, list[str]] = {}

    def _refresh(self) -> None:
        present = (self._live.generation, self._remotes.generation)
        if self._generation != present:
            self._generation = present
            self._groups = self._live.versions()
            for remote in ordered(self._remotes.served.values()):
                versions = self._groups.setdefault(remote.group, [])
                if remote.version not in versions:
                    versions.append(remote.version)
            self._roots = {}

    def _served(self, group: str, version: str) -> list[_Resource]:
        resources = sorted(self._live.of(group, version), key=lambda resource: resource.plural)
        return [_Resource(group, version, resource) for resource in resources]

    def answer(self, request: Request) -> Response | None:
        """The answer for a discovery path, None for another. Raises ApiError 404."""
        parts = request.path.strip("/").split("/")
        if parts[0] not in ("api", "apis") or len(parts) > 3 - (parts[0] == "api"):
            return None
        self._refresh()
        match parts:
            case ["api" | "apis" as root]:
                return self._root(root, request.headers.get("accept", ""))
            case ["api", version]:
                return json_answer(self._resource_list("", version))
            case ["apis", group]:
                return json_answer(_group(group, self._versions(group)) | {"apiVersion": "v1"})
            case ["apis", group, version]:
                return json_answer(self._resource_list(group, version))
        return None

    def _root(self, root: str, accept: str) -> Response:
        for choice in accept.split(","):
            words = choice.replace(" ", "").split(";")
            if words[0] == JSON and "as=APIGroupDiscoveryList" in words:
                for version in _AGGREGATED:
                    if f"v={version}" in words:
                        return self._aggregated(root, version)
            elif words[0] in (JSON, "*/*", "application/*"):
                break
        return answer(self._document(root, ""))

    def _aggregated(self, root: str, version: str) -> Response:
        response = answer(self._document(root, version))
        response.headers["content-type"] = (
            f"{JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        )
        return response

    def _group_item(self, group: str) -> Object:
        return {
            "metadata": {"name": group, "creationTimestamp": None},
            "versions": [self._version_item(group, version) for version in self._groups[group]],
        }

    def _version_item(self, group: str, version: str) -> Object:
        remote = self._remotes.served.get((group, version))
        if remote is None:
            resources = [_aggregated(one) for one in self._served(group, version)]
        else:
            resources = described(remote.resources, group, version)
        fresh = remote is None or remote.available
        return {
            "version": version,
            "resources": resources,
            "freshness": "Current" if fresh else "Stale",
        }

    def _document(self, root: str, aggregated: str) -> bytes:
        """The document of /api or /apis, in the aggregated form of a version or the old one."""
        key = (root, aggregated)
        if key not in self._roots:
            names = [name for name in self._groups if (name == "") == (root == "api")]
            if aggregated:
                document = {
                    "kind": "APIGroupDiscoveryList",
                    "apiVersion": f"apidiscovery.k8s.io/{aggregated}",
                    "metadata": {},
                    "items": [self._group_item(name) for name in names],
                }
            elif root == "api":
                versions = self._groups[""]
                document = {"kind": "APIVersions", "versions": versions}
                document["serverAddressByClientCIDRs"] = []
            else:
                groups = [_group(name, self._groups[name]) for name in names]
                document = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            self._roots[key] = msgspec.json.encode(document)
        return self._roots[key]

    def _versions(self, group: str) -> list[str]:
        if not group or group not in self._groups:
            raise errors.path_not_found()
        return self._groups[group]

    def _resource_list(self, group: str, version: str) -> Object:
        served = self._served(group, version)
        if not served:
            raise errors.path_not_found()
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": [entry for one in served for entry in _entries(one)],
        }


def openapi(request: Request, served: Served, remotes: Remotes) -> Response | None:
    """OpenAPI v3: the index and its documents, which clients keep under their ETag."""
    if not request.path.startswith("/openapi/v3"):
        return None
    match request.path.strip("/").split("/")[2:]:
        case []:
            return answer(openapi_index(served.groups, remotes.served))
        case ["api", version]:
            document = openapi_document("", version, served.of("", version))
        case ["apis", group, version]:
            document = openapi_document(group, version, served.of(group, version))
        case _:
            return None
    if document is None:
        return None
    headers = {"etag": document.etag, "vary": "Accept, Accept-Encoding"}
    if document.etag in request.headers.get("if-none-match", ""):
        return Response(304, headers)
    headers |= {"content-type": JSON, "cache-control": "public"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(200, headers | {"content-encoding": "gzip"}, document.packed)
    return Response(200, headers, document.body)


def _group(name: str, versions: list[str]) -> Object:
    named = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"kind": "APIGroup", "name": name, "versions": named, "preferredVersion": named[0]}


def _aggregated(served: _Resource) -> Object:
    resource = served.resource
    entry: Object = {
        "resource": resource.plural,
        "responseKind": served.kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if served.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": served.kind_of(sub),
                "verbs": sorted(sub.verbs),
            }
            for sub in served.subresources
        ]
    return entry


def _entries(served: _Resource) -> list[Object]:
    resource = served.resource
    entry: Object = {
        "name": resource.plural,
        "singularName": served.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    entries = [entry]
    for sub in served.subresources:
        described: Object = {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": sub.kind or resource.kind,
            "verbs": sorted(sub.verbs),
        }
        if sub.version:
            described |= {"group": sub.group, "version": sub.version}
        entries.append(described)
    return entries

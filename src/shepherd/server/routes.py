"""What a path and method ask for: which verb, of which resource, on which object.

Source: "Kubernetes API Concepts", resource URIs; apiserver endpoints/request RequestInfoFactory.
"""

from dataclasses import dataclass

from shepherd.api import errors
from shepherd.api.resource import Resource
from shepherd.lib.http import Request
from shepherd.server.served import Served

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ON_COLLECTION = {"get": "list", "create": "create", "delete": "deletecollection"}
_NAMESPACE_PARTS = ("status", "finalize")
TRUE = ("1", "true", "True")


@dataclass(frozen=True, slots=True)
class Route:
    """One request's target, and what authorization is asked about."""

    verb: str
    """get, list, watch, create, update, patch, delete, deletecollection."""
    resource: Resource
    group: str
    version: str
    """As asked: an alias's group and version may differ from the resource's own."""
    namespace: str = ""
    name: str = ""
    sub: str = ""
    rest: str = ""
    """What follows the subresource: the path behind `proxy`."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def converted(self) -> bool:
        """Served in another form than stored (events.k8s.io, autoscaling/v1)."""
        return self.api_version != self.resource.api_version


class Routes:
    """Finds resources by group, version and plural."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def find(self, request: Request) -> Route | None:
        """The target of an object request; None if the path is not one.

        Raises ApiError: 404 for an unknown resource, 405 for a verb that the path has not.
        """
        parts = request.path.strip("/").split("/")
        if parts[0] == "api" and len(parts) > 2:
            group, version, parts = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, parts = parts[1], parts[2], parts[3:]
        else:
            return None
        served = self._served.groups.get((group, version))
        if served is None:
            raise errors.path_not_found()
        watched = parts[0] == "watch" and len(parts) > 1
        if watched:
            parts = parts[1:]
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in _NAMESPACE_PARTS:
            namespace, parts = parts[1], parts[2:]
        resource = served.get(parts[0])
        if resource is None or (namespace and not resource.namespaced):
            raise errors.path_not_found()
        name, sub = (*parts[1:3], "", "")[:2]
        if name and resource.namespaced and not namespace:
            raise errors.path_not_found()
        verb = _verb(request, resource, namespace, name, watched)
        if verb == "create" and name and not sub:
            raise errors.method_not_allowed(request.method)
        return Route(verb, resource, group, version, namespace, name, sub, "/".join(parts[3:]))


def _verb(request: Request, resource: Resource, namespace: str, name: str, watched: bool) -> str:
    verb = _VERBS.get(request.method, "")
    if not name:
        verb = _ON_COLLECTION.get(verb, "")
        if verb != "list" and resource.namespaced and not namespace:
            verb = ""
    if not verb:
        raise errors.method_not_allowed(request.method)
    streams = watched or (verb == "list" and request.param("watch") in TRUE)
    return "watch" if streams and verb in ("list", "get") else verb

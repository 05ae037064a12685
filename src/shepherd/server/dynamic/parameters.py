"""What policies look up: their parameters, and kinds in other versions."""

from collections.abc import Iterable

from shepherd.api.meta import key_prefix, object_key
from shepherd.api.resource import Object, Resource
from shepherd.api.selectors import selector_of
from shepherd.server.codec import with_revision
from shepherd.server.served import Served
from shepherd.server.versions import Versions
from shepherd.store.base import Item, Span, Store


class ParametersError(Exception):
    """The parameters of a binding cannot be found; the message says why."""


class Parameters:
    """Finds the objects that bindings name by paramRef."""

    def __init__(self, store: Store, served: Served, versions: Versions) -> None:
        self._store = store
        self._served = served
        self._versions = versions

    def siblings(self, resource: Resource) -> Iterable[Resource]:
        """The other versions of a custom resource. Built-in kinds have but the one stored."""
        custom = resource.custom
        definition = self._served.definition(custom.definition) if custom else None
        if definition is None:
            return ()
        return (one for one in definition.resources if one.version != resource.version)

    async def find(
        self, kind: Object | None, reference: Object | None, namespace: str
    ) -> list[Object | None]:
        """The parameters for an object in `namespace`: none, where the policy takes none.

        Raises ParametersError.
        """
        if kind is None or reference is None:
            return [None]
        resource = self._resource(kind)
        where = self._namespace(resource, reference, namespace)
        found = await self._objects(resource, reference, where)
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            raise ParametersError(
                "no params found for policy binding with `Deny` parameterNotFoundAction"
            )
        return list(found)

    def _resource(self, kind: Object) -> Resource:
        group, _, version = (kind.get("apiVersion") or "").rpartition("/")
        for resource in self._served.of(group, version):
            if resource.kind == kind.get("kind"):
                return resource
        shown = f"{kind.get('apiVersion')}, Kind={kind.get('kind')}"
        raise ParametersError(f"paramKind kind `{shown}` not known")

    def _namespace(self, resource: Resource, reference: Object, namespace: str) -> str:
        own = reference.get("namespace") or ""
        if not resource.namespaced:
            if own:
                raise ParametersError(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                )
            return ""
        if not own and not namespace:
            raise ParametersError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped "
                "resources"
            )
        return own or namespace

    async def _objects(self, resource: Resource, reference: Object, namespace: str) -> list[Object]:
        if name := reference.get("name"):
            item = await self._store.get(object_key(resource, namespace, name))
            return [await self._load(resource, item)] if item else []
        selector = selector_of(reference.get("selector") or {})
        page = await self._store.list(Span.prefix(key_prefix(resource, namespace)))
        found = [await self._load(resource, item) for item in page.items]
        return [obj for obj in found if selector.matches(obj["metadata"].get("labels") or {})]

    async def _load(self, resource: Resource, item: Item) -> Object:
        return with_revision(await self._versions.load(resource, item), item.revision)

"""`Served`: which resources the API serves now. The one owner of that set, which CRDs change.

Routes, discovery, OpenAPI and the hub read it; what is made from it and kept names the `generation`
it was made from.
"""

from collections.abc import Iterable

from shepherd.api.custom.definition import Definition, version_order
from shepherd.api.resource import Resource


class Served:
    """The built-in kinds, and those that established CustomResourceDefinitions define."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.builtin = tuple(resources)
        self.generation = 0
        """Counts the changes."""
        self._groups: dict[tuple[str, str], dict[str, Resource]] = {}
        self._by_storage = {resource.storage: resource for resource in self.builtin}
        self._definitions: dict[str, Definition] = {}
        for resource in self.builtin:
            for served in ((resource.group, resource.version), *resource.aliases):
                self._groups.setdefault(served, {})[resource.plural] = resource

    @property
    def groups(self) -> dict[tuple[str, str], dict[str, Resource]]:
        """By group and version, the resources by plural. Read only."""
        return self._groups

    def of(self, group: str, version: str) -> tuple[Resource, ...]:
        """What one group and version serves."""
        return tuple(self._groups.get((group, version), {}).values())

    def versions(self) -> dict[str, list[str]]:
        """The groups with their versions, preferred first."""
        found: dict[str, list[str]] = {}
        for group, version in self._groups:
            found.setdefault(group, []).append(version)
        for group, versions in found.items():
            if not any(r.group == group for r in self.builtin):
                versions.sort(key=version_order)
        return found

    def stored(self, storage: str) -> Resource | None:
        """What the objects under a storage name are of."""
        return self._by_storage.get(storage)

    def serves(self, resource: Resource) -> bool:
        """Whether it is served still, under the same schema."""
        if resource.custom is None:
            return True
        present = self._definitions.get(resource.custom.definition)
        return present is not None and any(
            known.custom is not None
            and (known.version, known.custom.since) == (resource.version, resource.custom.since)
            for known in (*present.resources, present.stored)
        )

    def definition(self, name: str) -> Definition | None:
        """What the CRD of that name serves now."""
        return self._definitions.get(name)

    def add(self, definition: Definition) -> None:
        """Serve what a CRD defines, in place of what it did before."""
        self.remove(definition.name)
        self._definitions[definition.name] = definition
        self._by_storage[definition.stored.storage] = definition.stored
        for resource in definition.resources:
            served = self._groups.setdefault((resource.group, resource.version), {})
            served[resource.plural] = resource

    def remove(self, name: str) -> None:
        """Serve no longer what the CRD of that name defines."""
        self.generation += 1
        definition = self._definitions.pop(name, None)
        if definition is None:
            return
        del self._by_storage[definition.stored.storage]
        for resource in definition.resources:
            served = self._groups[resource.group, resource.version]
            del served[resource.plural]
            if not served:
                del self._groups[resource.group, resource.version]

"""CustomResourceDefinition. Source: apiextensions-apiserver pkg/apis/apiextensions/v1 types.go."""

from msgspec import field

from shepherd.api.objects.meta import Condition, ObjectMeta, View
from shepherd.api.resource import Resource


class Names(View):
    plural: str = ""
    kind: str = ""


class Version(View):
    name: str = ""
    served: bool = False
    storage: bool = False


class CustomResourceDefinitionSpec(View):
    group: str = ""
    scope: str = ""
    versions: list[Version] = []


class CustomResourceDefinitionStatus(View):
    accepted_names: Names = field(default_factory=Names)
    conditions: list[Condition] = []


class CustomResourceDefinition(View):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: CustomResourceDefinitionSpec = field(default_factory=CustomResourceDefinitionSpec)
    status: CustomResourceDefinitionStatus = field(default_factory=CustomResourceDefinitionStatus)

    @property
    def resources(self) -> list[Resource]:
        """What it serves, the storage version first; nothing before it is established."""
        established = any(
            condition.type == "Established" and condition.status == "True"
            for condition in self.status.conditions
        )
        served = [version for version in self.spec.versions if version.served and established]
        return [
            Resource(
                self.spec.group,
                version.name,
                self.status.accepted_names.kind,
                self.status.accepted_names.plural,
                namespaced=self.spec.scope == "Namespaced",
            )
            for version in sorted(served, key=lambda version: not version.storage)
        ]

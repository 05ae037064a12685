"""RBAC. Source: kubernetes/api rbac/v1 types.go."""

from msgspec import field

from shepherd.api.objects.meta import LabelSelector, ObjectMeta, View


class PolicyRule(View):
    """What may be done: to resources of API groups, or to documents beside them."""

    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []
    """None: whatever the name."""
    non_resource_urls: list[str] = field(default_factory=list, name="nonResourceURLs")
    verbs: list[str] = []


class AggregationRule(View):
    cluster_role_selectors: list[LabelSelector] = []


class Role(View):
    """A Role or a ClusterRole."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    rules: list[PolicyRule] = []
    aggregation_rule: AggregationRule | None = None


class Subject(View):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleRef(View):
    kind: str = ""
    name: str = ""


class RoleBinding(View):
    """A RoleBinding or a ClusterRoleBinding."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    subjects: list[Subject] = []
    role_ref: RoleRef = field(default_factory=RoleRef)

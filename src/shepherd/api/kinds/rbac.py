"""Role, ClusterRole, RoleBinding, ClusterRoleBinding.

Source: kubernetes pkg/apis/rbac/validation, pkg/apis/rbac/v1/defaults.go.
"""

from collections.abc import Callable

from shepherd.api.errors import FieldError, invalid_value, not_supported, required
from shepherd.api.kinds.bounds import validates
from shepherd.api.kinds.cells import AGE, CREATED_AT, NAME, value_at
from shepherd.api.kinds.checks import Errors, label_selector
from shepherd.api.resource import Column, Object, Resource

_GROUP = "rbac.authorization.k8s.io"


def _default_role(role: Object) -> None:
    role.setdefault("rules", [])


def _validate_role(role: Object) -> Errors:
    namespaced = role.get("kind") == "Role"
    for index, rule in enumerate(role.get("rules") or ()):
        yield from _validate_rule(rule, f"rules[{index}]", namespaced=namespaced)
    for index, selector in enumerate(value_at(role, "aggregationRule.clusterRoleSelectors") or ()):
        yield from label_selector(f"aggregationRule.clusterRoleSelectors[{index}]", selector)


def _validate_rule(rule: Object, path: str, *, namespaced: bool) -> Errors:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    if rule.get("nonResourceURLs"):
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            yield invalid_value(f"{path}.nonResourceURLs", rule["nonResourceURLs"], detail)
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid_value(f"{path}.nonResourceURLs", rule["nonResourceURLs"], detail)
        return
    if not rule.get("apiGroups"):
        detail = "resource rules must supply at least one api group"
        yield required(f"{path}.apiGroups", detail)
    if not rule.get("resources"):
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def _default_binding(binding: Object) -> None:
    reference = binding.get("roleRef")
    if reference and not reference.get("apiGroup"):
        reference["apiGroup"] = _GROUP
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _GROUP


def _validate_binding(binding: Object) -> Errors:
    namespaced = binding.get("kind") == "RoleBinding"
    reference = binding.get("roleRef") or {}
    group, kind = reference.get("apiGroup"), reference.get("kind")
    if group and group != _GROUP:
        yield not_supported("roleRef.apiGroup", group, [_GROUP])
    kinds = ["Role", "ClusterRole"] if namespaced else ["ClusterRole"]
    if kind and kind not in kinds:
        yield not_supported("roleRef.kind", kind, kinds)
    for index, subject in enumerate(binding.get("subjects") or ()):
        yield from _validate_subject(subject, f"subjects[{index}]", namespaced=namespaced)


def _validate_subject(subject: Object, path: str, *, namespaced: bool) -> Errors:
    kind, group = subject.get("kind"), subject.get("apiGroup") or ""
    if kind == "ServiceAccount":
        if not namespaced and not subject.get("namespace"):
            yield required(f"{path}.namespace")
        if group:
            yield not_supported(f"{path}.apiGroup", group, [""])
    elif kind in ("User", "Group"):
        if group != _GROUP:
            yield not_supported(f"{path}.apiGroup", group, [_GROUP])
    elif kind:
        yield not_supported(f"{path}.kind", kind, ["ServiceAccount", "User", "Group"])


def _same_role(binding: Object, old: Object) -> list[FieldError]:
    if binding.get("roleRef") == old.get("roleRef"):
        return []
    return [invalid_value("roleRef", binding.get("roleRef"), "cannot change roleRef")]


def _role(binding: Object, now: float) -> str:
    reference = binding.get("roleRef") or {}
    return f"{reference.get('kind')}/{reference.get('name')}"


def _subjects(kind: str) -> Callable[[Object, float], str]:
    def cell(binding: Object, now: float) -> str:
        found = [s for s in binding.get("subjects") or () if s.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{s.get('namespace', '')}/{s.get('name', '')}" for s in found)
        return ", ".join(s.get("name", "") for s in found)

    return cell


_BINDING_COLUMNS = (
    Column("Role", _role, description="What it grants."),
    AGE,
    Column("Users", _subjects("User"), wide=True, description="To which users."),
    Column("Groups", _subjects("Group"), wide=True, description="To which groups."),
    Column("ServiceAccounts", _subjects("ServiceAccount"), wide=True, description="To which."),
)

ROLE = Resource(
    group=_GROUP,
    version="v1",
    kind="Role",
    plural="roles",
    name_rule="path",
    columns=(NAME, CREATED_AT),
    default=_default_role,
    validate=validates("rbac.v1.Role", _validate_role),
)

CLUSTER_ROLE = Resource(
    group=_GROUP,
    version="v1",
    kind="ClusterRole",
    plural="clusterroles",
    namespaced=False,
    name_rule="path",
    columns=(NAME, CREATED_AT),
    default=_default_role,
    validate=validates("rbac.v1.ClusterRole", _validate_role),
)

ROLE_BINDING = Resource(
    group=_GROUP,
    version="v1",
    kind="RoleBinding",
    plural="rolebindings",
    name_rule="path",
    columns=_BINDING_COLUMNS,
    default=_default_binding,
    validate=validates("rbac.v1.RoleBinding", _validate_binding),
    validate_update=_same_role,
)

CLUSTER_ROLE_BINDING = Resource(
    group=_GROUP,
    version="v1",
    kind="ClusterRoleBinding",
    plural="clusterrolebindings",
    namespaced=False,
    name_rule="path",
    columns=_BINDING_COLUMNS,
    default=_default_binding,
    validate=validates("rbac.v1.ClusterRoleBinding", _validate_binding),
    validate_update=_same_role,
)

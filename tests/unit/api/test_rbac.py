"""What rules allow, what they cover of others, and what they add up to."""

import pytest

from shepherd.api.objects import LabelSelector, ObjectMeta
from shepherd.api.objects.rbac import AggregationRule, PolicyRule, Role
from shepherd.api.rbac import EVERYTHING, aggregated, allows, allows_path, describe, missing


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> PolicyRule:
    return PolicyRule(
        verbs=verbs.split(),
        api_groups=[group],
        resources=resources.split(),
        resource_names=names.split(),
    )


def paths(urls: str, verbs: str = "get") -> PolicyRule:
    return PolicyRule(non_resource_urls=urls.split(), verbs=verbs.split())


PODS = rule("get list", "pods")
ALLOWED = [
    (PODS, "get", "", "pods", "web"),
    (PODS, "list", "", "pods", ""),
    (rule("*", "pods"), "anything", "", "pods", ""),
    (rule("get", "*"), "get", "", "pods", ""),
    (rule("get", "*"), "get", "", "pods/log", "web"),
    (rule("get", "pods", "*"), "get", "metrics.k8s.io", "pods", ""),
    (rule("get", "pods/log"), "get", "", "pods/log", "web"),
    (rule("update", "*/scale", "apps"), "update", "apps", "deployments/scale", "web"),
    (rule("get", "configmaps", names="a b"), "get", "", "configmaps", "b"),
    (rule("list", "configmaps", names="a"), "list", "", "configmaps", "a"),
    (rule("*", "*", "*"), "*", "*", "*", ""),
    (rule("use", "widgets", "example.com"), "use", "example.com", "widgets", "w"),
]
REFUSED = [
    (PODS, "watch", "", "pods", ""),
    (PODS, "get", "apps", "pods", ""),
    (PODS, "get", "", "secrets", ""),
    (PODS, "get", "", "pods/log", "web"),
    (PODS, "*", "", "pods", ""),
    (rule("get", "pods/log"), "get", "", "pods", "web"),
    (rule("update", "*/scale", "apps"), "update", "apps", "deployments", "web"),
    (rule("update", "*/scale", "apps"), "update", "apps", "deployments/status", "web"),
    (rule("update", "*/scale", "apps"), "update", "", "replicationcontrollers/scale", "web"),
    (rule("get", "configmaps", names="a"), "get", "", "configmaps", "b"),
    (rule("list", "configmaps", names="a"), "list", "", "configmaps", ""),
    (rule("create", "configmaps", names="a"), "create", "", "configmaps", ""),
    (rule("get", "pods*"), "get", "", "pods", ""),
    (paths("*", "*"), "get", "", "pods", ""),
]


@pytest.mark.parametrize(("held", "verb", "group", "resource", "name"), ALLOWED)
def test_allowed(held: PolicyRule, verb: str, group: str, resource: str, name: str) -> None:
    assert allows(held, verb, group, resource, name)


@pytest.mark.parametrize(("held", "verb", "group", "resource", "name"), REFUSED)
def test_refused(held: PolicyRule, verb: str, group: str, resource: str, name: str) -> None:
    assert not allows(held, verb, group, resource, name)


@pytest.mark.parametrize(
    ("held", "path", "expected"),
    [
        (paths("/version"), "/version", True),
        (paths("/version"), "/version/", False),
        (paths("/api/*"), "/api/v1", True),
        (paths("/api/*"), "/api", False),
        (paths("/healthz*"), "/healthz/ping", True),
        (paths("*"), "/anything", True),
        (paths("*", "post"), "/anything", False),
        (rule("*", "*", "*"), "/version", False),
    ],
)
def test_paths(held: PolicyRule, path: str, expected: bool) -> None:
    assert allows_path(held, "get", path) is expected


@pytest.mark.parametrize(
    ("held", "wanted", "lacking"),
    [
        ([PODS], [rule("get", "pods")], []),
        ([PODS], [rule("get", "pods", names="web")], []),
        ([rule("get", "pods", names="web")], [rule("get", "pods")], ["get pods"]),
        ([rule("get", "pods", names="a")], [rule("get", "pods", names="a b")], ["get pods b"]),
        # Two rules together cover what neither does alone.
        ([rule("get", "pods"), rule("list", "pods")], [PODS], []),
        ([PODS], [rule("get watch", "pods secrets")],
         ["get secrets", "watch pods", "watch secrets"]),
        ([rule("*", "*")], [rule("get", "pods/log")], []),
        ([rule("get", "*/log")], [rule("get", "pods/log")], []),
        ([PODS], [rule("*", "pods")], ["* pods"]),
        (EVERYTHING, [rule("*", "*", "*"), paths("*", "*")], []),
        ([paths("/api/*")], [paths("/api/v1 /apis")], ["get /apis"]),
        ([], [], []),
    ],
)  # fmt: skip
def test_missing(held: list[PolicyRule], wanted: list[PolicyRule], lacking: list[str]) -> None:
    parts = missing(held, wanted)
    shown = [
        " ".join([*p.verbs, *p.resources, *p.non_resource_urls, *p.resource_names]) for p in parts
    ]
    assert sorted(shown) == lacking


def test_parts_are_described_as_upstream_does() -> None:
    lacking = missing(
        [], [rule("get list", "secrets"), rule("get", "pods", names="a"), paths("/x")]
    )
    assert describe(lacking) == [
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}',
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
        '{NonResourceURLs:["/x"], Verbs:["get"]}',
    ]


def test_an_aggregated_role_has_each_rule_of_the_roles_it_selects_once() -> None:
    def role(name: str, label: str, *rules: PolicyRule) -> Role:
        return Role(metadata=ObjectMeta(name=name, labels={label: "true"}), rules=list(rules))

    selector = LabelSelector(match_labels={"to-view": "true"})
    view = role("view", "to-view", PODS)  # it selects itself, which counts for nothing
    view.aggregation_rule = AggregationRule(cluster_role_selectors=[selector])
    secrets, maps = rule("get", "secrets"), rule("get", "configmaps")
    others = [role("b", "to-view", maps, secrets), role("c", "to-edit", PODS), view]
    assert aggregated(view, [*others, role("a", "to-view", secrets)]) == [secrets, maps]

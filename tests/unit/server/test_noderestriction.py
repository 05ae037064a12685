"""What a node may say of itself."""

import pytest

from shepherd.api.errors import ApiError
from shepherd.api.kinds import LEASE, NODE
from shepherd.api.resource import Object, Resource
from shepherd.lib.http import User
from shepherd.server.noderestriction import forbidden_labels, node_restriction

N1 = User("system:node:n1", ("system:nodes",))
TAINTED: Object = {"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a"}]}}


def node(name: str = "n1", **labels: str) -> Object:
    named = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return {"metadata": {"name": name, "labels": named}}


def refusal(resource: Resource, obj: Object, old: Object | None = None, user: User = N1) -> str:
    try:
        node_restriction(resource, obj, old, user)
    except ApiError as error:
        return error.message.partition(" is forbidden: ")[2]
    return ""


def test_a_node_writes_itself_and_its_lease() -> None:
    assert not refusal(NODE, node())
    assert not refusal(LEASE, node())
    assert refusal(NODE, node("n2")) == 'node "n1" is not allowed to modify node "n2"'
    assert refusal(LEASE, node("n2")) == (
        "can only access node lease with the same name as the requesting node"
    )
    assert not refusal(NODE, node("n2"), user=User("admin", ("system:masters",)))


def test_taints_are_for_others_to_change() -> None:
    assert not refusal(NODE, TAINTED)
    assert not refusal(NODE, TAINTED, TAINTED)
    assert refusal(NODE, node(), TAINTED) == 'node "n1" is not allowed to modify taints'


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("disk", True),
        ("example.com/rack", True),
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("kubelet.kubernetes.io/x", True),
        ("mine.node.kubernetes.io/x", True),
        ("node-role.kubernetes.io/control-plane", False),
        ("kubernetes.io/other", False),
        ("x.k8s.io/y", False),
        ("node-restriction.kubernetes.io/secure", False),
        ("example.node-restriction.kubernetes.io/secure", False),
    ],
)
def test_labels(label: str, allowed: bool) -> None:
    expected = [] if allowed else [label]
    assert forbidden_labels({label: "a"}, {}) == expected
    assert forbidden_labels({}, {label: "a"}) == expected
    assert forbidden_labels({label: "b"}, {label: "a"}) == expected
    assert forbidden_labels({label: "a"}, {label: "a"}) == []


def test_which_labels_is_said() -> None:
    labelled = node(x_k8s_io__b="1", x_k8s_io__a="1", mine="1")
    assert refusal(NODE, labelled) == (
        'node "n1" is not allowed to set the following labels: x.k8s.io/a, x.k8s.io/b'
    )
    assert refusal(NODE, labelled, node()) == (
        "is not allowed to modify labels: x.k8s.io/a, x.k8s.io/b"
    )

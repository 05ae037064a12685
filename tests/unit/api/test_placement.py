"""Which nodes a pod may be on."""

from typing import Any

import pytest

from shepherd.api.objects import decode
from shepherd.api.objects.node import Taint
from shepherd.api.objects.pod import Affinity, Toleration
from shepherd.api.placement import named_nodes, required_affinity, untolerated


def by_name(*names: str, operator: str = "In") -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(names)}]}


def by_label(value: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]}


def affinity(*terms: dict[str, Any]) -> Affinity:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return decode({"nodeAffinity": required}, Affinity)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([by_name("a")], {"a"}),
        ([by_name("a", "b"), by_name("c")], {"a", "b", "c"}),
        ([by_name("a") | by_label("ssd")], {"a"}),
        ([by_name("a"), by_label("ssd")], None),
        ([by_name("a", operator="NotIn")], None),
        ([{"matchFields": [*by_name("a", "b")["matchFields"], *by_name("b")["matchFields"]]}],
         {"b"}),
    ],
)  # fmt: skip
def test_the_nodes_that_an_affinity_names(
    terms: list[dict[str, Any]], expected: set[str] | None
) -> None:
    assert named_nodes(affinity(*terms)) == expected
    assert named_nodes(None) is None


def test_selector_and_affinity_must_both_hold() -> None:
    demand = required_affinity({"disk": "ssd"}, affinity(by_name("a"), by_name("b")))
    assert demand is not None
    assert demand({"disk": "ssd"}, "a")
    assert not demand({"disk": "hdd"}, "a")
    assert not demand({"disk": "ssd"}, "c")
    assert required_affinity({}, None) is None


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "level", "value": "5"}, True),
        ({"key": "level", "value": "6"}, False),
        ({"key": "level", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "level", "operator": "Gt", "value": "4"}, True),
        ({"key": "level", "operator": "Lt", "value": "5"}, False),
        ({"key": "level", "operator": "Gt", "value": "high"}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], covered: bool) -> None:
    taint = Taint(key="level", value="5", effect="NoSchedule")
    found = untolerated([decode(toleration, Toleration)], [taint])
    assert found == (None if covered else taint)
    soft = Taint(key="level", value="5", effect="PreferNoSchedule")
    assert untolerated([], [soft]) is None

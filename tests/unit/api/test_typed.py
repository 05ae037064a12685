"""Objects under their schema: fields, comparing, merging, in the forms of a real cluster."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.api.errors import ApiError
from shepherd.api.fieldset import FieldSet, path_text, paths
from shepherd.api.schema import get_type
from shepherd.api.typed import FREE, compare, fields_of, merge, remove, root

DEPLOYMENT = root(get_type("apps.v1.Deployment"))
POD = root(get_type("core.v1.Pod"))
ACCOUNT = root(get_type("core.v1.ServiceAccount"))
CLAIM = root(get_type("resource.v1.ResourceClaim"))

WEB: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web"}, "finalizers": ["a/b"]},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"rollingUpdate": {"maxSurge": 1}},
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "args": ["a", "b"],
                        "ports": [{"containerPort": 80}],
                        "env": [{"name": "A", "value": "1"}],
                        "securityContext": {},
                    }
                ],
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "x"}],
            }
        },
    },
}

CONTAINER: dict[str, Any] = {
    ".": {},
    "f:name": {},
    "f:args": {},
    "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
    "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
    "f:securityContext": {},
}


def test_the_fields_of_an_applied_object() -> None:
    assert fields_of(WEB, DEPLOYMENT) == {
        "f:apiVersion": {},
        "f:kind": {},
        "f:metadata": {
            "f:name": {},
            "f:labels": {"f:app": {}},
            "f:finalizers": {'v:"a/b"': {}},
        },
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {"f:maxSurge": {}}},
            "f:template": {
                "f:spec": {
                    "f:containers": {'k:{"name":"web"}': CONTAINER},
                    "f:nodeSelector": {},
                    "f:tolerations": {},
                }
            },
        },
    }


def test_what_a_create_adds_includes_its_maps_and_pointers() -> None:
    added = compare({}, WEB, DEPLOYMENT).set
    assert added["f:metadata"]["f:labels"] == {".": {}, "f:app": {}}
    assert added["f:spec"].keys().isdisjoint({"."})
    assert added["f:spec"]["f:strategy"] == {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}}
    containers = added["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert "." not in containers
    assert containers['k:{"name":"web"}']["f:env"].keys() == {".", 'k:{"name":"A"}'}


def texts(fields: FieldSet) -> set[str]:
    return {path_text(path) for path in paths(fields)}


def test_comparing() -> None:
    new = deepcopy(WEB)
    new["spec"]["replicas"] = 5
    container = new["spec"]["template"]["spec"]["containers"][0]
    container["args"] = ["a"]
    container["ports"] = [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81}]
    del new["metadata"]["labels"]
    changes = compare(WEB, new, DEPLOYMENT)
    at = '.spec.template.spec.containers[name="web"]'
    assert texts(changes.removed) == {".metadata.labels", ".metadata.labels.app"}
    assert texts(changes.set) == {
        ".spec.replicas",
        f"{at}.args",
        f'{at}.ports[containerPort=80,protocol="TCP"].protocol',
        f'{at}.ports[containerPort=81,protocol="TCP"]',
        f'{at}.ports[containerPort=81,protocol="TCP"].containerPort',
    }


def test_custom_resources_compare_by_what_they_hold() -> None:
    old = {"spec": {"a": {"b": 1}, "list": [1], "x": 1}}
    new = {"spec": {"a": 2, "list": [2], "x": {"y": 1}}}
    changes = compare(old, new, FREE)
    assert texts(changes.set) == {".spec.a", ".spec.list", ".spec.x", ".spec.x.y"}
    assert texts(changes.removed) == {".spec.a", ".spec.a.b", ".spec.x"}


def _names(items: list[dict[str, str]]) -> str:
    return "".join(item["name"] for item in items)


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        ("ab", "c", "abc"), ("ab", "ca", "cab"), ("axb", "ba", "xba"), ("xa", "ca", "xca"),
        ("abc", "ac", "abc"), ("ab", "ab", "ab"), ("", "ab", "ab"), ("ab", "", "ab"),
        ("abcd", "db", "acdb"),
    ],
)  # fmt: skip
def test_lists_take_the_applied_order(live: str, config: str, merged: str) -> None:
    def spec(names: str) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": name} for name in names]}}

    assert _names(merge(spec(live), spec(config), POD)["spec"]["containers"]) == merged


def test_merging_and_removing() -> None:
    config = {
        "metadata": {"labels": {"b": "2"}, "finalizers": ["c"]},
        "spec": {"nodeSelector": {"x": "y"}},
    }
    live = {
        "metadata": {"labels": {"a": "1"}, "finalizers": ["d"]},
        "spec": {"nodeSelector": {"disk": "ssd"}, "nodeName": "n"},
    }
    before = deepcopy((live, config))
    merged = merge(live, config, POD)
    assert merged == {
        "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["d", "c"]},
        "spec": {"nodeSelector": {"x": "y"}, "nodeName": "n"},
    }
    gone: FieldSet = {
        "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {'v:"d"': {}}},
        "f:spec": {"f:nodeSelector": {}, "f:nodeName": {}},
    }
    left = remove(merged, POD, gone)
    assert left == {"metadata": {"labels": {"b": "2"}, "finalizers": ["c"]}}
    assert (live, config) == before


def test_items_without_keys_or_twice_are_refused() -> None:
    with pytest.raises(ApiError, match=r'omits all key fields \["name"\]'):
        fields_of({"secrets": [{}]}, ACCOUNT)
    with pytest.raises(ApiError, match="not an object"):
        fields_of({"spec": {"containers": ["a"]}}, POD)
    twice = {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}
    with pytest.raises(ApiError, match=r'.spec.containers: duplicate entries for key \[name="a"\]'):
        fields_of(twice, POD)


def test_keys_may_be_left_out() -> None:
    """They mean what the schema says; a key without a default, that the item has none."""
    ports = {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}}
    found = fields_of(ports, POD)
    (container,) = found["f:spec"]["f:containers"].values()
    assert container["f:ports"].keys() == {'k:{"containerPort":80,"protocol":"TCP"}'}
    unnamed = fields_of({"spec": {"containers": [{}]}}, POD)
    assert unnamed["f:spec"]["f:containers"].keys() == {'k:{"name":""}'}
    devices = {"status": {"devices": [{"driver": "d", "pool": "p", "device": "v"}]}}
    found = fields_of(devices, CLAIM)
    key = 'k:{"device":"v","driver":"d","pool":"p"}'
    assert found["f:status"]["f:devices"].keys() == {key}


def test_items_that_are_there_twice_stay() -> None:
    live = {"spec": {"containers": [{"name": "a"}, {"name": "a"}, {"name": "b"}]}}
    config = {"spec": {"containers": [{"name": "b", "image": "x"}]}}
    merged = merge(live, config, POD)
    assert merged["spec"]["containers"] == [
        {"name": "a"}, {"name": "a"}, {"name": "b", "image": "x"},
    ]  # fmt: skip


_OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "nodeName": st.sampled_from("ab"),
        "hostNetwork": st.booleans(),
        "nodeSelector": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
        "securityContext": st.fixed_dictionaries({}, optional={"runAsUser": st.integers(0, 2)}),
        "containers": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from("abc")},
                optional={"image": st.sampled_from("xy"), "tty": st.booleans()},
            ),
            unique_by=lambda item: item["name"],
            max_size=3,
        ),
    },
).map(lambda spec: {"spec": spec})


@given(_OBJECTS, _OBJECTS)
def test_merging_twice_is_merging_once(live: dict[str, Any], config: dict[str, Any]) -> None:
    merged = merge(live, config, POD)
    assert merge(merged, config, POD) == merged
    changes = compare(merged, merge(merged, config, POD), POD)
    assert not changes.set
    assert not changes.removed


@given(_OBJECTS, _OBJECTS)
def test_comparing_is_symmetric(a: dict[str, Any], b: dict[str, Any]) -> None:
    there, back = compare(a, b, POD), compare(b, a, POD)
    assert texts(back.removed) <= texts(there.set)
    assert texts(there.removed) <= texts(back.set)
    both = texts(there.set) - texts(back.removed)
    assert both == texts(back.set) - texts(there.removed)

"""Strategic merge patches, as kubectl sends them and as the documents describe them."""

from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.api.errors import ApiError
from shepherd.api.schema import get_type
from shepherd.api.strategic import strategic_merge

SPEC = get_type("core.v1.PodSpec")


def _names(spec: dict[str, Any], field: str = "containers") -> list[str]:
    return [item["name"] for item in spec[field]]


def merge(target: dict[str, Any], patch: Any, type: str = "core.v1.PodSpec") -> dict[str, Any]:
    before = deepcopy((target, patch))
    result = strategic_merge(target, patch, get_type(type))
    assert (target, patch) == before
    return result


TWO = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], "nodeName": "n"}


def test_containers_merge_by_name() -> None:
    result = merge(TWO, {"containers": [{"name": "b", "image": "2"}]})
    assert {c["name"]: c["image"] for c in result["containers"]} == {"a": "1", "b": "2"}
    assert result["nodeName"] == "n"


def test_kubectl_set_image() -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
        "containers": [{"name": "b", "image": "2"}],
    }
    assert merge(TWO, patch)["containers"] == [
        {"name": "a", "image": "1"},
        {"name": "b", "image": "2"},
    ]


def test_new_items_go_where_the_order_says() -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
        "containers": [{"name": "c", "image": None}],
    }
    result = merge(TWO, patch)
    assert _names(result) == ["c", "b", "a"]
    assert result["containers"][0] == {"name": "c"}


def test_items_the_order_does_not_know_keep_their_place() -> None:
    three = {"containers": [{"name": n} for n in ("a", "sidecar", "b")]}
    patch = {"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}]}
    assert _names(merge(three, patch)) == ["a", "sidecar", "b"]
    patch = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}
    assert _names(merge(three, patch)) == ["sidecar", "b", "a"]


def test_without_an_order_the_patch_comes_first_as_upstream() -> None:
    assert _names(merge(TWO, {"containers": [{"name": "c"}]})) == ["c", "a", "b"]


def test_deleting_from_lists() -> None:
    assert _names(merge(TWO, {"containers": [{"name": "a", "$patch": "delete"}]})) == ["b"]
    gone = merge(TWO, {"containers": [{"name": "x", "$patch": "delete"}]})
    assert _names(gone) == ["a", "b"]


def test_replacing_lists_and_maps() -> None:
    result = merge(TWO, {"containers": [{"$patch": "replace"}, {"name": "z", "image": None}]})
    assert result["containers"] == [{"name": "z"}]
    old = {"securityContext": {"runAsUser": 1, "fsGroup": 2}}
    patch = {"securityContext": {"$patch": "replace", "fsGroup": 3}}
    assert merge(old, patch) == {"securityContext": {"fsGroup": 3}}
    assert merge(old, {"securityContext": {"$patch": "delete"}}) == {"securityContext": {}}
    assert merge({}, {"securityContext": {"$patch": "delete"}}) == {}
    assert merge({}, patch) == {"securityContext": {"fsGroup": 3}}
    assert merge(old, {"securityContext": {"$patch": "merge", "fsGroup": 3}}) == {
        "securityContext": {"runAsUser": 1, "fsGroup": 3}
    }


def test_atomic_lists_are_replaced() -> None:
    old = {"tolerations": [{"key": "a"}, {"key": "b"}]}
    assert merge(old, {"tolerations": [{"key": "c"}]}) == {"tolerations": [{"key": "c"}]}


def test_lists_of_texts() -> None:
    meta = {"finalizers": ["a", "b", "c"]}

    def merged(patch: dict[str, Any]) -> list[str]:
        found: list[str] = merge(meta, patch, "meta.v1.ObjectMeta")["finalizers"]
        return found

    assert sorted(merged({"finalizers": ["b", "d"]})) == ["a", "b", "c", "d"]
    assert merged({"$deleteFromPrimitiveList/finalizers": ["a", "x"]}) == ["b", "c"]
    both = {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["d"]}
    assert sorted(merged(both)) == ["b", "c", "d"]
    assert merged({"$setElementOrder/finalizers": ["c", "b", "a"]}) == ["c", "b", "a"]
    nothing = merge({}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, "meta.v1.ObjectMeta")
    assert nothing == {}


def test_retain_keys() -> None:
    old = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    patch = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    result = merge(old, patch, "apps.v1.DeploymentSpec")
    assert result == {"strategy": {"type": "Recreate"}}
    bad = {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}
    with pytest.raises(ApiError, match="retainKeys"):
        merge(old, bad, "apps.v1.DeploymentSpec")


def test_maps_of_texts_and_nulls() -> None:
    meta = {"labels": {"a": "1", "b": "2"}, "annotations": {"x": "y"}}
    result = merge(meta, {"labels": {"a": None, "c": "3"}}, "meta.v1.ObjectMeta")
    assert result == {"labels": {"b": "2", "c": "3"}, "annotations": {"x": "y"}}
    assert merge({}, {"labels": {"a": None, "b": "1"}}, "meta.v1.ObjectMeta") == {
        "labels": {"b": "1"}
    }


def test_directives_are_never_stored() -> None:
    patch = {
        "containers": [
            {
                "name": "new",
                "$setElementOrder/env": [{"name": "A"}],
                "env": [{"name": "A"}, {"name": "B", "$patch": "delete"}],
                "resources": {"$retainKeys": ["limits"], "limits": {"cpu": "1"}},
            }
        ],
        "$retainKeys": ["containers"],
    }
    assert merge({}, patch) == {
        "containers": [
            {"name": "new", "env": [{"name": "A"}], "resources": {"limits": {"cpu": "1"}}}
        ]
    }


def test_merging_below_merged_items() -> None:
    old = {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}], "args": ["1", "2"]}]}
    patch = {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}], "args": ["3"]}]}
    (container,) = merge(old, patch)["containers"]
    assert {item["name"] for item in container["env"]} == {"X", "Y"}
    assert container["args"] == ["3"]


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ([], 400),
        ({"$patch": "mix"}, 422),
        ({"containers": [{"image": "x"}]}, 422),
        ({"containers": ["a"]}, 422),
        ({"containers": [{"name": {"a": 1}}]}, 422),
        ({"containers": [{"name": "a", "$patch": "mix"}]}, 422),
        ({"containers": [{"$patch": "delete"}]}, 422),
        ({"$setElementOrder/containers": "a"}, 400),
        ({"$setElementOrder/containers": "a", "containers": [{"name": "a"}]}, 400),
        ({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}, 422),
        ({"$setElementOrder/containers": [{}]}, 422),
        ({"$deleteFromPrimitiveList/containers": "a"}, 400),
        ({"$deleteFromPrimitiveList/containers": ["a"]}, 422),
        ({"$retainKeys": "a"}, 400),
    ],
)
def test_patches_that_do_not_fit(patch: Any, code: int) -> None:
    with pytest.raises(ApiError) as caught:
        merge(TWO, patch)
    assert caught.value.code == code


_VALUES = st.recursive(
    st.none() | st.sampled_from(["a", "b", 1, True]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["name", "containers", "env", "value", "volumes", "$patch", "$retainKeys",
             "$setElementOrder/containers", "$deleteFromPrimitiveList/env"]
        ), inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(_VALUES, _VALUES)
def test_any_patch_is_applied_or_refused(target: Any, patch: Any) -> None:
    with suppress(ApiError):
        strategic_merge(target if isinstance(target, dict) else {}, patch, SPEC)

"""The patch that `apply` sends."""

import json
from typing import Any

from shepherd.api.kinds import DEPLOYMENT, SERVICE
from shepherd.cli.threeway import LAST_APPLIED, apply_patch, last_applied, with_last_applied


def spec(patch: dict[str, Any]) -> Any:
    return patch["spec"]


def test_what_the_last_manifest_had_and_this_one_has_not_is_removed() -> None:
    before = {"spec": {"replicas": 2, "paused": True}}
    assert apply_patch(DEPLOYMENT, before, {"spec": {"replicas": 3}}) == {
        "spec": {"replicas": 3, "paused": None}
    }


def test_items_of_merged_lists_are_removed_by_their_key_and_kept_in_order() -> None:
    def ports(*numbers: int) -> dict[str, Any]:
        return {"spec": {"ports": [{"port": number} for number in numbers]}}

    assert spec(apply_patch(SERVICE, ports(80, 81), ports(82, 80))) == {
        "ports": [{"port": 82}, {"port": 80}, {"port": 81, "$patch": "delete"}],
        "$setElementOrder/ports": [{"port": 82}, {"port": 80}],
    }


def test_items_that_their_key_cannot_tell_apart_are_replaced_as_a_whole() -> None:
    ports = [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]
    patch = apply_patch(SERVICE, {}, {"spec": {"ports": ports}})
    assert spec(patch) == {"ports": [{"$patch": "replace"}, *ports]}


def test_fields_inside_items_are_removed_too() -> None:
    def pod(**container: Any) -> dict[str, Any]:
        containers = [{"name": "a", "image": "a:1"} | container]
        return {"spec": {"template": {"spec": {"containers": containers}}}}

    patch = apply_patch(DEPLOYMENT, pod(command=["x"]), pod())
    assert spec(patch)["template"]["spec"]["containers"] == [
        {"name": "a", "image": "a:1", "command": None}
    ]


def test_a_union_keeps_only_what_the_manifest_says() -> None:
    patch = apply_patch(DEPLOYMENT, {}, {"spec": {"strategy": {"type": "Recreate"}}})
    assert spec(patch)["strategy"] == {"type": "Recreate", "$retainKeys": ["type"]}


def test_values_of_plain_lists_are_removed_by_value() -> None:
    before = {"metadata": {"finalizers": ["a/b", "c/d"]}}
    patch = apply_patch(DEPLOYMENT, before, {"metadata": {"finalizers": ["a/b"]}})
    assert patch["metadata"] == {
        "finalizers": ["a/b"],
        "$deleteFromPrimitiveList/finalizers": ["c/d"],
    }


def test_the_annotation_holds_the_manifest_and_not_itself() -> None:
    manifest = {"kind": "Service", "metadata": {"name": "s"}, "spec": {}}
    once = with_last_applied(manifest)
    twice = with_last_applied(once)
    assert once == twice
    text = once["metadata"]["annotations"][LAST_APPLIED]
    assert json.loads(text)["metadata"] == {"name": "s", "annotations": {}}
    assert last_applied(once)["kind"] == "Service"
    assert last_applied({"metadata": {"annotations": {LAST_APPLIED: "{"}}}) == {}

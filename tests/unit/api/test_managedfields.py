"""Server-side apply: ownership, conflicts, force, and what goes when it is no longer named."""

from typing import Any

import pytest

from shepherd.api.errors import ApiError
from shepherd.api.managedfields import MAX_UPDATERS, Writer, apply, update
from shepherd.api.resource import Object
from shepherd.api.schema import get_type

TYPE = get_type("apps.v1.Deployment")


def applier(name: str = "kubectl", time: str = "2026-01-01T00:00:00Z") -> Writer:
    return Writer(name, "Apply", "apps/v1", time=time)


def updater(name: str, time: str = "2026-01-01T00:00:00Z", subresource: str = "") -> Writer:
    return Writer(name, "Update", "apps/v1", subresource, time)


def deployment(spec: Object | None = None, **metadata: Any) -> Object:
    obj: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"} | metadata,
    }
    return obj | ({"spec": spec} if spec else {})


def managers(obj: Object) -> dict[str, Any]:
    return {
        f"{entry['manager']}/{entry['operation']}": entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", [])
    }


def test_a_first_apply_owns_what_it_names() -> None:
    obj = apply(None, deployment({"replicas": 3}, labels={"a": "b"}), TYPE, applier())
    assert obj["spec"] == {"replicas": 3}
    assert obj["metadata"]["managedFields"] == [
        {
            "manager": "kubectl",
            "operation": "Apply",
            "apiVersion": "apps/v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:replicas": {}}},
        }
    ]


def test_applying_the_same_again_changes_nothing() -> None:
    config = deployment({"replicas": 3})
    live = apply(None, config, TYPE, applier())
    assert apply(live, config, TYPE, applier(time="2027-01-01T00:00:00Z")) is live


def test_fields_no_longer_named_go() -> None:
    live = apply(None, deployment({"replicas": 3, "paused": True}), TYPE, applier())
    live = apply(live, deployment({"replicas": 3}), TYPE, applier())
    assert live["spec"] == {"replicas": 3}
    labelled = deployment({"replicas": 3}, labels={"a": "b"})
    live = apply(live, labelled, TYPE, applier())
    live = apply(live, deployment({"replicas": 3}), TYPE, applier())
    assert "labels" not in live["metadata"]


def test_fields_that_another_owns_too_stay() -> None:
    live = apply(None, deployment({"replicas": 3, "paused": True}), TYPE, applier())
    live = apply(live, deployment({"paused": True}), TYPE, applier("other"))
    live = apply(live, deployment({"replicas": 3}), TYPE, applier())
    assert live["spec"] == {"replicas": 3, "paused": True}


def test_items_no_longer_named_go_with_their_defaults() -> None:
    def config(*names: str) -> Object:
        containers = [{"name": name} for name in names]
        return deployment({"template": {"spec": {"containers": containers}}})

    live = apply(None, config("a", "b"), TYPE, applier())
    for container in live["spec"]["template"]["spec"]["containers"]:
        container["imagePullPolicy"] = "Always"  # as defaulting would
    live = apply(live, config("b"), TYPE, applier())
    (left,) = live["spec"]["template"]["spec"]["containers"]
    assert left == {"name": "b", "imagePullPolicy": "Always"}


def test_a_conflict_names_manager_and_field() -> None:
    live = update(None, deployment({"replicas": 3}), TYPE, updater("kubectl-create"))
    with pytest.raises(ApiError) as caught:
        apply(live, deployment({"replicas": 5}), TYPE, applier())
    assert caught.value.code == 409
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-create" using apps/v1: .spec.replicas'
    )
    assert caught.value.details["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "kubectl-create" using apps/v1',
            "field": ".spec.replicas",
        }
    ]


def test_several_conflicts_are_grouped_by_manager() -> None:
    live = apply(None, deployment({"replicas": 3, "paused": True}), TYPE, applier("a"))
    live = apply(live, deployment({"replicas": 3}), TYPE, applier("b"))
    with pytest.raises(ApiError) as caught:
        apply(live, deployment({"replicas": 1, "paused": False}), TYPE, applier())
    assert caught.value.message == (
        'Apply failed with 3 conflicts: conflicts with "a":\n- .spec.paused\n- .spec.replicas\n'
        'conflicts with "b":\n- .spec.replicas'
    )


def test_force_takes_the_fields() -> None:
    live = update(None, deployment({"replicas": 3, "paused": True}), TYPE, updater("create"))
    live = apply(live, deployment({"replicas": 5}), TYPE, applier(), force=True)
    assert live["spec"] == {"replicas": 5, "paused": True}
    assert managers(live) == {
        "kubectl/Apply": {"f:spec": {"f:replicas": {}}},
        "create/Update": {"f:spec": {"f:paused": {}}},
    }


def test_agreeing_is_sharing() -> None:
    live = update(None, deployment({"replicas": 3}), TYPE, updater("create"))
    live = apply(live, deployment({"replicas": 3}), TYPE, applier())
    assert managers(live).keys() == {"kubectl/Apply", "create/Update"}


def test_updates_take_what_they_change() -> None:
    live = apply(None, deployment({"replicas": 3, "paused": True}), TYPE, applier())
    new = {**live, "spec": {"replicas": 4, "paused": True}}
    live = update(live, new, TYPE, updater("hpa", "2026-02-01T00:00:00Z"))
    assert managers(live) == {
        "kubectl/Apply": {"f:spec": {"f:paused": {}}},
        "hpa/Update": {"f:spec": {"f:replicas": {}}},
    }
    again = update(live, live, TYPE, updater("hpa", "2026-03-01T00:00:00Z"))
    assert again == live
    gone = update(live, {**live, "spec": {"replicas": 4}}, TYPE, updater("hpa"))
    assert managers(gone).keys() == {"hpa/Update"}


def test_status_is_tracked_apart() -> None:
    live = apply(None, deployment({"replicas": 3}), TYPE, applier())
    new = live | {"status": {"replicas": 3}}
    writer = updater("controller", subresource="status")
    live = update(live, new, TYPE, writer)
    (entry,) = [e for e in live["metadata"]["managedFields"] if e["manager"] == "controller"]
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {"f:status": {"f:replicas": {}}}


def test_an_object_from_before_server_side_apply() -> None:
    with pytest.raises(ApiError, match='conflict with "before-first-apply" using apps/v1'):
        apply(deployment({"replicas": 3}), deployment({"replicas": 5}), TYPE, applier())
    live = apply(deployment({"replicas": 3}), deployment({"paused": True}), TYPE, applier())
    assert managers(live).keys() == {"kubectl/Apply", "before-first-apply/Update"}


def test_clients_may_rewrite_or_forget_managed_fields() -> None:
    live = update(None, deployment({"replicas": 3}), TYPE, updater("kubectl-client-side-apply"))
    entry = live["metadata"]["managedFields"][0] | {"manager": "kubectl", "operation": "Apply"}
    moved = live | {"metadata": live["metadata"] | {"managedFields": [entry]}}
    assert managers(update(live, moved, TYPE, updater("x"))).keys() == {"kubectl/Apply"}
    forgotten = live | {"metadata": live["metadata"] | {"managedFields": [{}]}}
    assert managers(update(live, forgotten, TYPE, updater("x"))) == {}
    broken = live | {"metadata": live["metadata"] | {"managedFields": [{"manager": "m"}]}}
    kept = update(live, broken, TYPE, updater("x"))
    assert managers(kept).keys() == {"kubectl-client-side-apply/Update"}


def test_the_oldest_of_many_writers_become_one() -> None:
    live = update(None, deployment({"replicas": 1}), TYPE, updater("w0", "2026-01-01T00:00:00Z"))
    for i in range(1, 15):
        annotations = live["metadata"].get("annotations", {}) | {f"a{i}": "x"}
        new = live | {"metadata": live["metadata"] | {"annotations": annotations}}
        live = update(live, new, TYPE, updater(f"w{i}", f"2026-01-{i + 1:02}T00:00:00Z"))
    found = managers(live)
    assert len(found) == MAX_UPDATERS
    assert "ancient-changes/Update" in found
    assert "w14/Update" in found
    assert found["ancient-changes/Update"]["f:spec"] == {"f:replicas": {}}


def test_custom_resources() -> None:
    config = {"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"a": {"b": 1}, "l": [1]}}
    live = apply(None, config, None, Writer("kubectl", "Apply", "example.com/v1"))
    assert managers(live)["kubectl/Apply"]["f:spec"] == {
        ".": {},
        "f:a": {".": {}, "f:b": {}},
        "f:l": {},
    }
    smaller = config | {"spec": {"l": [2]}}
    live = apply(live, smaller, None, Writer("kubectl", "Apply", "example.com/v1"))
    assert live["spec"] == {"l": [2]}


def test_applying_only_what_nobody_tracks() -> None:
    live = apply(None, deployment(managedFields=[]), TYPE, applier())
    assert managers(live) == {}
    assert apply(live, deployment(), TYPE, applier()) is live

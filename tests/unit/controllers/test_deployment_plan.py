"""How large each ReplicaSet of a Deployment may be: the numbers of a rollout."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.api.objects import Deployment, ReplicaSet, decode
from shepherd.controllers import deployment_plan
from shepherd.controllers.templates import name_hash


def deployment(replicas: int, surge: int | str = "25%", unavailable: int | str = "25%",
               image: str = "new", **annotations: str) -> Deployment:  # fmt: skip
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(image),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
    }
    meta = {"name": "web", "annotations": annotations}
    return decode({"metadata": meta, "spec": spec}, Deployment)


def template(image: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"image": image}]}}


def replica_set(name: str, replicas: int, available: int | None = None, *, born: int = 0,
                image: str = "", **annotations: str) -> ReplicaSet:  # fmt: skip
    names = {key.replace("_", "-"): value for key, value in annotations.items()}
    body = {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": f"2026-01-01T00:00:{born:02}Z",
            "annotations": {f"deployment.kubernetes.io/{k}": v for k, v in names.items()},
        },
        "spec": {"replicas": replicas, "template": template(image or name)},
        "status": {"availableReplicas": replicas if available is None else available},
    }
    return decode(body, ReplicaSet)


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (4, 0, "10%", (0, 1)),
        (3, 0, 0, (0, 1)),
        (3, "100%", 5, (3, 3)),
        (0, "25%", "25%", (0, 0)),
    ],
)
def test_surge_rounds_up_and_unavailable_rounds_down_but_never_both_to_nothing(
    replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]
) -> None:
    assert deployment_plan.bounds(deployment(replicas, surge, unavailable)) == expected


def test_the_new_replica_set_is_found_by_its_template_not_by_its_hash() -> None:
    labelled = replica_set("web-abc", 1, image="new")
    labelled.spec.template["metadata"]["labels"]["pod-template-hash"] = "abc"
    other = replica_set("web-def", 1, image="old")
    assert deployment_plan.new_set(deployment(1), [other, labelled]) is labelled
    assert deployment_plan.new_set(deployment(1, image="third"), [other, labelled]) is None


def test_the_hash_names_a_template_and_a_collision_changes_it() -> None:
    one = name_hash(template("a"), 0)
    assert name_hash({**template("a")}, 0) == one
    others = {name_hash(template("b"), 0), name_hash(template("a"), 1)}
    assert one not in others
    assert len(one) == 10


def test_broken_old_pods_go_first_and_do_not_block_the_rollout() -> None:
    new = replica_set("new", 1, 1)
    broken = replica_set("broken", 2, 0, born=1)
    good = replica_set("good", 3, 3, born=2)
    sizes = deployment_plan.old_sizes(deployment(4, 1, 1), new, [new, broken, good])
    assert sizes == {"broken": 0, "good": 2}


def test_nothing_is_taken_while_the_new_pods_are_not_available() -> None:
    new, old = replica_set("new", 1, 0), replica_set("old", 3, 3)
    assert deployment_plan.old_sizes(deployment(3, 1, 0), new, [new, old]) == {}


@st.composite
def rollouts(draw: st.DrawFn) -> tuple[Deployment, list[ReplicaSet]]:
    wanted = draw(st.integers(1, 20))
    surge, unavailable = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    old = draw(st.lists(st.integers(0, 8), min_size=1, max_size=3))
    sets = [replica_set(f"old{i}", n, draw(st.integers(0, n)), born=i) for i, n in enumerate(old)]
    return deployment(wanted, surge, unavailable), [replica_set("new", 0), *sets]


@settings(max_examples=40, deadline=None)
@given(rollouts(), st.randoms(use_true_random=False))
def test_a_rollout_keeps_its_bounds_and_ends(
    case: tuple[Deployment, list[ReplicaSet]], chance: Any
) -> None:
    web, sets = case
    surge, unavailable = deployment_plan.bounds(web)
    new = sets[0]
    limit = max(web.spec.replicas + surge, sum(s.spec.replicas for s in sets))
    for _ in range(120):
        for item in sets:  # The ReplicaSets obey; new pods become available when they like.
            ready = item.status.available_replicas
            if item is new and chance.random() < 0.7:
                ready += 1
            item.status.available_replicas = min(item.spec.replicas, ready)
        before = sum(s.status.available_replicas for s in sets)
        size = deployment_plan.new_size(web, new, sets)
        if size != new.spec.replicas:
            new.spec.replicas = size
        else:
            for name, shrunk in deployment_plan.old_sizes(web, new, sets).items():
                item = next(s for s in sets if s.metadata.name == name)
                assert shrunk < item.spec.replicas
                item.spec.replicas = shrunk
        assert sum(s.spec.replicas for s in sets) <= limit
        after = sum(min(s.spec.replicas, s.status.available_replicas) for s in sets)
        assert after >= min(before, web.spec.replicas - unavailable)
    assert [s.spec.replicas for s in sets] == [web.spec.replicas] + [0] * (len(sets) - 1)


def test_scaling_in_the_midst_of_a_rollout_keeps_the_mix() -> None:
    sets = [
        replica_set("new", 5, max_replicas="13", desired_replicas="10"),
        replica_set("old", 8, max_replicas="13", desired_replicas="10"),
    ]
    web = deployment(20, 3, 2)
    assert deployment_plan.scaled(web, sets)
    sizes = deployment_plan.proportional_sizes(web, sets[0], sets)
    assert sizes == {"new": 9, "old": 14}
    assert not deployment_plan.scaled(deployment(10, 3, 2), sets)


@given(st.integers(0, 30), st.lists(st.integers(1, 10), min_size=2, max_size=4))
def test_proportional_scaling_meets_the_size_that_is_allowed(wanted: int, sizes: list[int]) -> None:
    web = deployment(wanted, 2, 1)
    total = str(sum(sizes))
    sets = [replica_set(f"s{i}", n, 0, born=i, max_replicas=total) for i, n in enumerate(sizes)]
    changed = deployment_plan.proportional_sizes(web, sets[-1], sets)
    result = [changed.get(s.metadata.name, s.spec.replicas) for s in sets]
    assert min(result) >= 0
    assert sum(result) == (wanted + 2 if wanted else 0)


def test_a_saturated_new_set_ends_the_old_ones() -> None:
    new = replica_set("new", 3, 3, desired_replicas="3")
    old = replica_set("old", 2)
    assert deployment_plan.proportional_sizes(deployment(3), new, [new, old]) == {"old": 0}


def test_a_rollback_gets_a_new_revision_and_remembers_the_former() -> None:
    new = replica_set("new", 0, revision="1")
    old = replica_set("old", 3, revision="2")
    note = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "a"}
    found = deployment_plan.new_annotations(deployment(3, **note), new, [old])
    assert found == {
        "team": "a",
        deployment_plan.REVISION: "3",
        deployment_plan.REVISION_HISTORY: "1",
    }
    assert deployment_plan.new_annotations(deployment(3), old, [new]) == {}


def test_only_empty_and_settled_sets_leave_the_history_oldest_first() -> None:
    web = deployment(1)
    web.spec.revision_history_limit = 1
    old = [replica_set(f"r{n}", int(n == 1), revision=str(n)) for n in (3, 1, 2)]
    assert [s.metadata.name for s in deployment_plan.surplus_history(web, old)] == ["r2"]

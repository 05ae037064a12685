"""Which pod of a StatefulSet is next, who it is, and with whom its claims go."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.api.objects import ObjectMeta, Pod, StatefulSet, decode
from shepherd.controllers.statefulset_identity import (
    new_claims,
    new_pod,
    ordinal_of,
    retention_patch,
    stale,
)
from shepherd.controllers.statefulset_plan import Plan, Scene, plan, status_of

NOW = 1_767_225_600.0
"""2026-01-01T00:00:00Z"""
START = "2025-12-31T22:00:00Z"
LATER = "2025-12-31T23:00:00Z"


def stateful_set(replicas: int = 3, **spec: Any) -> StatefulSet:
    body = {
        "metadata": {"name": "web", "namespace": "default", "uid": "set", "generation": 4},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
        }
        | spec,
    }
    return decode(body, StatefulSet)


def pod(ordinal: int, revision: str = "new", ready: bool | None = True, *, since: str = LATER,
        phase: str = "Running", leaving: bool = False) -> Pod:  # fmt: skip
    """`ready` None: nothing has been said of it yet."""
    meta: dict[str, Any] = {
        "name": f"web-{ordinal}",
        "uid": f"pod-{ordinal}",
        "labels": {"controller-revision-hash": revision},
        "creationTimestamp": START,
    }
    if leaving:
        meta["deletionTimestamp"] = LATER
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
    status = {
        "phase": phase,
        "startTime": START,
        "conditions": [] if ready is None else [condition],
    }
    return decode({"metadata": meta, "status": status}, Pod)


def scene(pods: list[Pod], replicas: int = 3, **spec: Any) -> Scene:
    return Scene(stateful_set(replicas, **spec), pods, "old", "new", NOW)


def names(found: Plan) -> tuple[list[int], list[str]]:
    """What is made and what is removed."""
    return found.create, [p.metadata.name for p in found.delete]


NEVER = pod(1, "old", ready=False, since=START)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], ([0], [])),
        ([pod(0)], ([1], [])),
        ([pod(0, ready=None, phase="Pending")], ([], [])),
        ([pod(0, ready=False)], ([], [])),
        ([pod(0, leaving=True)], ([], [])),
        ([pod(1), pod(2)], ([0], [])),
        ([pod(n) for n in range(3)], ([], [])),
        ([pod(n) for n in range(5)], ([], ["web-4"])),
        ([*(pod(n) for n in range(4)), pod(4, leaving=True)], ([], [])),
        ([pod(0), pod(1, ready=False), pod(2), pod(3)], ([], [])),
        ([*(pod(n) for n in range(4)), pod(4, ready=False)], ([], ["web-4"])),
        ([*(pod(n) for n in range(3)), pod(3, ready=False), pod(4, ready=False)], ([], [])),
        ([*(pod(n) for n in range(3)), *(pod(n, phase="Failed") for n in (3, 4))],
         ([], ["web-4"])),
        ([pod(0, "old"), pod(1, "old"), pod(2, "old")], ([], ["web-2"])),
        ([pod(0, "old"), pod(1, "old"), pod(2)], ([], ["web-1"])),
        ([pod(0, "old"), pod(1, "old"), pod(2, ready=False)], ([], [])),
        ([pod(0, "old"), NEVER, pod(2)], ([], ["web-1"])),
        ([pod(0, "old"), pod(1, "old", ready=False), pod(2)], ([], [])),
        ([pod(0, "old", ready=None, phase="Pending")], ([], ["web-0"])),
    ],
    ids=["none", "one", "pending", "unready", "leaving", "hole", "all", "too many", "going",
         "no scaling down beside trouble", "the troubled one goes", "order among troubled ones",
         "ended ones",
         "update", "next update", "waits for the updated", "never ready", "was ready once",
         "unborn"],
)  # fmt: skip
def test_in_order(pods: list[Pod], expected: tuple[list[int], list[str]]) -> None:
    assert names(plan(scene(pods))) == expected


@pytest.mark.parametrize(
    ("pods", "spec", "expected"),
    [
        ([], {}, ([0, 1, 2], [])),
        ([pod(1)], {}, ([0, 2], [])),
        ([pod(n) for n in range(5)], {}, ([], ["web-4", "web-3"])),
        ([pod(n, "old") for n in range(3)], {}, ([], ["web-2"])),
        ([pod(0, "old", ready=False), pod(1, "old"), pod(2, "old")], {}, ([], ["web-0"])),
        ([pod(0, "old"), pod(1, "old"), pod(2, ready=False)], {}, ([], [])),
        (
            [pod(n, "old") for n in range(3)],
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}},
            ([], ["web-2", "web-1"]),
        ),
        (
            [pod(n, "old") for n in range(3)],
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "50%"}}},
            ([], ["web-2"]),
        ),
    ],
    ids=["none", "holes", "too many", "update", "the unavailable first", "budget used", "two",
         "half, rounded down"],
)  # fmt: skip
def test_all_at_once(
    pods: list[Pod], spec: dict[str, Any], expected: tuple[list[int], list[str]]
) -> None:
    assert names(plan(scene(pods, podManagementPolicy="Parallel", **spec))) == expected


def test_on_delete_and_partition_hold_back() -> None:
    old = [pod(n, "old") for n in range(3)]
    on_delete = scene(old, updateStrategy={"type": "OnDelete"})
    assert names(plan(on_delete)) == ([], [])
    assert on_delete.target(0) == "new"
    partition = {"rollingUpdate": {"partition": 2}}
    assert names(plan(scene(old, updateStrategy=partition))) == ([], ["web-2"])
    held = scene([*old[:2], pod(2)], updateStrategy=partition)
    assert names(plan(held)) == ([], [])
    assert [held.target(n) for n in range(3)] == ["old", "old", "new"]


def test_numbers_may_begin_anywhere() -> None:
    found = scene([pod(0), pod(7)], 2, ordinals={"start": 7})
    assert names(plan(found)) == ([8], [])
    all_there = scene([pod(0), pod(7), pod(8)], 2, ordinals={"start": 7})
    assert names(plan(all_there)) == ([], ["web-0"])


def test_a_pod_that_has_ended_gives_way() -> None:
    found = plan(scene([pod(0, phase="Failed"), pod(1)]))
    assert ([p.metadata.name for p in found.failed], found.create) == (["web-0"], [])
    assert plan(scene([pod(0, phase="Succeeded", leaving=True), pod(1)])) == Plan()


def test_min_ready_seconds_hold_up_what_follows() -> None:
    recent = pod(0, since="2025-12-31T23:59:50Z")
    found = scene([recent], minReadySeconds=30)
    assert names(plan(found)) == ([], [])
    status, wait = status_of(found, 0)
    assert (status["readyReplicas"], status["availableReplicas"], wait) == (1, 0, 20.0)


def test_the_status_says_when_an_update_is_complete() -> None:
    under_way, _ = status_of(scene([pod(0, "old"), pod(1), pod(2, leaving=True)]), 1)
    counters = ("replicas", "currentReplicas", "updatedReplicas", "currentRevision")
    assert [under_way[c] for c in counters] == [3, 1, 1, "old"]
    complete, _ = status_of(scene([pod(n) for n in range(3)]), 1)
    assert [complete[c] for c in counters] == [3, 3, 3, "new"]
    assert (complete["observedGeneration"], complete["collisionCount"]) == (4, 1)


class Model:
    """A cluster in which what is made becomes ready and what is deleted goes."""

    def __init__(self, found: Scene) -> None:
        self.scene = found
        self.pods = dict(found.pods)

    def step(self) -> bool:
        """Do what is planned, and then let time pass; False if nothing is left to do."""
        todo = plan(self._now())
        waiting = [n for n, p in self.pods.items() if p.metadata.deletion_timestamp]
        for item in todo.delete + todo.failed:
            number = ordinal_of(self.scene.stateful_set, item.metadata.name)
            assert number is not None
            self.pods[number] = pod(number, item.metadata.labels["controller-revision-hash"],
                                    leaving=True)  # fmt: skip
        for number in todo.create:
            assert number not in self.pods, "an identity is free before it is given again"
            self.pods[number] = pod(number, self.scene.target(number))
        for number in waiting:
            del self.pods[number]
        return bool(todo.create or todo.delete or todo.failed or waiting)

    def _now(self) -> Scene:
        old = self.scene
        return Scene(old.stateful_set, list(self.pods.values()), old.current, old.update, NOW)


pods_of_any_kind = st.builds(
    lambda number, revision, state, since, leaving: pod(
        number, revision, state[1], phase=state[0], since=since, leaving=leaving
    ),
    st.integers(0, 6),
    st.sampled_from(["old", "new", "older"]),
    st.sampled_from([("Running", True), ("Running", False), ("Pending", None), ("Failed", False)]),
    st.sampled_from([START, LATER]),
    st.booleans(),
)


@settings(max_examples=200, deadline=None)
@given(
    pods=st.lists(pods_of_any_kind, max_size=7, unique_by=lambda p: p.metadata.name),
    replicas=st.integers(0, 5),
    parallel=st.booleans(),
    partition=st.integers(0, 3),
)
def test_it_comes_to_rest_with_every_pod_in_its_place(
    pods: list[Pod], replicas: int, parallel: bool, partition: int
) -> None:
    policy = "Parallel" if parallel else "OrderedReady"
    rolling = {"rollingUpdate": {"partition": partition}}
    found = scene(pods, replicas, podManagementPolicy=policy, updateStrategy=rolling)
    stuck = [
        p for n, p in found.pods.items()
        if not p.finished and not found.serves(p) and not p.metadata.deletion_timestamp
        and not (n < replicas and found.gives_way(n, p))
    ]  # fmt: skip
    model = Model(found)
    for _ in range(60):
        if not model.step():
            break
    else:
        raise AssertionError("it never comes to rest")
    if stuck:
        return  # A pod that is right and does not serve holds up the others, as it should.
    assert sorted(model.pods) == list(range(replicas))
    for number, item in model.pods.items():
        wanted = found.target(number)
        below = number < partition
        assert below or item.metadata.labels["controller-revision-hash"] == wanted


@pytest.mark.parametrize(
    ("name", "expected"),
    [("web-0", 0), ("web-12", 12), ("web-01", None), ("web-", None), ("web", None),
     ("webb-1", None), ("web-1-2", None), ("web-x", None), ("web-\u0661", None)],
)  # fmt: skip
def test_which_names_fit(name: str, expected: int | None) -> None:
    assert ordinal_of(stateful_set(), name) == expected


CLAIM = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def test_a_pod_mounts_its_own_claims_in_place_of_volumes_of_their_names() -> None:
    found = stateful_set(volumeClaimTemplates=[CLAIM])
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    template = found.spec.template | {"spec": {"volumes": volumes}}
    body = new_pod(found, template, "web-abc", 2)
    assert body["spec"] == {
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2"}},
            {"name": "tmp", "emptyDir": {}},
        ],
        "hostname": "web-2",
        "subdomain": "db",
    }
    assert body["metadata"]["name"] == "web-2"
    [claim] = new_claims(found, 2)
    assert claim["metadata"]["name"] == "data-web-2"
    assert claim["metadata"]["labels"] == {"app": "web"}


SET = {"kind": "StatefulSet", "apiVersion": "apps/v1", "name": "web", "uid": "set",
       "controller": True, "blockOwnerDeletion": True}  # fmt: skip
POD = SET | {"kind": "Pod", "apiVersion": "v1", "name": "web-2", "uid": "pod-2"}
OTHER = SET | {"kind": "Backup", "name": "nightly", "uid": "other"}


@pytest.mark.parametrize(
    ("deleted", "scaled", "condemned", "owners", "expected"),
    [
        ("Retain", "Retain", False, [], None),
        ("Retain", "Retain", False, [SET], []),
        ("Retain", "Retain", True, [POD], []),
        ("Delete", "Retain", False, [], [SET]),
        ("Delete", "Retain", True, [SET], None),
        ("Retain", "Delete", False, [POD], []),
        ("Retain", "Delete", True, [], [POD]),
        ("Delete", "Delete", True, [SET], [POD]),
        ("Delete", "Delete", False, [POD], [SET]),
        ("Delete", "Delete", False, [OTHER], None),
        ("Delete", "Delete", False, [OTHER | {"controller": False}],
         [{k: v for k, v in OTHER.items() if k != "controller"}, SET]),
    ],
)  # fmt: skip
def test_with_whom_a_claim_goes(
    deleted: str, scaled: str, condemned: bool, owners: list[Any], expected: list[Any] | None
) -> None:
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    found = stateful_set(persistentVolumeClaimRetentionPolicy=policy)
    claim = decode({"name": "data-web-2", "ownerReferences": owners}, ObjectMeta)
    patch = retention_patch(found, pod(2), claim, condemned=condemned)
    assert (patch and patch["metadata"]["ownerReferences"]) == expected


def test_the_claim_of_an_earlier_pod_is_not_taken_up_while_it_goes() -> None:
    assert stale(decode({"ownerReferences": [POD]}, ObjectMeta), "web-2")
    assert not stale(decode({"ownerReferences": [POD]}, ObjectMeta), "web-1")
    assert not stale(decode({"ownerReferences": [SET]}, ObjectMeta), "web-2")
    assert stale(decode({"deletionTimestamp": LATER}, ObjectMeta), "web-2")

"""`sheepctl rollout` of what has revisions: its progress, restarts, history and undo."""

import json
from typing import Any

import pytest

from shepherd.api.kinds import DEPLOYMENT
from shepherd.api.kinds.daemonsets import DAEMON_SET
from shepherd.api.kinds.statefulsets import STATEFUL_SET
from shepherd.api.resource import Object
from shepherd.cli.rollout import progress
from shepherd.client.base import Client
from shepherd.controllers.history import patch_of

KINDS = {"Deployment": "deploy", "StatefulSet": "sts", "DaemonSet": "ds"}


def workload(strategy: Object | None = None, **status: Any) -> Object:
    spec = {"replicas": 3, "updateStrategy": strategy or {"type": "RollingUpdate"}}
    return {"metadata": {"name": "db", "generation": 2}, "spec": spec, "status": status}


PARTITION = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
ON_DELETE = {"type": "OnDelete"}
SEEN: dict[str, Any] = {"observedGeneration": 2}


@pytest.mark.parametrize(
    ("obj", "text", "done"),
    [
        (workload(observedGeneration=1), "Waiting for statefulset spec update to be", False),
        (workload(**SEEN, readyReplicas=1), "Waiting for 2 pods to be ready...", False),
        (
            workload(**SEEN, readyReplicas=3, updatedReplicas=1),
            "Waiting for partitioned roll out to finish: 1 out of 3 new pods have been updated",
            False,
        ),
        (
            workload(PARTITION, **SEEN, readyReplicas=3, updatedReplicas=1),
            "partitioned roll out complete: 1 new pods have been updated...",
            True,
        ),
        (workload(ON_DELETE, **SEEN, readyReplicas=3), "its pods are ready; each gets a new", True),
    ],
)
def test_how_far_a_stateful_set_is(obj: Object, text: str, done: bool) -> None:
    found = progress(STATEFUL_SET, obj)
    assert (found.text[: len(text)], found.done) == (text, done)


WAITING = 'Waiting for daemon set "db" rollout to finish: '


@pytest.mark.parametrize(
    ("obj", "text", "done"),
    [
        (workload(), "Waiting for daemon set spec update to be observed...", False),
        (
            workload(**SEEN, desiredNumberScheduled=3, updatedNumberScheduled=1),
            f"{WAITING}1 out of 3 new pods have been updated...",
            False,
        ),
        (
            workload(**SEEN, desiredNumberScheduled=3, updatedNumberScheduled=3, numberAvailable=2),
            f"{WAITING}2 of 3 updated pods are available...",
            False,
        ),
        (
            workload(**SEEN, desiredNumberScheduled=1, updatedNumberScheduled=1, numberAvailable=1),
            'daemon set "db" successfully rolled out',
            True,
        ),
        (
            workload(ON_DELETE, **SEEN, desiredNumberScheduled=1, numberAvailable=1),
            "its pods are ready; each gets a new",
            True,
        ),
    ],
)
def test_how_far_a_daemon_set_is(obj: Object, text: str, done: bool) -> None:
    found = progress(DAEMON_SET, obj)
    assert (found.text[: len(text)], found.done) == (text, done)


def template(image: str, **labels: str) -> Object:
    container = {"name": "main", "image": image}
    return {"metadata": {"labels": {"app": "db"} | labels}, "spec": {"containers": [container]}}


def given(sheepctl: Any, kind: str) -> Object:
    """A workload of image db:2 that had db:1 before, and another that has one revision only."""
    more = {"serviceName": "db"} if kind == "StatefulSet" else {}
    for name in ("db", "other"):
        spec = {"selector": {"matchLabels": {"app": "db"}}, "template": template("db:2")} | more
        sheepctl.given(kind, name, spec=spec)
    owner: Object = json.loads(sheepctl("get", kind, "db", "-o", "json").out)
    reference = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": "db",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    for number in (2, 1):
        image, cause = f"db:{number}", {"kubernetes.io/change-cause": f"try {number}"}
        metadata = {"ownerReferences": [reference], "annotations": cause}
        if kind != "Deployment":
            data = patch_of(template(image))
            sheepctl.given(
                "ControllerRevision", f"db-{number}", metadata=metadata, data=data, revision=number
            )
            continue
        cause["deployment.kubernetes.io/revision"] = str(number)
        labels = {"app": "db", "pod-template-hash": str(number)}
        spec = {"selector": {"matchLabels": labels}, "template": template(image, **labels)}
        sheepctl.given("ReplicaSet", f"db-{number}", metadata=metadata, spec=spec)
    return owner


def template_now(sheepctl: Any, kind: str) -> Object:
    found: Object = json.loads(sheepctl("get", kind, "db", "-o", "json").out)["spec"]["template"]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_history_and_the_way_back(sheepctl: Any, kind: str) -> None:
    given(sheepctl, kind)
    what = f"{KINDS[kind]}/db"
    assert sheepctl("rollout", "history", what).rows == [
        ["REVISION", "IMAGES", "CHANGE-CAUSE"],
        ["1", "db:1", "try 1"],
        ["2", "db:2", "try 2"],
    ]
    shown = sheepctl("rollout", "history", what, "--revision=1").out
    assert "image: db:1" in shown
    assert "pod-template-hash" not in shown
    named = f"{kind.lower()}.apps/db"
    assert sheepctl("rollout", "undo", what).out == f"{named} rolled back to revision 1\n"
    back = template_now(sheepctl, kind)
    assert back["spec"]["containers"][0]["image"] == "db:1"
    assert back["metadata"]["labels"] == {"app": "db"}
    obj = json.loads(sheepctl("get", what, "-o", "json").out)
    assert obj["metadata"]["annotations"]["kubernetes.io/change-cause"] == "try 1"
    assert sheepctl("rollout", "undo", what, "--to-revision=1").out == (
        f"{named} skipped rollback (current template already matches revision 1)\n"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_revision_that_is_not_there_is_told(sheepctl: Any, kind: str) -> None:
    given(sheepctl, kind)
    result = sheepctl("rollout", "undo", f"{KINDS[kind]}/db", "--to-revision=7")
    assert (result.code, result.out) == (1, "")
    assert "there is no revision 7: there are 1, 2" in result.err
    result = sheepctl("rollout", "undo", f"{KINDS[kind]}/other")
    assert (result.code, result.out) == (1, "")
    assert "there is no earlier revision to return to" in result.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_changes_the_template_and_nothing_else(sheepctl: Any, kind: str) -> None:
    given(sheepctl, kind)
    before = template_now(sheepctl, kind)
    result = sheepctl("rollout", "restart", f"{KINDS[kind]}/db")
    assert (result.code, result.out) == (0, f"{kind.lower()}.apps/db restarted\n")
    after = template_now(sheepctl, kind)
    assert "kubectl.kubernetes.io/restartedAt" in after["metadata"].pop("annotations")
    assert after == before


def test_a_paused_deployment_is_left_alone(sheepctl: Any) -> None:
    given(sheepctl, "Deployment")

    async def pause(client: Client) -> None:
        await client.patch(DEPLOYMENT, "db", "default", {"spec": {"paused": True}})

    sheepctl.ask(pause)
    for verb in ("restart", "undo"):
        result = sheepctl("rollout", verb, "deploy/db")
        assert (result.code, result.out) == (1, "")
        assert "deployment.apps/db is paused: resume it first" in result.err


def test_what_has_no_rollouts_is_a_wrong_call(sheepctl: Any) -> None:
    for verb in ("status", "restart", "history", "undo"):
        assert sheepctl("rollout", verb, "pod/a").code == 2
        assert sheepctl("rollout", verb, "deployments").code == 2
    assert sheepctl("rollout", "status", "sts/gone").code == 1


def test_what_an_apply_waited_for_in_vain_is_named(sheepctl: Any) -> None:
    given(sheepctl, "DaemonSet")
    result = sheepctl("rollout", "restart", "ds/db", "--wait", "--timeout=0.05")
    assert result.code == 1
    assert "not rolled out within 0.05 s: db" in result.err
    assert "see `sheepctl why daemonset/db`" in result.err

"""The life of an object that a Go program cares for; each test goes on from the last."""

from typing import Any

import pytest
from clients.scripts.kubectl.program import Kubectl
from clients.scripts.manager.conftest import Managers

from shepherd.testing.program import eventually


def orchard(trees: int) -> dict[str, Any]:
    return {
        "apiVersion": "shepherd.example/v1",
        "kind": "Orchard",
        "metadata": {"name": "one"},
        "spec": {"trees": trees},
    }


def grown(kubectl: Kubectl, trees: int) -> None:
    def told() -> bool:
        status = kubectl.get("orchard", "one").get("status", {})
        return bool((status.get("grown"), status.get("full")) == (trees, True))

    eventually(told, what=f"{trees} trees")


def test_an_object_gets_its_child_by_apply(kubectl: Kubectl, managers: Managers) -> None:
    kubectl.apply(orchard(2))
    grown(kubectl, 2)
    found = kubectl.get("orchard", "one")
    assert found["metadata"]["finalizers"] == ["shepherd.example/orchards"]
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    (child,) = kubectl.get("deploy", "--show-managed-fields")["items"]
    (owner,) = child["metadata"]["ownerReferences"]
    assert owner["uid"] == found["metadata"]["uid"]
    applied = [m for m in child["metadata"]["managedFields"] if m["operation"] == "Apply"]
    assert [m["manager"] for m in applied] == ["orchards"]
    assert kubectl("get", "orchards", "--no-headers").split() == ["one", "2", "2"]


def test_a_change_and_a_loss_are_made_good(kubectl: Kubectl, managers: Managers) -> None:
    kubectl.apply(orchard(1))
    grown(kubectl, 1)
    kubectl("scale", "deploy/one", "--replicas=3")
    eventually(lambda: kubectl.get("deploy", "one")["spec"]["replicas"] == 1)
    before = kubectl.get("deploy", "one")["metadata"]["uid"]
    kubectl("delete", "deploy", "one")
    eventually(lambda: kubectl.get("deploy", "one")["metadata"]["uid"] != before)
    grown(kubectl, 1)


def test_another_copy_takes_the_lead(kubectl: Kubectl, managers: Managers) -> None:
    first = managers.leader()
    managers.kill_all()
    managers.start()
    kubectl.apply(orchard(2))
    grown(kubectl, 2)
    assert managers.leader() != first
    assert kubectl.get("lease", "orchards")["spec"]["leaseTransitions"] == 1
    assert "became leader" in kubectl("get", "events", "--field-selector=reason=LeaderElection")


@pytest.mark.usefixtures("managers")
def test_deletion_waits_for_the_manager(kubectl: Kubectl) -> None:
    kubectl("delete", "orchard", "one", "--timeout=30s")
    assert kubectl("get", "cm", "one-farewell", "-o", "name") == "configmap/one-farewell\n"
    kubectl("wait", "--for=delete", "deploy/one", "--timeout=30s")
    kubectl("wait", "--for=delete", "pods", "-l", "orchard=one", "--timeout=30s")

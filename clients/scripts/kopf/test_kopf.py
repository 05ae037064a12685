"""The life of a custom resource that an operator cares for; each test goes on from the last."""

from typing import Any

from clients.scripts.kubectl.program import Kubectl

from shepherd.testing.program import eventually


def greeter(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "shepherd.example/v1",
        "kind": "Greeter",
        "metadata": {"name": "one"},
        "spec": spec,
    }


def wait(kubectl: Kubectl, what: str, path: str, value: str) -> None:
    kubectl("wait", what, f"--for=jsonpath={{{path}}}={value}", "--timeout=30s")


def test_the_schema_is_kept(kubectl: Kubectl) -> None:
    assert "spec.greeting" in kubectl.apply(greeter(greeting=""), code=1)


def test_an_object_gets_children_status_and_finalizer(kubectl: Kubectl) -> None:
    kubectl.apply(greeter(greeting="hello"))
    wait(kubectl, "greeter/one", ".status.page", "one")
    found = kubectl.get("greeter", "one")
    assert found["metadata"]["finalizers"] == ["shepherd.example/greeters"]
    assert found["spec"]["copies"] == 1
    page = kubectl.get("cm", "one")
    assert page["data"] == {"index.html": "hello"}
    (owner,) = page["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Greeter", found["metadata"]["uid"])
    kubectl("wait", "--for=condition=Available", "deploy/one", "--timeout=30s")
    assert kubectl("get", "gr", "--no-headers").split() == ["one", "hello", "one"]


def test_a_change_reaches_the_children(kubectl: Kubectl) -> None:
    kubectl.apply(greeter(greeting="goodbye", copies=2))
    wait(kubectl, "cm/one", ".data.index\\.html", "goodbye")
    wait(kubectl, "deploy/one", ".spec.replicas", "2")


def test_the_operator_says_what_it_did(kubectl: Kubectl) -> None:
    def told() -> bool:
        return "says hello" in kubectl("events", "--for", "greeter/one", "--no-headers")

    assert eventually(told, what="the operator's event")


def test_deletion_waits_for_the_operator_and_takes_the_children(kubectl: Kubectl) -> None:
    kubectl("delete", "greeter", "one", "--timeout=30s")
    assert kubectl("get", "cm", "one-farewell", "-o", "name") == "configmap/one-farewell\n"
    kubectl("wait", "--for=delete", "cm/one", "deploy/one", "--timeout=30s")
    kubectl("wait", "--for=delete", "pods", "-l", "greeter=one", "--timeout=60s")

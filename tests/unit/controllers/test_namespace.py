"""What the conditions of a terminating namespace say."""

from shepherd.api.kinds import CONFIG_MAP, POD
from shepherd.api.objects.meta import Condition
from shepherd.controllers.namespace import Remains, deletion_conditions


def said(remains: Remains) -> dict[str, Condition]:
    return {item.type: item for item in deletion_conditions([], remains, 0.0)}


def test_what_remains_is_named_with_its_finalizers() -> None:
    """kubernetes/kubernetes#60807, #19317."""
    remains = Remains()
    remains.count(POD, [{"name": "a"}, {"name": "b", "finalizers": ["example.com/hold"]}])
    remains.count(CONFIG_MAP, [{"name": "c", "finalizers": ["example.com/hold"]}])
    found = said(remains)
    content, held = found["NamespaceContentRemaining"], found["NamespaceFinalizersRemaining"]
    assert (content.status, content.reason, content.message) == (
        "True", "SomeResourcesRemain", "Some resources are remaining: "
        "configmaps has 1 resource instances, pods has 2 resource instances",
    )  # fmt: skip
    assert (held.status, held.reason, held.message) == (
        "True", "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "
        "example.com/hold in 2 resource instances",
    )  # fmt: skip
    assert found["NamespaceDeletionContentFailure"].status == "False"


def test_an_api_that_is_dead_is_named() -> None:
    """kubernetes/kubernetes#77086: what serves a kind does not answer, and the namespace waits."""
    remains = Remains(failures=["sites: conversion webhook: connection refused"])
    failure = said(remains)["NamespaceDeletionContentFailure"]
    assert (failure.status, failure.reason) == ("True", "ContentDeletionFailed")
    assert failure.message.endswith("1 remaining: sites: conversion webhook: connection refused")


def test_an_empty_namespace_has_nothing_to_say() -> None:
    assert {item.status for item in said(Remains()).values()} == {"False"}

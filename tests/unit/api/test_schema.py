"""The schema data: what the types of Kubernetes 1.37 look like."""

import pytest

from shepherd.api.kinds import RESOURCES
from shepherd.api.resource import Resource
from shepherd.api.schema import Shape, get_type, kinds_of, openapi_name, type_of


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.kind)
def test_every_kind_that_is_served_has_a_type_and_a_list(resource: Resource) -> None:
    for group, version in ((resource.group, resource.version), *resource.aliases):
        found = type_of(group, version, resource.kind)
        assert found is not None
        assert found.fields["metadata"].type == "meta.v1.ObjectMeta"
        assert (group, version, resource.kind) in kinds_of(found.name)
        listed = type_of(group, version, f"{resource.kind}List")
        assert listed is not None or "list" not in resource.verbs


@pytest.mark.parametrize(
    ("group", "version", "kind"),
    [
        ("apps", "v1", "StatefulSet"),
        ("autoscaling", "v1", "Scale"),
        ("autoscaling", "v2", "HorizontalPodAutoscaler"),
        ("batch", "v1", "CronJob"),
        ("policy", "v1", "Eviction"),
        ("authentication.k8s.io", "v1", "TokenRequest"),
        ("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "v1", "APIService"),
        ("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema"),
        ("resource.k8s.io", "v1", "ResourceClaim"),
        ("anything.example.com", "v1", "DeleteOptions"),
        ("", "v1", "Status"),
    ],
)
def test_all_stable_kinds_are_there(group: str, version: str, kind: str) -> None:
    assert type_of(group, version, kind) is not None


def test_kinds_that_do_not_exist() -> None:
    assert type_of("", "v1", "Deployment") is None
    assert type_of("apps", "v1beta1", "Deployment") is None
    assert type_of("example.com", "v1", "Thing") is None


def test_fields() -> None:
    spec = get_type("core.v1.PodSpec")
    containers = spec.fields["containers"]
    assert containers.shape == Shape("list", "core.v1.Container")
    assert containers.required
    assert (containers.list_type, containers.list_keys) == ("map", ["name"])
    assert (containers.strategies, containers.merge_key) == (["merge"], "name")
    assert spec.fields["volumes"].strategies == ["merge", "retainKeys"]
    assert spec.fields["tolerations"].list_type == "atomic"
    assert spec.fields["nodeSelector"].collection == "atomic"
    replicas = get_type("apps.v1.DeploymentSpec").fields["replicas"]
    assert replicas.pointer
    assert replicas.default is None
    port = get_type("core.v1.ContainerPort").fields
    assert (port["protocol"].default, port["containerPort"].default) == ("TCP", 0)
    assert port["hostIP"].default is None
    assert get_type("core.v1.Pod").fields["spec"].default == {}
    assert get_type("core.v1.Container").fields["resources"].default == {}
    assert replicas.number == 1
    finalizers = get_type("meta.v1.ObjectMeta").fields["finalizers"]
    assert (finalizers.list_type, finalizers.merge_key) == ("set", "")
    assert get_type("meta.v1.LabelSelector").atomic
    assert get_type("core.v1.Volume").inlined == [(2, "core.v1.VolumeSource")]


def test_names_in_openapi() -> None:
    assert openapi_name("core.v1.Pod") == "io.k8s.api.core.v1.Pod"
    assert openapi_name("meta.v1.Status") == "io.k8s.apimachinery.pkg.apis.meta.v1.Status"

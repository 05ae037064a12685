"""OpenAPI v3 documents as kubectl reads them."""

from typing import Any

import msgspec
import pytest

from shepherd.api.kinds import RESOURCES
from shepherd.api.resource import Resource
from shepherd.api.schema import get_type, type_of
from shepherd.server.openapi import openapi_document, openapi_index
from shepherd.server.openapi_text import DESCRIPTIONS
from shepherd.server.served import Served

GROUPS = sorted({(resource.group, resource.version) for resource in RESOURCES})


SERVED = Served(RESOURCES)


def document(group: str, version: str) -> dict[str, Any]:
    found = openapi_document(group, version, SERVED.of(group, version))
    assert found is not None
    decoded: dict[str, Any] = msgspec.json.decode(found.body)
    return decoded


def _references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(_references, node.values()))
    return set().union(*map(_references, node)) if isinstance(node, list) else set()


def test_the_index_names_every_document_by_its_hash() -> None:
    paths = msgspec.json.decode(openapi_index(SERVED.groups))["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/events.k8s.io/v1"} <= paths.keys()
    found = openapi_document("apps", "v1", SERVED.of("apps", "v1"))
    assert found is not None
    url = paths["apis/apps/v1"]["serverRelativeURL"]
    assert url == f"/openapi/v3/apis/apps/v1?hash={found.hash}"
    assert found.etag == f'"{found.hash}"'


def test_groups_that_are_not_served_have_no_document() -> None:
    assert openapi_document("batch", "v9", SERVED.of("batch", "v9")) is None


def test_the_hash_changes_with_what_is_served() -> None:
    more = Served((*RESOURCES, Resource("example.com", "v1", "Thing", "things")))
    thing = openapi_document("example.com", "v1", more.of("example.com", "v1"))
    apps = openapi_document("apps", "v1", more.of("apps", "v1"))
    assert thing is not None
    assert apps is not None
    assert openapi_document("apps", "v1", SERVED.of("apps", "v1")) == apps
    decoded = msgspec.json.decode(thing.body)
    assert "/apis/example.com/v1/namespaces/{namespace}/things/{name}" in decoded["paths"]
    schema = decoded["components"]["schemas"]["com.example.v1.Thing"]
    assert schema["x-kubernetes-preserve-unknown-fields"]


@pytest.mark.parametrize(("group", "version"), GROUPS)
def test_documents_are_whole(group: str, version: str) -> None:
    found = document(group, version)
    schemas = {f"#/components/schemas/{name}" for name in found["components"]["schemas"]}
    assert _references(found) <= schemas
    operations = [
        operation["operationId"]
        for path in found["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
    ]
    assert len(operations) == len(set(operations))


PATCHED = [resource for resource in RESOURCES if "patch" in resource.verbs]


@pytest.mark.parametrize("resource", PATCHED, ids=lambda resource: resource.kind)
def test_kubectl_finds_field_validation_and_dry_run(resource: Resource) -> None:
    found = document(resource.group, resource.version)
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    patches = [path["patch"] for path in found["paths"].values() if "patch" in path]
    of_kind = [patch for patch in patches if patch["x-kubernetes-group-version-kind"] == gvk]
    assert of_kind
    for patch in of_kind:  # it takes any
        names = {parameter["name"] for parameter in patch["parameters"]}
        assert {"dryRun", "fieldManager", "fieldValidation", "force"} <= names
    schemas = found["components"]["schemas"].values()
    assert [s for s in schemas if gvk in s.get("x-kubernetes-group-version-kind", [])]


def test_schemas_carry_what_patches_and_apply_need() -> None:
    schemas = document("apps", "v1")["components"]["schemas"]
    spec = schemas["io.k8s.api.core.v1.PodSpec"]
    assert spec["required"] == ["containers"]
    assert spec["properties"]["containers"] == {
        "type": "array",
        "items": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}]},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "name",
    } | {k: v for k, v in spec["properties"]["containers"].items() if k == "description"}
    selector = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"]
    assert selector["x-kubernetes-map-type"] == "atomic"
    assert spec["properties"]["nodeSelector"]["x-kubernetes-map-type"] == "atomic"
    strategy = schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"]
    assert strategy["x-kubernetes-patch-strategy"] == "retainKeys"


def test_paths_follow_the_verbs_and_subresources() -> None:
    paths = document("apps", "v1")["paths"]
    item = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    assert set(paths[item]) == {"get", "put", "patch", "delete", "parameters"}
    assert set(paths[f"{item}/scale"]) == {"get", "put", "patch", "parameters"}
    assert paths[f"{item}/scale"]["get"]["x-kubernetes-group-version-kind"]["kind"] == "Scale"
    assert "get" in paths["/apis/apps/v1/deployments"]
    core = document("", "v1")["paths"]
    assert "/api/v1/nodes/{name}/status" in core
    assert "/api/v1/namespaces/{namespace}/nodes" not in core


def test_operations_are_named_as_clients_are_generated() -> None:
    """The names of the official Python client's methods, among others."""
    found = {**document("", "v1")["paths"], **document("rbac.authorization.k8s.io", "v1")["paths"]}
    pods = "/api/v1/namespaces/{namespace}/pods"
    names = {
        (path, method): operation["operationId"]
        for path, item in found.items()
        for method, operation in item.items()
        if method != "parameters"
    }
    assert names[pods, "post"] == "createCoreV1NamespacedPod"
    assert names[pods, "delete"] == "deleteCoreV1CollectionNamespacedPod"
    assert names["/api/v1/pods", "get"] == "listCoreV1PodForAllNamespaces"
    assert names[f"{pods}/{{name}}", "get"] == "readCoreV1NamespacedPod"
    assert names[f"{pods}/{{name}}/eviction", "post"] == "createCoreV1NamespacedPodEviction"
    assert names[f"{pods}/{{name}}/exec", "post"] == "connectCoreV1PostNamespacedPodExec"
    assert names[f"{pods}/{{name}}/proxy/{{path}}", "get"] == (
        "connectCoreV1GetNamespacedPodProxyWithPath"
    )
    assert names["/api/v1/nodes/{name}/status", "put"] == "replaceCoreV1NodeStatus"
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert names[roles, "get"] == "listRbacAuthorizationV1ClusterRole"


def test_answers_are_what_is_answered() -> None:
    item = document("", "v1")["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]
    answers = item["delete"]["responses"]
    assert answers.keys() == {"200", "202", "401"}
    (media,) = answers["200"]["content"].values()
    assert media["schema"]["$ref"].endswith("core.v1.Pod")
    assert not item["delete"]["requestBody"].get("required")
    assert item["put"]["requestBody"]["required"]
    log = document("", "v1")["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/log"]
    (media,) = log["get"]["responses"]["200"]["content"].values()
    assert media["schema"] == {"type": "string"}
    assert "tailLines" in {parameter["name"] for parameter in log["parameters"]}


def test_defaults_are_those_that_go_has() -> None:
    """What compares typed objects needs them where they are keys of a list."""
    schemas = document("", "v1")["components"]["schemas"]
    port = schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]
    assert (port["protocol"]["default"], port["containerPort"]["default"]) == ("TCP", 0)
    assert "default" not in port["hostIP"]
    assert schemas["io.k8s.api.core.v1.Pod"]["properties"]["spec"]["default"] == {}


ACTED_ON = [resource for resource in RESOURCES if not resource.idle]


@pytest.mark.parametrize("resource", ACTED_ON, ids=lambda resource: resource.kind)
def test_explain_says_what_a_kind_is_for(resource: Resource) -> None:
    found = type_of(resource.group, resource.version, resource.kind)
    assert found is not None
    assert DESCRIPTIONS[found.name][""]


def test_explain_has_something_to_say_and_says_it_of_real_fields() -> None:
    for type_name, texts in DESCRIPTIONS.items():
        assert texts.keys() - {""} <= get_type(type_name).fields.keys(), type_name
    schemas = document("apps", "v1")["components"]["schemas"]
    spec = schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]
    assert spec["replicas"]["description"] == "How many pods; 1 by default."

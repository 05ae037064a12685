"""Server-side apply over the API: who owns what, conflicts, and what goes when it is let go."""

from typing import Any

import msgspec
import pytest

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WEB = f"{DEPLOYMENTS}/web"
APPLY = {"content_type": "application/apply-patch+yaml"}
MERGE = {"content_type": "application/merge-patch+json"}
JSON_PATCH = {"content_type": "application/json-patch+json"}
LABELS = {"app": "web"}


def deployment(replicas: int | None = 3, image: str = "web:1", **container: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "web", "image": image} | container]},
    }
    spec: dict[str, Any] = {"selector": {"matchLabels": LABELS}, "template": template}
    if replicas is not None:
        spec["replicas"] = replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": spec,
    }


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


def owned(obj: dict[str, Any]) -> dict[str, Any]:
    """The fields of each writer."""
    found = {}
    for entry in obj["metadata"].get("managedFields", []):
        name = f"{entry['manager']}/{entry['operation']}"
        if "subresource" in entry:
            name += "/" + entry["subresource"]
        found[name] = entry["fieldsV1"]
    return found


async def test_an_apply_creates_then_changes_then_leaves_alone(api: Any) -> None:
    target = f"{CONFIG_MAPS}/a?fieldManager=me"
    answer = await api.ask("PATCH", target, config_map(a="1"), **APPLY)
    assert answer.code == 201
    (entry,) = answer.json["metadata"]["managedFields"]
    assert entry.pop("time")
    assert entry == {
        "manager": "me",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
    }
    answer = await api.ask("PATCH", target, config_map(a="1", b="2"), **APPLY)
    assert answer.code == 200
    assert answer.json["data"] == {"a": "1", "b": "2"}
    again = await api.ok("PATCH", target, config_map(a="1", b="2"), **APPLY)
    assert again == answer.json
    less = await api.ok("PATCH", target, config_map(b="2"), **APPLY)
    assert less["data"] == {"b": "2"}


async def test_configurations_are_yaml(api: Any) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: 'yes'\n"
    made = await api.ok("PATCH", f"{CONFIG_MAPS}/a?fieldManager=me", text, **APPLY)
    assert made["data"] == {"k": "yes"}


@pytest.mark.parametrize(
    ("query", "body", "code", "message"),
    [
        (
            "",
            config_map(),
            422,
            'PatchOptions.meta.k8s.io "" is invalid: '
            "fieldManager: Required value: is required for apply patch",
        ),
        ("?fieldManager=" + "x" * 129, config_map(), 422, "fieldManager: Too long"),
        ("?fieldManager=a%0Ab", config_map(), 422, "should only contain printable characters"),
        (
            "?fieldManager=me",
            config_map() | {"apiVersion": "v2"},
            400,
            "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
        ),
        ("?fieldManager=me", config_map() | {"kind": "Pod"}, 400, "must be a ConfigMap"),
        ("?fieldManager=me", [], 400, "must be an object"),
        ("?fieldManager=me", b"a: [", 400, "not valid YAML"),
        ("?fieldManager=me", config_map() | {"data": {"a": 1}}, 400, "ConfigMap.data.a"),
        ("?fieldManager=me&dryRun=x", config_map(), 422, "dryRun"),
        (
            "?fieldManager=me&fieldValidation=Strict",
            config_map() | {"datax": {}},
            400,
            'strict decoding error: unknown field "datax"',
        ),
        (
            "?fieldManager=me",
            config_map() | {"metadata": {"name": "a", "managedFields": []}},
            400,
            "metadata.managedFields must be nil",
        ),
        (
            "?fieldManager=me",
            config_map() | {"metadata": {"name": "a", "uid": "x"}},
            409,
            "uid mismatch: the provided object specified uid x",
        ),
    ],
)
async def test_bad_applies(api: Any, query: str, body: Any, code: int, message: str) -> None:
    status = await api.fails(code, "PATCH", f"{CONFIG_MAPS}/a{query}", body, **APPLY)
    assert message in status["message"]
    await api.fails(404, "GET", f"{CONFIG_MAPS}/a")


async def test_force_is_for_applies(api: Any) -> None:
    await api.ok("POST", CONFIG_MAPS, config_map())
    status = await api.fails(422, "PATCH", f"{CONFIG_MAPS}/a?force=true", {}, **MERGE)
    assert "force: Forbidden: may not be specified for non-apply patch" in status["message"]


async def test_dry_runs_store_nothing(api: Any) -> None:
    target = f"{CONFIG_MAPS}/a?fieldManager=me"
    answer = await api.ask("PATCH", f"{target}&dryRun=All", config_map(a="1"), **APPLY)
    assert answer.code == 201
    await api.fails(404, "GET", f"{CONFIG_MAPS}/a")
    made = await api.ok("PATCH", target, config_map(a="1"), **APPLY)
    tried = await api.ok("PATCH", f"{target}&dryRun=All", config_map(a="2"), **APPLY)
    assert tried["data"] == {"a": "2"}
    assert await api.ok("GET", f"{CONFIG_MAPS}/a") == made


async def test_a_dry_run_of_a_second_create_says_that_it_exists(api: Any) -> None:
    await api.ok("POST", CONFIG_MAPS, config_map())
    status = await api.fails(409, "POST", f"{CONFIG_MAPS}?dryRun=All", config_map())
    assert status["reason"] == "AlreadyExists"


async def test_every_kind_of_write_is_tracked(api: Any) -> None:
    made = await api.ok("POST", DEPLOYMENTS, deployment(), user_agent="tool/1.0 (linux)")
    fields = owned(made)
    assert fields.keys() == {"tool/Update"}
    assert "f:progressDeadlineSeconds" in fields["tool/Update"]["f:spec"]  # what is filled in too
    assert "f:name" not in fields["tool/Update"].get("f:metadata", {})
    await api.ok("PATCH", f"{WEB}?fieldManager=p", {"spec": {"paused": True}}, **MERGE)
    scaled = f"{WEB}/scale?fieldManager=s"
    await api.ok("PATCH", scaled, {"spec": {"replicas": 5}}, **MERGE)
    status = f"{WEB}/status?fieldManager=c"
    await api.ok("PATCH", status, {"status": {"replicas": 1}, "spec": {"replicas": 9}}, **MERGE)
    whole = await api.ok("GET", WEB)
    whole["metadata"]["labels"] = {"x": "y"}
    del whole["metadata"]["resourceVersion"]
    fields = owned(await api.ok("PUT", f"{WEB}?fieldManager=u", whole))
    assert fields["p/Update"] == {"f:spec": {"f:paused": {}}}
    assert fields["s/Update/scale"] == {"f:spec": {"f:replicas": {}}}
    assert fields["c/Update/status"] == {"f:status": {"f:replicas": {}}}
    assert fields["u/Update"] == {"f:metadata": {"f:labels": {".": {}, "f:x": {}}}}
    assert "f:replicas" not in fields["tool/Update"]["f:spec"]


async def test_writes_that_change_nothing_do_not_touch_times(api: Any) -> None:
    before = await api.ok("PATCH", f"{WEB}?fieldManager=me", deployment(), **APPLY)
    patch = {"spec": {"replicas": 3}}
    assert await api.ok("PATCH", f"{WEB}?fieldManager=x", patch, **MERGE) == before
    assert await api.ok("PUT", f"{WEB}?fieldManager=y", before) == before
    # An atomic list that defaulting completes is the same once more.
    tolerations = deployment()
    tolerations["spec"]["template"]["spec"]["tolerations"] = [{"key": "k", "operator": "Exists"}]
    before = await api.ok("PATCH", f"{WEB}?fieldManager=me", tolerations, **APPLY)
    assert await api.ok("PATCH", f"{WEB}?fieldManager=me", tolerations, **APPLY) == before


async def test_conflicts_name_manager_operation_and_path(api: Any) -> None:
    await api.ok("POST", f"{DEPLOYMENTS}?fieldManager=kubectl-create", deployment())
    target = f"{WEB}?fieldManager=me"
    status = await api.fails(409, "PATCH", target, deployment(5), **APPLY)
    assert status["reason"] == "Conflict"
    assert status["message"] == (
        'Apply failed with 1 conflict: conflict with "kubectl-create" using apps/v1: .spec.replicas'
    )
    assert status["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "kubectl-create" using apps/v1',
            "field": ".spec.replicas",
        }
    ]
    await api.ok("PATCH", f"{WEB}/scale?fieldManager=hpa", {"spec": {"replicas": 4}}, **MERGE)
    status = await api.fails(409, "PATCH", target, deployment(5, "web:2"), **APPLY)
    assert status["message"] == (
        "Apply failed with 2 conflicts: "
        'conflicts with "hpa" with subresource "scale" using apps/v1:\n- .spec.replicas\n'
        'conflicts with "kubectl-create" using apps/v1:\n'
        '- .spec.template.spec.containers[name="web"].image'
    )
    taken = await api.ok("PATCH", f"{target}&force=true", deployment(5, "web:2"), **APPLY)
    assert taken["spec"]["replicas"] == 5
    fields = owned(taken)
    assert "hpa/Update/scale" not in fields
    assert "f:replicas" in fields["me/Apply"]["f:spec"]


async def test_scale_and_status_are_applied_apart(api: Any) -> None:
    await api.ok("PATCH", f"{WEB}?fieldManager=me", deployment(None), **APPLY)
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 7}}
    answer = await api.ok("PATCH", f"{WEB}/scale?fieldManager=hpa&force=true", scale, **APPLY)
    assert answer["spec"] == {"replicas": 7}
    status = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"not": "here"}},
        "spec": {"replicas": 9},
        "status": {"observedGeneration": 1},
    }
    found = await api.ok("PATCH", f"{WEB}/status?fieldManager=c", status, **APPLY)
    assert found["spec"]["replicas"] == 7
    assert found["status"] == {"observedGeneration": 1}
    assert "labels" not in found["metadata"]
    fields = owned(found)
    assert fields["hpa/Apply/scale"] == {"f:spec": {"f:replicas": {}}}
    assert fields["c/Apply/status"] == {"f:status": {"f:observedGeneration": {}}}
    kept = await api.ok("PATCH", f"{WEB}?fieldManager=me", deployment(None, "web:2"), **APPLY)
    assert kept["spec"]["replicas"] == 7
    await api.fails(404, "PATCH", f"{DEPLOYMENTS}/no/status?fieldManager=c", status, **APPLY)


async def test_clients_edit_and_clear_managed_fields(api: Any) -> None:
    """As kubectl does to take over what client-side apply owned (client-go util/csaupgrade)."""
    client_side = f"{DEPLOYMENTS}?fieldManager=kubectl-client-side-apply"
    made = await api.ok("POST", client_side, deployment())
    entry = made["metadata"]["managedFields"][0] | {"manager": "kubectl", "operation": "Apply"}
    operations = [
        {"op": "replace", "path": "/metadata/managedFields", "value": [entry]},
        {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": made["metadata"]["resourceVersion"],
        },
    ]
    moved = await api.ok("PATCH", WEB, operations, **JSON_PATCH)
    assert owned(moved).keys() == {"kubectl/Apply"}
    await api.fails(409, "PATCH", WEB, operations, **JSON_PATCH)  # an old resourceVersion
    less = await api.ok("PATCH", f"{WEB}?fieldManager=kubectl", deployment(None), **APPLY)
    assert less["spec"]["replicas"] == 1  # no longer named: back to the default
    cleared = await api.ok("PATCH", WEB, {"metadata": {"managedFields": [{}]}}, **MERGE)
    assert "managedFields" not in cleared["metadata"]
    # Nobody tracks it until somebody applies again.
    changed = await api.ok("PATCH", WEB, {"spec": {"replicas": 2}}, **MERGE)
    assert "managedFields" not in changed["metadata"]
    status = await api.fails(409, "PATCH", f"{WEB}?fieldManager=me", deployment(), **APPLY)
    assert 'conflict with "before-first-apply" using apps/v1' in status["message"]
    bad = {"metadata": {"managedFields": [{"manager": "x", "fieldsV1": {"nonsense": 1}}]}}
    assert await api.ok("PATCH", WEB, bad, **MERGE) == changed


async def test_an_old_resource_version_or_another_uid_conflicts(api: Any) -> None:
    first = await api.ok("PATCH", f"{CONFIG_MAPS}/a?fieldManager=me", config_map(a="1"), **APPLY)
    await api.ok("PATCH", f"{CONFIG_MAPS}/a", {"data": {"b": "2"}}, **MERGE)
    for field in ("resourceVersion", "uid"):
        stale = config_map(a="1")
        stale["metadata"][field] = first["metadata"]["resourceVersion"]
        await api.fails(409, "PATCH", f"{CONFIG_MAPS}/a?fieldManager=me", stale, **APPLY)


async def test_ports_are_told_apart_by_number_and_protocol(api: Any) -> None:
    ports = [
        {"containerPort": 53, "protocol": "UDP"},
        {"containerPort": 53, "protocol": "TCP"},
    ]
    target = f"{WEB}?fieldManager=me"
    made = await api.ok("PATCH", target, deployment(ports=ports), **APPLY)
    assert made["spec"]["template"]["spec"]["containers"][0]["ports"] == ports
    ports[0]["name"] = "dns"
    made = await api.ok("PATCH", target, deployment(ports=ports), **APPLY)
    assert made["spec"]["template"]["spec"]["containers"][0]["ports"] == ports
    twice = [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]
    for body in (deployment(ports=twice), deployment(ports=twice) | {"metadata": {"name": "b"}}):
        path = f"{DEPLOYMENTS}/{body['metadata']['name']}?fieldManager=me"
        status = await api.fails(400, "PATCH", path, body, **APPLY)
        assert 'duplicate entries for key [containerPort=80,protocol="TCP"]' in status["message"]


async def test_keys_that_are_left_out_have_their_defaults(api: Any) -> None:
    """kubernetes-sigs/structured-merge-diff#130; kubernetes/kubernetes#118725: a port without a
    protocol is the one of TCP, whoever wrote that one, and no other is taken for it."""
    target = f"{WEB}?fieldManager=me"
    await api.ok("PATCH", target, deployment(ports=[{"containerPort": 80}]), **APPLY)
    named = deployment(ports=[{"containerPort": 80, "name": "http"}])
    made = await api.ok("PATCH", target, named, **APPLY)
    tcp = {"containerPort": 80, "name": "http", "protocol": "TCP"}
    assert made["spec"]["template"]["spec"]["containers"][0]["ports"] == [tcp]
    services = "/api/v1/namespaces/default/services/web"
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    port = {"name": "one", "port": 80, "targetPort": 8080}
    mine = f"{services}?fieldManager=me"
    await api.ok("PATCH", mine, service | {"spec": {"ports": [port]}}, **APPLY)
    udp = {"spec": {"ports": [{"name": "two", "port": 80, "protocol": "UDP"}, port]}}
    await api.ok("PATCH", services, udp, **MERGE)
    port["targetPort"] = 9090
    made = await api.ok("PATCH", mine, service | {"spec": {"ports": [port]}}, **APPLY)
    found = [(one["name"], one["protocol"], one["targetPort"]) for one in made["spec"]["ports"]]
    assert sorted(found) == [("one", "TCP", 9090), ("two", "UDP", 80)]


async def test_the_keys_of_custom_resources_have_defaults_too(api: Any) -> None:
    """kubernetes/kubernetes#130125: an item that is applied again without a defaulted key is the
    same item."""
    item = {
        "type": "object",
        "required": ["port"],
        "properties": {
            "port": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
            "note": {"type": "string"},
        },
    }
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]}
    ports = {"type": "array", "items": item} | keyed
    spec = {"type": "object", "properties": {"ports": ports}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    crd = {
        "metadata": {"name": "tubes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "tubes", "kind": "Tube"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    await api.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    target = "/apis/example.com/v1/namespaces/default/tubes/t?fieldManager=me"
    head = {"apiVersion": "example.com/v1", "kind": "Tube", "metadata": {"name": "t"}}
    await api.ok("PATCH", target, head | {"spec": {"ports": [{"port": 1}]}}, **APPLY)
    noted = head | {"spec": {"ports": [{"port": 1, "note": "x"}]}}
    made = await api.ok("PATCH", target, noted, **APPLY)
    assert made["spec"]["ports"] == [{"port": 1, "protocol": "TCP", "note": "x"}]
    both = {"ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}]}
    made = await api.ok("PATCH", target, head | {"spec": both}, **APPLY)
    assert [one["protocol"] for one in made["spec"]["ports"]] == ["TCP", "UDP"]


async def test_the_applied_order_is_kept(api: Any) -> None:
    """kubernetes/kubernetes#47248, #48069: a variable that is applied above its user comes
    above it."""
    target = f"{WEB}?fieldManager=me"
    using = {"name": "B", "value": "$(A)"}
    await api.ok("PATCH", target, deployment(env=[using]), **APPLY)
    applied = [{"name": "A", "value": "1"}, using]
    made = await api.ok("PATCH", target, deployment(env=applied), **APPLY)
    assert made["spec"]["template"]["spec"]["containers"][0]["env"] == applied


async def test_string_data_is_owned_as_data(api: Any) -> None:
    """kubernetes/kubernetes#89938, #108008, #123843; helm/helm#10010: a key that is applied no
    more is gone."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    target = f"{SECRETS}/s?fieldManager=me"
    both = secret | {"stringData": {"a": "1", "b": "2"}}
    made = await api.ok("PATCH", target, both, **APPLY)
    assert made["data"] == {"a": "MQ==", "b": "Mg=="}
    assert "stringData" not in made
    assert owned(made) == {"me/Apply": {"f:data": {"f:a": {}, "f:b": {}}}}
    less = await api.ok("PATCH", target, secret | {"stringData": {"b": "2"}}, **APPLY)
    assert less["data"] == {"b": "Mg=="}


async def test_a_manifest_too_long_for_the_annotation_is_applied_by_the_server(api: Any) -> None:
    big = config_map(a="x" * 300_000)
    made = await api.ok("PATCH", f"{CONFIG_MAPS}/a?fieldManager=me", big, **APPLY)
    text = msgspec.json.encode(big).decode()
    annotated = {"metadata": {"annotations": {"last-applied": text}}}
    status = await api.fails(422, "PATCH", f"{CONFIG_MAPS}/a", annotated, **MERGE)
    assert "metadata.annotations: Too long" in status["message"]
    assert "262144 bytes" in status["message"]
    assert await api.ok("GET", f"{CONFIG_MAPS}/a") == made


async def test_a_change_meanwhile_does_not_spoil_an_apply(late: Any) -> None:
    import asyncio

    target = f"{WEB}?fieldManager=me"
    await late.ok("PATCH", target, deployment(), **APPLY)
    status = f"{WEB}/status?fieldManager=c"
    await asyncio.gather(
        late.ok("PATCH", status, {"status": {"replicas": 1}}, **MERGE),
        late.ok("PATCH", target, deployment(4), **APPLY),
    )
    found = await late.ok("GET", WEB)
    assert found["spec"]["replicas"] == 4
    assert found["status"]["replicas"] == 1
    assert "f:progressDeadlineSeconds" not in owned(found)["me/Apply"]["f:spec"]


async def test_a_patch_to_the_wrong_type_is_invalid(api: Any) -> None:
    await api.ok("POST", DEPLOYMENTS, deployment())
    wrong = {"spec": {"replicas": "three"}}
    for kind in ("merge-patch", "strategic-merge-patch"):
        content = {"content_type": f"application/{kind}+json"}
        status = await api.fails(422, "PATCH", WEB, wrong, **content)
        assert status["message"].startswith(' "" is invalid: patch: Invalid value: "{')
        assert "cannot unmarshal string into Go struct field" in status["message"]
        assert status["details"]["causes"][0]["field"] == "patch"


async def test_a_forbidden_create_is_told_by_the_name_that_was_asked(api: Any) -> None:
    spec = {"priorityClassName": "none", "containers": [{"name": "a", "image": "b"}]}
    body = {"metadata": {"generateName": "web-"}, "spec": spec}
    status = await api.fails(403, "POST", PODS, body)
    assert status["message"].startswith('pods "web-" is forbidden: no PriorityClass with name none')

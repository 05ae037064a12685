"""The rules of create, update and patch that hold for every kind."""

import asyncio
from typing import Any

import pytest

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = {"content_type": "application/merge-patch+json"}
JSON_PATCH = {"content_type": "application/json-patch+json"}
SPEC = {"containers": [{"name": "a", "image": "b"}]}


def config_map(name: str = "a", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def test_what_the_client_cannot_set_is_set_by_the_server(api: Any) -> None:
    body = config_map()
    body["metadata"] |= {"uid": "mine", "selfLink": "/x", "creationTimestamp": None}
    body["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    metadata = (await api.ok("POST", CONFIG_MAPS, body))["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["resourceVersion"]
    assert metadata["creationTimestamp"]
    assert metadata["namespace"] == "default"
    assert not {"selfLink", "deletionTimestamp"} & set(metadata)


async def test_a_second_create_conflicts(api: Any) -> None:
    await api.ok("POST", CONFIG_MAPS, config_map())
    status = await api.fails(409, "POST", CONFIG_MAPS, config_map())
    assert status["reason"] == "AlreadyExists"
    assert status["message"] == 'configmaps "a" already exists'
    assert status["details"] == {"name": "a", "kind": "configmaps"}


async def test_names_are_generated(api: Any) -> None:
    body = {"metadata": {"generateName": "job-"}}
    names = {(await api.ok("POST", CONFIG_MAPS, body))["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("job-") and len(name) == 9 for name in names)
    status = await api.fails(422, "POST", CONFIG_MAPS, {"metadata": {}})
    assert status["details"]["causes"][0]["field"] == "metadata.name"


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": "No_Good"}, "metadata.name"),
        ({"name": "a", "labels": {"bad key!": "v"}}, "metadata.labels"),
        ({"name": "a", "labels": {"k": "bad value!"}}, "metadata.labels"),
        ({"name": "a", "annotations": {"/": "v"}}, "metadata.annotations"),
        ({"name": "a", "annotations": {"k": "v" * 300_000}}, "metadata.annotations"),
        ({"name": "a", "finalizers": ["plain"]}, "metadata.finalizers[0]"),
        ({"name": "a", "ownerReferences": [{"kind": "Pod"}]}, "metadata.ownerReferences[0].name"),
    ],
)
async def test_bad_metadata_is_refused_with_its_field(
    api: Any, metadata: dict[str, Any], field: str
) -> None:
    status = await api.fails(422, "POST", CONFIG_MAPS, {"metadata": metadata})
    assert status["reason"] == "Invalid"
    assert field in [cause["field"] for cause in status["details"]["causes"]]
    await api.fails(404, "GET", f"{CONFIG_MAPS}/a")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"kind": "Secret", "metadata": {"name": "a"}}, "cannot be handled as a ConfigMap"),
        ({"apiVersion": "v2", "metadata": {"name": "a"}}, "match the expected API version"),
        ({"metadata": {"name": "a", "namespace": "other"}}, "namespace of the provided object"),
        ({"metadata": {"name": "a", "resourceVersion": "5"}}, "should not be set on objects"),
    ],
)
async def test_a_body_for_another_target_is_refused(
    api: Any, body: dict[str, Any], message: str
) -> None:
    status = await api.fails(400, "POST", CONFIG_MAPS, body)
    assert message in status["message"]


async def test_the_namespace_must_exist(api: Any) -> None:
    path = "/api/v1/namespaces/absent/configmaps"
    status = await api.fails(404, "POST", path, config_map())
    assert status["message"] == 'namespaces "absent" not found'


async def test_an_update_under_an_old_version_conflicts(api: Any) -> None:
    first = await api.ok("POST", CONFIG_MAPS, config_map(k="1"))
    second = await api.ok("PUT", f"{CONFIG_MAPS}/a", first | {"data": {"k": "2"}})
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    status = await api.fails(409, "PUT", f"{CONFIG_MAPS}/a", first | {"data": {"k": "3"}})
    assert status["reason"] == "Conflict"
    assert status["message"] == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    unconditional = await api.ok("PUT", f"{CONFIG_MAPS}/a", config_map(k="4"))
    assert unconditional["data"] == {"k": "4"}
    assert unconditional["metadata"]["uid"] == first["metadata"]["uid"]
    assert unconditional["metadata"]["creationTimestamp"] == first["metadata"]["creationTimestamp"]


async def test_a_lease_is_only_taken_under_the_version_that_was_seen(api: Any) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}}
    created = await api.ok("POST", path, lease)
    status = await api.fails(422, "PUT", f"{path}/a", lease)
    assert "must be specified for an update" in status["message"]
    await api.ok("PUT", f"{path}/a", created | {"spec": {"holderIdentity": "y"}})
    await api.ok("PATCH", f"{path}/a", {"spec": {"holderIdentity": "z"}}, **MERGE)


async def test_an_update_names_the_object_it_means(api: Any) -> None:
    created = await api.ok("POST", CONFIG_MAPS, config_map())
    status = await api.fails(400, "PUT", f"{CONFIG_MAPS}/a", config_map("b"))
    assert "does not match the name on the URL" in status["message"]
    created["metadata"]["uid"] = "other"
    status = await api.fails(409, "PUT", f"{CONFIG_MAPS}/a", created)
    assert "Precondition failed: UID in precondition: other" in status["message"]
    await api.fails(404, "PUT", f"{CONFIG_MAPS}/absent", config_map("absent"))


async def test_an_update_that_changes_nothing_writes_nothing(api: Any) -> None:
    created = await api.ok("POST", CONFIG_MAPS, config_map(k="1"))
    revision = api.store.revision
    assert await api.ok("PUT", f"{CONFIG_MAPS}/a", config_map(k="1")) == created
    patch = {"data": {"k": "1"}}
    assert await api.ok("PATCH", f"{CONFIG_MAPS}/a", patch, **MERGE) == created
    assert api.store.revision == revision


async def test_generation_counts_changes_of_the_spec_only(api: Any) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    created = await api.ok("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    assert created["metadata"]["generation"] == 1
    path = f"{DEPLOYMENTS}/d"
    labelled = await api.ok("PATCH", path, {"metadata": {"labels": {"x": "y"}}}, **MERGE)
    assert labelled["metadata"]["generation"] == 1
    scaled = await api.ok("PATCH", path, {"spec": {"replicas": 5}}, **MERGE)
    assert scaled["metadata"]["generation"] == 2
    config = await api.ok("POST", CONFIG_MAPS, config_map())
    assert "generation" not in config["metadata"]


async def test_patches_of_each_type(api: Any) -> None:
    await api.ok("POST", CONFIG_MAPS, config_map(keep="1", drop="2"))
    path = f"{CONFIG_MAPS}/a"
    merged = await api.ok("PATCH", path, {"data": {"drop": None, "new": "3"}}, **MERGE)
    assert merged["data"] == {"keep": "1", "new": "3"}
    operations = [
        {"op": "test", "path": "/data/keep", "value": "1"},
        {"op": "add", "path": "/data/more", "value": "4"},
    ]
    patched = await api.ok("PATCH", path, operations, **JSON_PATCH)
    assert patched["data"]["more"] == "4"
    absent = [{"op": "remove", "path": "/x"}]
    await api.fails(422, "PATCH", path, absent, **JSON_PATCH)
    status = await api.fails(415, "PATCH", path, {}, content_type="application/json")
    assert "application/merge-patch+json" in status["message"]
    await api.fails(400, "PATCH", path, [], **MERGE)
    await api.fails(404, "PATCH", f"{CONFIG_MAPS}/absent", {}, **MERGE)


async def test_a_patch_may_name_the_version_it_saw(api: Any) -> None:
    created = await api.ok("POST", CONFIG_MAPS, config_map())
    version = created["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "data": {"k": "1"}}
    await api.ok("PATCH", f"{CONFIG_MAPS}/a", patch, **MERGE)
    patch["data"] = {"k": "2"}
    await api.fails(409, "PATCH", f"{CONFIG_MAPS}/a", patch, **MERGE)


async def test_a_patch_cannot_change_identity(api: Any) -> None:
    created = await api.ok("POST", CONFIG_MAPS, config_map())
    patch = {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}}
    patched = await api.ok("PATCH", f"{CONFIG_MAPS}/a", patch, **MERGE)
    assert patched["metadata"] == created["metadata"]
    await api.fails(400, "PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"name": "b"}}, **MERGE)
    await api.fails(400, "PATCH", f"{CONFIG_MAPS}/a", {"kind": "Secret"}, **MERGE)


async def test_a_dry_run_changes_nothing(api: Any) -> None:
    dry = "?dryRun=All"
    created = await api.ok("POST", CONFIG_MAPS + dry, config_map())
    assert created["metadata"]["uid"]
    assert "resourceVersion" not in created["metadata"]
    await api.fails(404, "GET", f"{CONFIG_MAPS}/a")
    await api.ok("POST", CONFIG_MAPS, config_map(k="1"))
    after = await api.ok("PATCH", f"{CONFIG_MAPS}/a{dry}", {"data": {"k": "2"}}, **MERGE)
    assert after["data"] == {"k": "2"}
    await api.ok("DELETE", f"{CONFIG_MAPS}/a{dry}")
    await api.ok("DELETE", f"{CONFIG_MAPS}/a", {"dryRun": ["All"]})
    assert (await api.ok("GET", f"{CONFIG_MAPS}/a"))["data"] == {"k": "1"}
    await api.fails(422, "POST", f"{CONFIG_MAPS}?dryRun=Some", config_map("b"))


async def test_unknown_fields_by_field_validation(api: Any) -> None:
    """kubernetes/kubernetes#99286, #67477, #7598, #17165: misspelt fields are told."""
    body = config_map() | {"colour": "red"}
    status = await api.fails(400, "POST", f"{CONFIG_MAPS}?fieldValidation=Strict", body)
    assert 'unknown field "colour"' in status["message"]
    warned = await api.ask("POST", CONFIG_MAPS, body)
    assert warned.headers["warning"] == '299 - "unknown field \\"colour\\""'
    assert "colour" not in warned.json
    silent = await api.ask("PUT", f"{CONFIG_MAPS}/a?fieldValidation=Ignore", body)
    assert "warning" not in silent.headers
    await api.fails(422, "POST", f"{CONFIG_MAPS}?fieldValidation=Maybe", body)


async def test_nothing_can_be_created_twice_by_many_at_once(api: Any) -> None:
    answers = await asyncio.gather(*(api.ask("POST", CONFIG_MAPS, config_map()) for _ in range(10)))
    assert sorted(answer.code for answer in answers) == [201] + [409] * 9


async def test_of_many_updates_under_one_version_one_wins(late: Any) -> None:
    created = await late.ok("POST", CONFIG_MAPS, config_map(k="0"))
    answers = await asyncio.gather(
        *(late.ask("PUT", f"{CONFIG_MAPS}/a", created | {"data": {"k": n}}) for n in "12345678")
    )
    assert sorted(answer.code for answer in answers) == [200] + [409] * 7


async def test_patches_and_scales_start_anew_when_others_come_first(late: Any) -> None:
    await late.ok("POST", CONFIG_MAPS, config_map())
    await asyncio.gather(
        *(
            late.ok("PATCH", f"{CONFIG_MAPS}/a", {"data": {f"k{n}": "v"}}, **MERGE)
            for n in range(20)
        )
    )
    assert len((await late.ok("GET", f"{CONFIG_MAPS}/a"))["data"]) == 20


async def test_a_deletion_that_comes_first_makes_the_others_miss(late: Any) -> None:
    await late.ok("POST", CONFIG_MAPS, config_map())
    answers = await asyncio.gather(*(late.ask("DELETE", f"{CONFIG_MAPS}/a") for _ in range(4)))
    assert sorted(answer.code for answer in answers) == [200, 404, 404, 404]


async def test_a_generated_name_that_is_taken_is_drawn_again(api: Any) -> None:
    path = "/api/v1/namespaces/default/services"
    spec = {"ports": [{"port": 80}]}
    body = {"metadata": {"generateName": "s-"}, "spec": spec}
    with pytest.MonkeyPatch.context() as patched:
        names = iter(["aaaaa", "aaaaa", "bbbbb"])
        patched.setattr("shepherd.server.metadata.name_suffix", lambda random: next(names))
        first = await api.ok("POST", path, body)
        second = await api.ok("POST", path, body)
    assert second["metadata"]["name"] == "s-bbbbb"
    addresses = [first["spec"]["clusterIP"], second["spec"]["clusterIP"]]
    for address in addresses:
        taken = {"metadata": {"name": "t"}, "spec": spec | {"clusterIP": address}}
        await api.fails(422, "POST", path, taken)

"""CustomResourceDefinitions over the API: what they make the server serve, and how long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from shepherd.api.resource import Object
from shepherd.lib.clock import SystemClock
from shepherd.server.app import ApiServer
from shepherd.server.auth import InsecureAuthenticator
from shepherd.server.config import ServerConfig

MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SPEC = {
    "type": "object",
    "required": ["colour"],
    "properties": {
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "replicas": {"type": "integer", "minimum": 0, "maximum": 10, "default": 1},
        "note": {"type": "string", "nullable": True, "maxLength": 10},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "pattern": "^[a-z]+$"},
                    "port": {"x-kubernetes-int-or-string": True},
                },
            },
        },
    },
    "x-kubernetes-validations": [
        {"rule": "self.colour != 'red' || self.replicas <= 5", "message": "red is dear"},
        {"rule": "self.replicas >= oldSelf.replicas", "message": "may not shrink"},
    ],
}
STATUS = {
    "type": "object",
    "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
}

SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def version(name: str = "v1", *, storage: bool = True, **more: Any) -> Object:
    """A version of the kind Tube."""
    properties = {"spec": SPEC, "status": STATUS}
    made = {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}},
    }
    return made | more


def crd(*versions: Object, kind: str = "Tube", scope: str = "Namespaced", **spec: Any) -> Object:
    """The CRD of a kind in the group example.com."""
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {
                "plural": plural,
                "kind": kind,
                "shortNames": [f"{kind.lower()[:2]}"],
                "categories": ["all"],
            },
            "versions": list(versions) or [version()],
        }
        | spec,
    }


def tube(name: str = "t1", api_version: str = "example.com/v1", **spec: Any) -> Object:
    """A Tube."""
    return {
        "apiVersion": api_version,
        "kind": "Tube",
        "metadata": {"name": name},
        "spec": {"colour": "blue"} | spec,
    }


def tubes(namespace: str = "default", version: str = "v1") -> str:
    """The path of the collection."""
    return f"/apis/example.com/{version}/namespaces/{namespace}/tubes"


@pytest.fixture
async def running(api: Any) -> AsyncIterator[Any]:
    """The API with its background work."""
    task = asyncio.create_task(api.server.run())
    yield api
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def conditions(obj: Object) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in obj["status"]["conditions"]}


async def test_a_kind_can_be_used_as_soon_as_its_definition_is_stored(api: Any) -> None:
    made = await api.ok("POST", CRDS, crd())
    assert conditions(made) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert made["status"]["acceptedNames"]["listKind"] == "TubeList"
    assert made["status"]["storedVersions"] == ["v1"]
    created = await api.ok("POST", tubes(), tube())
    assert created["spec"] == {"colour": "blue", "replicas": 1}
    assert created["metadata"]["generation"] == 1
    listed = await api.ok("GET", "/apis/example.com/v1/tubes")
    assert listed["kind"] == "TubeList"
    assert listed["items"] == [created]


async def test_discovery_and_openapi_know_it_at_once_and_forget_it_at_once(running: Any) -> None:
    api = running
    before = await api.ok("GET", "/openapi/v3")
    await api.ok("POST", CRDS, crd(version(subresources={"status": {}, "scale": SCALE})))
    found = await api.ok("GET", "/apis", accept=AGGREGATED)
    (group,) = [item for item in found["items"] if item["metadata"]["name"] == "example.com"]
    (resource,) = group["versions"][0]["resources"]
    assert (resource["resource"], resource["shortNames"]) == ("tubes", ["tu"])
    assert [sub["subresource"] for sub in resource["subresources"]] == ["scale", "status"]
    names = [r["name"] for r in (await api.ok("GET", "/apis/example.com/v1"))["resources"]]
    assert names == ["tubes", "tubes/scale", "tubes/status"]
    document = await api.ok("GET", "/openapi/v3/apis/example.com/v1")
    schema = document["components"]["schemas"]["com.example.v1.Tube"]
    assert schema["properties"]["spec"]["properties"]["colour"]["enum"] == ["red", "blue"]
    gvk = {"group": "example.com", "version": "v1", "kind": "Tube"}
    assert schema["x-kubernetes-group-version-kind"] == [gvk]
    after = await api.ok("GET", "/openapi/v3")
    assert after["paths"].keys() - before["paths"].keys() == {"apis/example.com/v1"}
    await api.ok("DELETE", f"{CRDS}/tubes.example.com")
    await gone(api, f"{CRDS}/tubes.example.com")
    await api.fails(404, "GET", "/apis/example.com/v1")
    assert await api.ok("GET", "/openapi/v3") == before


async def answers(api: Any, path: str, code: int) -> None:
    """Return once a GET of the path is answered so."""
    for _ in range(1000):
        if (await api.ask("GET", path)).code == code:
            return
        await asyncio.sleep(0)
    pytest.fail(f"{path} never answers {code}")


async def gone(api: Any, path: str) -> None:
    await answers(api, path, 404)


async def test_objects_are_pruned_filled_in_and_validated(api: Any) -> None:
    await api.ok("POST", CRDS, crd())
    answer = await api.ask("POST", tubes(), tube(zzz=1))
    assert 'unknown field \\"spec.zzz\\"' in answer.headers["warning"]
    assert "zzz" not in answer.json["spec"]
    strict = await api.fails(400, "POST", f"{tubes()}?fieldValidation=Strict", tube("t2", zzz=1))
    assert 'unknown field "spec.zzz"' in strict["message"]
    wrong = tube("t2", colour="green", replicas="x", note="01234567890", ports=[{"port": 1}])
    found = await api.fails(422, "POST", tubes(), wrong)
    causes = {c["field"]: (c["reason"], c["message"]) for c in found["details"]["causes"]}
    assert causes["spec.colour"] == (
        "FieldValueNotSupported",
        'Unsupported value: "green": supported values: "red", "blue"',
    )
    assert causes["spec.replicas"] == (
        "FieldValueTypeInvalid",
        'Invalid value: "string": spec.replicas in body must be of type integer: "string"',
    )
    assert causes["spec.note"] == ("FieldValueTooLong", "Too long: may not be more than 10 bytes")
    assert causes["spec.ports[0].name"] == ("FieldValueRequired", "Required value")
    bad = await api.fails(400, "POST", tubes(), {"metadata": {"name": 1}})
    assert "cannot unmarshal number" in bad["message"]


async def test_rules_see_the_object_and_what_it_was(api: Any) -> None:
    await api.ok("POST", CRDS, crd())
    found = await api.fails(422, "POST", tubes(), tube(colour="red", replicas=7))
    assert found["message"] == (
        'Tube.example.com "t1" is invalid: spec: Invalid value: red is dear'
    )
    await api.ok("POST", tubes(), tube(replicas=3))
    one = f"{tubes()}/t1"
    found = await api.fails(422, "PATCH", one, {"spec": {"replicas": 2}}, content_type=MERGE)
    assert "may not shrink" in found["message"]
    grown = await api.ok("PATCH", one, {"spec": {"replicas": 4}}, content_type=MERGE)
    assert grown["metadata"]["generation"] == 2


async def test_bodies_are_json_or_yaml_and_patches_merge_json_or_apply(api: Any) -> None:
    await api.ok("POST", CRDS, crd())
    text = b"apiVersion: example.com/v1\nkind: Tube\nmetadata: {name: y}\nspec: {colour: red}\n"
    await api.ok("POST", tubes(), text, content_type="application/yaml")
    one = f"{tubes()}/y"
    strategic = "application/strategic-merge-patch+json"
    await api.fails(415, "PATCH", one, {}, content_type=strategic)
    protobuf = "application/vnd.kubernetes.protobuf"
    await api.fails(415, "POST", tubes(), b"k8s\0", content_type=protobuf)
    patch = [{"op": "replace", "path": "/spec/colour", "value": "blue"}]
    changed = await api.ok("PATCH", one, patch, content_type="application/json-patch+json")
    assert changed["spec"]["colour"] == "blue"
    apply = "application/apply-patch+yaml"
    for port, manager in (("a", "one"), ("b", "two")):
        config = tube("y", ports=[{"name": port, "port": 1}])
        del config["spec"]["colour"]
        await api.ok("PATCH", f"{one}?fieldManager={manager}", config, content_type=apply)
    merged = await api.ok("GET", one)
    assert [port["name"] for port in merged["spec"]["ports"]] == ["a", "b"]
    taken = tube("y", ports=[{"name": "a", "port": 2}])
    found = await api.fails(409, "PATCH", f"{one}?fieldManager=two", taken, content_type=apply)
    assert '.spec.ports[name="a"].port' in found["message"]


async def test_status_and_scale_are_subresources(api: Any) -> None:
    await api.ok("POST", CRDS, crd(version(subresources={"status": {}, "scale": SCALE})))
    one = f"{tubes()}/t1"
    created = await api.ok("POST", tubes(), tube() | {"status": {"replicas": 9}})
    assert "status" not in created
    status = {"status": {"replicas": 2, "selector": "app=t"}, "spec": {"replicas": 9}}
    changed = await api.ok("PATCH", f"{one}/status", status, content_type=MERGE)
    assert (changed["spec"]["replicas"], changed["metadata"]["generation"]) == (1, 1)
    wrong = {"status": {"replicas": "x"}}
    await api.fails(422, "PATCH", f"{one}/status", wrong, content_type=MERGE)
    scale = await api.ok("GET", f"{one}/scale")
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 1})
    assert scale["status"] == {"replicas": 2, "selector": "app=t"}
    scaled = await api.ok("PATCH", f"{one}/scale", {"spec": {"replicas": 5}}, content_type=MERGE)
    assert scaled["spec"]["replicas"] == 5
    assert (await api.ok("GET", one))["spec"]["replicas"] == 5


async def test_columns_and_selectable_fields_come_from_the_definition(api: Any) -> None:
    columns = [
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
        {"name": "First", "type": "string", "jsonPath": ".spec.ports[?(@.name=='a')].port"},
        {"name": "Born", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
    ]
    fields = [{"jsonPath": ".spec.colour"}, {"jsonPath": ".spec.replicas"}]
    made = version(additionalPrinterColumns=columns, selectableFields=fields)
    await api.ok("POST", CRDS, crd(made))
    await api.ok("POST", tubes(), tube("a", colour="red", ports=[{"name": "a", "port": 80}]))
    await api.ok("POST", tubes(), tube("b"))
    table = await api.ok("GET", tubes(), accept=TABLE)
    shown = [(c["name"], c["priority"]) for c in table["columnDefinitions"]]
    assert shown == [("Name", 0), ("Colour", 0), ("First", 0), ("Born", 1)]
    assert [row["cells"][:3] for row in table["rows"]] == [["a", "red", "80"], ["b", "blue", None]]
    red = await api.ok("GET", f"{tubes()}?fieldSelector=spec.colour%3Dred")
    assert [item["metadata"]["name"] for item in red["items"]] == ["a"]
    found = await api.fails(400, "GET", f"{tubes()}?fieldSelector=spec.note%3Dx")
    assert "field label not supported: spec.note" in found["message"]
    events = await api.watch(f"{tubes()}?watch=1&fieldSelector=spec.colour%3Dred")
    assert await events.take(1) == [("ADDED", "a")]
    patch = {"spec": {"colour": "red"}}
    await api.ok("PATCH", f"{tubes()}/b", patch, content_type=MERGE)
    assert await events.take(1) == [("ADDED", "b")]


async def test_versions_without_conversion_differ_in_their_name_and_schema(api: Any) -> None:
    await api.ok("POST", CRDS, crd(version("v1beta1", storage=False), version("v1")))
    await api.ok("POST", tubes(version="v1beta1"), tube(api_version="example.com/v1beta1"))
    assert (await api.ok("GET", f"{tubes()}/t1"))["apiVersion"] == "example.com/v1"
    older = await api.ok("GET", f"{tubes(version='v1beta1')}/t1")
    assert older["apiVersion"] == "example.com/v1beta1"
    events = await api.watch(f"{tubes(version='v1beta1')}?watch=1")
    assert (await events.next())["object"] == older
    await api.ok("PATCH", f"{tubes()}/t1", {"spec": {"note": "x"}}, content_type=MERGE)
    event = await events.next()
    assert event["object"]["apiVersion"] == "example.com/v1beta1"
    group = await api.ok("GET", "/apis/example.com")
    assert group["preferredVersion"]["version"] == "v1"


async def test_a_new_schema_holds_for_what_is_stored_already(api: Any) -> None:
    await api.ok("POST", CRDS, crd())
    await api.ok("POST", tubes(), tube(note="long note"))
    events = await api.watch(f"{tubes()}?watch=1")
    await events.next()
    path = f"{CRDS}/tubes.example.com"
    changed = await api.ok("GET", path)
    properties = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"]["shape"] = {"type": "string", "default": "round"}
    properties["spec"]["properties"]["note"] = {"type": "string", "maxLength": 3}
    await api.ok("PUT", path, changed)
    assert await events.ended()
    one = f"{tubes()}/t1"
    assert (await api.ok("GET", one))["spec"]["shape"] == "round"
    listed = await api.ok("GET", tubes())
    assert listed["items"][0]["spec"]["shape"] == "round"
    # What broke no rule when it was written does not stand in the way of other changes.
    await api.ok("PATCH", one, {"spec": {"replicas": 3}}, content_type=MERGE)
    found = await api.fails(422, "PATCH", one, {"spec": {"note": "new note"}}, content_type=MERGE)
    assert found["details"]["causes"][0]["field"] == "spec.note"


async def test_deleting_a_definition_deletes_its_objects_and_ends_their_watches(
    running: Any,
) -> None:
    api = running
    await api.ok("POST", CRDS, crd())
    await api.ok("POST", tubes(), tube("a"))
    held = tube("b")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await api.ok("POST", tubes(), held)
    events = await api.watch(f"{tubes()}?watch=1")
    assert await events.take(2) == [("ADDED", "a"), ("ADDED", "b")]
    path = f"{CRDS}/tubes.example.com"
    ending = await api.ok("DELETE", path)
    assert conditions(ending)["Terminating"] == ("True", "InstanceDeletionPending")
    assert sorted(await events.take(2)) == [("DELETED", "a"), ("MODIFIED", "b")]
    await api.fails(405, "POST", tubes(), tube("c"))
    await api.ok("GET", path)
    free = {"metadata": {"finalizers": None}}
    await api.ok("PATCH", f"{tubes()}/b", free, content_type=MERGE)
    assert await events.take(1) == [("DELETED", "b")]
    assert await events.ended()
    await gone(api, path)
    await api.fails(404, "GET", tubes())
    await api.ok("POST", CRDS, crd())
    assert (await api.ok("GET", tubes()))["items"] == []


async def test_names_belong_to_the_first_and_come_free_with_it(running: Any) -> None:
    api = running
    await api.ok("POST", CRDS, crd())
    names = {"plural": "pipes", "kind": "Tube", "shortNames": ["tu", "pi"]}
    second = await api.ok("POST", CRDS, crd(kind="Pipe", names=names))
    assert conditions(second) == {
        "NamesAccepted": ("False", "ListKindConflict"),
        "Established": ("False", "NotAccepted"),
    }
    await api.fails(404, "GET", "/apis/example.com/v1/namespaces/default/pipes")
    await api.ok("DELETE", f"{CRDS}/tubes.example.com")
    await gone(api, f"{CRDS}/tubes.example.com")
    await answers(api, "/apis/example.com/v1/pipes", 200)
    found = await api.ok("GET", f"{CRDS}/pipes.example.com")
    assert conditions(found)["Established"] == ("True", "InitialNamesAccepted")


async def test_short_names_that_are_taken_hold_a_definition_back(running: Any) -> None:
    """What it had accepted before goes on being served."""
    api = running
    await api.ok("POST", CRDS, crd(names={"plural": "tubes", "kind": "Tube", "shortNames": ["tu"]}))
    names = {"plural": "pipes", "kind": "Pipe", "shortNames": ["pi"]}
    await api.ok("POST", CRDS, crd(kind="Pipe", names=names))
    path = f"{CRDS}/pipes.example.com"
    wanted = {"spec": {"names": names | {"shortNames": ["tu", "pp"]}}}
    found = await api.ok("PATCH", path, wanted, content_type=MERGE)
    (accepted,) = [c for c in found["status"]["conditions"] if c["type"] == "NamesAccepted"]
    assert (accepted["status"], accepted["reason"], accepted["message"]) == (
        "False",
        "ShortNamesConflict",
        '"tu" is already in use',
    )
    assert conditions(found)["Established"][0] == "True"
    assert found["status"]["acceptedNames"]["shortNames"] == ["pi"]
    resources = (await api.ok("GET", "/apis/example.com/v1"))["resources"]
    assert {one["name"]: one["shortNames"] for one in resources if "shortNames" in one} == {
        "pipes": ["pi"],
        "tubes": ["tu"],
    }
    await api.ok("DELETE", f"{CRDS}/tubes.example.com")
    await gone(api, f"{CRDS}/tubes.example.com")
    events = await api.watch(f"{CRDS}?watch=1&fieldSelector=metadata.name=pipes.example.com")
    while conditions((await events.next())["object"])["NamesAccepted"][0] != "True":
        pass


async def test_a_version_that_objects_are_stored_in_must_stay(api: Any) -> None:
    """It goes once status.storedVersions no longer names it."""
    await api.ok("POST", CRDS, crd(version("v1")))
    path = f"{CRDS}/tubes.example.com"
    found = await api.ok("GET", path)
    found["spec"]["versions"][0]["storage"] = False
    found["spec"]["versions"].append(version("v2"))
    found = await api.ok("PUT", path, found)
    assert found["status"]["storedVersions"] == ["v1", "v2"]
    only = {"spec": {"versions": [version("v2")]}}
    status = await api.fails(422, "PATCH", path, only, content_type=MERGE)
    assert status["details"]["causes"][0]["field"] == "status.storedVersions[0]"
    assert "v1 was previously a storage version" in status["message"]
    migrated = {"status": {"storedVersions": ["v2"]}}
    await api.ok("PATCH", f"{path}/status", migrated, content_type=MERGE)
    found = await api.ok("PATCH", path, only, content_type=MERGE)
    assert found["status"]["storedVersions"] == ["v2"]


BROKEN = [
    ({"group": "nodot"}, "spec.group"),
    ({"scope": "Galaxy"}, "spec.scope"),
    ({"versions": []}, "spec.versions"),
    ({"versions": [version(storage=False)]}, "spec.versions"),
    ({"versions": [version(), version(storage=False)]}, "spec.versions"),
    ({"versions": [version("V1")]}, "spec.versions[0].name"),
    ({"versions": [version(schema=None)]}, "spec.versions[0].schema.openAPIV3Schema"),
    ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.webhook.clientConfig"),
    ({"names": {"plural": "tubes", "kind": "tu be"}}, "spec.names.kind"),
    (
        {"versions": [version(additionalPrinterColumns=[{"name": "a", "type": "x"}])]},
        "spec.versions[0].additionalPrinterColumns[0].type",
    ),
    (
        {"versions": [version(selectableFields=[{"jsonPath": ".spec.ports"}])]},
        "spec.versions[0].selectableFields[0].jsonPath",
    ),
    (
        {"versions": [version(subresources={"scale": {"specReplicasPath": ".status.a"}})]},
        "spec.versions[0].subresources.scale.specReplicasPath",
    ),
]


@pytest.mark.parametrize(("change", "field"), BROKEN, ids=[field for _, field in BROKEN])
async def test_a_definition_that_is_wrong_is_told_where(
    api: Any, change: Object, field: str
) -> None:
    found = await api.fails(422, "POST", CRDS, crd(**change))
    assert field in [cause["field"] for cause in found["details"]["causes"]], found["message"]


async def test_what_a_definition_may_not_change(api: Any) -> None:
    made = await api.ok("POST", CRDS, crd())
    path = f"{CRDS}/tubes.example.com"
    found = await api.fails(422, "PUT", path, made | {"spec": made["spec"] | {"scope": "Cluster"}})
    assert found["details"]["causes"][0] == {
        "reason": "FieldValueInvalid",
        "message": 'Invalid value: "Cluster": field is immutable',
        "field": "spec.scope",
    }
    dropped = made | {"spec": made["spec"] | {"versions": [version("v2")]}}
    found = await api.fails(422, "PUT", path, dropped)
    assert "v1 was previously a storage version" in found["message"]
    again = await api.fails(409, "POST", CRDS, crd())
    assert again["reason"] == "AlreadyExists"
    await api.ok("GET", tubes())


async def test_protected_groups_need_an_approval(api: Any) -> None:
    made = crd(group="batch.k8s.io")
    made["metadata"]["name"] = "tubes.batch.k8s.io"
    found = await api.fails(422, "POST", CRDS, made)
    assert "protected groups must have approval annotation" in found["message"]


async def test_deprecated_versions_warn(api: Any) -> None:
    made = version(deprecated=True, deprecationWarning="use cables")
    await api.ok("POST", CRDS, crd(made))
    answer = await api.ask("POST", tubes(), tube())
    assert "use cables" in answer.headers["warning"]


async def test_definitions_are_read_again_after_a_restart(api: Any) -> None:
    await api.ok("POST", CRDS, crd())
    created = await api.ok("POST", tubes(), tube())
    again = ApiServer(
        api.store,
        config=ServerConfig(),
        clock=SystemClock(),
        random=Random(2),
        authenticator=InsecureAuthenticator(),
    )
    await again.start()
    api.server = again
    assert await api.ok("GET", f"{tubes()}/t1") == created
    taken = {"plural": "pipes", "kind": "Tube"}
    second = await api.ok("POST", CRDS, crd(kind="Pipe", names=taken))
    assert conditions(second)["NamesAccepted"][0] == "False"

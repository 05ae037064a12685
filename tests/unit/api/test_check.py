"""Objects against their schema: what is refused, dropped and brought into form."""

from copy import deepcopy
from typing import Any

import pytest

from shepherd.api.check import WrongType, check
from shepherd.api.schema import Type, type_of


def _type(group: str, version: str, kind: str) -> Type:
    found = type_of(group, version, kind)
    assert found is not None
    return found


POD = _type("", "v1", "Pod")


def _pod(**container: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"} | container]}}


def test_a_sound_object_is_returned_as_it_is() -> None:
    pod = _pod(image="x", resources={"limits": {"cpu": "1"}})
    checked, unknown = check(pod, POD)
    assert checked is pod
    assert unknown == []


def test_unknown_fields_are_named_and_gone() -> None:
    pod = _pod(imagee="x", livenessProbe={"httpGet": {"port": 80, "paths": "/"}}) | {"spek": {}}
    before = deepcopy(pod)
    checked, unknown = check(pod, POD)
    assert unknown == [
        "spec.containers[0].imagee",
        "spec.containers[0].livenessProbe.httpGet.paths",
        "spek",
    ]
    assert checked == _pod(livenessProbe={"httpGet": {"port": 80}})
    assert pod == before


def test_null_means_absent() -> None:
    checked, unknown = check(_pod(image=None, args=[None, "b"], env=None), POD)
    assert checked == _pod(args=["", "b"])
    assert unknown == []
    labels = {"metadata": {"labels": {"a": None}}}
    assert check(labels, POD)[0] == {"metadata": {"labels": {"a": ""}}}


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"image": 1}, "json: cannot unmarshal number into Go struct field "
         "Pod.spec.containers[0].image of type string"),
        ({"tty": "yes"}, "cannot unmarshal string into Go struct field Pod.spec.containers[0].tty "
         "of type bool"),
        ({"args": "x"}, "cannot unmarshal string .* of type \\[\\]string"),
        ({"args": [{}]}, "cannot unmarshal object .* Pod.spec.containers\\[0\\].args\\[0\\]"),
        ({"ports": [{"containerPort": 80.5}]}, "cannot unmarshal number 80.5 .* of type int32"),
        ({"ports": [{"containerPort": 2**31}]}, "number 2147483648 .* of type int32"),
        ({"ports": [{"containerPort": True}]}, "cannot unmarshal bool .* of type int32"),
        ({"resources": []}, "cannot unmarshal array .* of type v1.ResourceRequirements"),
        ({"resources": {"limits": {"cpu": "1x"}}},
         "spec.containers\\[0\\].resources.limits.cpu: quantities must match"),
        ({"resources": {"limits": {"cpu": True}}}, "bool .* of type resource.Quantity"),
        ({"livenessProbe": {"httpGet": {"port": 1.5}}}, "number 1.5 .* of type int32"),
    ],
)  # fmt: skip
def test_wrong_types_name_their_field(container: dict[str, Any], message: str) -> None:
    pattern = message if "\\" in message or ".*" in message else message.replace("[", "\\[")
    with pytest.raises(WrongType, match=pattern):
        check(_pod(**container), POD)


def test_quantities_times_and_bytes_take_their_canonical_form() -> None:
    limits = {"cpu": 0.5, "memory": "1024Mi", "pods": 3}
    checked, _ = check(_pod(resources={"limits": limits}), POD)
    found = checked["spec"]["containers"][0]["resources"]["limits"]
    assert found == {"cpu": "500m", "memory": "1Gi", "pods": "3"}
    meta = {"metadata": {"creationTimestamp": "2026-01-01T02:00:00.5+02:00"}}
    assert check(meta, POD)[0] == {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
    lease = _type("coordination.k8s.io", "v1", "Lease")
    renewed, _ = check({"spec": {"renewTime": "2026-01-01T00:00:00Z"}}, lease)
    assert renewed == {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
    secret = _type("", "v1", "Secret")
    assert check({"data": {"a": "YWJj\nZGVm"}}, secret)[0] == {"data": {"a": "YWJjZGVm"}}


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01", 5])
def test_what_is_no_time(text: Any) -> None:
    with pytest.raises(WrongType):
        check({"metadata": {"creationTimestamp": text}}, POD)


def test_what_is_no_base64() -> None:
    with pytest.raises(WrongType, match=r"data\.a: illegal base64 data"):
        check({"data": {"a": "x"}}, _type("", "v1", "Secret"))


def test_schemas_in_schemas() -> None:
    crd = _type("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    schema: dict[str, Any] = {
        "properties": {
            "a": {"items": {"type": "string"}, "additionalProperties": True},
            "b": {"items": [{"type": "string"}], "dependencies": {"x": ["y"], "z": {"typ": 1}}},
        }
    }
    obj = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
    _, unknown = check(obj, crd)
    prefix = "spec.versions[0].schema.openAPIV3Schema.properties"
    assert unknown == [f"{prefix}.b.dependencies.z.typ"]
    schema["properties"]["a"]["items"] = {"type": 1}
    with pytest.raises(WrongType, match=r"properties\.a\.items\.type of type string"):
        check(obj, crd)

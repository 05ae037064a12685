"""Protobuf bodies: real ones of kubectl, hand-made ones for the rules, broken ones."""

import importlib.util
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.api.decode import PROTOBUF, decode_object
from shepherd.api.errors import ApiError
from shepherd.api.protobuf import MAGIC
from shepherd.api.resource import Object
from shepherd.api.schema import type_of

_spec = importlib.util.spec_from_file_location(
    "kubectl_bodies", Path(__file__).with_name("kubectl_bodies.py")
)
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
BODIES: dict[str, bytes] = {name: bytes.fromhex(text) for name, text in _module.BODIES.items()}


def varint(number: int) -> bytes:
    number %= 2**64
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(message: bytes, api_version: str = "v1", kind: str = "Pod") -> bytes:
    return MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, message)


def read(data: bytes, group: str = "", version: str = "v1", kind: str = "Pod") -> Object:
    return decode_object(data, PROTOBUF, group, version, kind, validation="Strict").object


def test_kubectl_create_deployment() -> None:
    container = {"name": "nginx", "image": "nginx", "ports": [{"containerPort": 80}]}
    assert read(BODIES["deployments"], "apps", "v1", "Deployment") == {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container]},
            },
        },
    }


@pytest.mark.parametrize(
    ("name", "gvk", "part"),
    [
        ("secrets", ("", "v1", "Secret"), {"data": {"p": "cQ=="}}),
        ("resourcequotas", ("", "v1", "ResourceQuota"),
         {"spec": {"hard": {"cpu": "1", "pods": "2"}}}),
        ("services", ("", "v1", "Service"), {"spec": {
            "ports": [{"name": "80-8080", "protocol": "TCP", "port": 80, "targetPort": 8080}],
            "selector": {"app": "s"}, "type": "NodePort"}}),
        ("poddisruptionbudgets", ("policy", "v1", "PodDisruptionBudget"), {"spec": {
            "minAvailable": "50%", "selector": {"matchLabels": {"app": "a"}}}}),
        ("ingresses", ("networking.k8s.io", "v1", "Ingress"), {"spec": {"rules": [
            {"host": "a.com", "http": {"paths": [{"path": "/p", "pathType": "Prefix", "backend": {
                "service": {"name": "svc", "port": {"number": 80}}}}]}}]}}),
        ("selfsubjectaccessreviews", ("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
         {"spec": {"resourceAttributes": {"namespace": "default", "verb": "list",
                                          "resource": "pods", "subresource": "log"}}}),
        ("token", ("authentication.k8s.io", "v1", "TokenRequest"), {}),
    ],
)  # fmt: skip
def test_kubectl_create(name: str, gvk: tuple[str, str, str], part: dict[str, Any]) -> None:
    found = read(BODIES[name], *gvk)
    assert {key: found[key] for key in part} == part


def test_values_of_every_form() -> None:
    seconds = 1767225600
    metadata = field(1, "a") + field(8, field(1, seconds)) + field(9, b"")
    probe = field(1, field(2, field(2, field(1, 1) + field(3, "http")))) + field(2, -5)
    limits = field(1, "cpu") + field(2, field(1, "1000m"))
    container = field(1, "c") + field(10, probe) + field(8, field(1, limits)) + field(999, "new")
    volume = field(1, "v") + field(2, field(2, b""))
    security = field(2, 0)
    spec = field(2, container) + field(1, volume) + field(14, security) + field(4, 0)
    found = read(body(field(1, metadata) + field(2, spec)))
    assert found["metadata"] == {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert found["spec"] == {
        "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "v", "emptyDir": {}}],
        "securityContext": {"runAsUser": 0},
        "containers": [
            {
                "name": "c",
                "livenessProbe": {"httpGet": {"port": "http"}, "initialDelaySeconds": -5},
                "resources": {"limits": {"cpu": "1"}},
            }
        ],
    }


def test_lists_in_maps_and_micro_times() -> None:
    extra = field(1, "scopes") + field(2, field(1, "a") + field(1, "b"))
    review = field(2, field(1, field(1, "u") + field(4, extra)))
    data = body(field(3, review[2:]), "authentication.k8s.io/v1", "TokenReview")
    user = field(3, field(2, field(1, "u") + field(4, extra)))
    data = body(user, "authentication.k8s.io/v1", "TokenReview")
    found = read(data, "authentication.k8s.io", "v1", "TokenReview")
    assert found["status"]["user"] == {"username": "u", "extra": {"scopes": ["a", "b"]}}
    spec = field(4, field(1, 1767225600) + field(2, 250_000_000))
    lease = read(body(field(2, spec), "coordination.k8s.io/v1", "Lease"),
                 "coordination.k8s.io", "v1", "Lease")  # fmt: skip
    assert lease["spec"] == {"renewTime": "2026-01-01T00:00:00.250000Z"}


def test_packed_and_plain_number_lists() -> None:
    packed = field(14, field(4, varint(1) + varint(300)) + field(4, 7))
    found = read(body(field(2, packed)))
    assert found["spec"]["securityContext"]["supplementalGroups"] == [1, 300, 7]


def test_delete_options() -> None:
    message = field(1, 0) + field(4, "Background") + field(5, "All")
    data = body(message, "apps/v1", "DeleteOptions")
    found = read(data, "apps", "v1", "DeleteOptions")
    assert found["gracePeriodSeconds"] == 0
    assert found["propagationPolicy"] == "Background"
    assert found["dryRun"] == ["All"]


def test_schemas_of_custom_resources() -> None:
    inner = field(5, "string")
    items = field(24, field(1, inner))
    either = field(30, field(1, 1))
    default = field(8, field(1, '{"a":1}'))
    schema = field(5, "object") + items + either + default
    version = field(1, "v1") + field(4, field(1, schema))
    data = body(field(2, field(7, version)), "apiextensions.k8s.io/v1", "CustomResourceDefinition")
    found = read(data, "apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    assert found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "items": {"type": "string"},
        "additionalProperties": True,
        "default": {"a": 1},
    }


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{}", "prefix is missing"),
        (MAGIC[:3], "prefix is missing"),
        (BODIES["services"][:-5], "unexpected end"),
        (body(b"\x0a"), "unexpected end"),
        (body(b"\x0a\x05ab"), "unexpected end"),
        (body(b"\xff" * 11), "longer than 64 bits"),
        (body(b"\x0b"), "unknown wire type 3"),
        (body(b"\x00\x01"), "number 0"),
        (body(field(1, 5)), "a number stands where"),
        (body(field(2, field(4, "x"))), "a message or text stands where"),
        (body(field(1, field(1, b"\xff"))), "not valid UTF-8"),
        (body(field(1, field(8, field(1, 2**62)))), "out of range"),
        (body(b"", "v2"), "does not match the expected API version"),
        (body(b"", "v1", "Node"), "cannot be handled as a Pod"),
    ],
)  # fmt: skip
def test_broken_bodies(data: bytes, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        read(data)
    assert caught.value.code == 400
    assert message in caught.value.message


def test_deep_nesting_is_refused() -> None:
    schema = field(5, "object")
    for _ in range(200):
        schema = field(25, schema)
    version = field(4, field(1, schema))
    data = body(field(2, field(7, version)), "apiextensions.k8s.io/v1", "CustomResourceDefinition")
    with pytest.raises(ApiError, match="nested more than 100 deep"):
        read(data, "apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def test_custom_resources_have_no_protobuf_form() -> None:
    with pytest.raises(ApiError) as caught:
        read(body(b"", "example.com/v1", "Thing"), "example.com", "v1", "Thing")
    assert caught.value.code == 415


def test_numbers_that_json_lacks() -> None:
    schema = field(5, "number") + varint(9 << 3 | 1) + struct.pack("<d", float("inf"))
    version = field(4, field(1, schema))
    data = body(field(2, field(7, version)), "apiextensions.k8s.io/v1", "CustomResourceDefinition")
    with pytest.raises(ApiError, match="infinite"):
        read(data, "apiextensions.k8s.io", "v1", "CustomResourceDefinition")


@given(st.sampled_from(sorted(BODIES)), st.data())
def test_bodies_with_a_flipped_byte(name: str, data: st.DataObject) -> None:
    changed = bytearray(BODIES[name])
    at = data.draw(st.integers(4, len(changed) - 1))
    changed[at] ^= data.draw(st.integers(1, 255))
    kinds = {"deployments": ("apps", "v1", "Deployment"), "services": ("", "v1", "Service")}
    with suppress(ApiError):
        read(bytes(changed), *kinds.get(name, ("", "v1", "Secret")))


def test_every_type_knows_its_numbers() -> None:
    for group, kind in (("", "Pod"), ("apps", "Deployment"), ("", "Service"), ("", "Node")):
        found = type_of(group, "v1", kind)
        assert found is not None
        assert {"metadata", "spec", "status"} <= {f.name for f in found.numbers.values()}

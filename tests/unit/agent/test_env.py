"""Variables as containers see them."""

from typing import Any

import msgspec
import pytest

from shepherd.agent.env import environment, expand, service_links
from shepherd.agent.pod_state import BoundPod
from shepherd.agent.references import Lookup, UnresolvedError
from shepherd.api.objects import Container, Service
from shepherd.api.references import Reference


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("$(A)$(B)", "12"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(NONE)", "$(NONE)"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("a$", "a$"),
        ("$", "$"),
        ("$é$(A)", "$é1"),  # 39: bytes pass through
        ("$()", "$()"),
    ],
)
def test_expansion(text: str, expected: str) -> None:
    """kubernetes/kubernetes#136323, #136325: bytes pass through; only `$(NAME)` and `$$` mean
    anything."""
    assert expand(text, {"A": "1", "B": "2"}) == expected


def build(container: dict[str, Any], lookup: Lookup | None = None, **options: Any) -> Any:
    pod = msgspec.convert(
        {"metadata": {"name": "web", "namespace": "default", "labels": {"a": "b"}}}, BoundPod
    )
    return environment(
        pod,
        msgspec.convert({"name": "web", **container}, Container),
        status={"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd::1"}]},
        lookup=lookup or {},
        services=options.get("services", {}),
        allocatable={"cpu": "2", "memory": "1Gi"},
    )


def test_only_earlier_variables_are_seen() -> None:
    env = [{"name": "B", "value": "$(A)"}, {"name": "A", "value": "1"}]
    assert build({"env": env}).variables["B"] == "$(A)"


def test_sources() -> None:
    env = [
        {"name": "L", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
        {"name": "IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {
            "name": "MEM",
            "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}},
        },
    ]
    found = build({"env": env, "resources": {"requests": {"memory": "1000Ki"}}}).variables
    assert found == {"L": "b", "IPS": "10.0.0.1,fd::1", "CPU": "2", "MEM": "1"}


def test_all_of_a_config_map() -> None:
    """kubernetes/kubernetes#98319: what has no name for a variable is left out and told."""
    lookup: Lookup = {Reference("ConfigMap", "default", "c"): {"a b": b"1", "x=y": b"2", "u": b"3"}}
    found = build({"envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}]}, lookup)
    assert found.variables == {"P_a b": "1", "P_u": "3"}
    assert "P_x=y" in found.skipped[0]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "a"}}, 'configmap "none" not found'),
        (
            {"secretKeyRef": {"name": "s", "key": "none"}},
            "couldn't find key none in Secret default/s",
        ),
        ({"fieldRef": {"fieldPath": "spec.nothing"}}, "unsupported fieldPath: spec.nothing"),
    ],
)
def test_what_is_missing_is_named(source: dict[str, Any], message: str) -> None:
    lookup: Lookup = {Reference("Secret", "default", "s"): {"k": b"v"}}
    with pytest.raises(UnresolvedError, match=message):
        build({"env": [{"name": "A", "valueFrom": source}]}, lookup)
    key = next(iter(source))
    if key != "fieldRef":
        optional = {key: {**source[key], "optional": True}}
        assert build({"env": [{"name": "A", "valueFrom": optional}]}, lookup).variables == {}


def service(name: str, namespace: str = "default", **spec: Any) -> Service:
    body = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
    return msgspec.convert(body, Service)


def test_service_links() -> None:
    services = [
        service("kubernetes", clusterIP="10.43.0.1", ports=[{"name": "https", "port": 443}]),
        service("my-db", "prod", clusterIP="10.43.0.9", ports=[{"port": 5432}]),
        service("headless", "prod", clusterIP="None", ports=[{"port": 1}]),
    ]
    found = service_links(services, "prod", links=True)
    assert found["MY_DB_SERVICE_HOST"] == "10.43.0.9"
    assert found["MY_DB_PORT_5432_TCP"] == "tcp://10.43.0.9:5432"
    assert found["KUBERNETES_SERVICE_PORT_HTTPS"] == "443"
    assert not any(name.startswith("HEADLESS") for name in found)
    assert "MY_DB_SERVICE_HOST" not in service_links(services, "prod", links=False)
    assert "KUBERNETES_SERVICE_HOST" in service_links(services, "prod", links=False)


def test_what_comes_from_a_config_map_is_taken_as_it_is() -> None:
    """kubernetes/kubernetes#98319: `$(A)` in it is not expanded."""
    lookup: Lookup = {Reference("ConfigMap", "default", "c"): {"X": b"$(A)", "A": b"1"}}
    found = build({"envFrom": [{"configMapRef": {"name": "c"}}]}, lookup)
    assert found.variables == {"X": "$(A)", "A": "1"}


def test_a_text_of_many_references_without_an_end_stays_as_it_is() -> None:
    assert expand("$(" * 500_000, {}) == "$(" * 500_000
    assert expand("$(A)$$(A)$$ $(A $$", {"A": "1"}) == "1$(A)$ $(A $"

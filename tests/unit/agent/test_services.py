"""Which backends a node sends a service's connections to."""

from typing import Any

import msgspec
import pytest

from shepherd.agent.services import rules
from shepherd.api.objects import EndpointSlice, Service
from shepherd.runtime.base import ServiceRule


def service(**spec: Any) -> Service:
    body = {"clusterIP": "10.43.0.5", "ports": [{"name": "http", "port": 80}], **spec}
    return msgspec.convert({"metadata": {"name": "web", "namespace": "d"}, "spec": body}, Service)


def endpoint(address: str, node: str = "n1", **conditions: bool) -> dict[str, Any]:
    return {"addresses": [address], "nodeName": node, "conditions": conditions}


def slices(*endpoints: dict[str, Any], port: str = "http") -> list[EndpointSlice]:
    labels = {"kubernetes.io/service-name": "web"}
    body = {
        "metadata": {"name": "web-1", "namespace": "d", "labels": labels},
        "ports": [{"name": port, "port": 8080}],
        "endpoints": list(endpoints),
    }
    return [msgspec.convert(body, EndpointSlice)]


def served(found: list[ServiceRule]) -> list[tuple[str, int, list[str]]]:
    return [(r.name, r.node_port, [b.address for b in r.backends]) for r in found]


HERE, THERE = endpoint("10.42.0.2", "n1"), endpoint("10.42.1.2", "n2")


@pytest.mark.parametrize(
    ("spec", "endpoints", "expected"),
    [
        ({}, [HERE, THERE], [("d/web:http", 0, ["10.42.0.2", "10.42.1.2"])]),
        ({}, [], [("d/web:http", 0, [])]),
        ({"clusterIP": "None"}, [HERE], []),
        ({"type": "ExternalName"}, [HERE], []),
        ({}, [endpoint("10.42.0.3", ready=False)], [("d/web:http", 0, [])]),
        (
            {},
            [endpoint("10.42.0.3", ready=False, serving=True, terminating=True)],
            [("d/web:http", 0, ["10.42.0.3"])],
        ),
        (
            {},
            [HERE, endpoint("10.42.0.3", ready=False, serving=True, terminating=True)],
            [("d/web:http", 0, ["10.42.0.2"])],
        ),
        (
            {"internalTrafficPolicy": "Local"},
            [HERE, THERE],
            [("d/web:http", 0, ["10.42.0.2"])],
        ),
        (
            {
                "type": "NodePort",
                "externalTrafficPolicy": "Local",
                "ports": [{"name": "http", "port": 80, "nodePort": 30080}],
            },
            [HERE, THERE],
            [
                ("d/web:http", 0, ["10.42.0.2", "10.42.1.2"]),
                ("d/web:http/external", 30080, ["10.42.0.2"]),
            ],
        ),
    ],
)
def test_backends(spec: dict[str, Any], endpoints: list[Any], expected: Any) -> None:
    assert served(rules([service(**spec)], slices(*endpoints), "n1")) == expected


def test_ports_match_by_name() -> None:
    assert served(rules([service()], slices(HERE, port="other"), "n1")) == [("d/web:http", 0, [])]


def test_affinity_and_addresses() -> None:
    spec = {"sessionAffinity": "ClientIP", "externalIPs": ["192.0.2.9"]}
    (rule,) = rules([service(**spec)], slices(HERE), "n1")
    assert (rule.affinity_seconds, rule.addresses) == (10800, ("10.43.0.5", "192.0.2.9"))
    spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 60}}  # type: ignore[assignment]
    (rule,) = rules([service(**spec)], slices(HERE), "n1")
    assert rule.affinity_seconds == 60

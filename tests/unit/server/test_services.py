"""Cluster addresses and node ports: given, kept, refused and freed."""

import ipaddress
from random import Random
from typing import Any

import pytest

from shepherd.server.services import ServiceAllocator

SERVICES = "/api/v1/namespaces/default/services"
MERGE = {"content_type": "application/merge-patch+json"}


def service(name: str, ports: list[Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": ports or [{"port": 80}]} | spec}


async def test_a_service_gets_an_address_and_keeps_it(api: Any) -> None:
    created = await api.ok("POST", SERVICES, service("a"))
    spec = created["spec"]
    assert ipaddress.ip_address(spec["clusterIP"]) in ipaddress.ip_network("10.43.0.0/16")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert spec["ipFamilies"] == ["IPv4"]
    assert spec["ipFamilyPolicy"] == "SingleStack"
    replaced = await api.ok("PUT", f"{SERVICES}/a", service("a", selector={"x": "y"}))
    assert replaced["spec"]["clusterIP"] == spec["clusterIP"]
    other = await api.ok("POST", SERVICES, service("b"))
    assert other["spec"]["clusterIP"] != spec["clusterIP"]


async def test_a_chosen_address_is_honoured_or_refused(api: Any) -> None:
    await api.ok("POST", SERVICES, service("a", clusterIP="10.43.7.7"))
    for address, message in (
        ("10.43.7.7", "provided IP is already allocated"),
        ("10.99.0.1", "The range of valid IPs is 10.43.0.0/16"),
        ("10.43.0.1", "provided IP is already allocated"),
    ):
        status = await api.fails(422, "POST", SERVICES, service("b", clusterIP=address))
        assert message in status["message"]
        assert status["details"]["causes"][0]["field"] == "spec.clusterIPs"
    await api.fails(422, "POST", SERVICES, service("b", clusterIP="nonsense"))
    await api.ok("DELETE", f"{SERVICES}/a")
    await api.ok("POST", SERVICES, service("b", clusterIP="10.43.7.7"))


async def test_headless_and_external_services_have_no_address(api: Any) -> None:
    headless = await api.ok("POST", SERVICES, service("a", clusterIP="None"))
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["spec"]["clusterIPs"] == ["None"]
    body = {"metadata": {"name": "b"}, "spec": {"type": "ExternalName", "externalName": "x.org"}}
    external = await api.ok("POST", SERVICES, body)
    assert "clusterIP" not in external["spec"]


async def test_node_ports_are_given_kept_and_freed(api: Any) -> None:
    """kubernetes/kubernetes#23551, #73140: the number changed at each apply."""
    ports = [{"name": "t", "port": 53, "protocol": "TCP"}, {"name": "u", "port": 53,
              "protocol": "UDP"}]  # fmt: skip
    created = await api.ok("POST", SERVICES, service("a", ports, type="NodePort"))
    given = [port["nodePort"] for port in created["spec"]["ports"]]
    assert all(30000 <= port <= 32767 for port in given)
    # Applied again without naming the ports: they stay.
    again = await api.ok("PUT", f"{SERVICES}/a", service("a", ports, type="NodePort"))
    assert [port["nodePort"] for port in again["spec"]["ports"]] == given
    taken = [{"port": 80, "nodePort": given[0]}]
    status = await api.fails(422, "POST", SERVICES, service("b", taken, type="NodePort"))
    assert "provided port is already allocated" in status["message"]
    assert status["details"]["causes"][0]["field"] == "spec.ports[0].nodePort"
    # A change of type frees them.
    await api.ok("PUT", f"{SERVICES}/a", service("a", ports))
    await api.ok("POST", SERVICES, service("b", taken, type="NodePort"))
    outside = [{"port": 80, "nodePort": 80}]
    status = await api.fails(422, "POST", SERVICES, service("c", outside, type="NodePort"))
    assert "The range of valid ports is 30000-32767" in status["message"]


async def test_the_same_number_may_serve_two_protocols(api: Any) -> None:
    """redpanda-data/redpanda#3263: numbers are given per protocol."""
    for name, protocol in (("a", "TCP"), ("b", "UDP")):
        ports = [{"port": 53, "protocol": protocol, "nodePort": 30053}]
        await api.ok("POST", SERVICES, service(name, ports, type="NodePort"))


async def test_who_creates_what_is_there_learns_that_and_not_that_its_port_is_taken(
    api: Any,
) -> None:
    """kubernetes/kubernetes#85020: 422 for the port instead of 409 for the name."""
    body = service("a", [{"port": 80, "nodePort": 30080}], type="NodePort")
    await api.ok("POST", SERVICES, body)
    status = await api.fails(409, "POST", SERVICES, body)
    assert status["reason"] == "AlreadyExists"


async def test_a_write_that_fails_takes_nothing(api: Any) -> None:
    await api.ok("POST", SERVICES, service("a"))
    wanted = service("b", [{"port": 80, "nodePort": 30080}], type="NodePort")
    await api.ok("POST", f"{SERVICES}?dryRun=All", wanted)
    bad = service("b", [{"name": "x", "port": 1, "nodePort": 30080},
                        {"name": "y", "port": 2, "nodePort": 10}], type="NodePort")  # fmt: skip
    await api.fails(422, "POST", SERVICES, bad)
    await api.ok("POST", SERVICES, wanted)


async def test_the_books_are_read_from_the_store_at_start(api: Any) -> None:
    body = service("a", [{"port": 80, "nodePort": 30080}], type="NodePort", clusterIP="10.43.7.7")
    await api.ok("POST", SERVICES, body)
    allocator = ServiceAllocator("10.43.0.0/16", (30000, 32767), Random(1))
    await allocator.load(api.store)
    other = {"metadata": {"name": "b", "namespace": "default"}, "spec": body["spec"]}
    with pytest.raises(Exception, match="already allocated"):
        allocator.reserve(other, None)


def test_a_small_range_is_used_to_its_last_address() -> None:
    allocator = ServiceAllocator("10.0.0.0/29", (30000, 30001), Random(1))
    given = set()
    for _ in range(6):
        body: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"type": "ClusterIP"}}
        allocator.reserve(body, None).end(stored=True)
        given.add(body["spec"]["clusterIP"])
    assert given == {f"10.0.0.{number}" for number in range(1, 7)}
    with pytest.raises(Exception, match="range is full"):
        allocator.reserve({"metadata": {"name": "a"}, "spec": {"type": "ClusterIP"}}, None)


async def test_the_cluster_has_its_own_service_at_the_first_address(api: Any) -> None:
    kubernetes = await api.ok("GET", f"{SERVICES}/kubernetes")
    assert kubernetes["spec"]["clusterIP"] == "10.43.0.1"


async def test_a_number_of_two_protocols_keeps_both_when_it_changes(api: Any) -> None:
    """kubernetes/kubernetes#23551; redpanda-data/redpanda#3263: the UDP entry was lost."""
    apply = {"content_type": "application/apply-patch+yaml"}
    head = {"apiVersion": "v1", "kind": "Service"}
    for number in (53, 54):
        ports = [
            {"name": name, "port": number, "protocol": protocol}
            for name, protocol in (("t", "TCP"), ("u", "UDP"))
        ]
        body = head | service("dns", ports, type="NodePort")
        made = await api.ok("PATCH", f"{SERVICES}/dns?fieldManager=me", body, **apply)
        found = [(port["port"], port["protocol"]) for port in made["spec"]["ports"]]
        assert found == [(number, "TCP"), (number, "UDP")]

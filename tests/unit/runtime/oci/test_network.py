from ipaddress import IPv4Network
from pathlib import Path

import pytest

from shepherd.runtime.base import Backend, HostPort, ServiceRule, SheepError
from shepherd.runtime.oci import hostports, nftables
from shepherd.runtime.oci.network import (
    NetworkConfig,
    Subnet,
    instance_name,
    link_name,
    with_pod_cidr,
)

SUBNET = Subnet(IPv4Network("10.42.7.0/29"))


def test_the_gateway_is_the_first_address() -> None:
    assert str(SUBNET.gateway) == "10.42.7.1/29"


def test_addresses_go_round_so_that_they_come_back_late() -> None:
    last, given = "", []
    for _ in range(7):
        last = SUBNET.choose([], last)
        given.append(last.rpartition(".")[2])
    assert given == ["2", "3", "4", "5", "6", "2", "3"]


def test_an_address_in_use_is_passed_over() -> None:
    assert SUBNET.choose(["10.42.7.2", "10.42.7.3"]) == "10.42.7.4"
    assert SUBNET.choose(["10.42.7.2"], after="10.42.7.6") == "10.42.7.3"


def test_a_full_range_is_told() -> None:
    used = [f"10.42.7.{number}" for number in range(2, 7)]
    with pytest.raises(SheepError, match=r"no free address in 10\.42\.7\.0/29"):
        SUBNET.choose(used)


def test_a_range_that_is_none_is_told() -> None:
    with pytest.raises(SheepError, match="pod CIDR 'x'"):
        with_pod_cidr(NetworkConfig("b"), "x")


def test_names_fit_the_kernels_limit_and_differ(tmp_path: Path) -> None:
    names = {instance_name(tmp_path / name) for name in ("a", "b")}
    assert len(names) == 2
    assert all(len(name) <= 15 for name in names)
    assert len(link_name("b", "x" * 40)) <= 15


def test_host_ports_are_keyed_by_the_address_they_ask_for() -> None:
    ports = [HostPort(80, 8080), HostPort(53, 53, "UDP", "127.0.0.1")]
    assert hostports.change("add", "i", "10.42.7.2", ports).splitlines() == [
        "add element ip i-pods hairpin { 10.42.7.2 . 10.42.7.2 }",
        "add element ip i-pods any { tcp . 80 : 10.42.7.2 . 8080 }",
        "add element ip i-pods local { 127.0.0.1 . udp . 53 : 10.42.7.2 . 53 }",
    ]


def rule(name: str, address: str, *, node_port: int = 0) -> ServiceRule:
    return ServiceRule(name, (address,), 80, "TCP", (Backend("10.42.7.2", 8080),), node_port)


def test_of_two_services_with_one_address_the_first_has_it() -> None:
    first, second = rule("a", "10.43.0.1", node_port=30000), rule("b", "10.43.0.1", node_port=30000)
    kept = nftables.without_conflicts([first, second, rule("c", "10.43.0.2")])
    assert kept[0] == first
    assert (kept[1].addresses, kept[1].node_port) == ((), 0)
    assert kept[2].addresses == ("10.43.0.2",)


def test_each_backend_has_one_place() -> None:
    service = ServiceRule(
        "a", ("10.43.0.1",), 80, "TCP", (Backend("10.42.7.2", 1), Backend("10.42.7.3", 2)), 30000
    )
    content = nftables.elements([service]).content
    assert content["services"] == {"10.43.0.1 . tcp . 80": "goto pick-2"}
    assert content["node_ports"] == {"tcp . 30000": "goto node-pick-2"}
    assert list(content["slots"].values()) == ["10.42.7.2 . 1", "10.42.7.3 . 2"]


def test_a_service_without_backends_is_refused() -> None:
    service = ServiceRule("a", ("10.43.0.1",), 80, "UDP", (), 30000)
    assert nftables.elements([service]).content == {
        "refused": {"10.43.0.1 . udp . 80": ""},
        "refused_ports": {"udp . 30000": ""},
    }

"""The pod network as other programs see it. pyroute2 is the oracle for our own rtnetlink."""

import asyncio
import socket
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

import pytest
from pyroute2 import IPRoute, NetNS

from shepherd.lib.clock import SystemClock
from shepherd.runtime.base import HostPort, SheepError
from shepherd.runtime.oci import NetworkConfig, OciRuntime, rtnetlink
from shepherd.runtime.oci.rtnetlink import Netlink
from shepherd.testing.runtime_suite import Harness, sandbox_config

from .serving import fetch, from_pod, serve

GATEWAY = "10.42.7.1"


async def test_a_pod_is_plugged_into_the_bridge(
    runtime_harness: Harness, tmp_path: Path, instance: str
) -> None:
    made = await runtime_harness.runtime.run_sandbox(sandbox_config())
    namespace = tmp_path / "agent" / "sandboxes" / made.id / "net"
    # In a thread: pyroute2 runs an event loop of its own.
    await asyncio.to_thread(check_links, instance, namespace, made.addresses[0])


def check_links(instance: str, namespace: Path, pod_address: str) -> None:
    with IPRoute() as node:
        [bridge] = node.get_links(ifname=instance)
        assert bridge.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") == "bridge"
        [address] = node.get_addr(index=bridge["index"], family=socket.AF_INET)
        assert (address.get("IFA_ADDRESS"), address["prefixlen"]) == (GATEWAY, 24)
        [port] = [one for one in node.get_links() if one.get("IFLA_MASTER") == bridge["index"]]
        assert port.get("IFLA_OPERSTATE") == "UP"
        services = [one for one in node.get_routes(family=socket.AF_INET) if one["dst_len"] == 16]
        assert [one.get("RTA_DST") for one in services] == ["10.43.0.0"]
    with NetNS(str(namespace), flags=0) as pod:
        [link] = pod.get_links(ifname="eth0")
        assert link["state"] == "up"
        assert link.get("IFLA_ADDRESS") == "0a:58:0a:2a:07:02"
        [address] = pod.get_addr(index=link["index"], family=socket.AF_INET)
        assert address.get("IFA_ADDRESS") == pod_address
        [default] = pod.get_default_routes(family=socket.AF_INET)
        assert default.get("RTA_GATEWAY") == GATEWAY
        [loopback] = pod.get_links(ifname="lo")
        assert loopback["state"] == "up"


def test_a_failed_request_names_the_error_and_the_others_count() -> None:
    with Netlink() as netlink, IPRoute() as oracle:
        netlink.run(rtnetlink.bridge("br9"))
        with pytest.raises(FileExistsError):
            netlink.run(rtnetlink.bridge("br9"), rtnetlink.bridge("br8"))
        index = socket.if_nametoindex("br8")
        netlink.run(
            rtnetlink.address(index, IPv4Interface("10.9.0.1/24")),
            rtnetlink.route(
                IPv4Network("10.8.0.0/16"), index=index, gateway=IPv4Address("10.9.0.7")
            ),
        )
        [route] = [one for one in oracle.get_routes(family=socket.AF_INET) if one["dst_len"] == 16]
        assert (route.get("RTA_DST"), route.get("RTA_GATEWAY")) == ("10.8.0.0", "10.9.0.7")
        netlink.run(rtnetlink.link_delete("br8"), rtnetlink.link_delete("br9"))
        netlink.run(rtnetlink.link_delete("br9"), ignore=rtnetlink.MISSING)
        with pytest.raises(OSError, match="No such device"):
            netlink.run(rtnetlink.link_delete("br9"))


async def test_pods_reach_each_other_and_know_each_other_by_address(
    runtime_harness: Harness,
) -> None:
    runtime = runtime_harness.runtime
    one = await serve(runtime, "one")
    await serve(runtime, "two")
    assert await from_pod(runtime, "two", one.address, 8080) == "one"


async def test_a_host_port_leads_to_its_pod_until_it_is_gone(
    runtime_harness: Harness,
) -> None:
    ports = (HostPort(8088, 8080), HostPort(8089, 8080, host_ip="127.0.0.1"))
    await serve(runtime_harness.runtime, "one", host_ports=ports)
    await serve(runtime_harness.runtime, "two")
    assert await fetch(GATEWAY, 8088) == "one"
    assert await fetch("127.0.0.1", 8088) == "one"
    assert await fetch("127.0.0.1", 8089) == "one"
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(GATEWAY, 8089)
    assert await from_pod(runtime_harness.runtime, "two", GATEWAY, 8088) == "one"
    assert await from_pod(runtime_harness.runtime, "one", GATEWAY, 8088) == "one", "its own"

    runtime_harness.runtime = await runtime_harness.reopen()
    assert await fetch(GATEWAY, 8088) == "one"
    await runtime_harness.runtime.remove_sandbox("one-0")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(GATEWAY, 8088)


async def test_without_a_range_only_host_network_pods_run(instance: str, tmp_path: Path) -> None:
    runtime = OciRuntime(
        tmp_path / "other",
        network=NetworkConfig(bridge=instance),
        clock=SystemClock(),
        instance=instance,
    )
    await runtime.start()
    try:
        with pytest.raises(SheepError, match=r"podCIDR is not set") as failed:
            await runtime.run_sandbox(sandbox_config())
        assert failed.value.reason == "FailedCreatePodSandBox"
        made = await runtime.run_sandbox(replace(sandbox_config(), host_network=True))
        assert made.ready
        await runtime.remove_sandbox(made.id)
        await runtime.configure_network("10.44.1.0/24")
        made = await runtime.run_sandbox(sandbox_config())
        assert made.addresses == ("10.44.1.2",)
        await runtime.remove_sandbox(made.id)
    finally:
        await runtime.close(remove=True)

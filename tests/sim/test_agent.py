"""The life of pods on a node, in virtual time."""

from typing import Any

from shepherd.api.kinds import LEASE, NODE

OnNode = Any
Scene = Any


def test_a_pod_runs(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        await node.create_pod()
        status = await node.ready(within_seconds=1.0)
        assert status["phase"] == "Running"
        assert status["podIP"] == "10.42.0.2"
        assert status["hostIP"] == "192.0.2.1"
        (container,) = status["containerStatuses"]
        assert container["containerID"].startswith("hollow://")
        reasons = [reason for reason, _ in await node.events()]
        assert reasons == ["Pulling", "Pulled", "Created", "Started"]

    on_node(scenario)


def test_the_node_is_registered(on_node: OnNode) -> None:
    async def scenario(node: Scene) -> None:
        found = await node.client.get(NODE, "n1")
        assert found["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
        assert found["status"]["nodeInfo"]["containerRuntimeVersion"] == "hollow://1"
        assert {c["type"]: c["status"] for c in found["status"]["conditions"]}["Ready"] == "True"
        lease = await node.client.get(LEASE, "n1", "kube-node-lease")
        assert lease["spec"]["holderIdentity"] == "n1"

    on_node(scenario)

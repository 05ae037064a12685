"""Controllers under faults: lost requests, lost answers, broken watches, restarts in mid-work."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from shepherd.api.kinds import DEPLOYMENT, POD, REPLICA_SET
from shepherd.api.resource import Object
from shepherd.client.base import Client
from shepherd.client.transport import Transport
from shepherd.controllers.manager import ControllerManager
from shepherd.lib.http import Body, Request, Response
from shepherd.lib.tasks import cancel_and_wait
from shepherd.testing.control_plane import ControlPlane, StandInNodes
from shepherd.testing.virtual import eventually, run_virtual


class FaultyTransport:
    """Delays everything, loses requests and answers, and breaks streams off, by the seed."""

    def __init__(self, inner: Transport, random: Random, *, loss: float) -> None:
        self._inner = inner
        self._random = random
        self.loss = loss

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(self._random.random() * 0.05)
        if self._random.random() < self.loss:
            raise ConnectionError("the request was lost")
        response = await self._inner.send(request)
        if isinstance(response.body, bytes):
            if self._random.random() < self.loss:
                raise ConnectionError("the answer was lost")
            await asyncio.sleep(self._random.random() * 0.05)
        else:
            response.body = self._break_off(response.body)
        return response

    async def _break_off(self, body: Body) -> AsyncGenerator[bytes, None]:
        assert not isinstance(body, bytes)
        try:
            async for chunk in body:
                await asyncio.sleep(self._random.random() * 0.2)
                yield chunk
                if self._random.random() < self.loss / 2:
                    raise ConnectionError("the stream broke off")
        finally:
            await body.aclose()

    async def close(self) -> None:
        pass


@asynccontextmanager
async def managed(plane: ControlPlane, seed: int, loss: float) -> AsyncIterator[FaultyTransport]:
    """Further controllers (the plane's own are stopped) that reach the API over bad lines."""
    transport = FaultyTransport(plane.client.transport, Random(seed), loss=loss)
    manager = ControllerManager(Client(transport), clock=plane.clock, random=Random(seed))
    task = asyncio.ensure_future(manager.run())
    try:
        yield transport
        assert not task.done(), task.exception()
    finally:
        await cancel_and_wait(task)


def deployment(replicas: int, image: str) -> Object:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


async def converged(plane: ControlPlane, replicas: int, image: str) -> bool:
    pods = await plane.items(POD)
    images = {pod["spec"]["containers"][0]["image"] for pod in pods}
    web = await plane.find(DEPLOYMENT, "web")
    assert web
    status = web.get("status", {})
    return (
        len(pods) == replicas
        and images == {image}
        and status.get("observedGeneration") == web["metadata"]["generation"]
        and status.get("availableReplicas") == status.get("updatedReplicas") == replicas
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_rollout_over_bad_lines_ends_with_exactly_what_was_asked(seed: int) -> None:
    async def main() -> None:
        async with ControlPlane.open(controllers=False) as plane:
            nodes = StandInNodes(plane, "n1", "n2")
            async with nodes.up(), managed(plane, seed, loss=0.1):
                await plane.client.create(DEPLOYMENT, deployment(10, "one"))
                await eventually(lambda: converged(plane, 10, "one"), within_seconds=600)
                patch = {"spec": deployment(14, "two")["spec"]}
                await plane.client.patch(DEPLOYMENT, "web", "default", patch)
                await eventually(lambda: converged(plane, 14, "two"), within_seconds=600)
                await plane.client.delete(DEPLOYMENT, "web", "default")

                async def empty() -> bool:
                    return not await plane.items(POD) and not await plane.items(REPLICA_SET)

                await eventually(empty, within_seconds=600)

    run_virtual(main())


@pytest.mark.parametrize("seed", range(4))
def test_controllers_that_are_stopped_at_any_instant_go_on_where_they_were(seed: int) -> None:
    async def main() -> None:
        random = Random(seed)
        async with (
            ControlPlane.open(controllers=False) as plane,
            StandInNodes(plane, "n1", "n2").up(),
        ):
            await plane.client.create(DEPLOYMENT, deployment(12, "one"))
            for step in range(12):
                async with managed(plane, seed * 100 + step, loss=0.0):
                    await asyncio.sleep(random.random() * 1.5)
                assert len(await plane.items(POD)) <= 12 + 3
            async with managed(plane, seed, loss=0.0):
                await eventually(lambda: converged(plane, 12, "one"))
                assert len(await plane.items(REPLICA_SET)) == 1

    run_virtual(main())

"""A whole cluster in virtual time, from one seed.

    def test_it() -> None:
        run_simulation(scenario, seed=1, nodes=5)

    async def scenario(cluster: Simulation) -> None:
        await cluster.client.create(DEPLOYMENT, {...})
        await eventually(...)

While it runs, every change of the store is looked at by `World`, which knows what must never
happen.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from shepherd.api.resource import Object
from shepherd.testing.parts import Parts, PartsConfig
from shepherd.testing.virtual import VirtualClock, run_virtual
from shepherd.testing.wire import NO_FAULTS, Faults
from shepherd.testing.world import World


class Simulation(Parts):
    """`Parts` under the eyes of a `World`."""

    def __init__(
        self, group: asyncio.TaskGroup, directory: Path, *, seed: int, faults: Faults
    ) -> None:
        config = PartsConfig(seed=seed, faults=faults, acknowledged=self._acknowledged)
        super().__init__(group, directory, clock=VirtualClock(), config=config)
        self.world = World(self.store)

    async def start(self, *, nodes: int, controllers: bool) -> None:
        """Start the control plane, then the nodes `n1` to `n<nodes>`."""
        self.run("world", self.world.run())
        await self.start_server()
        self.start_scheduler()
        if controllers:
            self.start_controllers()
        for number in range(1, nodes + 1):
            self.start_node(f"n{number}")

    async def stop(self) -> None:
        await super().stop()
        self.world.check_acknowledged()

    def _acknowledged(self, obj: Object) -> None:
        self.world.acknowledged(obj)


@asynccontextmanager
async def running_cluster(
    *, seed: int, nodes: int = 0, controllers: bool = True, faults: Faults = NO_FAULTS
) -> AsyncIterator[Simulation]:
    """A cluster that runs; inside a virtual loop. A part that fails ends it with its error."""
    with tempfile.TemporaryDirectory() as directory:
        async with asyncio.TaskGroup() as group:
            cluster = Simulation(group, Path(directory), seed=seed, faults=faults)
            await cluster.start(nodes=nodes, controllers=controllers)
            yield cluster
            await cluster.stop()


def run_simulation(
    scenario: Callable[[Simulation], Awaitable[None]],
    *,
    seed: int,
    nodes: int = 0,
    controllers: bool = True,
    faults: Faults = NO_FAULTS,
) -> None:
    """Run a scenario in a cluster of its own, in virtual time."""

    async def main() -> None:
        async with running_cluster(
            seed=seed, nodes=nodes, controllers=controllers, faults=faults
        ) as cluster:
            await scenario(cluster)

    run_virtual(main())

"""The agent half: an identity, a runtime, and the agent that lives on them."""

import asyncio
import json
import logging
from random import SystemRandom

from shepherd.agent.agent import Agent
from shepherd.agent.identity import (
    Identity,
    JoinError,
    ensure_identity,
    keep_fresh,
    wait_until_ready,
)
from shepherd.agent.node import AgentConfig
from shepherd.client.base import Client
from shepherd.client.http import HttpTransport
from shepherd.lib.clock import SystemClock
from shepherd.lib.machine import own_address
from shepherd.lib.tasks import background
from shepherd.run import memory
from shepherd.run.config import Config, StartError
from shepherd.runtime.base import Dataplane, Runtime, SheepError

logger = logging.getLogger("shepherd.run")

_CLOCK, _RANDOM = SystemClock(), SystemRandom()


async def run_agent(config: Config, stop: asyncio.Event) -> None:
    """`--mode agent`: be a node until `stop` is set. Raises StartError (in a group)."""
    node = _NodeProcess(config)
    async with background(node.run(), memory.keep_trim()):
        await stop.wait()
        if config.stop_pods and node.agent:
            await node.agent.stop_pods()


class _NodeProcess:
    """One node's agent, from joining the cluster on."""

    def __init__(self, config: Config) -> None:
        assert config.api_addr
        self._config = config
        self._url = f"{'http' if config.insecure else 'https'}://{config.api_addr}"
        self._address = config.node_ip or _own_address(config, config.api_addr.host)
        self.agent: Agent | None = None

    async def run(self) -> None:
        identity = await self._identity()
        transport = HttpTransport(self._url, ssl=identity.client_ssl() if identity else None)
        client = Client(transport, user_agent=f"shepherd-agent/{self._config.node_name}")
        try:
            await wait_until_ready(client, self._url, clock=_CLOCK, random=_RANDOM)
            await self._live(client, identity)
        except* SheepError as group:
            raise StartError(f"no container can run on this machine: {_first(group)}") from group
        finally:
            await transport.close()

    async def _identity(self) -> Identity | None:
        if self._config.insecure:
            return None
        try:
            return await ensure_identity(
                self._config.data_dir / "agent" / "identity",
                url=self._url,
                node_name=self._config.node_name,
                token=self._config.token,
                addresses=[self._address],
                clock=_CLOCK,
                random=_RANDOM,
            )
        except JoinError as error:
            raise StartError(str(error)) from error

    async def _live(self, client: Client, identity: Identity | None) -> None:
        cluster = json.loads(await client.raw("GET", "/shepherd/v1/cluster"))
        runtime, dataplane = _runtime(self._config, cluster["podCIDR"], cluster["serviceCIDR"])
        self.agent = agent = Agent(
            client,
            runtime,
            dataplane,
            config=AgentConfig(
                node_name=self._config.node_name,
                data_dir=self._config.data_dir,
                node_ip=self._address,
                cluster_domain=cluster["clusterDomain"],
                max_pids=self._config.max_pids,
                endpoint_host="" if identity else "127.0.0.1",
            ),
            clock=_CLOCK,
            random=_RANDOM,
            ssl=identity.serving_ssl() if identity else None,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(agent.run())
            group.create_task(self._announce(agent))
            if identity:
                addresses = [self._address]
                group.create_task(
                    keep_fresh(identity, client, addresses=addresses, clock=_CLOCK, random=_RANDOM)
                )

    async def _announce(self, agent: Agent) -> None:
        await agent.ready()
        logger.info("node %s is ready", self._config.node_name)
        memory.settle()


def _own_address(config: Config, server: str) -> str:
    """Where the server reaches the agent; without TLS it listens on loopback only."""
    return "127.0.0.1" if config.insecure else own_address(server)


def _runtime(config: Config, pod_cidr: str, service_cidr: str) -> tuple[Runtime, Dataplane]:
    if config.runtime == "hollow":
        from shepherd.runtime.hollow import HollowRuntime, NullDataplane

        return HollowRuntime(clock=_CLOCK, random=_RANDOM), NullDataplane()
    from shepherd.run.containers import real_containers

    return real_containers(
        config.data_dir,
        pod_cidr=pod_cidr,
        service_cidr=service_cidr,
        clock=_CLOCK,
        mirrors=config.registry_mirrors,
    )


def _first(group: BaseExceptionGroup[SheepError]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first

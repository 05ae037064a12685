"""Server and agent in one process: the server, then an agent at its loopback URL.

The agent knows nothing of the server in its process: it speaks HTTP to it like any other agent, so
there is one code path, and what works here works on many machines.
"""

import asyncio
from dataclasses import replace

from shepherd.run.agent import run_agent
from shepherd.run.config import Config
from shepherd.run.server import serving


async def run_standalone(config: Config, stop: asyncio.Event) -> None:
    """`--mode standalone`: at the end the agent stops first, then the API, then the store."""
    async with serving(config) as server:
        await run_agent(replace(config, api_addr=server.address, token=server.token), stop)

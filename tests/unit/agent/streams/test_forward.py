"""port-forward's conversations, against ports that really listen."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from shepherd.agent.streams.channels import V4
from shepherd.agent.streams.forward import forward_channels, forward_spdy
from shepherd.agent.streams.links import ChannelLink, SpdyLink, WebSocket
from shepherd.lib import spdy
from shepherd.lib.duplex import SocketDuplex

from .conversation import Pipe, goodbye, message


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Gives back what it got, once all of it has come."""
    writer.write(b"got " + await reader.read())
    writer.close()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def dial(port: int) -> SocketDuplex:
    return SocketDuplex(*await asyncio.open_connection("127.0.0.1", port))


async def refuse(port: int) -> SocketDuplex:
    raise ConnectionRefusedError("connection refused")


def opened(client: spdy.Encoder, first: int, port: int) -> bytes:
    pair = {"port": str(port), "requestid": str(first)}
    return client.open(first, pair | {"streamtype": "error"}) + client.open(
        first + 2, pair | {"streamtype": "data"}
    )


async def test_spdy_forwards_many_connections_and_half_closes(port: int) -> None:
    pipe, client = Pipe(), spdy.Encoder()
    talk = asyncio.create_task(forward_spdy(SpdyLink(pipe), dial, "web"))
    pipe.feed(opened(client, 1, port) + opened(client, 5, port))
    pipe.feed(spdy.data(7, b"two", fin=True) + spdy.data(3, b"one", fin=True))
    for stream, said in ((3, b"got one"), (7, b"got two")):
        await pipe.until(spdy.data(stream, said))
        await pipe.until(spdy.data(stream, b"", fin=True))
        await pipe.until(spdy.data(stream - 2, b"", fin=True))
    pipe.feed(b"")
    await talk


async def test_spdy_tells_why_a_port_cannot_be_reached() -> None:
    pipe, client = Pipe(), spdy.Encoder()
    talk = asyncio.create_task(forward_spdy(SpdyLink(pipe), refuse, "web"))
    pipe.feed(opened(client, 1, 81))
    await pipe.until(b"error forwarding port 81 to pod web: connection refused")
    await pipe.until(spdy.data(3, b"", fin=True))
    pipe.feed(b"")
    await talk


async def test_a_stream_that_is_reset_ends_its_connection(port: int) -> None:
    pipe, client = Pipe(), spdy.Encoder()
    talk = asyncio.create_task(forward_spdy(SpdyLink(pipe), dial, "web"))
    pipe.feed(opened(client, 1, port) + spdy.data(3, b"half") + spdy.reset(3, spdy.CANCEL))
    await pipe.until(spdy.data(1, b"", fin=True))
    pipe.feed(b"")
    await talk
    assert b"got" not in pipe.sent


async def test_channels_name_their_ports_first(port: int) -> None:
    pipe = Pipe()
    link = ChannelLink(WebSocket(pipe), V4)
    talk = asyncio.create_task(forward_channels(link, [port, port], dial, "web"))
    number = port.to_bytes(2, "little")
    for channel in range(4):
        await pipe.until(bytes((0x82, 3, channel)) + number)
    pipe.feed(message(b"\x02second"))
    pipe.feed(goodbye())
    await talk


async def test_channels_end_when_no_port_can_be_reached() -> None:
    pipe = Pipe()
    link = ChannelLink(WebSocket(pipe), V4)
    talk = asyncio.create_task(forward_channels(link, [81], refuse, "web"))
    await pipe.until(b"\x01error forwarding port 81")
    await pipe.until(b"\x88\x02\x03\xe8")
    pipe.feed(goodbye())
    await talk

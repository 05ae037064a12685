"""exec's conversation, in each of its protocols."""

import asyncio
import json

from shepherd.agent.streams.channels import V4, V5
from shepherd.agent.streams.command import NamedLink, converse
from shepherd.agent.streams.links import ChannelLink, SpdyLink, WebSocket
from shepherd.lib import spdy
from shepherd.runtime.base import Stdio

from .conversation import FakeProcess, Pipe, goodbye, message, question


async def test_v5_ends_input_alone_and_the_exit_code_comes_last() -> None:
    pipe, process = Pipe(), FakeProcess(exit_code=7)
    for piece in (b"\x00hello", b'\x04{"Width":9,"Height":8}', b"\xff\x00"):
        pipe.feed(message(piece))
    link = ChannelLink(WebSocket(pipe), V5)
    talk = asyncio.create_task(converse(link, process.running(), V5))
    await pipe.until(b'"ExitCode","message":"7"')
    pipe.feed(goodbye())
    await talk
    assert pipe.sent.startswith(b"\x82\x06\x01hello")
    assert pipe.sent.endswith(b"\x88\x02\x03\xe8")
    assert process.sizes == [(9, 8)]
    assert process.ended_by == "itself"


async def test_v4_cannot_end_input() -> None:
    pipe, process = Pipe(), FakeProcess()
    pipe.feed(message(b"\xff\x00") + message(b"\x00still here"))
    talk = asyncio.create_task(converse(ChannelLink(WebSocket(pipe), V4), process.running(), V4))
    await pipe.until(b"\x01still here")
    pipe.feed(b"")
    await talk
    assert process.ended_by == "killed"


async def test_a_client_that_leaves_ends_the_process() -> None:
    for farewell in (goodbye(), b"", b"\xff\xff\xff"):
        pipe, process = Pipe(), FakeProcess()
        pipe.feed(farewell)
        await converse(ChannelLink(WebSocket(pipe), V5), process.running(), V5)
        assert process.ended_by == "killed"


async def test_pings_are_answered() -> None:
    pipe, process = Pipe(), FakeProcess()
    pipe.feed(question())
    talk = asyncio.create_task(converse(ChannelLink(WebSocket(pipe), V5), process.running(), V5))
    await pipe.until(b"\x8a\x01?")
    pipe.feed(b"")
    await talk


async def test_spdy_has_streams_by_name() -> None:
    pipe, process, client = Pipe(), FakeProcess(exit_code=3), spdy.Encoder()
    for stream, name in ((1, "error"), (3, "stdin"), (5, "stdout")):
        pipe.feed(client.open(stream, {"streamtype": name}))
    pipe.feed(spdy.ping(1) + spdy.data(3, b"hello") + spdy.data(3, b"", fin=True))
    link = await NamedLink.opened(SpdyLink(pipe), Stdio(stdin=True, stderr=False))
    assert link
    talk = asyncio.create_task(converse(link, process.running(), V4))
    await pipe.until(spdy.goaway(5))
    pipe.feed(b"")
    await talk
    frames = spdy.Decoder().feed(bytes(pipe.sent))
    assert [frame.type for frame in frames[:3]] == [spdy.SYN_REPLY] * 3
    assert spdy.Frame(spdy.PING, 1) in frames
    said = {frame.stream: frame.data for frame in frames if frame.type == 0 and frame.data}
    assert said[5] == b"hello"
    assert json.loads(said[1])["details"]["causes"][0]["message"] == "3"
    ended = {frame.stream for frame in frames if frame.fin}
    assert ended == {1, 3, 5}


async def test_a_spdy_client_that_opens_nothing_is_left() -> None:
    pipe = Pipe()
    pipe.feed(b"")
    assert await NamedLink.opened(SpdyLink(pipe), Stdio()) is None

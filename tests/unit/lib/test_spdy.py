"""SPDY frames: what one end sends the other reads, and nothing that comes in does harm."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.lib import spdy
from shepherd.lib.spdy import DICTIONARY, Decoder, Encoder, Frame, SpdyError

texts = st.text(st.characters(codec="utf-8"), max_size=20)
headers = st.dictionaries(texts.map(str.lower).filter(lambda name: name == name.lower()), texts)
streams = st.integers(1, 0x7FFFFFFF)


def fed(data: bytes, step: int = 1 << 20) -> list[Frame]:
    decoder = Decoder()
    found = []
    for start in range(0, len(data), step):
        found += decoder.feed(data[start : start + step])
    return found


def test_the_dictionary_is_that_of_the_draft() -> None:
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


@given(st.lists(st.tuples(streams, headers), max_size=5), st.integers(1, 100))
def test_streams_are_opened_with_their_headers(
    opened: list[tuple[int, dict[str, str]]], step: int
) -> None:
    encoder = Encoder()
    data = b"".join(encoder.open(stream, pairs) for stream, pairs in opened)
    assert fed(data, step) == [Frame(spdy.SYN_STREAM, stream, pairs) for stream, pairs in opened]


@given(st.lists(st.tuples(streams, st.binary(max_size=300), st.booleans())), st.integers(1, 400))
def test_data_comes_through(sent: list[tuple[int, bytes, bool]], step: int) -> None:
    data = b"".join(spdy.data(stream, payload, fin=fin) for stream, payload, fin in sent)
    assert fed(data, step) == [
        Frame(0, stream, data=payload, fin=fin) for stream, payload, fin in sent
    ]


def test_control_frames_are_told_apart() -> None:
    encoder = Encoder()
    data = encoder.reply(7) + spdy.ping(0xFFFFFFFF) + spdy.reset(5, spdy.CANCEL) + spdy.goaway(9)
    assert fed(data, 3) == [
        Frame(spdy.SYN_REPLY, 7),
        Frame(spdy.PING, 0xFFFFFFFF),
        Frame(spdy.RST_STREAM, 5),
        Frame(spdy.GOAWAY, 9),
    ]


def control(kind: int, payload: bytes, version: int = 3) -> bytes:
    return struct.pack(">HHI", 0x8000 | version, kind, len(payload)) + payload


def compressed(plain: bytes) -> bytes:
    deflate = zlib.compressobj(zdict=DICTIONARY)
    return deflate.compress(plain) + deflate.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize(
    "data",
    [
        control(spdy.PING, b"\0\0\0\1", version=2),
        control(spdy.SYN_STREAM, b"\0\0\0\1"),
        control(spdy.RST_STREAM, b""),
        control(spdy.SYN_STREAM, bytes(10) + b"no zlib"),
        control(spdy.SYN_STREAM, bytes(10) + compressed(b"\0\0\0\1\0\0\0\xff")),
        control(spdy.SYN_STREAM, bytes(10) + compressed(b"\xff\xff\xff\xff")),
        control(spdy.SYN_STREAM, bytes(10) + compressed(bytes(10_000_000))),
        b"\0\0\0\1\0\xff\xff\xff",
    ],
)
def test_what_breaks_the_protocol_is_refused(data: bytes) -> None:
    with pytest.raises(SpdyError):
        fed(data)

"""WebSocket frames: what a client sends comes out whole, and nothing it sends does harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.agent.streams.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    MESSAGE_BYTES,
    PING,
    TEXT,
    Message,
    Parser,
    WebSocketError,
    accept_key,
    frame,
    unmask,
)

MASK = b"\x01\x02\x03\x04"


def masked(opcode: int, payload: bytes, *, final: bool = True) -> bytes:
    """A client's frame."""
    plain = frame(opcode, payload)
    head = plain[: len(plain) - len(payload)]
    first = head[0] if final else head[0] & 0x7F
    return bytes((first, head[1] | 0x80)) + head[2:] + MASK + unmask(payload, MASK)


def fed(data: bytes, step: int) -> list[Message]:
    parser = Parser()
    found = []
    for start in range(0, len(data), step):
        found += parser.feed(data[start : start + step])
    return found


def test_the_accept_key_is_that_of_the_rfc() -> None:
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


messages = st.lists(
    st.tuples(
        st.sampled_from([TEXT, BINARY, PING, CLOSE]),
        st.integers(0, 200).map(bytes)
        | st.sampled_from([bytes(126), bytes(66_000), b"\x7f" * 125]),
    ).map(lambda pair: (pair[0], pair[1][:125] if pair[0] & 8 else pair[1]))
)


@given(messages, st.integers(16, 5000))
def test_messages_come_out_as_they_went_in_however_they_are_cut(
    sent: list[tuple[int, bytes]], step: int
) -> None:
    data = b"".join(masked(*one) for one in sent)
    assert fed(data, step) == [Message(*one) for one in sent]


def test_a_message_in_parts_is_one_message_and_pings_may_come_between() -> None:
    data = masked(BINARY, b"one ", final=False) + masked(PING, b"?")
    data += masked(CONTINUATION, b"two ", final=False) + masked(CONTINUATION, b"three")
    assert fed(data, 3) == [Message(PING, b"?"), Message(BINARY, b"one two three")]


@pytest.mark.parametrize(
    "data",
    [
        frame(BINARY, b"not masked"),
        masked(CONTINUATION, b"of nothing"),
        masked(BINARY, b"", final=False) + masked(BINARY, b"again"),
        masked(PING, b"", final=False),
        masked(0x3, b""),
        b"\xf2\x80",
        b"\x82\xff" + (MESSAGE_BYTES + 1).to_bytes(8, "big"),
    ],
)
def test_what_breaks_the_protocol_is_refused(data: bytes) -> None:
    with pytest.raises(WebSocketError):
        fed(data, 1 << 20)


def test_a_message_that_never_ends_is_refused() -> None:
    parser = Parser()
    parser.feed(masked(BINARY, bytes(1 << 20), final=False))
    parts = masked(CONTINUATION, bytes(1 << 20), final=False) * 8
    with pytest.raises(WebSocketError):
        parser.feed(parts)


def test_a_message_in_very_many_parts_comes_out_whole() -> None:
    parts = 50_000
    data = masked(BINARY, b"", final=False)
    data += (
        masked(CONTINUATION, b"", final=False) + masked(CONTINUATION, b"x", final=False)
    ) * parts
    assert fed(data + masked(CONTINUATION, b"!"), 1 << 20) == [Message(BINARY, b"x" * parts + b"!")]

"""WebSocket as a server speaks it, without I/O. Source: RFC 6455."""

import base64
import hashlib
from dataclasses import dataclass

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
NORMAL, PROTOCOL_ERROR, TOO_BIG = 1000, 1002, 1009

MESSAGE_BYTES = 4 * 1024 * 1024
"""The longest message that is read; clients of these protocols send 32 KiB at a time."""
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FINAL, _RESERVED, _OPCODE, _MASKED = 0x80, 0x70, 0x0F, 0x80


class WebSocketError(Exception):
    """The peer broke the protocol; `code` is what to close with."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def accept_key(key: str) -> str:
    """Sec-WebSocket-Accept for the client's Sec-WebSocket-Key."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()


def frame(opcode: int, payload: bytes) -> bytes:
    """One whole, unmasked message."""
    size = len(payload)
    if size < 126:
        head = bytes((_FINAL | opcode, size))
    elif size < 1 << 16:
        head = bytes((_FINAL | opcode, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((_FINAL | opcode, 127)) + size.to_bytes(8, "big")
    return head + payload


def close_frame(code: int) -> bytes:
    return frame(CLOSE, code.to_bytes(2, "big"))


@dataclass(frozen=True, slots=True)
class Message:
    """TEXT or BINARY, whole; or CLOSE, PING, PONG."""

    opcode: int
    payload: bytes


class Parser:
    """Bytes of a client in, messages out. Holds at most one message and one frame."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._parts = bytearray()
        self._opcode = 0
        """Of the message whose parts are being collected; 0 = none."""

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are whole now. Raises WebSocketError."""
        self._bytes += data
        found = []
        while (taken := self._frame()) is not None:
            first, payload = taken
            if message := self._assemble(first, payload):
                found.append(message)
        return found

    def _frame(self) -> tuple[int, bytes] | None:
        """The first byte and the payload of the next frame, once it is there."""
        held = self._bytes
        if len(held) < 2:
            return None
        first, second = held[0], held[1]
        if first & _RESERVED:
            raise WebSocketError(PROTOCOL_ERROR, "a reserved bit is set")
        if not second & _MASKED:
            raise WebSocketError(PROTOCOL_ERROR, "a client's frame must be masked")
        size, start = second & 0x7F, 2
        if first & CLOSE and (size > 125 or not first & _FINAL):
            raise WebSocketError(PROTOCOL_ERROR, "a control frame is short and whole")
        if size > 125:
            start += 2 if size == 126 else 8
            if len(held) < start:
                return None
            size = int.from_bytes(held[2:start], "big")
        if size + len(self._parts) > MESSAGE_BYTES:
            raise WebSocketError(TOO_BIG, f"a message is longer than {MESSAGE_BYTES} bytes")
        end = start + 4 + size
        if len(held) < end:
            return None
        payload = unmask(bytes(held[start + 4 : end]), bytes(held[start : start + 4]))
        del held[:end]
        return first, payload

    def _assemble(self, first: int, payload: bytes) -> Message | None:
        opcode = first & _OPCODE
        if opcode in (CLOSE, PING, PONG):
            return Message(opcode, payload)
        if opcode not in (CONTINUATION, TEXT, BINARY):
            raise WebSocketError(PROTOCOL_ERROR, f"unknown opcode {opcode}")
        if (opcode == CONTINUATION) != bool(self._opcode):
            raise WebSocketError(PROTOCOL_ERROR, "a message's parts are out of order")
        self._opcode = self._opcode or opcode
        self._parts += payload
        if not first & _FINAL:
            return None
        message = Message(self._opcode, bytes(self._parts))
        self._opcode, self._parts = 0, bytearray()
        return message


def unmask(payload: bytes, mask: bytes) -> bytes:
    """XOR with the mask, which is its own inverse; as whole numbers, because that is fast."""
    size = len(payload)
    pattern = (mask * (size // 4 + 1))[:size]
    mixed = int.from_bytes(payload, "big") ^ int.from_bytes(pattern, "big")
    return mixed.to_bytes(size, "big")

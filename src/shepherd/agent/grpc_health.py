"""The gRPC health check, in the few HTTP/2 frames that one call takes.

Source: grpc/grpc doc/health-checking.md and PROTOCOL-HTTP2.md; RFC 9113 (frames), RFC 7541 (header
literals; nothing of the answer's headers is needed, so nothing is decompressed).
"""

import asyncio

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 0x1, 0x1, 0x4, 0x8
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SERVING = 1
_FRAME_LIMIT = 64 * 1024


async def check(host: str, port: int, service: str) -> bool:
    """Whether grpc.health.v1.Health/Check says SERVING. Raises OSError."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + _call(f"{host}:{port}", service))
        return _is_serving(await _answer(reader, writer))
    except asyncio.IncompleteReadError as error:
        raise ConnectionError("the connection was closed before the answer") from error
    finally:
        writer.close()


def _call(authority: str, service: str) -> bytes:
    headers = (
        b"\x83\x86"  # :method POST, :scheme http (static table)
        + b"\x04" + _text(b"/grpc.health.v1.Health/Check")
        + b"\x01" + _text(authority.encode())
        + b"\x0f\x10" + _text(b"application/grpc")  # content-type is entry 31 of the table
        + b"\x00" + _text(b"te") + _text(b"trailers")
    )  # fmt: skip
    name = service.encode()
    message = b"\x0a" + _text(name) if name else b""
    body = b"\x00" + len(message).to_bytes(4, "big") + message
    return _frame(_HEADERS, _END_HEADERS, 1, headers) + _frame(_DATA, _END_STREAM, 1, body)


def _text(value: bytes) -> bytes:
    if len(value) > 126:
        raise ConnectionError("a name is too long")
    return bytes((len(value),)) + value


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    )


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """The bytes of the answer's message, with its 5-byte prefix; empty if there is none."""
    body = b""
    while True:
        head = await reader.readexactly(9)
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        if length > _FRAME_LIMIT:
            raise ConnectionError("the answer is no gRPC")
        payload = await reader.readexactly(length)
        if kind in (_RESET, _GOAWAY):
            raise ConnectionError("the call was refused")
        if kind in (_SETTINGS, _PING) and not flags & _ACK:
            writer.write(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
        if kind == _DATA:
            body += payload[1 : length - payload[0]] if flags & _PADDED else payload
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            return body


def _is_serving(body: bytes) -> bool:
    """HealthCheckResponse has one field, `status`, number 1."""
    return body[5:7] == bytes((0x08, _SERVING))

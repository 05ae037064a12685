"""SPDY/3.1 as kubectl's stream library speaks it, without I/O.

Flow-control windows are neither sent nor kept: that library has none, and a reader that is slow
holds up the connection. Source: the SPDY Protocol, Draft 3.1; moby/spdystream.
"""

import struct
import zlib
from dataclasses import dataclass, field

VERSION = 3
SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = (
    1, 2, 3, 4, 6, 7, 8, 9,
)  # fmt: skip
FIN = 0x01
PROTOCOL_ERROR, REFUSED_STREAM, CANCEL = 1, 3, 5

FRAME_BYTES = 1024 * 1024
"""The longest frame that is read; kubectl's have 32 KiB at most."""
HEADER_BYTES = 64 * 1024
"""Of a frame's headers, decompressed."""
_CONTROL = 0x80000000
_ID = 0x7FFFFFFF

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date "
    "etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate "
    "proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_DICTIONARY_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, "
    "GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,"
    "text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _word(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">I", len(data)) + data


DICTIONARY = b"".join(
    map(_word, (*_WORDS.split(), "200 OK", "version", "HTTP/1.1", "url", "public",
                "set-cookie", "keep-alive", "origin"))
) + _DICTIONARY_TAIL.encode()  # fmt: skip
"""With which both ends begin to compress headers (section 2.6.10.1)."""


class SpdyError(Exception):
    """The peer broke the protocol."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame; `type` 0 is DATA. `stream` is the stream's id, or a PING's own id."""

    type: int
    stream: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    data: bytes = b""
    fin: bool = False


class Encoder:
    """Frames that we send. Headers share one compression state: send them in the order made."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """Accept a stream."""
        return _control(SYN_REPLY, struct.pack(">I", stream) + self._headers({}))

    def open(self, stream: int, headers: dict[str, str]) -> bytes:
        """Begin a stream (the client's part; its numbers are odd)."""
        return _control(SYN_STREAM, struct.pack(">IIBB", stream, 0, 0, 0) + self._headers(headers))

    def _headers(self, headers: dict[str, str]) -> bytes:
        pairs = b"".join(_word(name) + _word(value) for name, value in headers.items())
        plain = struct.pack(">I", len(headers)) + pairs
        return self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def data(stream: int, payload: bytes, *, fin: bool = False) -> bytes:
    return struct.pack(">II", stream, (FIN if fin else 0) << 24 | len(payload)) + payload


def reset(stream: int, status: int) -> bytes:
    return _control(RST_STREAM, struct.pack(">II", stream, status))


def ping(number: int) -> bytes:
    """An even number is the server's own; an odd one answers the client's."""
    return _control(PING, struct.pack(">I", number))


def goaway(last_stream: int) -> bytes:
    return _control(GOAWAY, struct.pack(">II", last_stream, 0))


def _control(kind: int, payload: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8000 | VERSION, kind, flags << 24 | len(payload)) + payload


class Decoder:
    """Bytes in, frames out. Holds at most one frame."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole now. Raises SpdyError."""
        self._bytes += data
        frames = []
        while len(self._bytes) >= 8:
            first, second = struct.unpack_from(">II", self._bytes)
            flags, size = second >> 24, second & 0xFFFFFF
            if size > FRAME_BYTES:
                raise SpdyError(f"a frame is longer than {FRAME_BYTES} bytes")
            if len(self._bytes) < 8 + size:
                break
            payload = bytes(self._bytes[8 : 8 + size])
            del self._bytes[: 8 + size]
            fin = bool(flags & FIN)
            if first & _CONTROL:
                frames.append(self._control(first, fin, payload))
            else:
                frames.append(Frame(0, first, data=payload, fin=fin))
        return frames

    def _control(self, first: int, fin: bool, payload: bytes) -> Frame:
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != VERSION:
            raise SpdyError(f"SPDY version {version} is not spoken here")
        if kind == SETTINGS:
            return Frame(kind)
        if len(payload) < 4:
            raise SpdyError("a control frame is too short")
        stream = int.from_bytes(payload[:4], "big")
        if kind != PING:
            stream &= _ID
        if kind == SYN_STREAM:
            if len(payload) < 10:
                raise SpdyError("a SYN_STREAM is too short")
            return Frame(kind, stream, self._headers(payload[10:]), fin=fin)
        if kind in (SYN_REPLY, HEADERS):
            return Frame(kind, stream, self._headers(payload[4:]), fin=fin)
        return Frame(kind, stream)

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._inflate.decompress(block, HEADER_BYTES)
        except zlib.error as error:
            raise SpdyError(f"headers cannot be decompressed: {error}") from error
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"headers are longer than {HEADER_BYTES} bytes")
        return _pairs(plain)


def _pairs(plain: bytes) -> dict[str, str]:
    """Names in lower case and their values. Raises SpdyError."""
    headers = {}
    count, position = int.from_bytes(plain[:4], "big"), 4
    texts = []
    for _ in range(2 * min(count, HEADER_BYTES)):
        end = position + 4 + int.from_bytes(plain[position : position + 4], "big")
        if position + 4 > len(plain) or end > len(plain):
            raise SpdyError("headers are cut short")
        texts.append(plain[position + 4 : end].decode("utf-8", "replace"))
        position = end
    for name, value in zip(texts[::2], texts[1::2], strict=True):
        headers[name.lower()] = value
    return headers

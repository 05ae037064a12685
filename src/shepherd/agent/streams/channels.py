"""What runs in the streams of exec and attach, without I/O: which protocol, which stream is which,
sizes of terminals and how a command ended.

Source: kubernetes apimachinery pkg/util/remotecommand and pkg/util/httpstream/wsstream, client-go
tools/remotecommand.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from shepherd.api.resource import Object

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE_SIGNAL = 255
"""v5: this byte and a channel's number say that the channel ends."""
NAMES = ("stdin", "stdout", "stderr", "error", "resize")
"""What SPDY's `streamtype` header calls them."""

V5, V4, V3, V2, V1 = (f"{prefix}channel.k8s.io" for prefix in ("v5.", "v4.", "v3.", "v2.", ""))
WEBSOCKET_PROTOCOLS = (V5, V4, V1)
SPDY_PROTOCOLS = (V4, V3, V2, V1)
_WITH_STATUS = (V5, V4)
"""The others tell of an end by text alone, and of success by none."""


def offered(header: str) -> list[str]:
    """The protocols that a header lists."""
    return [text for part in header.split(",") if (text := part.strip())]


def choose(offers: Sequence[str], known: Sequence[str]) -> str | None:
    """The first offer that is known; the empty text when nothing was offered."""
    if not offers:
        return ""
    return next((offer for offer in offers if offer in known), None)


@dataclass(frozen=True, slots=True)
class Size:
    """Of a terminal, in characters."""

    width: int
    height: int


def sizes(data: bytes) -> list[Size]:
    """The sizes that a client sent, `{"Width":80,"Height":24}` each; what is no size is nothing."""
    found = []
    for line in data.replace(b"}", b"}\n").splitlines():
        try:
            value = json.loads(line)
            size = Size(int(value["Width"]), int(value["Height"]))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            continue
        if 0 <= size.width <= 0xFFFF and 0 <= size.height <= 0xFFFF:
            found.append(size)
    return found


def exited(code: int) -> Object:
    """The Status that tells how a command ended."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failed(message: str) -> Object:
    """The Status of a command that could not be run."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {message}",
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }


def outcome(protocol: str, status: Object) -> bytes:
    """What the error channel says at the end."""
    if protocol in _WITH_STATUS:
        return json.dumps(status, separators=(",", ":")).encode()
    return b"" if status["status"] == "Success" else str(status["message"]).encode()

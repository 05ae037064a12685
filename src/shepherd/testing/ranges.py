"""Address ranges for clusters with real containers: they share this machine's network."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_SECOND_BYTES = range(128, 256, 2)
"""10.128.0.0 and up: far from what `shepherd` itself takes by default."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Of one cluster."""

    pods: str
    services: str


@contextmanager
def claim() -> Iterator[Ranges]:
    """Ranges that are no other cluster's on this network while the context lasts.

    What marks them is a socket of an abstract name: names are per network namespace, and the kernel
    frees them whatever becomes of the process. Raises OSError when all are taken.
    """
    with socket.socket(socket.AF_UNIX) as mark:
        yield _mark_one(mark)


def _mark_one(mark: socket.socket) -> Ranges:
    taken = OSError()
    for byte in _SECOND_BYTES:
        try:
            mark.bind(f"\0shepherd.testing 10.{byte}.0.0/15")
        except OSError as error:
            taken = error
        else:
            return Ranges(f"10.{byte}.0.0/16", f"10.{byte + 1}.0.0/16")
    raise taken

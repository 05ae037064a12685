"""Keep the resident size near what is in use (docs/adr/0005-memory-and-gc.md has the figures)."""

import asyncio
import ctypes
import gc
import sys

TRIM_SECONDS = 30.0
_BLOCKS = 10_000
"""Of memory, some 100 bytes each: a change by fewer is not worth a look."""


def settle() -> None:
    """After boot: what is loaded stays for good, so no collection need look at it again."""
    gc.collect()
    gc.freeze()
    _malloc_trim()


async def keep_trim() -> None:
    """Give freed memory back to the system after bursts; costs nothing while nothing happens.

    What happened shows in collections; that much was let go with nothing else going on (history
    that is too old) only in what is allocated.
    """
    seen = _activity()
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        if (now := _activity()) != seen:
            seen = now
            await asyncio.to_thread(_malloc_trim)


def _activity() -> tuple[int, int]:
    return gc.get_stats()[0]["collections"], sys.getallocatedblocks() // _BLOCKS


def _malloc_trim() -> None:
    """malloc_trim(3); absent outside glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)

"""Keep the resident size near what is in use (docs/adr/0005-memory-and-gc.md has the figures)."""

import asyncio
import ctypes
import gc

TRIM_SECONDS = 30.0


def settle() -> None:
    """After boot: what is loaded stays for good, so no collection need look at it again."""
    gc.collect()
    gc.freeze()
    _malloc_trim()


async def keep_trim() -> None:
    """Give freed memory back to the system after bursts; costs nothing while nothing happens."""
    allocated = 0
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        collections = gc.get_stats()[0]["collections"]
        if collections != allocated:
            allocated = collections
            await asyncio.to_thread(_malloc_trim)


def _malloc_trim() -> None:
    """malloc_trim(3); absent outside glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)

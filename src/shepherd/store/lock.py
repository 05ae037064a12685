"""One server for one data directory: an advisory lock that dies with its process."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from shepherd.store.base import StoreOpenError


class FileLock:
    """Held from construction to `release`. Raises StoreOpenError naming the holder."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise StoreOpenError(
                f"the data directory {path.parent} is in use by another server "
                f"(process {holder}); stop it or choose another --data-dir"
            ) from None
        with suppress(OSError):  # a full disk: then the next server just cannot name us
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        # The file stays: removing it would let two servers lock two files of the same name.
        os.close(self._file)

"""Deleting later: a container may have written gigabytes, and its pod should not wait for that."""

import contextlib
import itertools
import os
import shutil
from pathlib import Path

_numbers = itertools.count()


class Trash:
    """A directory on the same file system as what is put into it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, path: Path) -> None:
        """Take a directory out of sight, at once; absent is fine."""
        self._root.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            path.rename(self._root / f"{os.getpid()}-{next(_numbers)}")

    def empty(self) -> None:
        """Delete all that is in it, also what an earlier agent left. Takes its time."""
        if self._root.exists():
            for path in self._root.iterdir():
                shutil.rmtree(path, ignore_errors=True)

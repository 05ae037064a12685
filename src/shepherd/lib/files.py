"""Files that hold secrets."""

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Replace a file, at once and durably, by one that only its owner can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(file)
    temporary.replace(path)

"""Unpack one image layer: `python -I -S extract.py DIRECTORY <layer.tar`.

A program of its own because it goes to live in the directory (chroot) before it reads the first
byte: whatever names and links a layer holds, nothing outside can be reached. The directory is the
merged view of the layers below, so that whiteouts are plain deletes and hard links to files of a
lower layer just work (the OCI image spec's layer.md prescribes the result).
"""

import contextlib
import os
import shutil
import sys
import tarfile

ENTRIES_LIMIT = 2_000_000
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_XATTR = "SCHILY.xattr."


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _whiteout(folder: str, name: str, added: set[str]) -> None:
    """What the lower layers had here is gone; what this layer brings stays."""
    if name != _OPAQUE:
        _remove(os.path.join(folder, name.removeprefix(_WHITEOUT)))
        return
    for child in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, child)
        if path not in added:
            _remove(path)


def _attributes(member: tarfile.TarInfo, path: str) -> None:
    """What tarfile leaves out: times of links, and extended attributes."""
    if member.issym():
        os.utime(path, (member.mtime, member.mtime), follow_symlinks=False)
    for key, value in member.pax_headers.items():
        name = key.removeprefix(_XATTR)
        # `trusted.overlay.*` would speak to the kernel's overlayfs in the image's name.
        if name != key and name.startswith(("user.", "security.capability")):
            data = value.encode("utf-8", "surrogateescape")
            os.setxattr(path, name, data, follow_symlinks=False)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    if path != "/" and os.path.lexists(path):
        both = member.isdir() and os.path.isdir(path) and not os.path.islink(path)
        if not both:
            _remove(path)
    if member.ischr() and (member.devmajor, member.devminor) == (0, 0):
        return  # overlayfs would take it for a whiteout
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    member.name = path.lstrip("/") or "."
    if member.islnk():
        member.linkname = os.path.normpath("/" + member.linkname).lstrip("/")
    tar.extract(member, "/", numeric_owner=True)
    _attributes(member, path)


def unpack(tar: tarfile.TarFile) -> None:
    """Unpack into `/`."""
    added: set[str] = set()
    folders: dict[str, float] = {}
    for count, member in enumerate(tar):
        if count > ENTRIES_LIMIT:
            raise tarfile.TarError(f"more than {ENTRIES_LIMIT} entries")
        path = os.path.normpath("/" + member.name.lstrip("/"))
        folder, name = os.path.split(path)
        if name.startswith(_WHITEOUT):
            _whiteout(folder, name, added)
            continue
        _extract(tar, member, path)
        while path not in added:
            added.add(path)
            path = os.path.dirname(path)
        if member.isdir():
            folders[os.path.normpath("/" + member.name)] = member.mtime
    for path, modified in folders.items():
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.utime(path, (modified, modified))


def main() -> None:
    os.umask(0o022)
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|", bufsize=1 << 20, errorlevel=2) as tar:
        os.chroot(sys.argv[1])
        os.chdir("/")
        # Newer Pythons would refuse absolute links, which are harmless in here.
        tar.extraction_filter = lambda member, _: member
        unpack(tar)
    while sys.stdin.buffer.read(1 << 20):  # padding behind the end mark belongs to the digest
        pass


if __name__ == "__main__":
    try:
        main()
    except (OSError, tarfile.TarError, KeyError, ValueError, EOFError) as error:
        sys.exit(f"{type(error).__name__}: {error}")

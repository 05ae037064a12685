"""A pod's volumes, under `pods/<uid>/volumes/<name>`.

`content` decides what files a volume of data holds; `Volumes` puts them there. Files of data are
replaced as a whole: `..data` is a symbolic link that is swapped, so a reader sees the old content
or the new, never a mixture (kubernetes pkg/volume/util AtomicWriter).
"""

import asyncio
import ctypes
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shepherd.agent.downward import field_value, resource_value
from shepherd.agent.env import expand
from shepherd.agent.pod_state import BoundPod
from shepherd.agent.references import Lookup, UnresolvedError, Values
from shepherd.agent.tokens import Wanted
from shepherd.api.kinds import CONFIG_MAP, SECRET
from shepherd.api.objects import Container
from shepherd.api.objects.pod import (
    DownwardVolume,
    EmptyDirVolume,
    HostPathVolume,
    KeyToPath,
    Volume,
    VolumeProjection,
)
from shepherd.api.quantity import whole
from shepherd.api.references import Reference
from shepherd.runtime.base import Mount, Runtime

Files = dict[str, tuple[bytes, int]]
"""Relative path to content and mode."""

_PROPAGATION = {"HostToContainer": "rslave", "Bidirectional": "rshared"}
_MS_NOSUID, _MS_NODEV = 2, 4


@dataclass(frozen=True, slots=True)
class Facts:
    """What the content of a pod's volumes is made from."""

    pod: BoundPod
    status: Mapping[str, object] = field(default_factory=dict)
    lookup: Lookup = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    tokens: Mapping[Wanted, bytes] = field(default_factory=dict)
    """Every token that the pod's volumes name."""


def content(volume: Volume, facts: Facts) -> Files | None:
    """The files of a configMap, secret, downwardAPI or projected volume; None for other kinds.

    Raises UnresolvedError for what must be there and is not.
    """
    if volume.config_map:
        source = volume.config_map
        return _keys(facts, CONFIG_MAP.kind, source.name, source.items, source.optional,
                     source.default_mode)  # fmt: skip
    if volume.secret:
        secret = volume.secret
        return _keys(facts, SECRET.kind, secret.secret_name, secret.items, secret.optional,
                     secret.default_mode)  # fmt: skip
    if volume.downward_api:
        return _downward(facts, volume.downward_api, volume.downward_api.default_mode)
    if volume.projected:
        files: Files = {}
        for projection in volume.projected.sources:
            files |= _projection(facts, projection, volume.projected.default_mode)
        return files
    return None


def _projection(facts: Facts, projection: VolumeProjection, mode: int) -> Files:
    if source := projection.config_map:
        return _keys(facts, CONFIG_MAP.kind, source.name, source.items, source.optional, mode)
    if source := projection.secret:
        return _keys(facts, SECRET.kind, source.name, source.items, source.optional, mode)
    if projection.downward_api:
        return _downward(facts, projection.downward_api, mode)
    if token := projection.service_account_token:
        return {_inside(token.path): (facts.tokens[Wanted.of(token)], mode)}
    raise UnresolvedError("a projection of this kind is not supported by this node")


def _keys(
    facts: Facts, kind: str, name: str, items: list[KeyToPath], optional: bool, mode: int
) -> Files:
    namespace = facts.pod.metadata.namespace
    values = facts.lookup.get(Reference(kind, namespace, name))
    if values is None:
        if optional:
            return {}
        raise UnresolvedError(f'{kind.lower()} "{name}" not found')
    if not items:
        return {key: (value, mode) for key, value in values.items()}
    return _items(values, items, optional, mode, f"{namespace}/{name}")


def _items(values: Values, items: list[KeyToPath], optional: bool, mode: int, where: str) -> Files:
    files: Files = {}
    for item in items:
        if item.key in values:
            files[_inside(item.path)] = (values[item.key], mode if item.mode is None else item.mode)
        elif not optional:
            raise UnresolvedError(f"references non-existent key {item.key} in {where}")
    return files


def _downward(facts: Facts, source: DownwardVolume, mode: int) -> Files:
    files: Files = {}
    for item in source.items:
        if item.field_ref:
            text = field_value(facts.pod, facts.status, item.field_ref.field_path)
        elif item.resource_field_ref:
            text = resource_value(facts.pod, None, item.resource_field_ref, facts.allocatable)
        else:
            continue
        files[_inside(item.path)] = (text.encode(), mode if item.mode is None else item.mode)
    return files


def _inside(path: str) -> str:
    """A path that stays in its volume and cannot touch the swap's own names."""
    parts = Path(path).parts
    if not parts or path.startswith("/") or any(part.startswith("..") for part in parts):
        raise UnresolvedError(f"invalid path {path!r} in a volume")
    return path


class Volumes:
    """Makes, refreshes and removes the volumes of pods.

    For a simulated runtime, whose containers see no files, an emptyDir in memory is a plain
    directory.
    """

    def __init__(self, directory: Callable[[str], Path], runtime: Runtime) -> None:
        self._directory = directory
        self._runtime = runtime

    @property
    def _real(self) -> bool:
        return not self._runtime.describe().simulated

    async def set_up(self, facts: Facts) -> None:
        """Make every volume. Raises UnresolvedError or OSError; may be called again."""
        files = [(volume, content(volume, facts)) for volume in facts.pod.spec.volumes]
        await asyncio.to_thread(self._set_up, facts.pod, files)

    async def tear_down(self, uid: str) -> None:
        await asyncio.to_thread(self._tear_down, uid)

    def path(self, uid: str, name: str) -> Path:
        return self._directory(uid) / "volumes" / name

    def _set_up(self, pod: BoundPod, volumes: list[tuple[Volume, Files | None]]) -> None:
        group = pod.spec.security_context.fs_group
        for volume, files in volumes:
            path = self.path(pod.metadata.uid, volume.name)
            if files is not None:
                path.mkdir(parents=True, exist_ok=True)
                write_files(path, files, group)
            elif volume.empty_dir:
                self._empty_dir(path, volume.empty_dir, group)
            elif volume.host_path:
                check_host_path(volume.host_path)
            else:
                raise UnresolvedError(f'the kind of volume "{volume.name}" is not supported')

    def _empty_dir(self, path: Path, source: EmptyDirVolume, group: int | None) -> None:
        if path.exists():
            return
        path.mkdir(parents=True)
        if source.medium == "Memory" and self._real:
            size = whole(source.size_limit) if source.size_limit else 0
            mount_tmpfs(path, f"size={size},mode=0777" if size else "mode=0777")
        path.chmod(0o777)
        if group is not None:
            os.chown(path, -1, group)
            path.chmod(0o2777)

    def _tear_down(self, uid: str) -> None:
        root = self._directory(uid) / "volumes"
        if not root.exists():
            return
        for volume in root.iterdir():
            if self._real and os.path.ismount(volume):
                unmount(volume)
        shutil.rmtree(root)

    def mounts(self, pod: BoundPod, container: Container, env: Mapping[str, str]) -> list[Mount]:
        """The container's volume mounts. Raises UnresolvedError, OSError."""
        volumes = {volume.name: volume for volume in pod.spec.volumes}
        result = []
        for mount in container.volume_mounts:
            volume = volumes.get(mount.name)
            if volume is None:
                raise UnresolvedError(f'volume "{mount.name}" is not defined')
            host = volume.host_path
            base = Path(host.path) if host else self.path(pod.metadata.uid, volume.name)
            sub_path = expand(mount.sub_path_expr, env) if mount.sub_path_expr else mount.sub_path
            source = sub_path_of(base, sub_path) if sub_path else base
            kept = volume.config_map or volume.secret or volume.projected or volume.downward_api
            propagation = _PROPAGATION.get(mount.mount_propagation, "rprivate")
            result.append(
                Mount(str(source), mount.mount_path, mount.read_only or bool(kept), propagation)
            )
        return result


def write_files(directory: Path, files: Files, group: int | None) -> bool:
    """Make `directory` hold exactly `files`, in one swap; whether anything changed."""
    current = directory / "..data"
    if current.exists() and _same(current.resolve(), files):
        return False
    old = current.resolve() if current.is_symlink() else None
    number = int(old.name.rsplit("-", 1)[-1]) + 1 if old else 1
    fresh = directory / f"..data-{number}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o755)
    for path, (data, mode) in files.items():
        _write(fresh / path, data, mode, group)
    link = directory / "..data_tmp"
    link.unlink(missing_ok=True)
    link.symlink_to(fresh.name)
    link.replace(current)
    _link_names(directory, {Path(path).parts[0] for path in files})
    if old:
        shutil.rmtree(old, ignore_errors=True)
    return True


def _same(directory: Path, files: Files) -> bool:
    found = {str(p.relative_to(directory)): p for p in directory.rglob("*") if p.is_file()}
    return found.keys() == files.keys() and all(
        path.read_bytes() == files[name][0] for name, path in found.items()
    )


def _write(path: Path, data: bytes, mode: int, group: int | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if group is not None:
        os.chown(path, -1, group)
        mode |= stat.S_IRGRP
    path.chmod(mode)


def _link_names(directory: Path, names: set[str]) -> None:
    """The names that users see: links through `..data`, so that one swap changes all."""
    for entry in directory.iterdir():
        if not entry.name.startswith("..") and entry.name not in names:
            entry.unlink()
    for name in names:
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(Path("..data") / name)


_KINDS: dict[str, tuple[Callable[[Path], bool], str]] = {
    "Directory": (Path.is_dir, "directory"),
    "File": (Path.is_file, "file"),
    "Socket": (Path.is_socket, "socket"),
    "CharDevice": (Path.is_char_device, "character device"),
    "BlockDevice": (Path.is_block_device, "block device"),
}


def check_host_path(source: HostPathVolume) -> None:
    """Make or check the path as its type says. Raises UnresolvedError."""
    path = Path(source.path)
    if source.type == "DirectoryOrCreate" or (not source.type and not path.exists()):
        path.mkdir(parents=True, exist_ok=True)
    elif source.type == "FileOrCreate":
        if not path.exists():
            path.touch(0o644)
    elif source.type:
        holds, what = _KINDS[source.type]
        if not holds(path):
            raise UnresolvedError(f"hostPath type check failed: {path} is not a {what}")


def sub_path_of(base: Path, sub_path: str) -> Path:
    """A directory or file inside a volume, made if absent. Raises UnresolvedError if it leaves."""
    if sub_path.startswith("/") or ".." in Path(sub_path).parts:
        raise UnresolvedError(f"invalid subPath {sub_path!r}")
    path = base / sub_path
    if not path.exists():
        path.mkdir(parents=True)
        path.chmod(0o777)
    resolved = path.resolve()
    if not resolved.is_relative_to(base.resolve()):
        raise UnresolvedError(f"subPath {sub_path!r} leaves its volume")
    return resolved


def mount_tmpfs(path: Path, options: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    flags = _MS_NOSUID | _MS_NODEV
    if libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", flags, options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot mount a tmpfs: {os.strerror(number)}", str(path))


def unmount(path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(path), 2) != 0:  # MNT_DETACH
        number = ctypes.get_errno()
        raise OSError(number, f"cannot unmount: {os.strerror(number)}", str(path))

"""Volumes as containers see them."""

import os
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from shepherd.agent.pod_state import BoundPod
from shepherd.agent.references import Lookup, UnresolvedError
from shepherd.agent.tokens import Wanted
from shepherd.agent.volumes import (
    Facts,
    Volumes,
    check_host_path,
    content,
    sub_path_of,
    write_files,
)
from shepherd.api.objects.pod import HostPathVolume, Volume
from shepherd.api.references import Reference
from shepherd.lib.clock import SystemClock
from shepherd.runtime.hollow import HollowRuntime

LOOKUP: Lookup = {
    Reference("ConfigMap", "default", "c"): {"a": b"1", "b": b"2"},
    Reference("Secret", "default", "s"): {"k": b"v"},
    Reference("ConfigMap", "default", "none"): None,
}


def pod(**spec: Any) -> BoundPod:
    meta = {"name": "web", "namespace": "default", "uid": "u", "labels": {"x": "1", "a": 'q"'}}
    return msgspec.convert({"metadata": meta, "spec": spec}, BoundPod)


def files(volume: dict[str, Any]) -> dict[str, tuple[bytes, int]] | None:
    return content(msgspec.convert({"name": "v", **volume}, Volume), Facts(pod(), {}, LOOKUP))


def test_content() -> None:
    assert files({"configMap": {"name": "c"}}) == {"a": (b"1", 0o644), "b": (b"2", 0o644)}
    items = [{"key": "a", "path": "deep/er", "mode": 0o400}]
    assert files({"configMap": {"name": "c", "items": items}}) == {"deep/er": (b"1", 0o400)}
    assert files({"secret": {"secretName": "s", "defaultMode": 0o600}}) == {"k": (b"v", 0o600)}
    labels = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    assert files({"downwardAPI": {"items": labels}}) == {"labels": (b'a="q\\""\nx="1"', 0o644)}
    sources = [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]
    assert set(files({"projected": {"sources": sources}}) or {}) == {"a", "b", "k"}
    assert files({"configMap": {"name": "none", "optional": True}}) == {}
    assert files({"emptyDir": {}}) is None


def test_a_token_is_a_file_beside_others() -> None:
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 600, "audience": "x"}}
    volume = {"name": "v", "projected": {"sources": [token, {"configMap": {"name": "c"}}]}}
    facts = Facts(pod(), {}, LOOKUP, tokens={Wanted("x", 600): b"secret"})
    found = content(msgspec.convert(volume, Volume), facts) or {}
    assert found["token"] == (b"secret", 0o644)
    assert set(found) == {"token", "a", "b"}


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        (
            {"configMap": {"name": "c", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent key z in default/c",
        ),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "../a"}]}}, "invalid path"),
    ],
)
def test_what_cannot_be_had_is_named(volume: dict[str, Any], message: str) -> None:
    with pytest.raises(UnresolvedError, match=message):
        files(volume)


def test_65_an_update_is_one_swap(tmp_path: Path) -> None:
    """kubernetes/kubernetes#92296, #50345; k3s-io/k3s#5632."""
    assert write_files(tmp_path, {"a": (b"1", 0o644), "d/b": (b"2", 0o600)}, None)
    opened = (tmp_path / "a").open("rb")
    before = os.readlink(tmp_path / "..data")
    assert not write_files(tmp_path, {"a": (b"1", 0o644), "d/b": (b"2", 0o600)}, None)
    assert os.readlink(tmp_path / "..data") == before
    assert write_files(tmp_path, {"a": (b"new", 0o644)}, None)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert opened.read() == b"1"
    opened.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["..data", "..data-2", "a"]


async def test_volumes_of_a_pod(tmp_path: Path) -> None:
    volumes = Volumes(
        lambda uid: tmp_path / uid, HollowRuntime(clock=SystemClock(), random=Random())
    )
    mounts = [
        {"name": "e", "mountPath": "/e", "subPathExpr": "$(WHO)/x"},
        {"name": "c", "mountPath": "/c"},
        {"name": "h", "mountPath": "/h", "mountPropagation": "HostToContainer"},
    ]
    spec = pod(
        volumes=[
            {"name": "e", "emptyDir": {}},
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "h", "hostPath": {"path": str(tmp_path / "host")}},
        ],
        containers=[{"name": "web", "volumeMounts": mounts}],
    )
    await volumes.set_up(Facts(spec, {}, LOOKUP))
    (tmp_path / "u" / "volumes" / "e" / "kept").touch()
    await volumes.set_up(Facts(spec, {}, LOOKUP))
    assert (tmp_path / "u" / "volumes" / "e" / "kept").exists()
    found = volumes.mounts(spec, spec.spec.containers[0], {"WHO": "me"})
    assert [m.target for m in found] == ["/e", "/c", "/h"]
    assert found[0].source.endswith("volumes/e/me/x")
    assert (found[1].read_only, found[2].propagation) == (True, "rslave")
    await volumes.tear_down("u")
    assert not (tmp_path / "u" / "volumes").exists()
    assert (tmp_path / "host").is_dir()


def test_host_path_types(tmp_path: Path) -> None:
    def check(path: str, kind: str) -> None:
        check_host_path(HostPathVolume(path=str(tmp_path / path), type=kind))

    check("made", "DirectoryOrCreate")
    check("made", "Directory")
    check("file", "FileOrCreate")
    check("file", "File")
    for path, kind in (("file", "Directory"), ("made", "File"), ("none", "Socket")):
        with pytest.raises(UnresolvedError, match="type check failed"):
            check(path, kind)


def test_a_sub_path_stays_inside(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "out").symlink_to("/etc")
    for bad in ("../x", "/etc", "out"):
        with pytest.raises(UnresolvedError):
            sub_path_of(tmp_path / "v", bad)

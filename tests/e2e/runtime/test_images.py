"""Images from archives: every form, layers as the OCI image spec wants them, and hostile ones."""

# ruff: noqa: ASYNC240 (the tests look at small files; nothing else waits for the loop)

import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from shepherd.runtime.base import ImageInfo, Runtime, SheepError
from shepherd.runtime.oci import kernel
from shepherd.runtime.oci.images import ImageRecord
from shepherd.testing.runtime_suite import FOREVER, IMAGE, Harness, start

from .building import (
    Compress,
    Entry,
    folder,
    gz,
    hardlink,
    image,
    index,
    layer,
    oci_archive,
    plain,
    symlink,
    zstd,
)
from .conftest import OpenRuntime

NAME = "example.test/app:1"


@pytest.fixture
async def runtime(open_runtime: OpenRuntime) -> Runtime:
    return await open_runtime()


@contextmanager
def tree(tmp_path: Path, found: ImageInfo) -> Iterator[Path]:
    """The image's files."""
    images = tmp_path / "agent" / "images"
    data = (images / "records" / f"{found.id.removeprefix('sha256:')}.json").read_bytes()
    layers = msgspec.json.decode(data, type=ImageRecord).layers
    lower = ":".join(str(images / "layers" / name) for name in reversed(layers))
    view = tmp_path / "view"
    (view / "empty").mkdir(parents=True)
    (view / "all").mkdir()
    options = f"lowerdir={lower}:{view}/empty"
    kernel.mount("overlay", view / "all", "overlay", kernel.MS_RDONLY, options)
    try:
        yield view / "all"
    finally:
        kernel.unmount(view / "all")


@pytest.mark.parametrize("packed", [plain, gz, zstd])
@pytest.mark.parametrize("compress", [plain, gz, zstd])
async def test_an_archive_is_read_in_every_form(
    runtime: Runtime, tmp_path: Path, compress: Compress, packed: Compress
) -> None:
    built = image(layer(Entry("hello", b"world")), compress=compress, User="7", StopSignal="SIGINT")
    archive = oci_archive(tmp_path / "a.tar", built, NAME, compress=packed)
    [found] = await runtime.images.load(str(archive))
    assert (found.tags, found.user, found.stop_signal) == ((NAME,), "7", "SIGINT")
    with tree(tmp_path, found) as root:
        assert (root / "hello").read_bytes() == b"world"


async def test_layers_become_what_the_image_spec_says(runtime: Runtime, tmp_path: Path) -> None:
    lower = layer(
        folder("home", 0o750, owner=1000),
        Entry("home/keep", b"1"),
        Entry("home/gone", b"2"),
        folder("full"),
        Entry("full/old", b"3"),
        Entry("tool", b"4", mode=0o4755, xattrs={"user.note": "n"}),
        Entry("swap", b"5"),
        symlink("link", "/nowhere"),
    )
    upper = layer(
        Entry("home/.wh.gone"),
        Entry("full/new", b"6"),
        Entry("full/.wh..wh..opq"),
        hardlink("again", "tool", mode=0o4755),
        folder("swap"),
        Entry("home/new", b"7", owner=5),
    )
    [found] = await runtime.images.load(
        str(oci_archive(tmp_path / "a.tar", image(lower, upper), NAME))
    )
    with tree(tmp_path, found) as root:
        assert sorted(one.name for one in root.iterdir()) == [
            "again", "full", "home", "link", "swap", "tool",
        ]  # fmt: skip
        assert sorted(one.name for one in (root / "home").iterdir()) == ["keep", "new"]
        assert [one.name for one in (root / "full").iterdir()] == ["new"]
        home = (root / "home").stat()
        assert (stat.S_IMODE(home.st_mode), home.st_uid) == (0o750, 1000), "not named in the upper"
        assert (root / "home" / "new").stat().st_uid == 5
        assert (root / "swap").is_dir()
        tool = root / "tool"
        assert stat.S_IMODE(tool.stat().st_mode) == 0o4755
        assert (root / "again").read_bytes() == b"4"
        assert os.getxattr(tool, "user.note") == b"n"
        assert tool.stat().st_mtime == 1_600_000_000
        assert os.readlink(root / "link") == "/nowhere"
        assert (root / "link").lstat().st_mtime == 1_600_000_000


async def test_an_index_gives_the_image_for_this_machine(runtime: Runtime, tmp_path: Path) -> None:
    from shepherd.runtime.oci.images import ARCHITECTURE

    ours, other = image(layer(Entry("ours"))), image(layer(Entry("x")), architecture="s390x")
    both = index((other, "s390x"), (ours, ARCHITECTURE))
    [found] = await runtime.images.load(str(oci_archive(tmp_path / "a.tar", both, NAME)))
    with tree(tmp_path, found) as root:
        assert (root / "ours").exists()
    with pytest.raises(SheepError, match="no image for linux/"):
        await runtime.images.load(
            str(oci_archive(tmp_path / "b.tar", index((other, "s390x")), NAME))
        )
    with pytest.raises(SheepError, match="image is for linux/s390x"):
        await runtime.images.load(str(oci_archive(tmp_path / "c.tar", other, NAME)))


async def test_images_share_layers_until_the_last_is_removed(
    runtime: Runtime, tmp_path: Path
) -> None:
    base = layer(Entry("base", b"x"))
    built = [image(base, layer(Entry(name))) for name in ("one", "two")]
    found = []
    for number, one in enumerate(built):
        archive = oci_archive(tmp_path / f"{number}.tar", one, f"example.test/{number}:1")
        found += await runtime.images.load(str(archive))
    layers = tmp_path / "agent" / "images" / "layers"
    counts = [len(list(layers.iterdir()))]
    for loaded in found:
        await runtime.images.remove(loaded.id)
        counts.append(len(list(layers.iterdir())))
    assert counts == [3, 2, 0]


async def test_a_tag_moves_to_the_newest_image(runtime: Runtime, tmp_path: Path) -> None:
    first, second = image(layer(Entry("1"))), image(layer(Entry("2")))
    [old] = await runtime.images.load(str(oci_archive(tmp_path / "a.tar", first, NAME)))
    [new] = await runtime.images.load(str(oci_archive(tmp_path / "b.tar", second, NAME)))
    assert await runtime.images.resolve(NAME) == new
    found = await runtime.images.resolve(old.id)
    assert found is not None
    assert found.tags == ()


async def test_a_container_keeps_the_layers_of_a_removed_image(runtime_harness: Harness) -> None:
    container = await start(runtime_harness, FOREVER)
    found = await runtime_harness.runtime.images.resolve(IMAGE)
    assert found is not None
    await runtime_harness.runtime.images.remove(found.id)
    result = await runtime_harness.runtime.exec(
        container.id, ["ls", "/bin/busybox"], timeout_seconds=10
    )
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "entries",
    [
        [Entry("../../../../../../../../tmp/w-escape", b"x")],
        [Entry("/../etc/w-escape", b"x")],
        [symlink("out", "/etc"), Entry("out/w-escape", b"x")],
        [symlink("out", "../../../../../../etc"), Entry("out/w-escape", b"x")],
        [symlink("out", "/etc"), Entry("out/.wh.passwd")],
    ],
    ids=["dots", "absolute", "link", "relative link", "whiteout"],
)
async def test_no_name_in_an_archive_leads_out(
    runtime: Runtime, tmp_path: Path, entries: list[Entry]
) -> None:
    archive = oci_archive(tmp_path / "a.tar", image(layer(*entries)), NAME)
    try:
        [found] = await runtime.images.load(str(archive))
    except SheepError:
        assert await runtime.images.list() == []
    else:
        with tree(tmp_path, found) as root:
            assert root.exists()
    assert Path("/etc/passwd").exists()
    assert not Path("/etc/w-escape").exists()
    assert not Path("/tmp/w-escape").exists()


async def test_a_hard_link_to_the_machine_finds_nothing(runtime: Runtime, tmp_path: Path) -> None:
    bad = image(layer(hardlink("stolen", "../../../../../../../../etc/passwd")))
    with pytest.raises(SheepError) as refused:
        await runtime.images.load(str(oci_archive(tmp_path / "a.tar", bad, NAME)))
    assert refused.value.reason == "ErrImagePull"
    assert list((tmp_path / "agent" / "images" / "layers").iterdir()) == []


async def test_a_layer_cannot_speak_to_overlayfs(runtime: Runtime, tmp_path: Path) -> None:
    bad = image(
        layer(folder("d"), Entry("d/secret", b"x")),
        layer(
            Entry("d/secret", kind=tarfile.CHRTYPE),
            Entry("e", kind=tarfile.DIRTYPE, xattrs={"trusted.overlay.redirect": "/d"}),
        ),
    )
    [found] = await runtime.images.load(str(oci_archive(tmp_path / "a.tar", bad, NAME)))
    with tree(tmp_path, found) as root:
        assert list((root / "e").iterdir()) == []


async def test_damage_is_told_and_leaves_nothing(runtime: Runtime, tmp_path: Path) -> None:
    good = image(layer(Entry("file", b"x" * 5000)))
    manifest = good.blobs[good.manifest]
    for number, (what, blobs) in enumerate(
        {
            "digest": good.blobs | {good.manifest: b"{}"},
            "layer": {
                name: data[:60] if data[:2] == b"\x1f\x8b" else data
                for name, data in good.blobs.items()
            },
            "is missing": {good.manifest: manifest},
        }.items()
    ):
        archive = tmp_path / f"{number}.tar"
        oci_archive(archive, type(good)(blobs, good.manifest), NAME)
        with pytest.raises(SheepError, match=what):
            await runtime.images.load(str(archive))
    (tmp_path / "text").write_text("no archive\n" * 100)
    with pytest.raises(SheepError, match="text is no image archive"):
        await runtime.images.load(str(tmp_path / "text"))
    with pytest.raises(SheepError, match="No such file"):
        await runtime.images.load(str(tmp_path / "absent"))
    assert await runtime.images.list() == []
    assert list((tmp_path / "agent" / "images" / "layers").iterdir()) == []
    assert list((tmp_path / "agent" / "images" / "scratch").iterdir()) == []

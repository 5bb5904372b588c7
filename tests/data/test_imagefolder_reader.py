"""Image folders and tar files: class order, parts, sizes, and images that must not be decoded."""

from __future__ import annotations

import errno
import io
import os
import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tensmith.data import open_dataset
from tensmith.errors import DataError


def png(colour: tuple[int, int, int], size: tuple[int, int] = (6, 4)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "PNG")
    return file.getvalue()


FILES = {
    "val/zebra/1.png": png((255, 0, 0)),
    "val/ant/2.PNG": png((0, 255, 0)),
    "train/ant/3.png": png((0, 0, 255)),
    "train/ant/.hidden.png": b"",
    "train/ant/notes.md": b"",
}


def folder(root: Path, files: dict[str, bytes] = FILES) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def tar(path: Path, mode: str = "w", files: dict[str, bytes] = FILES, start: str = "./") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(start + name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def shown(dataset) -> dict[str, list[tuple[int, list[float]]]]:
    """part -> (label, colour of the first pixel) of every image."""
    return {
        name: [(int(part.labels([i])[0]), part.inputs([i])[0, :, 0, 0].tolist()) for i in range(len(part))]
        for name, part in dataset.parts.items()
    }


EXPECTED = {
    "train": [(0, [0, 0, 255])],
    "validation": [(0, [0, 255, 0]), (1, [255, 0, 0])],
}


def test_classes_are_alphabetical_and_parts_come_from_folders(tmp_path: Path) -> None:
    dataset = open_dataset(f"imagefolder:{folder(tmp_path)}")
    assert dataset.class_names == ("ant", "zebra")
    assert shown(dataset) == EXPECTED
    assert dataset.part("train").inputs([0]).shape == (1, 3, 4, 6)


def test_a_class_is_the_first_folder_below_its_part(tmp_path: Path) -> None:
    """As torchvision has it: what lies deeper is of that class, and what lies in no class is none."""
    names = ("train/ant/red/1.png", "train/zebra/2.png", "train/zebra/test/3.png", "test/4.png")
    files = {f"set/{name}": png((1, 2, 3)) for name in names}
    dataset = open_dataset(f"imagefolder:{folder(tmp_path, files)}")
    assert dataset.class_names == ("ant", "zebra")
    assert list(dataset.parts) == ["train"]
    assert dataset.part("train").labels([0, 1, 2]).tolist() == [0, 1, 1]


def test_a_folder_beside_the_parts_is_no_class(tmp_path: Path) -> None:
    names = ("train/ant/1.png", "train/zebra/2.png", "val/ant/3.png", "docs/4.png", "5.png")
    dataset = open_dataset(f"imagefolder:{folder(tmp_path, dict.fromkeys(names, png((1, 2, 3))))}")
    assert dataset.class_names == ("ant", "zebra") and set(dataset.parts) == {"train", "validation"}
    said = "the data has .jpg or .png images in no folder of a class, which are left out: 2, as 5.png"
    assert [*dataset.remarks()] == [said]


@pytest.mark.parametrize(
    ("names", "lies"),
    [
        (("cats/1.png", "dogs/2.png", "test/images/3.png"), "cats lies in no part, and {}/test/images does"),
        (("set/cats/1.png", "set/val/cats/2.png", "set/val/dogs/3.png"), "set/cats lies in no part"),
    ],
)
def test_classes_beside_the_parts_are_refused(names: tuple[str, ...], lies: str, tmp_path: Path) -> None:
    folder(tmp_path, dict.fromkeys(names, png((1, 2, 3))))
    said = f"{tmp_path}/{lies.format(tmp_path)}.*; move it into one, as train/cats, or away if it is no class"
    with pytest.raises(DataError, match=said):
        open_dataset(f"imagefolder:{tmp_path}")


def test_a_folder_around_all_classes_is_none(tmp_path: Path) -> None:
    names = ("photos/ant/1.png", "photos/zebra/2.png", "photos/zebra/left/3.png")
    dataset = open_dataset(f"imagefolder:{folder(tmp_path, dict.fromkeys(names, png((1, 2, 3))))}")
    assert dataset.class_names == ("ant", "zebra")
    assert dataset.part("all").labels([0, 1, 2]).tolist() == [0, 1, 1]


def test_a_class_may_be_called_like_a_part(tmp_path: Path) -> None:
    names = ("vehicles/bus/1.png", "vehicles/car/2.png", "vehicles/train/3.png")
    dataset = open_dataset(f"imagefolder:{folder(tmp_path, dict.fromkeys(names, png((1, 2, 3))))}")
    assert dataset.class_names == ("bus", "car", "train")
    assert dataset.part("all").labels([0, 1, 2]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["1.png", "test/1.png"])
def test_images_without_a_class_are_refused(tmp_path: Path, name: str) -> None:
    folder(tmp_path, {name: png((1, 2, 3))})
    with pytest.raises(DataError, match=r"lies in a folder of its class; expected \[val/\]CLASS/IMAGE\.jpg"):
        open_dataset(f"imagefolder:{tmp_path}")


@pytest.mark.parametrize(("name", "mode"), [("a.tar", "w"), ("a.tar.xz", "w:xz"), ("a.tgz", "w:gz")])
def test_a_tar_file_reads_like_its_folder(tmp_path: Path, name: str, mode: str) -> None:
    path = tar(tmp_path / name, mode)
    assert shown(open_dataset(f"imagefolder:{path}")) == EXPECTED
    assert shown(open_dataset(f"imagefolder:{tmp_path}")) == EXPECTED  # the folder of one tar file


def test_a_tar_file_of_absolute_names(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", files={"ant/1.png": FILES["val/ant/2.PNG"]}, start="/")
    assert shown(open_dataset(f"imagefolder:{path}")) == {"all": [(0, [0, 255, 0])]}


def test_a_name_longer_than_any_path_is_refused(tmp_path: Path) -> None:
    """Each folder above a file is remembered by its path: of so many, they would fill any memory."""
    path = tar(tmp_path / "a.tar", files={f"{2048 * 'a/'}1.png": b""})
    with pytest.raises(
        DataError, match=r"a\.tar holds a file whose name has 4103 characters, more than 4096: \./a"
    ):
        open_dataset(f"imagefolder:{path}")


def linked(path: Path, links: dict[str, tuple[bytes, str]]) -> str:
    """A tar file of two images and links."""
    tar(path, files={"ant/1.png": FILES["val/ant/2.PNG"], ".kept/2.png": FILES["train/ant/3.png"]})
    with tarfile.open(path, "a") as archive:
        for name, (kind, target) in links.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
    return f"imagefolder:{path}"


def test_links_in_a_tar_file_are_what_they_lead_to(tmp_path: Path) -> None:
    links = {
        "bee/hard.png": (tarfile.LNKTYPE, "./ant/1.png"),
        "bee/soft.png": (tarfile.SYMTYPE, "../cow/again.png"),
        "cow/again.png": (tarfile.SYMTYPE, "../.kept/2.png"),
        ".hidden": (tarfile.SYMTYPE, "/nowhere"),
    }
    green, blue = [0, 255, 0], [0, 0, 255]
    found = shown(open_dataset(linked(tmp_path / "a.tar", links)))
    assert found == {"all": [(0, green), (1, green), (1, blue), (2, blue)]}


def test_a_file_packed_twice_is_one(tmp_path: Path) -> None:
    """As `find data | tar cf a.tar -T -` has it: a folder is packed whole, and what lies in it again."""
    links = {"./ant/1.png": (tarfile.LNKTYPE, "ant/1.png"), "ant/1.png": (tarfile.LNKTYPE, "./ant/1.png")}
    assert shown(open_dataset(linked(tmp_path / "a.tar", links))) == {"all": [(0, [0, 255, 0])]}


@pytest.mark.parametrize(
    "links",
    [
        {"a/1.png": (tarfile.SYMTYPE, "/etc/passwd")},
        {"a/1.png": (tarfile.SYMTYPE, "../../ant/1.png")},
        {"a/1.png": (tarfile.LNKTYPE, "../ant/1.png")},
        {"a/1.png": (tarfile.SYMTYPE, "2.png"), "a/2.png": (tarfile.SYMTYPE, "1.png")},
        {"a/1.png": (tarfile.LNKTYPE, "a/1.png")},
        {"a": (tarfile.SYMTYPE, "ant")},
    ],
)
def test_links_to_no_file_of_a_tar_file_are_refused(
    links: dict[str, tuple[bytes, str]], tmp_path: Path
) -> None:
    name = next(iter(links))
    with pytest.raises(DataError, match=rf"a\.tar:{name} is a link to .*, which is no file .*\(tar -h"):
        open_dataset(linked(tmp_path / "a.tar", links))


def test_files_stored_without_their_zeros_are_refused(tmp_path: Path) -> None:
    links = {".kept/sparse.png": (tarfile.GNUTYPE_SPARSE, "")}
    assert shown(open_dataset(linked(tmp_path / "a.tar", links))) == {"all": [(0, [0, 255, 0])]}
    with pytest.raises(DataError, match=r"a\.tar:bee/2\.png is stored without its zeros; .* tar -S"):
        open_dataset(linked(tmp_path / "a.tar", {"bee/2.png": (tarfile.GNUTYPE_SPARSE, "")}))


def test_an_order_file_numbers_the_classes(tmp_path: Path) -> None:
    tar(tmp_path / "a.tar")
    (tmp_path / "synsets.txt").write_text("zebra, a striped horse\ncow\nant small\n".replace(",", " "))
    dataset = open_dataset(f"imagefolder:{tmp_path}")
    assert (dataset.classes, dataset.class_names) == (3, ("zebra", "cow", "ant"))
    assert dataset.part("validation").labels([0, 1]).tolist() == [2, 0]


def test_an_order_file_may_lie_beside_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path / "images")
    (tmp_path / "classes.txt").write_text("zebra\nant\n")
    monkeypatch.chdir(tmp_path / "images")
    for path in (tmp_path / "images", "."):
        assert open_dataset(f"imagefolder:{path}").class_names == ("zebra", "ant")


def test_an_order_file_may_hold_names_of_several_words(tmp_path: Path) -> None:
    names = ("polar bear", "polar fox", "ant")
    folder(tmp_path, {f"{name}/1.png": png((1, 2, 3)) for name in names})
    (tmp_path / "classes.txt").write_text("\ufeff" + "\n".join(names))
    assert open_dataset(f"imagefolder:{tmp_path}").class_names == names


def test_a_class_missing_from_the_order_file_is_named(tmp_path: Path) -> None:
    folder(tmp_path, {**FILES, "wnids.txt": b"ant\n"})
    with pytest.raises(DataError, match="class 'zebra' is not in the class order"):
        open_dataset(f"imagefolder:{tmp_path}")


def test_different_sizes_share_a_batch_only_when_scaled(tmp_path: Path) -> None:
    folder(tmp_path, {"a/1.png": png((9, 9, 9), (40, 30)), "b/2.png": png((9, 9, 9), (20, 64))})
    with pytest.raises(DataError, match="size=224"):
        open_dataset(f"imagefolder:{tmp_path}").part("all").inputs([0, 1])
    images = open_dataset(f"imagefolder:{tmp_path}?size=28").part("all").inputs([0, 1])
    assert images.shape == (2, 3, 28, 28) and (images == 9).all()


def test_scaling_keeps_the_centre(tmp_path: Path) -> None:
    image = Image.new("RGB", (96, 32))
    image.paste((255, 255, 255), (32, 0, 64, 32))
    file = io.BytesIO()
    image.save(file, "PNG")
    folder(tmp_path, {"a/1.png": file.getvalue()})
    assert open_dataset(f"imagefolder:{tmp_path}", size=28).part("all").inputs([0]).min() > 250


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few hundred bytes that claims to be `width` x `height`."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0"))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bomb(10_000, 10_000), "past the limit|readable"),
        (bomb(60_000, 60_000), "readable"),
        (bomb(8, 8), "readable"),
        (png((1, 2, 3))[:40], "readable"),
        (b"GIF89a", "readable"),
        (b"", "readable"),
    ],
)
def test_bombs_and_damage_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    folder(tmp_path, {"a/1.png": content})
    with pytest.raises(DataError, match=message):
        open_dataset(f"imagefolder:{tmp_path}").part("all").inputs([0])


def test_a_thin_image_cannot_be_blown_up(tmp_path: Path) -> None:
    folder(tmp_path, {"a/1.png": png((0, 0, 0), (60_000, 1))})
    with pytest.raises(DataError, match="long and thin"):
        open_dataset(f"imagefolder:{tmp_path}?size=224").part("all").inputs([0])


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no \.jpg or \.png"):
        open_dataset(f"imagefolder:{tmp_path}")
    with pytest.raises(DataError, match="no such folder"):
        open_dataset(f"imagefolder:{tmp_path / 'missing'}")
    (tmp_path / "a.tar").write_bytes(b"no tar" * 200)
    with pytest.raises(DataError, match=r"not a readable tar .*; get it again"):
        open_dataset(f"imagefolder:{tmp_path}")
    for name in ("a.zip", "a.tar.bz2"):
        (tmp_path / name).write_bytes(b"no tar" * 200)
        with pytest.raises(DataError, match=r"; unpack it, or make a \.tar of it"):
            open_dataset(f"imagefolder:{tmp_path / name}")


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, scandir = folder(tmp_path / "data"), os.scandir
    closed = [root / name for name in ("lost+found", ".trash", "train/ant")]
    for each in closed:
        each.mkdir(exist_ok=True)

    def guarded(path: str) -> object:
        if Path(path) in closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    words = f"cannot read the folder {closed[-1]}: Permission denied; check the permissions"
    with pytest.raises(DataError, match=words):
        open_dataset(f"imagefolder:{root}")
    closed.pop()
    assert set(open_dataset(f"imagefolder:{root}").parts) == {"train", "validation"}


def test_links_that_lead_back_up_end(tmp_path: Path) -> None:
    folder(tmp_path, {"a/1.png": png((1, 1, 1))})
    (tmp_path / "a" / "up").symlink_to(tmp_path, target_is_directory=True)
    assert len(open_dataset(f"imagefolder:{tmp_path}").part("all")) == 1


def test_grey_of_16_bits_keeps_its_shades(tmp_path: Path) -> None:
    shades = np.arange(256, dtype=np.uint16).reshape(16, 16)
    file = io.BytesIO()
    Image.fromarray(shades * 257).save(file, "PNG")
    part = open_dataset(f"imagefolder:{folder(tmp_path, {'grey/1.png': file.getvalue()})}").part("all")
    np.testing.assert_array_equal(part.inputs([0])[0], np.stack([shades] * 3))


@pytest.mark.parametrize("damage", ["cut off", "changed"])
def test_a_tar_whose_later_headers_are_damaged(tmp_path: Path, damage: str) -> None:
    """No shorter dataset: an image, its header and its one block of pixels, is two blocks."""
    whole = tar(tmp_path / "whole.tar").read_bytes()
    after = 2 * 512
    broken = whole[: after + 100] if damage == "cut off" else whole[:after] + b"?" + whole[after + 1 :]
    (tmp_path / "broken.tar").write_bytes(broken)
    with pytest.raises(DataError, match="no header at byte 1024"):
        open_dataset(f"imagefolder:{tmp_path / 'broken.tar'}")


@pytest.mark.parametrize("name", ["3.webp", "3.txt", ""])
def test_a_class_without_images_does_not_renumber_the_others(name: str, tmp_path: Path) -> None:
    files = {"train/bee/1.png": FILES["val/ant/2.PNG"], "train/cow/2.png": FILES["val/zebra/1.png"]}
    others = {"train/bee/4.webp": b"", "about/5.gif": b"", "train/.ant/6.md": b""}
    root = folder(tmp_path / "data", {**files, **others})
    (root / "train" / "ant").mkdir()
    if name:
        (root / "train" / "ant" / name).touch()
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(root / "train", "train")
    for path in (root, tmp_path / "a.tar"):
        with pytest.raises(
            DataError, match=rf"class 'ant' has no \.jpg or \.png image in {path}/train/ant; "
        ):
            open_dataset(f"imagefolder:{path}")
    (root / "classes.txt").write_text("ant\nbee\ncow\n")
    assert shown(open_dataset(f"imagefolder:{root}")) == {"train": [(1, [0, 255, 0]), (2, [255, 0, 0])]}

"""A folder or a tar file (also .xz, .gz), seen the same way: sorted file names, read one at a time."""

from __future__ import annotations

import os
import posixpath
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from tensmith import gate
from tensmith.data.dataset import ALL, Array, Dataset, DatasetPart, Modality, part_name
from tensmith.data.parts import ItemPart
from tensmith.data.storage import open_random
from tensmith.errors import DataError, system_advice

FILE_LIMIT = 64 << 20
TAR_SUFFIXES = (".tar", ".tar.xz", ".tar.gz", ".tgz")
# What file systems, archives and servers put beside folders of files.
_OF_THE_DISK = {"lost+found", "__MACOSX", "@eaDir"}
_TOPS = {".", "/"}
# One behind another, as Linux has it.
_MOST_LINKS = 40
# Characters of a path, as Linux has it.
_LONGEST_NAME = 4096


@dataclass(frozen=True)
class FileTree:
    """Regular files below `root`; `names` are relative, with forward slashes, sorted, without hidden ones.

    So are `folders`, empty ones too.
    """

    root: Path
    names: tuple[str, ...]
    folders: tuple[str, ...]
    _read: Callable[[str], bytes]

    def read(self, name: str) -> bytes:
        """The contents of one file; DataError when it is larger than FILE_LIMIT bytes."""
        try:
            return self._read(name)
        except OSError as error:
            raise DataError(f"cannot read {self.root}/{name}: {error.strerror or error}") from error

    def text(self, name: str) -> str:
        """The contents of one UTF-8 file."""
        return decoded(self.read(name), f"{self.root}/{name}")

    def reader(self, names: Sequence[str], decode: Callable[[bytes, str], Array]) -> Callable[[int], Array]:
        """What reads the i-th of these files; `decode` takes the contents, and how messages call the file."""
        return lambda index: decode(self.read(names[index]), f"{self.root}/{names[index]}")

    def having(self, *suffixes: str) -> list[str]:
        """The names that end in one of `suffixes` (compared in lower case)."""
        return [name for name in self.names if name.lower().endswith(suffixes)]


def decoded(data: bytes, where: str) -> str:
    """`data` as UTF-8 text; DataError tells the first wrong byte."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{where} is not UTF-8 at byte {error.start}; convert it with iconv") from error


def by_folder(where: Path, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """(part, class) of the files that lie in a folder of their class, as torchvision has it: the first one
    below the first folder that is named like a part, or where no class lies in such, below folders in which
    all lie. A folder of that name among others is a class there: of cars, buses and a train. DataError where
    some classes lie in parts, and others seem to lie beside those."""
    return {name: (part, folder.name) for name, (part, folder) in _class_folders(where, names).items()}


def classified(
    kind: str, modality: Modality, tree: FileTree, names: Sequence[str],
    described: Mapping[str, tuple[str, str]], class_names: Sequence[str],
    decode: Callable[[bytes, str], Array], *, ragged: bool, remedy: str, files: str,
) -> Dataset:  # fmt: skip
    """The dataset of the files that are described, by part and class; `files` is what all of `names` are.

    ragged, remedy: as ItemPart has them. It remarks on files that lie in no folder of a class.
    """
    numbers = {name: number for number, name in enumerate(class_names)}
    members: dict[str, list[str]] = {}
    for name in filter(described.__contains__, names):
        members.setdefault(described[name][0], []).append(name)
    parts: dict[str, DatasetPart] = {}
    for part, own in members.items():
        labels = np.array([numbers[described[name][1]] for name in own], np.int64)
        parts[part] = ItemPart(len(own), tree.reader(own, decode), labels, ragged=ragged, remedy=remedy)
    remark = ""
    if others := [name for name in names if name not in described]:
        remark = f"{files}s in no folder of a class, which are left out: {len(others)}, as {others[0]}"
    return Dataset(kind, "classification", len(numbers), parts, modality, tuple(class_names), remark=remark)


def demand_classes(where: Path, names: Iterable[str], folders: Iterable[str], kind: str) -> None:
    """DataError where a folder beside those of the classes of `names` holds none of these, files of a `kind`:
    if it is a class, others would have wrong numbers."""
    found = {folder for _, folder in _class_folders(where, names).values()}
    classes, parents = {folder.name for folder in found}, {folder.parent for folder in found}
    for folder in map(PurePosixPath, folders):
        if folder.parent in parents and folder.name not in classes:
            raise DataError(
                f"class '{folder.name}' has no {kind} in {where}/{folder}; convert what lies there, or move "
                "the folder away if it is no class"
            )


def _class_folders(where: Path, names: Iterable[str]) -> dict[str, tuple[str, PurePosixPath]]:
    """(part, folder of the class) of files, as `by_folder` has it."""
    found: dict[str, tuple[str, PurePosixPath]] = {}
    others: dict[str, tuple[str, ...]] = {}
    bare: dict[str, tuple[str, ...]] = {}
    for name in names:
        folders = PurePosixPath(name).parts[:-1]
        at = next((i for i, folder in enumerate(folders) if part_name(folder)), None)
        if at is None and folders:
            others[name] = folders
        elif at is not None and folders[at + 1 :]:
            found[name] = part_name(folders[at]) or ALL, PurePosixPath(*folders[: at + 2])
        elif folders:
            bare[name] = folders
    if others and not found:
        others |= bare
    depth, least = 1, min(map(len, others.values()), default=0)
    while depth < least and len({folders[:depth] for folders in others.values()}) == 1:
        depth += 1
    alone = {name: (ALL, PurePosixPath(*folders[:depth])) for name, folders in others.items()}
    beside = sorted({folder for _, folder in alone.values()})
    within = {folder.name: folder for _, folder in found.values()}
    if found and (len(beside) > 1 or any(folder.name in within for folder in beside)):
        raise DataError(
            f"{where}/{beside[0]} lies in no part, and {where}/{min(within.values())} does; "
            f"move it into one, as train/{beside[0].name}, or away if it is no class"
        )
    return found or alone


def open_tree(path: Path, *loose: str) -> FileTree:
    """Opens a folder or a tar file; a folder of one tar file stands for that file where it has no subfolder,
    and no file that ends in one of `loose`, as samples do that may lie in the folder itself."""
    if path.is_file():
        return _tar(path)
    if not path.is_dir():
        raise DataError(f"no such folder or tar file: {path}; check the path given after the dataset's kind")
    folder = open_folder(path)
    tars = folder.having(*TAR_SUFFIXES)
    if len(tars) == 1 and not folder.folders and not folder.having(*loose):
        return _tar(path / tars[0])
    return folder


def _visible(name: str) -> bool:
    return not any(word.startswith(".") or word in _OF_THE_DISK for word in PurePosixPath(name).parts)


def _unread(error: OSError) -> None:
    """DataError of a folder that cannot be listed: without what lies there the data would be other data."""
    advice = system_advice(error, "check the disk")
    raise DataError(f"cannot read the folder {error.filename}: {error.strerror}; {advice}") from error


def open_folder(root: Path) -> FileTree:
    """Opens a folder as what it is; tar files in it are files."""
    names: list[str] = []
    within: set[str] = set()
    seen: set[str] = set()
    for folder, subfolders, files in os.walk(root, onerror=_unread, followlinks=True):
        subfolders[:] = [name for name in subfolders if _visible(name)]
        real = os.path.realpath(folder)
        if real in seen:  # a symbolic link back up
            subfolders.clear()
            continue
        seen.add(real)
        relative = Path(folder).relative_to(root)
        within.add(relative.as_posix())
        names += [name for file in files if _visible(name := (relative / file).as_posix())]

    def read(name: str) -> bytes:
        with gate.open_file(root / name, gate.DATA) as file:
            data = file.read(FILE_LIMIT + 1)
        if len(data) > FILE_LIMIT:
            raise DataError(f"{root}/{name} is larger than {FILE_LIMIT} bytes, too large for one sample")
        return data

    return FileTree(root, tuple(sorted(names)), tuple(sorted(within - _TOPS)), read)


def _tar(path: Path) -> FileTree:
    file = open_random(path)
    entries: dict[str, tuple[int, int] | str] = {}  # where the bytes are, or the name that a link leads to
    within: set[str] = set()
    try:
        with tarfile.open(fileobj=file.stream(), mode="r:") as archive:
            for member in archive:
                if len(member.name) > _LONGEST_NAME:
                    raise DataError(
                        f"{path} holds a file whose name has {len(member.name)} characters, more than "
                        f"{_LONGEST_NAME}: {member.name[:40]}...; leave it out"
                    )
                name = PurePosixPath(member.name).as_posix()
                if member.isreg() and not member.issparse():
                    entries[name] = (member.offset_data, member.size)
                elif member.issparse() and _visible(name):
                    raise DataError(f"{path}:{name} is stored without its zeros; pack it without tar -S")
                elif member.islnk():
                    target = posixpath.normpath(member.linkname)
                    if target != name or name not in entries:  # a file packed twice is a link to itself
                        entries[name] = target
                elif member.issym():
                    entries[name] = posixpath.normpath(PurePosixPath(name).parent / member.linkname)
                if _visible(name):
                    inside = f"{name}/file" if member.isdir() else name
                    within.update(map(str, PurePosixPath(inside).parents))
            # Past the first member, tarfile takes what is no header for the end, which is zeros.
            after = file.read_at(archive.offset, min(tarfile.BLOCKSIZE, max(0, file.size - archive.offset)))
            if after.strip(b"\0"):
                raise tarfile.ReadError(f"there is no header at byte {archive.offset}")
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        named = path.name.lower().endswith(TAR_SUFFIXES)
        advice = "get it again" if named else "unpack it, or make a .tar of it"
        raise DataError(f"{path} is not a readable tar file ({error}); {advice}") from error

    members = {name: _behind(name, entries, path) for name in entries if _visible(name)}

    def read(name: str) -> bytes:
        offset, size = members[name]
        if size > FILE_LIMIT:
            raise DataError(f"{path}:{name} is larger than {FILE_LIMIT} bytes, too large for one sample")
        return file.read_at(offset, size)

    return FileTree(path, tuple(sorted(members)), tuple(sorted(within - _TOPS)), read)


def _behind(name: str, entries: Mapping[str, tuple[int, int] | str], path: Path) -> tuple[int, int]:
    """Where the bytes of a file are, or of the one that a link leads to; DataError where it leads to none."""
    at = name
    for _ in range(_MOST_LINKS):
        found = entries.get(at, "")
        if not isinstance(found, str):
            return found
        at = found
    raise DataError(
        f"{path}:{name} is a link to {entries[name]}, which is no file of the archive; pack what it leads to "
        "(tar -h)"
    )

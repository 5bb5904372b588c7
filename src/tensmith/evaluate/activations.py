"""What the layers of a program multiply, computed once for all programs that begin alike.

A program is cut before its layers. What is alive at a cut, on all samples, waits on disk under the digest
of all that led to it. So whoever changes layer after layer, and asks what the next one sees, goes on from the
cut before and walks a network once. A value is always computed in the same pieces, whatever was at hand.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from tensmith.backend.onnx import write_onnx
from tensmith.engine.base import ENGINES, Session
from tensmith.engine.resident import release_freed
from tensmith.errors import OutputError
from tensmith.evaluate.accuracy import as_model
from tensmith.files import TemporaryFolder, sha256_bytes
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program, TensorType
from tensmith.rewrite.lossy.weights import find_layer, weighted_layers

# A cut is made where one sample's values take no more; those of the last cuts are kept.
_CUT_BYTES = 4 << 20
_KEPT_BYTES = 256 << 20

Values: TypeAlias = Mapping[str, Array]
# (a program, names of its values, samples a batch) -> these values of each batch, from the data on.
FromData: TypeAlias = Callable[[Program, tuple[str, ...], int], Iterator[Values]]


@dataclass(frozen=True)
class Piece:
    """The program from one cut to the next, which `names` are alive at, and the digest of all up to there."""

    program: Program
    names: tuple[str, ...]
    digest: str


class Activations:
    """Inputs of layers, batch by batch. `from_data` begins a program; sessions take `threads`."""

    def __init__(self, from_data: FromData, threads: int) -> None:
        self._from_data, self._threads = from_data, threads
        self._folder = TemporaryFolder()
        self._kept: dict[str, int] = {}  # bytes by digest, the last used last
        self._batches: dict[str, int] = {}

    def of(self, pieces: list[Piece], batch: int) -> Iterator[Array]:
        """The one value of the last piece, by batches of as many samples as `pieces` are for."""
        *before, last = pieces
        start = next((n for n in reversed(range(len(before))) if before[n].digest in self._kept), -1)
        for number in range(start + 1, len(before)):
            self._keep(before[number], before[number - 1] if number else None, batch)
        (name,) = last.names
        if before and name in before[-1].names:
            yield from self._read(before[-1], name)
        else:
            yield from (values[name] for values in self._run(last, before[-1] if before else None, batch))

    def _run(self, piece: Piece, before: Piece | None, batch: int) -> Iterator[Values]:
        """What the piece makes; all of it where it begins with the data."""
        if before is None:
            yield from self._from_data(piece.program, piece.names, batch)
            return
        with session_of(piece.program, self._threads) as session:
            run = as_model(session)
            names = list(piece.program.inputs)
            for arrays in zip(*(self._read(before, name) for name in names)):
                yield run(dict(zip(names, arrays)))

    def _read(self, piece: Piece, name: str) -> Iterator[Array]:
        self._kept[piece.digest] = self._kept.pop(piece.digest)  # the last used
        place = piece.names.index(name)
        for number in range(self._batches[piece.digest]):
            yield np.load(self._file(piece, place, number), allow_pickle=False)

    def _file(self, piece: Piece, place: int, number: int) -> Path:
        return Path(self._folder.name) / piece.digest / f"{place}.{number}.npy"

    def _keep(self, piece: Piece, before: Piece | None, batch: int) -> None:
        """Makes a cut of what is alive: values that were so before stay the same files."""
        folder = Path(self._folder.name) / piece.digest
        shutil.rmtree(folder, ignore_errors=True)  # of a cut that failed
        with _written():
            folder.mkdir()
        size, count = 0, 0 if before is None else self._batches[before.digest]
        made = [name for name in piece.names if before is None or name not in before.names]
        for number, values in enumerate(self._run(piece, before, batch) if made else ()):
            for name in made:
                with _written():
                    np.save(self._file(piece, piece.names.index(name), number), values[name])
                size += values[name].nbytes
            count = number + 1
            del values
        for place, name in enumerate(piece.names):
            if before is not None and name in before.names:
                for number in range(count):
                    file = self._file(before, before.names.index(name), number)
                    with _written():
                        self._file(piece, place, number).hardlink_to(file)
                    size += file.stat().st_size
        self._kept[piece.digest], self._batches[piece.digest] = size, count
        for digest in list(self._kept)[:-1]:
            if sum(self._kept.values()) <= _KEPT_BYTES:
                break
            shutil.rmtree(Path(self._folder.name) / digest)
            del self._kept[digest]


@contextmanager
def _written() -> Iterator[None]:
    """OutputError where the system would not write: NumPy says of a full disk only how much it took."""
    try:
        yield
    except OSError as error:
        where, reason = tempfile.gettempdir(), error.strerror or error
        raise OutputError(f"no room in {where} for what layers multiply ({reason}); set TMPDIR") from error


@contextmanager
def session_of(program: Program, threads: int) -> Iterator[Session]:
    """A program loaded, its weights mapped and not copied."""
    release_freed()
    with TemporaryFolder() as folder:
        path = Path(folder) / "inner.onnx"
        write_onnx(program, path, external_threshold=0)
        session = ENGINES["onnxruntime"].prepare(path, threads, weights="mapped", optimization="basic")
        with closing(session):
            yield session


def pieces_to(program: Program, site: str, batch: int) -> list[Piece]:
    """The pieces that end in what the layer at `site` multiplies. ProgramError if it is no layer."""
    layers = weighted_layers(program)
    number = [layer.site for layer in layers].index(find_layer(program, site).site)
    targets = [layer.node.inputs[0] for layer in layers]
    anew, measured = _made_anew(program)
    needed = _first_needed(program, targets, anew)
    made = {name: place for node, place in needed.items() for name in node.outputs if name}
    made.update(dict.fromkeys(program.inputs, -1))
    read = {**{layer.node: place + 1 for place, layer in enumerate(layers)}, **needed}
    readers = program.consumers
    last = {name: max((read.get(n, -1) for n in readers.get(name, ())), default=-1) for name in made}
    last.update(dict.fromkeys(measured, len(layers)))
    pieces: list[Piece] = []
    begin = -1

    def piece(place: int, names: tuple[str, ...]) -> Piece:
        nodes = [node for node in program.nodes if begin < needed.get(node, -1) <= place]
        return _piece(program, nodes, anew, pieces[-1] if pieces else None, names, batch)

    for place in range(number + 1):
        alive = tuple(name for name in made if made[name] <= place < last[name])
        if _is_cut(program, alive):
            pieces.append(piece(place, alive))
            begin = place
    return [*pieces, piece(number, (targets[number],))]


def _made_anew(program: Program) -> tuple[set[str], set[str]]:
    """Values made of constants and of the inputs' sizes alone, as positions and masks are, which every piece
    makes for itself; and the inputs that are measured for them."""
    anew, measured = set(program.static_values), set()
    for node in program.nodes:
        read = {name for name in node.inputs if name} - anew
        if node.opaque is None and node.traits.measures and read <= program.inputs.keys():
            measured |= read
        elif node.opaque is not None or read or not any(node.inputs):
            continue
        anew.update(filter(None, node.outputs))
    return anew, measured


def _first_needed(program: Program, targets: list[str], anew: set[str]) -> dict[Node, int]:
    """The nodes before the targets that are not made anew, and the first target that each is needed for."""
    needed: dict[Node, int] = {}
    for place, target in enumerate(targets):
        waiting = [target]
        while waiting:
            name = waiting.pop()
            node = program.producers.get(name)
            if node is not None and name not in anew and node not in needed:
                needed[node] = place
                waiting += [name for name in node.inputs if name]
    return needed


def _is_cut(program: Program, alive: tuple[str, ...]) -> bool:
    """Whether values stand for themselves: of known type and unknown content, an axis of samples first."""
    types = [_sampled(program, name) for name in alive]
    size = sum(0 if type_ is None else _sample_bytes(type_) for type_ in types)
    return None not in types and size <= _CUT_BYTES


def _sampled(program: Program, name: str) -> TensorType | None:
    fact = program.facts[name]
    batches = {type_.shape[0] for type_ in program.inputs.values() if type_.shape}
    if fact.type is None or fact.value is not None or not fact.type.shape or len(batches) != 1:
        return None
    return fact.type if fact.type.shape[0] in batches else None


def _sample_bytes(type_: TensorType) -> int:
    return type_.numpy.itemsize * int(np.prod([d if isinstance(d, int) else 64 for d in type_.dims[1:]]))


def _piece(
    program: Program,
    nodes: list[Node],
    anew: set[str],
    before: Piece | None,
    names: tuple[str, ...],
    batch: int,
) -> Piece:
    """The program of some nodes, with all that is made anew for them."""
    given = tuple(program.inputs) if before is None else before.names
    made = {name for node in nodes for name in node.outputs} | (anew & set(names))
    wanted = {name for node in nodes for name in node.inputs} | (anew & set(names))
    kept = set(nodes)
    for node in reversed(program.nodes):
        if not anew.isdisjoint(node.outputs) and not wanted.isdisjoint(node.outputs):
            wanted.update(node.inputs)
            kept.add(node)
    passed = wanted if before is not None else wanted | set(names)
    piece = replace(
        program,
        inputs={name: program.type(name) for name in given if name in passed},
        outputs=tuple(name for name in names if name in made),
        nodes=tuple(node for node in program.nodes if node in kept),
        constants={name: array for name, array in program.constants.items() if name in wanted},
        hints={name: hint for name, hint in program.hints.items() if name in made or name in wanted},
    )
    led = str(batch) if before is None else before.digest
    digest = sha256_bytes("\0".join((led, piece.digest, *names)).encode())
    return Piece(piece, names, digest)

"""A model, loaded: called on arrays, printed as TensIR, saved as ONNX."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tensmith import gate
from tensmith.backend.onnx import serialized, to_onnx, write_onnx
from tensmith.backend.packed import packed_file, unpack
from tensmith.data.gguf import is_gguf
from tensmith.deploy.caching import cached_decoder
from tensmith.deploy.generation import GREEDY, Sampling, TokenDecoder
from tensmith.deploy.publish import BEST, FRONT
from tensmith.deploy.slots import SlotDecoders
from tensmith.engine.base import BASELINE_ENGINE, ENGINES, Session, compilers, demand_threads
from tensmith.engine.compiled import NATIVE
from tensmith.errors import DataError, ModelError, OutputError, TensmithError, UsageError, first_line
from tensmith.evaluate.accuracy import Model as Answering
from tensmith.evaluate.accuracy import as_model
from tensmith.files import TemporaryFolder, at_home, write_bytes
from tensmith.frontend.checked import check_model
from tensmith.frontend.gguf_decoder import longest_text
from tensmith.frontend.model import read_model
from tensmith.frontend.model_copy import copy_model, refuse_own
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.rewrite.tokens.caching import with_slots
from tensmith.rewrite.trail import simplify
from tensmith.verify.files import require_certified
from tensmith.verify.schema import NAME, read_certificate

_PACKED_SUFFIX = ".packed"
# New tokens from which on caches are worth making.
_WORTH_CACHES = 8
# Tokens that any decoder takes.
_FEW = 2


class Model:
    """An .onnx, .packed or .gguf file as a function of arrays; `compiled`: the folder that runs in its place;
    `settings` are the engine's own.

    model(x) takes the only input, or name -> array; it returns the only output, or name -> array. Any number
    of threads may call it.
    """

    def __init__(
        self,
        path: str | Path,
        engine: str = BASELINE_ENGINE,
        threads: int = 1,
        compiled: Path | None = None,
        **settings: str,
    ) -> None:
        self.path = Path(path)
        self._engine, self._threads, self._compiled, self._settings = engine, threads, compiled, settings
        self._session: Session | None = None
        self._loading = threading.Lock()

    @cached_property
    def onnx_bytes(self) -> bytes:
        """The ONNX file, unpacked if need be: exactly the bytes that were measured; made of a .gguf file."""
        if self.path.suffix == _PACKED_SUFFIX:
            with packed_file(self.path) as packed:
                return unpack(packed)
        if self._gguf:
            return serialized(to_onnx(self.program), self.path, "use save(), which puts weights beside it")
        return gate.read_bytes(self.path, gate.MODEL)

    @cached_property
    def program(self) -> Program:
        """The model as a TensIR program."""
        return read_onnx(self.onnx_bytes) if self.path.suffix == _PACKED_SUFFIX else read_model(self.path)

    @cached_property
    def _gguf(self) -> bool:
        return is_gguf(self.path)

    @property
    def session(self) -> Session:
        """The model loaded into its engine, once."""
        with self._loading:
            if self._session is None:
                self._session = self._loaded()
        return self._session

    @cached_property
    def _answers(self) -> Answering:
        return as_model(self.session)

    @cached_property
    def _folder(self) -> TemporaryFolder:
        """For what is made of the file: engines that compile read it again at each new size."""
        return TemporaryFolder()

    @cached_property
    def _file(self) -> Path:
        """The ONNX file that an engine loads, checked; a temporary one of another."""
        path = self.path
        if self._gguf or path.suffix == _PACKED_SUFFIX:
            path = Path(self._folder.name) / "model.onnx"
            if self._gguf:
                write_onnx(self.program, path)
            else:
                path.write_bytes(self.onnx_bytes)
        check_model(path)
        return path

    def _loaded(self) -> Session:
        path = self._compiled or self._file
        return ENGINES[self._engine].prepare(path, self._threads, sizes=None, **self._settings)

    def __call__(self, inputs: np.ndarray[Any, Any] | dict[str, np.ndarray[Any, Any]]) -> Any:
        """One inference on any number of samples."""
        try:
            each = inputs if isinstance(inputs, dict) else {"": inputs}
            arrays = {name: np.asarray(array) for name, array in each.items()}
        except (ValueError, TypeError, RuntimeError) as error:  # rows of several lengths; tensors on a GPU
            raise DataError(f"the inputs are no arrays: {first_line(error)}") from error
        outputs = self._answers(arrays if isinstance(inputs, dict) else arrays[""])
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def generate(
        self,
        tokens: Sequence[int],
        max_new_tokens: int = 64,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        stop: Collection[int] = (),
    ) -> list[int]:
        """What a decoder says after some tokens, without them, up to a token of `stop`, which ends it.

        With caches of keys and values, where it has them (see deploy.generation) or they can be made (see
        deploy.caching; compiled, with engine="native", see deploy.slots); else the whole text is computed
        for each token. ModelError where it is no decoder, UsageError for what cannot be asked.
        """
        return list(self.stream(tokens, max_new_tokens, Sampling(temperature, top_p, seed), stop))

    def stream(
        self, tokens: Sequence[int], max_new_tokens: int = 64, sampling: Sampling = GREEDY,
        stop: Collection[int] = (),
    ) -> Iterator[int]:  # fmt: skip
        """What generate gives, each token when it is known."""
        if max_new_tokens < 1:
            raise UsageError(f"max_new_tokens is a whole number from 1, not {max_new_tokens}")
        longest = longest_text(self.program)
        if longest is not None and len(tokens) + max_new_tokens - 1 > longest:
            raise UsageError(
                f"{len(tokens)} tokens and {max_new_tokens} more do not fit: the model has positions for "
                f"{longest}; give a shorter prompt, or ask for fewer"
            )
        decoder = self.decoder
        if decoder is not self._slot_decoders and max_new_tokens >= _WORTH_CACHES:
            decoder = self._cached_decoder or decoder
        steps = decoder.steps(tokens, max_new_tokens, sampling)
        return itertools.takewhile(lambda token: token not in stop, steps)

    @property
    def decoder(self) -> TokenDecoder:
        """The model as a decoder of tokens, loaded. ModelError where it is none."""
        return self._slot_decoders or self._decoder

    @cached_property
    def _decoder(self) -> TokenDecoder:
        return TokenDecoder(self.session)

    @cached_property
    def _slot_decoders(self) -> SlotDecoders | None:
        """The decoder compiled for one token at a time, for our engine; None for others, and where it has
        caches of its own, takes a fixed length, or has nothing to keep.

        What a run compiled computes a whole text at a time: its file is compiled again for single tokens.
        """
        if self._engine != NATIVE:
            return None
        # Optimized further, ONNX Runtime rounds what it multiplies with codes.
        reference = Model(self.path, threads=self._threads, optimization="basic")
        plain = TokenDecoder(reference.session)
        if plain.caches or not plain.open:
            return None
        program = simplify(self.program).program
        try:
            with_slots(program, _FEW)
        except TensmithError:
            return None
        whole = None if self._compiled is None else self._decoder
        return SlotDecoders(plain.session, program, self._threads, whole)

    @cached_property
    def _cached_decoder(self) -> TokenDecoder | None:
        """The decoder with caches that it has not; None where it has them, where they cannot be made, or
        where it is not proved that they hold for texts of every length."""
        if self._compiled is not None or self._decoder.caches or not self._decoder.open:
            return None
        folder = Path(self._folder.name) / "cached"
        folder.mkdir(exist_ok=True)
        path = folder / "model.onnx"
        try:
            plain, engine = self._decoder, self._engine
            return cached_decoder(
                self.program, plain, path, engine, self._threads, proved=True, **self._settings
            )
        except TensmithError:
            shutil.rmtree(folder, ignore_errors=True)  # as large as the model, which lives on
            return None

    def save(self, path: str | Path) -> Path:
        """Writes the ONNX file to `path`; weights that lie beside it, and large ones of a .gguf file, to
        `path`.data. OutputError for a .packed `path`, which would be none."""
        path = at_home(path)
        if path.suffix == _PACKED_SUFFIX:
            raise OutputError(
                f"{path} would be an ONNX file; call it .onnx, and tensmith pack makes one of it"
            )
        if self._gguf or self.path.suffix == _PACKED_SUFFIX:
            refuse_own(self.path, path)
        if self._gguf:
            write_onnx(self.program, path)
        elif self.path.suffix == _PACKED_SUFFIX:
            write_bytes(path, self.onnx_bytes)
        else:
            copy_model(self.path, path)
        return path

    def __str__(self) -> str:
        return str(self.program)


def point_folder(path: Path) -> Path:
    """`path`, of a run's folder the best point's. VerificationError where it has not what its certificate
    states."""
    if not (path / NAME).exists() and (path / FRONT).is_file() and (path / BEST).is_dir():
        path = path / BEST
    if (path / NAME).exists():
        require_certified(path)
    return path


def load(path: str | Path, engine: str | None = None, threads: int = 1) -> Model:
    """The model in an .onnx, .packed or .gguf file, in a front point's folder, or the best one of a run's.

    ModelError if it is unreadable.

    engine: by default what a front point was compiled to, elsewhere ONNX Runtime. Nothing of a folder with
    a certificate is used unless it has the hash that is stated there; VerificationError if it has not. In the
    engine that it was judged in, it runs by the settings that it was judged with.
    """
    demand_threads(threads)
    path = point_folder(at_home(path))
    made_for = next((name for name, by in compilers().items() if (path / by.entry).is_file()), None)
    compiled = path if made_for and engine in (None, made_for) else None
    engine = engine or made_for or BASELINE_ENGINE
    settings = {} if compiled else _settings(path, engine)
    if path.is_dir():
        found = [path / name for name in ("model.onnx", "model.packed") if (path / name).exists()]
        if not found:
            raise ModelError(
                f"{path} holds no model.onnx and no model.packed; give the folder of a front point"
            )
        path = found[0]
    if compiled is None:
        gate.check(path, _kind(path))
    else:
        for file in (each for each in compiled.iterdir() if not each.is_dir()):
            gate.check(file, gate.COMPILED)
    model = Model(path, engine, threads, compiled, **settings)
    # A damaged file is refused now, not at the first call.
    if path.suffix == _PACKED_SUFFIX:
        _ = model.onnx_bytes
    elif is_gguf(path):
        _ = model.program
    elif compiled is None:
        _ = model._file
    return model


def _settings(folder: Path, engine: str) -> dict[str, str]:
    """Those of the engine with which a front point was judged; none in another engine. EngineError where the
    engine has not such settings."""
    if not (folder / NAME).exists():
        return {}
    deployed = read_certificate(folder / NAME).deployed
    if deployed.engine != engine:
        return {}
    ENGINES[engine].completed(deployed.settings)
    return deployed.settings


def _kind(path: Path) -> gate.FileKind:
    if path.suffix == _PACKED_SUFFIX:
        return gate.PACKED
    return gate.GGUF if is_gguf(path) else gate.MODEL

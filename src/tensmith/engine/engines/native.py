"""Models compiled by tensmith itself: kernels chosen layer by layer, one C library.

An ONNX file is compiled when it is first loaded (engine.compiled); a folder written by the native backend is
loaded as it is. Only programs whose every node has a native kernel run here; the error names the node that
has none.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import tensmith
from tensmith.backend.native.emit import loader
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.timed import action_seconds
from tensmith.backend.native.invented import spelled
from tensmith.backend.native.plan import fixed, make_plan
from tensmith.engine.base import Arrays, Session, Sizes, engine, sizes_in
from tensmith.engine.compiled import NATIVE, CompileOptions, compiled_folder
from tensmith.engine.profile import StepTime
from tensmith.engine.signature import ModelSignature, TensorSpec, read_signature
from tensmith.engine.sized import SizedSession, opened
from tensmith.engine.tunable import TunableEngine
from tensmith.errors import EngineError
from tensmith.frontend.onnx import read_onnx
from tensmith.kernel.isa import host_isa
from tensmith.kernel.toolchain import has_compiler


@engine
class Native(TunableEngine):
    """Settings: `tuning`, "tuned" (what `tensmith tune` measured counts), "untuned" (estimates alone), or
    "metaschedule" (the kernels that `tensmith tune --tuning metaschedule` found, else as tuned).
    `precision`, "f32", or "bf16" or "f16" for what layers of floats may multiply in; untuned.
    `algorithm`, "any", or "direct", "gemm", "spatial_pack", "winograd" or "sparse" (rows of weights that are
    not zero, or blocks of four): what computes every layer that it takes.

    With several threads, layers are cut into parts where that pays; a folder keeps the cut it was compiled
    with, and runs in one thread if it is given fewer than that.

    Indices out of range are not refused: what is read there is NaN, or 0 of whole numbers, and nothing is
    written there.
    """

    name = NATIVE
    entry, library = loader.MANIFEST, loader.LIBRARY
    needs = (loader.LIBRARY, loader.WEIGHTS, loader.MANIFEST)
    beside = ("main.c", "model.c", "model.h", "model.py")

    def missing(self) -> str | None:
        try:
            found = has_compiler()
        except EngineError as error:  # CC names none
            return str(error)
        return None if found else "no C compiler is installed: pip install 'tensmith[native]'"

    def version(self) -> str:
        return f"{tensmith.__version__} with {self.compiler()}"

    def prepare(
        self, path: Path, threads: int, *, sizes: Mapping[str, int] | None = None, **settings: str
    ) -> Session:
        options = CompileOptions.of(self.name, settings, threads)
        if path.is_dir():
            model = loaded(path, threads)
            return SizedSession(_signature(model), lambda _: model)
        self.start()
        build = functools.partial(compiled, path, options=options)
        return opened(read_signature(path), build, sizes)

    def cut(self, threads: int) -> int:
        """Layers are cut for the threads."""
        return min(threads, loader.MOST_THREADS)

    def compile(self, path: Path, folder: Path, sizes: Sizes, threads: int, **settings: str) -> None:
        """One library for the whole program."""
        program = fixed(read_onnx(path), dict(sizes))
        write_folder(make_plan(program, host_isa(), self.chooser(settings), threads), folder)

    def profile(
        self, path: Path, threads: int, inputs: Arrays, seconds: float, **settings: str
    ) -> list[StepTime]:
        """As `engine.profile`, in one thread: the actions of the plan, by the value that each writes."""
        chooser = self.chooser(self.completed(settings))
        self.start()
        program = fixed(read_onnx(path), sizes_in(path, inputs))
        plan = make_plan(program, host_isa(), chooser)
        spent = action_seconds(plan, inputs, seconds)
        return [
            StepTime(spelled(action.writes), str(action.work), (action.writes,), each)
            for action, each in zip(plan.actions, spent)
        ]


def compiled(path: Path, sizes: Mapping[str, int], options: CompileOptions) -> loader.Model:
    """The ONNX model at `path` for these sizes, loaded; EngineError if it cannot be compiled."""
    return loaded(compiled_folder(path, sizes, options), options.threads)


def loaded(folder: Path, threads: int = 1) -> loader.Model:
    """The model in a compiled folder; EngineError if it was altered or does not run here."""
    try:
        return loader.Model(folder, threads)
    except loader.ModelError as error:
        raise EngineError(f"native cannot load {folder}: {error}") from error


def _signature(model: loader.Model) -> ModelSignature:
    inputs, outputs = (
        tuple(TensorSpec(spec["name"], spec["dtype"], tuple(spec["shape"])) for spec in specs)
        for specs in (model.inputs, model.outputs)
    )
    return ModelSignature(inputs, outputs, frozenset())

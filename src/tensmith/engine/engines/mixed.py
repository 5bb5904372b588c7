"""Models that ONNX Runtime runs, with the regions that tensmith compiles as operators of its own.

For models that the native engine refuses for some of their nodes. An ONNX file is compiled when it is first
loaded (engine.compiled); a folder that `tensmith compile --mixed` wrote is loaded as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import tensmith
from tensmith.backend.mixed.folder import LIBRARY, MODEL, check_folder, mix, write_folder
from tensmith.backend.native.emit.loader import path_of_now
from tensmith.backend.native.plan import fixed
from tensmith.engine.base import ENGINES, Session, Sizes, engine, first_line
from tensmith.engine.compiled import NATIVE, CompileOptions, compiled_folder
from tensmith.engine.engines.onnxruntime import OnnxRuntimeSession, open_session, session_options
from tensmith.engine.frame import Array
from tensmith.engine.signature import read_signature
from tensmith.engine.sized import opened
from tensmith.engine.tunable import TunableEngine
from tensmith.errors import EngineError
from tensmith.frontend.onnx import read_onnx
from tensmith.kernel.isa import host_isa


class _Loaded:
    """A session at fixed sizes."""

    def __init__(self, session: OnnxRuntimeSession, folder: Path) -> None:
        self._session = session
        self.bytes = sum(file.stat().st_size for file in folder.iterdir())

    def __call__(self, /, **inputs: Array) -> dict[str, Array]:
        return self._session.run(inputs)

    def bind(self, inputs: dict[str, Array]) -> tuple[Callable[[], object], dict[str, Array]]:
        """ONNX Runtime keeps the answers, whose sizes may differ from run to run."""
        return self._session.bind(inputs), {}


@engine
class MixedEngine(TunableEngine):
    """Settings as the native engine's, which compiles the regions.

    Regions run in one thread; the rest takes as many as it is given.
    """

    name, on_request = "mixed", True
    entry, library = MODEL, LIBRARY
    needs = (LIBRARY, MODEL)
    stands_in_for = NATIVE

    def missing(self) -> str | None:
        return ENGINES["onnxruntime"].missing() or ENGINES[NATIVE].missing()

    def version(self) -> str:
        runtime = ENGINES["onnxruntime"].version()
        return f"{tensmith.__version__} with ONNX Runtime {runtime} and {self.compiler()}"

    def start(self) -> None:
        super().start()
        ENGINES["onnxruntime"].start()

    def prepare(
        self, path: Path, threads: int, *, sizes: Mapping[str, int] | None = None, **settings: str
    ) -> Session:
        options = CompileOptions.of(self.name, settings)
        self.start()
        if path.is_dir():
            return _load(path, threads, path)

        def build(fixed: Mapping[str, int]) -> _Loaded:
            folder = compiled_folder(path, fixed, options)
            return _Loaded(_load(folder, threads, path), folder)

        return opened(read_signature(path), build, sizes)

    def cut(self, threads: int) -> int:
        """Regions run in the thread that calls them."""
        return 1

    def compile(self, path: Path, folder: Path, sizes: Sizes, threads: int, **settings: str) -> None:
        """One library of all regions, and the model that calls them."""
        write_folder(mix(fixed(read_onnx(path), dict(sizes)), host_isa(), self.chooser(settings)), folder)


def _load(folder: Path, threads: int, path: Path) -> OnnxRuntimeSession:
    """The model in a mixed folder, made of `path`; EngineError if it was altered or does not run here."""
    try:
        check_folder(folder)
        options = session_options(threads)
        options.register_custom_ops_library(path_of_now(folder.resolve() / LIBRARY))
        return open_session(folder / MODEL, options, read_signature(folder / MODEL))
    except Exception as error:
        raise EngineError(f"mixed cannot load {path}: {first_line(error)}") from error

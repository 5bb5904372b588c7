"""What every engine offers: `prepare` a model file into a session, `run` it, `bind` it for timing."""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from tensmith.engine.signature import TensorSpec, read_signature
from tensmith.errors import DataError, EngineError, UsageError
from tensmith.registry import Registry

if TYPE_CHECKING:
    from tensmith.ir import TensorType

Arrays = Mapping[str, np.ndarray[Any, Any]]
Sizes = Mapping[str, int]

# Of an inference: more than machines have processors, and few enough for every engine to start.
MOST_THREADS = 1024


def demand_threads(threads: int) -> None:
    """UsageError unless engines may be asked for so many."""
    if not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"threads is a whole number from 1 to {MOST_THREADS}, not {threads!r}")


class Session(ABC):
    """A loaded model, which any number of threads may run at once.

    `inputs` and `outputs` keep the symbolic sizes that the file declares.
    `operators` are the names of the operators in the file, as far as the engine tells. `samples` is how many
    the engine was prepared to answer at a time, where the file leaves that open; None: any number. fewer:
    whether it answers fewer than that, too.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    operators: frozenset[str] = frozenset()
    samples: int | None = None
    fewer: bool = False

    @abstractmethod
    def run(self, inputs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """One inference: name -> array in, name -> array out; EngineError when it fails."""

    def run_in_parts(self, inputs: Arrays, size: int) -> list[dict[str, np.ndarray[Any, Any]]]:
        """An inference for each `size` samples of inputs [n, ...]; see `in_parts`."""
        return [self.run(part) for part in in_parts(inputs, size)]

    def bind(self, inputs: Arrays) -> Callable[[], object]:
        """A call that repeats one inference on these inputs with the least overhead the engine allows.

        This is what is timed: a deployed program binds its buffers once, too. Threads that share such a call
        wait for each other, since it has one set of buffers.
        """
        return lambda: self.run(inputs)

    def close(self) -> None:
        """Gives back what the session holds; it is not used afterwards."""
        return None


def in_parts(inputs: Arrays, size: int) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
    """Parts of exactly `size` samples of inputs [n, ...], with the scalars, which are each sample's; the last
    one is filled up with the last sample. DataError where inputs have different numbers of samples.
    """
    counts = {name: len(array) for name, array in inputs.items() if array.ndim}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{count} of '{name}'" for name, count in counts.items())
        raise DataError(f"the inputs have different numbers of samples: {told}")
    count = next(iter(counts.values()), 1)
    for start in range(0, count, size):
        rows = np.minimum(np.arange(start, start + size), count - 1)
        yield {name: array[rows] if array.ndim else array for name, array in inputs.items()}


class Engine(Protocol):
    """A runtime that loads ONNX files. Stateless: everything lives in its sessions.

    `settings` are its own, with their values, the default first. One that is `on_request` compiles every file
    anew, so nobody gets it unasked.
    """

    settings: Mapping[str, tuple[str, ...]] = {}
    on_request: bool = False

    @property
    def name(self) -> str:
        """The name under which it is registered."""

    def missing(self) -> str | None:
        """Why it cannot run here, naming the extra to install; None if it can. Cheap: imports nothing."""

    def version(self) -> str:
        """The installed version; EngineError if it is missing."""

    def start(self) -> None:
        """Loads the runtime itself, so that what a model adds can be told apart; EngineError if missing."""

    def prepare(
        self, path: Path, threads: int, *, sizes: Mapping[str, int] | None = None, **settings: str
    ) -> Session:
        """Loads the model at `path` for `threads` threads.

        `sizes` fixes symbolic sizes by name, which lets an engine specialise; the session then takes only
        inputs of these sizes. An unknown setting is an EngineError, as is every model that the engine cannot
        load: at the first run, where it compiles for sizes that are not known before.
        """

    def completed(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Every setting, as given or by default; EngineError on one that there is not, or not here."""
        if reason := self.unknown(settings):
            raise EngineError(reason)
        return {name: settings.get(name, values[0]) for name, values in self.settings.items()}

    def unknown(self, settings: Mapping[str, str]) -> str | None:
        """Why settings are none of this engine's, wherever it runs."""
        if others := settings.keys() - self.settings:
            named, known = ", ".join(map(repr, sorted(others))), ", ".join(self.settings) or "none"
            return f"engine '{self.name}' has no setting {named}; it has {known}"
        wrong = (name for name, value in settings.items() if value not in self.settings[name])
        if (name := next(wrong, None)) is None:
            return None
        return f"{self.name}'s {name} is one of {', '.join(self.settings[name])}, not '{settings[name]}'"


class PackageEngine(Engine):
    """A runtime that is a Python package, of the engine's name unless `package` says another; `install` is
    what pip calls it."""

    name: str
    install: str
    package: str = ""

    def missing(self) -> str | None:
        found = importlib.util.find_spec(self.module)
        return None if found else f"{self.name} is not installed: pip install {self.install}"

    def version(self) -> str:
        require(self)
        import importlib.metadata

        try:
            return importlib.metadata.version(self.module)
        except importlib.metadata.PackageNotFoundError:  # a variant of another name, as for GPUs
            return str(getattr(importlib.import_module(self.module), "__version__", "unknown"))

    def start(self) -> None:
        require(self)
        importlib.import_module(self.module)

    @property
    def module(self) -> str:
        """What Python calls it."""
        return self.package or self.name


class CompilingEngine(Engine):
    """A runtime that makes a folder of a model file, and loads that in the place of the file.

    `entry` is the file by which one knows such a folder, `library` the code that runs; a device `needs` these
    files, and `beside` them lie others. Where the engine that it `stands_in_for` refuses a model, it races
    in its place.
    """

    entry: str
    library: str
    needs: tuple[str, ...]
    beside: tuple[str, ...] = ()
    stands_in_for: str = ""

    @property
    def files(self) -> list[str]:
        """All that such a folder holds."""
        return sorted((*self.needs, *self.beside))

    def cut(self, threads: int) -> int:
        """For how many threads, of so many, a model is compiled."""
        return threads

    def revision(self, **settings: str) -> str:
        """What a folder depends on beside the file, the settings, this CPU and the code, in words or ""."""
        return ""

    @abstractmethod
    def compile(self, path: Path, folder: Path, sizes: Sizes, threads: int, **settings: str) -> None:
        """Compiles the model at `path` into a `folder` that is not there, by settings that are `completed`.

        Called in a process of its own (engine.compiled). EngineError, or another TensmithError, where it
        cannot; what is written depends on the arguments, this machine and the code alone.
        """


ENGINES: Registry[Engine] = Registry("engine", "tensmith.engine.engines")

E = TypeVar("E", bound=Engine)

# The best stock runtime: what every speed-up is against, and what is asked where any engine would do.
BASELINE_ENGINE = "onnxruntime"


def engine(cls: type[E]) -> type[E]:
    """Class decorator: registers an instance of an engine under its name."""
    instance = cls()
    ENGINES.add(instance.name, instance)
    return cls


def available() -> tuple[str, ...]:
    """Names of the engines that can run here, without those that are used on request."""
    return tuple(name for name, each in ENGINES.items() if not each.on_request and each.missing() is None)


def compiler(name: str) -> CompilingEngine | None:
    """The engine of a name where it compiles; None where it loads files as they are, or there is none."""
    if name not in ENGINES:
        return None
    found = ENGINES[name]
    return found if isinstance(found, CompilingEngine) else None


def compilers() -> dict[str, CompilingEngine]:
    """The engines that compile, by name."""
    return {name: found for name in ENGINES if (found := compiler(name))}


def stock(names: Iterable[str]) -> tuple[str, ...]:
    """Those of some engines that compile nothing."""
    return tuple(name for name in names if compiler(name) is None)


def require(engine: Engine) -> None:
    """EngineError, naming the extra to install, if an engine cannot run here."""
    if reason := engine.missing():
        raise EngineError(reason)


def first_line(error: BaseException) -> str:
    """The one sentence of an engine's exception that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(line.startswith("Traceback ") for line in lines):  # of a process of the engine's own
        return lines[-1][:300].rstrip(".")
    bullets = [line.removeprefix("-- ") for line in lines if line.startswith("-- ")]
    preamble = ("Exception from", "Check '")
    telling = [line for line in lines if not line.startswith(preamble) and not line.endswith(":")]
    return (bullets or telling or lines or [type(error).__name__])[0][:300].rstrip(".")


def kinds_of(inputs: Arrays) -> tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]:
    """All of the inputs that decides whether a model takes them; fast, to look up what is known of them."""
    return tuple([(name, array.dtype, array.shape) for name, array in inputs.items()])


def check_inputs(specs: tuple[TensorSpec, ...], inputs: Arrays) -> None:
    """EngineError unless `inputs` has exactly the arrays that `specs` ask for: names, dtypes, fixed sizes."""
    if inputs.keys() != {spec.name for spec in specs}:
        wanted = ", ".join(spec.name for spec in specs)
        raise EngineError(f"the model takes the inputs {wanted}, but was given {', '.join(inputs) or 'none'}")
    for spec in specs:
        array = inputs[spec.name]
        if array.dtype.name != spec.dtype and spec.dtype != "str":
            raise EngineError(f"input '{spec.name}' is {array.dtype.name}, but the model takes {spec.dtype}")
        if spec.shape is not None and not _fits(array.shape, spec.shape):
            shape = list(spec.shape)
            raise EngineError(
                f"input '{spec.name}' has shape {list(array.shape)}, but the model takes {shape}"
            )


def _fits(shape: tuple[int, ...], declared: tuple[int | str, ...]) -> bool:
    return len(shape) == len(declared) and all(
        isinstance(size, str) or size == actual for actual, size in zip(shape, declared)
    )


def fix(spec: TensorSpec, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    """`spec`'s shape with every symbol replaced from `sizes`; None if one is unknown."""
    if spec.shape is None:
        return None
    shape = [size if isinstance(size, int) else sizes.get(size) for size in spec.shape]
    known = tuple(size for size in shape if size is not None)
    return known if len(known) == len(shape) else None


def sizes_in(path: Path, inputs: Arrays) -> dict[str, int]:
    """As `sizes_of`, for the ONNX model at `path`; EngineError too if it cannot be read."""
    return sizes_of(read_signature(path).inputs, inputs)


def specs_of(inputs: Mapping[str, TensorType]) -> tuple[TensorSpec, ...]:
    """What a program with such inputs takes, its sizes by their symbols."""
    return tuple(
        TensorSpec(name, type_.numpy.name, tuple(d if isinstance(d, int) else str(d) for d in type_.dims))
        for name, type_ in inputs.items()
    )


def fixed_batch(specs: Sequence[TensorSpec]) -> int | None:
    """How many samples inputs fix, by the first one that fixes any; None for any number."""
    firsts = (spec.shape[0] for spec in specs if spec.shape)
    return next((max(1, size) for size in firsts if isinstance(size, int)), None)


def sizes_of(specs: tuple[TensorSpec, ...], inputs: Arrays) -> dict[str, int]:
    """The value that each symbolic size takes in `inputs`; EngineError if they do not match `specs`."""
    check_inputs(specs, inputs)
    sizes: dict[str, int] = {}
    for spec in specs:
        for symbol, size in zip(spec.shape or (), inputs[spec.name].shape):
            if isinstance(symbol, str) and sizes.setdefault(symbol, size) != size:
                raise EngineError(f"the inputs give '{symbol}' both the sizes {sizes[symbol]} and {size}")
    return sizes

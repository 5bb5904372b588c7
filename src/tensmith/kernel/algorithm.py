"""What every algorithm offers: which problems it takes, its candidates, and each one's C text.

An algorithm is a class of kernels. A kernel is one frozen answer to one problem: the problem, the
instruction set, and the few parameters that tell it from the algorithm's others. Its C function is

    static void NAME(SIGNATURE)

for one image: `in` and `out` lie as the buffers that the code was made for, `residual` as the epilogue says;
`weights` were laid out by `pack`; `bias` has as many elements as the filters, rounded up to a whole vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields
from typing import ClassVar, TypeVar

from tensmith.formula.arith import Array
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.quantized import HEADER
from tensmith.registry import Registry

SIGNATURE = (
    "const void *in, const void *weights, const float *bias, const void *residual, void *out, void *scratch"
)


@dataclass(frozen=True)
class Cost:
    """What a kernel needs: `cycles` of arithmetic by one core, `bytes` moved from beyond its second cache."""

    cycles: float
    bytes: float

    def seconds(self, bandwidth: float = 18e9) -> float:
        """A roofline at 3.5 GHz where a third of what could overlap does not; bandwidth in bytes a second."""
        compute, memory = self.cycles / 3.5e9, self.bytes / bandwidth
        return max(compute, memory) + min(compute, memory) / 3


@dataclass(frozen=True)
class Kernel(ABC):
    """One way to compute `problem` on `isa`; subclasses add their parameters as further fields."""

    name: ClassVar[str]
    dtypes: ClassVar[Collection[str]] = ("f32",)  # of the problems it takes
    skips_zeros: ClassVar[bool] = False  # whether it matters where w has them

    problem: ConvolutionProblem
    isa: Isa

    @classmethod
    def refuses(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """Why the algorithm does not take a problem; None if it does."""
        if problem.dtype not in cls.dtypes:
            return f"it computes {' or '.join(cls.dtypes)}, not {problem.dtype}"
        return cls.lacks(problem, isa)

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """`refuses`, of a problem whose element type is right."""
        return None

    @classmethod
    @abstractmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """The kernels worth trying for a problem that is not refused, the best guess first."""

    @property
    def parameters(self) -> dict[str, int]:
        """The fields that tell this kernel from the algorithm's others, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)[2:]}

    @property
    @abstractmethod
    def source(self) -> Buffer:
        """How it reads x. The halo is the least it needs: one that is larger does as well."""

    @property
    def target(self) -> Buffer:
        """How it writes y (without a halo: any will do): blocks of one vector, or as kernels say. Only the
        interior is written."""
        return Buffer(self.problem.filters, *self.problem.output, self.isa.lanes)

    @property
    def adds_in_place(self) -> bool:
        """Whether y may lie where the residual does: at each position that is read before y is written."""
        return False

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory it uses, aligned to 64."""
        return 0

    @property
    def weight_bytes(self) -> int:
        """About what the packed weights take, were they floats: as much as the op's unless one says more."""
        return 4 * self.problem.filters * self.problem.depth

    @abstractmethod
    def pack(self, weights: Array) -> Array:
        """The weights [filters, channels/groups, *window] in the order in which the kernel reads them."""

    @abstractmethod
    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """C text that defines the static function `name`, for buffers that fit `source` and `target`."""

    @abstractmethod
    def cost(self) -> Cost:
        """What it will take, estimated."""

    def begun(
        self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue, weights: str = "float",
        rounded: str = "",
    ) -> str:  # fmt: skip
        """How its C function begins: a comment, the signature, and the arguments by their types.

        x points to what the first window reads, or to scratch memory that holds x `rounded` to such a type.
        Of bytes, h points to the words that all filters share.
        """
        kept, (top, left, _, _) = epilogue.residual or target, self.problem.pads
        x = f"{source.c_type} *x = (const {source.c_type} *)in + {source.address(0, -top, -left)}"
        bias = f"*h = bias, *b = bias + {HEADER}" if self.problem.dtype == "u8" else "*b = bias"
        residual = f"(const {kept.c_type} *)residual + {kept.address(0, 0, 0)}" if epilogue.residual else "y"
        return f"""\
/* {self.problem.dense}; {epilogue}.
   {self}. */
static void {name}({SIGNATURE})
{{
    const {f"{rounded} *x = scratch" if rounded else x};
    const {weights} *w = weights;
    const float {bias};
    {target.c_type} *y = ({target.c_type} *)out + {target.address(0, 0, 0)};
    const {kept.c_type} *r = {residual};
    (void)residual; (void)scratch;"""

    def __str__(self) -> str:
        told = len(self.dtypes) > 1 and self.problem.dtype != "f32"
        chosen = [f"{key} {value}" for key, value in self.parameters.items()]
        words = ", ".join([self.problem.dtype, *chosen] if told else chosen)
        return f"{self.name} ({words})" if words else self.name


ALGORITHMS: Registry[type[Kernel]] = Registry("algorithm", "tensmith.kernel.algorithms")

K = TypeVar("K", bound=type[Kernel])


def algorithm(name: str) -> Callable[[K], K]:
    """Class decorator: names an algorithm and registers it."""

    def register(cls: K) -> K:
        cls.name = name
        ALGORITHMS.add(name, cls)
        return cls

    return register


def candidates(problem: ConvolutionProblem, isa: Isa) -> list[Kernel]:
    """Every algorithm's kernels for a problem.

    Where zeros do not matter they are those of the dense one: layers that differ in zeros alone share timings
    and code.
    """
    return [
        kernel
        for algorithm in ALGORITHMS.values()
        for seen in [problem if algorithm.skips_zeros else problem.dense]
        if algorithm.refuses(seen, isa) is None
        for kernel in algorithm.candidates(seen, isa)
    ]

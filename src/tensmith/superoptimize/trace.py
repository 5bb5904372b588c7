"""Arrays that write down what is done to them: a NumPy function runs once on them, and is a program then.

Each holds what NumPy itself computes of the example, so that shapes and element types are NumPy's own. What
is not known by name is refused, and so is whatever would make a decision of a value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from tensmith.errors import ProgramError, TensmithError
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program, TensorType, make_node
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.ir.types import dtype_name

# Element types that are computed in; positions among elements are i64 constants.
COMPUTED = frozenset({"f64", "f32", "i64", "bool"})
_MOST_NODES = 2000


class NotTraceable(TensmithError):
    """A function does what cannot be written down as a program; the message says what and where."""


@dataclass(frozen=True)
class OutsideCall:
    """A NumPy function that is no formula: the program's input is its result, its operands are outputs."""

    result: str
    function: str
    operands: tuple[str, ...]
    arguments: str = ""


@dataclass
class Trace:
    """A program under construction. ordered: values that are promised to be sorted along the last axis."""

    inputs: dict[str, TensorType] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    calls: list[OutsideCall] = field(default_factory=list)
    ordered: set[str] = field(default_factory=set)

    def constant(self, value: Any, dtype: str | None = None) -> str:
        """The name of a constant."""
        array = np.asarray(value)
        name = f"c{len(self.constants)}"
        self.constants[name] = array if dtype is None else array.astype(TensorType(dtype, ()).numpy)
        return name

    def node(self, op: str, *inputs: str, **attrs: Any) -> str:
        """The name of what an op gives."""
        if len(self.nodes) >= _MOST_NODES:
            raise NotTraceable(f"it takes over {_MOST_NODES} operations when its loops are unrolled")
        name = f"t{len(self.nodes)}"
        self.nodes.append(make_node(op, inputs, (name,), attrs))
        return name

    def ints(self, *values: int) -> str:
        """Sizes or axes as a constant."""
        return self.constant(np.array(values, np.int64))

    def outside(self, function: str, result: Array, operands: Sequence[str], arguments: str = "") -> str:
        """The result of a function that NumPy computes."""
        name = f"call{len(self.calls)}"
        self.inputs[name] = TensorType.of(result)
        self.calls.append(OutsideCall(name, function, tuple(operands), arguments))
        return name

    def operand(self, x: Any, dtype: str) -> str:
        """An argument of a NumPy function in an element type."""
        if dtype not in COMPUTED:
            raise NotTraceable(f"it computes in {dtype}; {', '.join(sorted(COMPUTED))} are known")
        if not isinstance(x, TracedArray):
            array = np.asarray(x)
            if array.dtype == object:
                raise NotTraceable("it makes an array of a list of arrays; use np.stack")
            return self.constant(array, dtype)
        own = dtype_name(np.asarray(x.value).dtype)
        return x.name if own == dtype else self.node("cast", x.name, to=ELEMENT_CODES[dtype])

    def program(self, name: str, outputs: Sequence[str]) -> Program:
        """The program whose outputs these are, followed by what is computed outside."""
        given = dict.fromkeys(operand for call in self.calls for operand in call.operands)
        return Program(name, self.inputs, (*outputs, *given), tuple(self.nodes), self.constants)


class TracedArray(NDArrayOperatorsMixin):
    """A value of a program beside its `value` in the example.

    weak: a Python number, whose type gives way. own: nothing else shares its memory, so it may be changed.
    """

    def __init__(self, trace: Trace, name: str, value: Any, *, weak: bool = False, own: bool = False) -> None:
        self.trace, self.name, self.value, self.weak, self.own = trace, name, value, weak, own

    # What is known before anything runs

    @property
    def shape(self) -> tuple[int, ...]:
        """NumPy's."""
        return np.shape(self.value)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's."""
        return np.asarray(self.value).dtype

    @property
    def ndim(self) -> int:
        """NumPy's."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """NumPy's."""
        return int(np.size(self.value))

    @property
    def T(self) -> Any:
        """NumPy's."""
        return np.transpose(self)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    # What is done to it

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        if (changed := named.pop("out", None)) is not None:
            return self._change(ufunc, method, inputs, named, changed)
        key = ufunc if method == "__call__" else (ufunc, method)
        return _traced(self.trace, key, inputs, named)

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any) -> Any:
        return _traced(self.trace, function, arguments, named)

    def _change(self, ufunc: np.ufunc, method: str, inputs: Any, named: Any, changed: tuple[Any, ...]) -> Any:
        """x += y of an array that the function has made itself."""
        (target,) = changed
        if target is not inputs[0] or not isinstance(target, TracedArray) or method != "__call__":
            raise NotTraceable(f"np.{ufunc.__name__} writes to an array by out=")
        if not isinstance(target.value, np.ndarray):
            return _operated(ufunc, *inputs)  # a number's name means another number
        if not target.own:
            raise NotTraceable("it changes an argument, or an array that shares memory with another")
        made = _traced(self.trace, ufunc, inputs, named)
        if made.dtype != target.dtype or made.shape != target.shape:
            raise NotTraceable("it changes an array in place to another element type")
        target.name, target.value = made.name, made.value
        return target

    def __getitem__(self, key: Any) -> Any:
        return _traced(self.trace, "getitem", (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise NotTraceable("it writes to elements of an array; make a new one by np.where or np.concatenate")

    def __getattr__(self, name: str) -> Any:
        function = METHODS.get(name)
        if function is None:
            raise NotTraceable(f"it uses the attribute '{name}' of an array, which is not known here")
        return lambda *arguments, **named: _traced(self.trace, function, (self, *arguments), named)

    def _decides(self, *_: Any) -> NoReturn:
        raise NotTraceable("what it does depends on a value that it has computed; choose by np.where")

    __bool__ = __float__ = __int__ = __index__ = __complex__ = __contains__ = __hash__ = _decides
    __array__ = _decides


# NumPy's functions that operators of arrays are -> the operators.
_OPERATORS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.divide: operator.truediv,
    np.power: operator.pow, np.negative: operator.neg, np.positive: operator.pos, np.absolute: operator.abs,
    np.less: operator.lt, np.less_equal: operator.le, np.greater: operator.gt, np.greater_equal: operator.ge,
    np.equal: operator.eq, np.not_equal: operator.ne, np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_, np.bitwise_xor: operator.xor, np.invert: operator.invert,
}  # fmt: skip


def _operated(ufunc: np.ufunc, *operands: Any) -> Any:
    """What an operator gives: of Python's numbers alone one of these, whose type gives way, too."""
    made = ufunc(*operands)
    if isinstance(made, TracedArray) and all(map(_is_weak, operands)):
        number = _OPERATORS[ufunc](*unwrapped(operands))
        made.weak, made.value = True, made.value.item()
        if type(number) is not type(made.value):
            raise NotTraceable("it computes with truth values of Python's numbers as with numbers")
    return made


def _spell(ufunc: np.ufunc, name: str) -> None:
    setattr(TracedArray, f"__{name}__", lambda self, *others: _operated(ufunc, self, *others))
    setattr(TracedArray, f"__r{name}__", lambda self, other: _operated(ufunc, other, self))


for _ufunc, _operator in _OPERATORS.items():
    _spell(_ufunc, _operator.__name__.strip("_"))


Builder = Callable[..., str]
# NumPy's functions, ufuncs, (ufunc, method) -> what each is in TensIR: (trace, result, *arguments) -> a name.
MEANINGS: dict[Any, Builder] = {}
# What may give a view of its operand, for other arguments than those at hand, too.
VIEWS: set[Any] = set()
# Methods and attributes of arrays -> the functions they are.
METHODS: dict[str, Any] = {}

Meaning = TypeVar("Meaning", bound=Builder)


def means(*functions: Any, method: str = "", view: bool = False) -> Callable[[Meaning], Meaning]:
    """Registers what functions of NumPy are in TensIR, and the method of arrays that is the same."""

    def register(builder: Meaning) -> Meaning:
        MEANINGS.update(dict.fromkeys(functions, builder))
        if view:
            VIEWS.update(functions)
        if method:
            METHODS[method] = functions[0]
        return builder

    return register


def _traced(trace: Trace, function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What a function of NumPy gives: in the example, and as a value of the program."""
    builder = MEANINGS.get(function)
    if builder is None:
        raise NotTraceable(f"it calls {spelled(function)}, which is not known here")
    plain = _plain(function, arguments, named)
    try:
        name = builder(trace, plain, *arguments, **named)
    except TypeError as error:
        raise NotTraceable(f"it calls {spelled(function)} with arguments not known here ({error})") from error
    except ProgramError as error:
        raise NotTraceable(f"{spelled(function)}: {error}") from error
    traced = [part for part in arguments if isinstance(part, TracedArray)]
    shared = any(np.may_share_memory(plain, part.value) for part in traced)
    view = shared or (function in VIEWS and not _picks(function, arguments))
    for part in traced if view else ():
        part.own = False
    return TracedArray(trace, name, plain, own=not view and np.ndim(plain) > 0)


def _picks(function: Any, arguments: Sequence[Any]) -> bool:
    """Whether elements are picked by a list or array of positions, and so copied."""
    if function != "getitem":
        return False
    keys = arguments[1] if isinstance(arguments[1], tuple) else arguments[1:]
    return any(isinstance(key, list | np.ndarray) and np.ndim(key) > 0 for key in keys)


def _plain(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What NumPy computes of the example."""
    given, options = unwrapped(arguments), unwrapped(named)
    with np.errstate(all="ignore"):
        if function == "getitem":
            return given[0][given[1]]
        if isinstance(function, str):
            return getattr(given[0], function)(*given[1:], **options)
        if isinstance(function, tuple):
            return getattr(function[0], function[1])(*given, **options)
        return function(*given, **options)


def _is_weak(x: Any) -> bool:
    return x.weak if isinstance(x, TracedArray) else type(x) in (int, float, bool)


def unwrapped(x: Any) -> Any:
    """Arguments with the example's values in the places of traced arrays."""
    if isinstance(x, TracedArray):
        return x.value
    if isinstance(x, tuple | list):
        return type(x)(map(unwrapped, x))
    if isinstance(x, Mapping):
        return {name: unwrapped(part) for name, part in x.items()}
    if isinstance(x, slice):
        return slice(*map(unwrapped, (x.start, x.stop, x.step)))
    return x


def spelled(function: Any) -> str:
    """A function as people call it."""
    if isinstance(function, tuple):
        return f"np.{function[0].__name__}.{function[1]}"
    if isinstance(function, str):
        return f"the array method '{function}'"
    home = getattr(function, "__module__", None) or "numpy"
    return f"{'np' if home == 'numpy' else home.replace('numpy', 'np', 1)}.{function.__name__}"

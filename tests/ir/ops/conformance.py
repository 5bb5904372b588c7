"""One use of one op, checked four ways.

    check("softmax", [x], {"axis": -1})

- its types: inferred as what running gives, with static and with symbolic sizes;
- its values: those of ONNX Runtime, or of ONNX's reference where ONNX Runtime lacks the operator;
- its formula: evaluated with symbolic sizes, equal to running it in floats;
- its meaning in a prime field: formula and running agree exactly on random residues.

Equal sizes are given one symbol, so that sizes which must agree do.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.reference
import onnxruntime

from tensmith.formula.arith import Arith, Array, Floats, PrimeField
from tensmith.formula.evaluate import evaluate
from tensmith.formula.expr import tensor
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.op import OPS, Op, Run, Symbolic, Typed
from tensmith.ir.types import TensorType

PRIME = 2097143
_RELATIVE = {2: 2e-2, 4: 2e-5, 8: 1e-10}


def check(
    name: str,
    inputs: Sequence[Array | None],
    attrs: Mapping[str, Any] | None = None,
    *,
    n_outputs: int = 1,
    opset: int = 22,
    formula: bool = True,
    field: bool = True,
    symbolic: bool = True,
    open_shape: bool = False,
    known: Sequence[int] = (),
    rtol: float | None = None,
    atol: float = 1e-6,
    expected: Sequence[Array] | None = None,
) -> tuple[Array, ...]:
    """Asserts all of the above and gives the outputs.

    `known` are float inputs that are constants (an exponent, a bound): their values are known to the formula
    and they keep them in the field. Integer and Boolean inputs always are. `opset` is raised to the
    operator's first. `symbolic=False` for ops whose formula needs numbers as sizes, `open_shape` for those
    whose sizes follow from values; `expected` replaces ONNX where it has neither implementation nor the right
    answer.
    """
    op = OPS[name]
    full = {**op.attributes, **(attrs or {})}
    use = _Use(op, full, tuple(inputs), n_outputs, frozenset(known))
    floats = use.run(inputs, Floats())
    use.check_types(floats, symbolic, open_shape)
    wanted = expected if expected is not None else run_onnx(op, inputs, attrs or {}, n_outputs, opset)
    for got, right in zip(floats, wanted, strict=True):
        assert got.shape == right.shape, f"{name}: shape {got.shape}, ONNX gives {right.shape}"
        assert got.dtype == right.dtype or right.dtype.kind in "OUS", (
            f"{name}: {got.dtype}, not {right.dtype}"
        )
        close(got, right, rtol, atol)
    if formula:
        use.check_formula(inputs, floats, Floats(), symbolic, rtol, atol)
    if field and use.real:
        use.check_field(symbolic, formula)
    return floats


def close(got: Array, right: Array, rtol: float | None = None, atol: float = 1e-6) -> None:
    """Equal up to rounding of the element type; integers, Booleans and strings exactly."""
    if got.dtype.kind in "iubOUS" and right.dtype.kind in "iubOUS":
        np.testing.assert_array_equal(got, right)
        return
    relative = rtol if rtol is not None else _RELATIVE[max(2, min(got.dtype.itemsize, 8))]
    np.testing.assert_allclose(got.astype(np.float64), right.astype(np.float64), rtol=relative, atol=atol)


def random(
    *shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0, dtype: Any = np.float32
) -> Array:
    """Uniform numbers."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def run_onnx(
    op: Op, inputs: Sequence[Array | None], attrs: Mapping[str, Any], n_outputs: int, opset: int = 22
) -> list[Array]:
    """The outputs of a model of this one node."""
    model = one_node(op, inputs, attrs, n_outputs, opset)
    given = {f"x{i}": array for i, array in enumerate(inputs) if array is not None}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if not any(array.dtype == ml_dtypes.bfloat16 for array in given.values()):
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            return [np.asarray(y) for y in session.run(None, given)]
        except Exception:  # ONNX Runtime has no kernel for this operator, element type or opset
            pass
    return [np.asarray(y) for y in onnx.reference.ReferenceEvaluator(model).run(None, given)]


def one_node(
    op: Op, inputs: Sequence[Array | None], attrs: Mapping[str, Any], n_outputs: int, opset: int
) -> onnx.ModelProto:
    """A model whose only node is this use of the op; inputs x0, x1, ..., outputs y0, y1, ..."""
    if not op.domain:
        opset = max(opset, onnx.defs.get_schema(op.onnx).since_version if op.since > opset else opset)
        opset = max(opset, _first_opset(op.onnx))
    names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    given = {key: value for key, value in attrs.items() if value is not None}
    node = onnx.helper.make_node(
        op.onnx, names, [f"y{i}" for i in range(n_outputs)], domain=op.domain, **given
    )
    graph = onnx.helper.make_graph(
        [node],
        "one node",
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(names, inputs)
            if array is not None
        ],
        [onnx.helper.make_empty_tensor_value_info(f"y{i}") for i in range(n_outputs)],
    )
    imports = [onnx.helper.make_opsetid(op.domain, opset if not op.domain else 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


@functools.cache
def _first_opset(operator: str) -> int:
    versions = [s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == operator]
    return min(versions)


class _Use:
    """An op, its attributes and example inputs."""

    def __init__(
        self, op: Op, attrs: Mapping[str, Any], inputs: tuple[Array | None, ...], n_outputs: int,
        known: frozenset[int],
    ) -> None:  # fmt: skip
        self.op, self.attrs, self.inputs, self.n_outputs = op, attrs, inputs, n_outputs
        self.types = tuple(None if x is None else TensorType.of(x) for x in inputs)
        self.values = tuple(
            x if x is not None and (x.dtype.kind in "iub" or i in known) else None
            for i, x in enumerate(inputs)
        )
        self.known = known
        shapes = [x.shape for x in inputs if x is not None]
        self.sizes = {f"n{size}": size for shape in shapes for size in shape if size > 1}

    @property
    def real(self) -> bool:
        """Whether any value is a real number, so that a field has something to say."""
        inferred = self._infer(self.types)
        return any(t is not None and t.floating for t in (*self.types, *inferred))

    def run(self, inputs: Sequence[Array | None], arith: Arith) -> tuple[Array, ...]:
        """The outputs, in floats cast to their types as the interpreter does."""
        types = self._infer(self.types)
        with np.errstate(all="ignore"):
            outputs = self.op.run(Run(self.attrs, tuple(inputs), self.types, types), arith)
        if arith.exact:
            return outputs
        return tuple(y if t is None else y.astype(t.numpy) for y, t in zip(outputs, types))

    def check_types(self, outputs: Sequence[Array], symbolic: bool, open_shape: bool) -> None:
        """The inferred types are those of the outputs; all sizes are known, unless the shape is open."""
        reason = self.op.accepts(self._typed(self.types))
        assert reason is None, f"{self.op.name} does not accept this use: {reason}"
        for inferred, got in zip(self._infer(self.types), outputs, strict=True):
            assert inferred is not None
            assert str(inferred) == str(TensorType.of(got)), f"{self.op.name}: {inferred} inferred"
        if not symbolic:
            return
        types = tuple(
            None if t is None else t.with_shape([self._size(d) for d in t.dims]) for t in self.types
        )
        for inferred, got in zip(self._infer(types), outputs, strict=True):
            assert inferred is not None
            known = inferred.shape is not None and all(
                Poly.of(d).symbols() <= self.sizes.keys() for d in inferred.shape
            )
            assert known != open_shape, f"{self.op.name}: {inferred} inferred of {', '.join(map(str, types))}"
            if known:
                shape = tuple(int(Poly.of(d).evaluate(self.sizes)) for d in inferred.shape)
                assert shape == got.shape, f"{self.op.name}: {inferred} inferred for {got.shape}"

    def check_formula(
        self, inputs: Sequence[Array | None], outputs: Sequence[Array], arith: Arith, symbolic: bool,
        rtol: float | None = None, atol: float = 1e-6,
    ) -> None:  # fmt: skip
        """Evaluating the formula gives `outputs`."""
        reads = tuple(
            None if x is None else tensor(f"x{i}", *(self._size(d) if symbolic else d for d in x.shape))
            for i, x in enumerate(inputs)
        )
        formulas = self.op.formula(Symbolic(self.attrs, reads, self.values, self.n_outputs))
        given = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
        for formula, got in zip(formulas, outputs, strict=True):
            with np.errstate(all="ignore"):
                value = evaluate(formula, given, self.sizes, arith)
            assert value.shape == got.shape
            if arith.exact:
                exact = got if got.dtype == np.int64 else arith.const(got)
                np.testing.assert_array_equal(value, exact % PRIME)
            else:
                close(value.astype(got.dtype), got, rtol, atol)

    def check_field(self, symbolic: bool, formula: bool) -> None:
        """On random residues, running gives residues, and the formula the same ones."""
        field = PrimeField(PRIME, seed=7)
        residues: list[Array | None] = []
        for i, (x, type_) in enumerate(zip(self.inputs, self.types)):
            if x is None or type_ is None or not type_.floating:
                residues.append(x)
            else:
                residues.append(field.const(x) if i in self.known else field.random(f"x{i}", x.shape))
        outputs = self.run(residues, field)
        for got, type_ in zip(outputs, self._infer(self.types), strict=True):
            if type_ is not None and type_.floating:
                assert got.dtype == np.int64
                assert got.size == 0 or (got.min() >= 0 and got.max() < PRIME), "not residues"
        if formula:
            self.check_formula(residues, outputs, field, symbolic)

    def _size(self, size: Dim) -> Dim:
        return Poly.symbol(f"n{size}") if isinstance(size, int) and size > 1 else size

    def _typed(self, types: tuple[TensorType | None, ...]) -> Typed:
        values = tuple(v if v is not None and v.dtype.kind in "iub" else None for v in self.values)
        return Typed(self.attrs, types, values, self.n_outputs)

    def _infer(self, types: tuple[TensorType | None, ...]) -> tuple[TensorType | None, ...]:
        return self.op.infer(self._typed(types))

"""Matrix products with a right operand packed to few bits: the form that language models are shipped in."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.ir.op import REQUIRED, Attrs, Op, Run, Typed, op
from tensmith.ir.types import TensorType, bit_fields

_CODES = {4: np.dtype(ml_dtypes.uint4), 8: np.dtype(np.uint8)}


def unpacked(attrs: Attrs, packed: Array, scales: Array, zeros: Array | None) -> tuple[Array, Array, Array]:
    """(codes [N, K], scales [N, blocks], zero points like the codes [N, blocks]) of a MatMulNBits."""
    columns, depth, bits, block = (attrs[name] for name in ("N", "K", "bits", "block_size"))
    blocks = -(-depth // block)
    codes = bit_fields(packed.reshape(columns, -1), bits)[:, :depth]
    if zeros is None:
        offsets = np.full((columns, blocks), 1 << (bits - 1), np.uint8)
    else:
        offsets = bit_fields(zeros.reshape(columns, -1), bits)[:, :blocks]
    kind = _CODES[bits]
    return codes.astype(kind), scales.reshape(columns, blocks), offsets.astype(kind)


@op(
    "matmul_n_bits",
    onnx="MatMulNBits",
    domain="com.microsoft",
    attributes={"K": REQUIRED, "N": REQUIRED, "bits": 4, "block_size": REQUIRED, "accuracy_level": 0},
)
class MatMulNBits(Op):
    """y[..., n] = sum(k; a[..., k] * (b[n, k] - zero[n, k/block]) * scale[n, k/block]) + bias[n].

    ONNX Runtime's MatMulNBits; inputs a [..., K], b packed as bytes [N, blocks, block * bits / 8], scales
    [N * blocks], zero points packed as bytes (default 2^(bits-1)), no group indices, bias [N]. It is computed
    as floats whatever accuracy_level allows.
    """

    def accepts(self, call: Typed) -> str | None:
        """Whole bytes or halves of them, without group indices, zero points on the codes' grid."""
        if call.attrs["bits"] not in _CODES:
            return f"codes of {call.attrs['bits']} bits"
        if call.attrs["block_size"] < 16 or call.attrs["block_size"] & (call.attrs["block_size"] - 1):
            return f"blocks of {call.attrs['block_size']}"
        if call.has(3) and call.type(3).dtype != "u8":
            return f"zero points of element type {call.type(3).dtype}"
        return "group indices" if call.has(4) else None

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """a's shape with N in place of K; checks the sizes of everything packed."""
        a, attrs = call.type(0), call.attrs
        columns, blocks = attrs["N"], -(-attrs["K"] // attrs["block_size"])
        sizes = {
            1: columns * blocks * attrs["block_size"] * attrs["bits"] // 8,
            2: columns * blocks,
            3: columns * -(-blocks * attrs["bits"] // 8),
            5: columns,
        }
        for index, size in sizes.items():
            shape = call.type(index).static if call.has(index) else None
            if shape is not None and int(np.prod(shape)) != size:
                raise ProgramError(
                    f"input {index} has the shape {list(shape)}, but {size} elements are needed"
                )
        if a.shape is None:
            return (a,)
        if not a.shape or (isinstance(a.shape[-1], int) and a.shape[-1] != attrs["K"]):
            raise ProgramError(f"rows of {a} are no rows of K = {attrs['K']}")
        return (a.with_shape((*a.shape[:-1], columns)),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Dequantized, multiplied."""
        codes, scales, zeros = unpacked(call.attrs, call[1], call[2], call.get(3))
        each = np.arange(codes.shape[1]) // call.attrs["block_size"]
        centred = codes.astype(np.int64) - zeros.astype(np.int64)[:, each]
        weights = arith.mul(arith.const(centred, like=scales), scales[:, each])
        y = arith.matmul(call[0], weights.T)
        bias = call.get(5)
        return (y if bias is None else arith.add(y, bias),)

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """Output elements times K."""
        out = outputs[0]
        return 0 if out is None or out.static is None else int(np.prod(out.static)) * int(call.attrs["K"])

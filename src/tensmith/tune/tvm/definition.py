"""A convolution in TVMScript, the language of TVM's schedules, on the very buffers that our kernels read."""

from __future__ import annotations

from typing import Any

from tensmith.kernel.isa import Isa
from tensmith.kernel.scheduled import Scheduled

# Buffers begin anywhere: align is in bytes, and compiled code must not count on more.
_TEXT = """\
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(
    source: T.Buffer({source}, "float32", align=4),
    weights: T.Buffer({weights}, "float32", align=4),
    bias: T.Buffer({bias}, "float32", align=4),
    target: T.Buffer({target}, "float32", align=4),
):
    T.func_attr({{"tirx.noalias": True, "global_symbol": "main"}})
    for k, y, x, l, b, u, v, c in T.grid({loops}):
        with T.sblock("sum"):
            k_, y_, x_, l_, b_, u_, v_, c_ = T.axis.remap("SSSSRRRR", [k, y, x, l, b, u, v, c])
            with T.init():
                target[k_, y_, x_, l_] = bias[k_, l_]
            row = T.meta_var(y_ * {strides[0]} + u_ * {dilations[0]})
            column = T.meta_var(x_ * {strides[1]} + v_ * {dilations[1]})
            target[k_, y_, x_, l_] = (
                target[k_, y_, x_, l_] + source[b_, row, column, c_] * weights[k_, b_, u_, v_, c_, l_]
            )
"""


def shapes(kernel: Scheduled) -> dict[str, tuple[int, ...]]:
    """The arrays in the order of the function's arguments."""
    own, out = kernel.source, kernel.target
    filters = (out.blocks, out.block)
    rows, columns = own.plane // own.row, own.row // own.block
    return {
        "source": (own.blocks, rows, columns, own.block),
        "weights": (out.blocks, own.blocks, *kernel.problem.window, own.block, out.block),
        "bias": filters,
        "target": (out.blocks, out.height, out.width, out.block),
    }


def definition(kernel: Scheduled) -> str:
    """The text of the function: a sum that begins with the bias."""
    found, problem = shapes(kernel), kernel.problem
    blocks, *window, lanes = found["weights"][1:5]
    loops = (*found["target"], blocks, *window, lanes)
    return _TEXT.format(
        **found, loops=", ".join(map(str, loops)), strides=problem.strides, dilations=problem.dilations
    )


def target(isa: Isa) -> dict[str, Any]:
    """An instruction set as TVM names it: one core, the features that our own compiler is given."""
    features = [f"+{flag[2:]}" for flag in isa.flags if flag.startswith("-m") and "=" not in flag]
    processor = {"mcpu": "x86-64"} if isa.architecture == "x86_64" else {"mcpu": "generic"}
    return {"kind": "llvm", "mtriple": isa.triple, **processor, "mattr": features, "num-cores": 1}

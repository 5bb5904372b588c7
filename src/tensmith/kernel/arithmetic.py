"""How vectors of an element type are multiplied and summed, as instructions with their meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from tensmith.kernel.problem import ConvolutionProblem


@dataclass(frozen=True)
class Arithmetic:
    """sums + sum(e < together; x[e] * w[e]) for every lane of the sums: `product`, in which {0} are the sums,
    {1} the elements of x and {2} a vector of weights.

    `element` is the C of those elements at pointer {0} and offset {1}, of the type `taken`. C types:
    `x_type` and `w_type` are what pointers point to, `sums` and `weights` vectors in registers. A vector of
    sums has `wide` times as many lanes as one of floats; `half` is the product of the first half of them. An
    x_type or w_type holds `unit` numbers. `fetches` if weights that no cache keeps are asked for ahead; a
    `hint` to the compiler stands before each product, whose pointer t goes along.
    """

    together: int
    packed: Any  # the type of packed weights, as NumPy has it
    x_type: str = "float"
    taken: str = "float"
    element: str = "{0}[{1}]"
    w_type: str = "float"
    sums: str = "vf"
    weights: str = "vf"
    load: str = "load({0} + {1})"
    product: str = "{0} += {1} * {2}"
    half: str = ""
    zero: str = "splat(0)"
    wide: int = 1
    unit: int = 1
    fetches: bool = True
    hint: str = ""


ARITHMETICS: Mapping[str, Arithmetic] = {
    "f32": Arithmetic(1, np.float32),
    "f16": Arithmetic(
        1, np.float16, taken="vq", element="narrow(load({0} + {1}))", w_type="half", sums="vh", weights="vh",
        load="hload({0} + {1})", zero="(vh){0}", wide=2, fetches=False,
    ),
    "bf16": Arithmetic(
        2, ml_dtypes.bfloat16, "quad", "int32_t", product="{0} = dot_bf16({0}, {1}, {2})", unit=2,
    ),
    "u8": Arithmetic(
        4, np.int8, "uint8_t", "vi", "isplat(*(const quad *)({0} + {1}))", "int8_t", "vi", "vi",
        "iload({0} + {1})", "{0} = dot({0}, {1}, {2})", "{0} = dot_half({0}, {1}, {2})", fetches=False,
        # Else elements are kept for later, and registers spilled for them.
        hint='__asm__("" : "+r"(t));',
    ),
}  # fmt: skip
_NARROW = replace(ARITHMETICS["u8"], product="{0} = dot_narrow({0}, {1}, {2})")


def arithmetic(problem: ConvolutionProblem) -> Arithmetic:
    """How a problem's elements are multiplied."""
    return _NARROW if problem.narrow else ARITHMETICS[problem.dtype]

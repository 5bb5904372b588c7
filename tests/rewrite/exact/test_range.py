"""What a simpler program multiplies stays within the range of 16 bits where what it was made of did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
import pytest
from golden import program
from rule_instances import applied, instances, retyped

from tensmith.ir import Program
from tensmith.ir.interpreter import interpret, interpret_in_float64
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.rewrite.rule import EXACT
from tensmith.rewrite.trail import simplify

Arrays = Mapping[str, np.ndarray]

_DEFAULT = [name for name, rule in EXACT.unproved().items() if rule.phase in ("simplify", "fold")]
_SIZES = (2.0**-10, 1.0, 2.0**10)


def fed(like: Arrays) -> Iterator[Arrays]:
    """Positive inputs of such types and shapes, floats small, large and in between, each with each."""
    random = np.random.default_rng(0)
    drawn = {name: np.asarray(random.uniform(1, 2, array.shape)) for name, array in like.items()}
    for sizes in product(_SIZES, repeat=len(drawn)):
        yield {
            name: (array * size if like[name].dtype.kind == "f" else array > 1.5).astype(like[name].dtype)
            for (name, array), size in zip(drawn.items(), sizes)
        }


def lost(before: Program, after: Program, inputs: Arrays) -> bool:
    """Whether numbers that a program has nearly are infinite or 0 in another."""
    ((output, wide),) = interpret_in_float64(before, inputs).items()
    had, has = (np.asarray(interpret(side, inputs)[output], np.float64) for side in (before, after))
    nearly = np.isfinite(had) & (wide != 0) & (np.abs(had - wide) <= 0.05 * np.abs(wide))
    return bool(np.any(nearly & (~np.isfinite(has) | (has == 0))))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", _DEFAULT)
def test_a_rule_of_elements_keeps_what_16_bits_hold(name: str) -> None:
    for instance in instances(EXACT[name], 2):
        narrow = retyped(instance, "f16")
        after = None if narrow is None else applied(EXACT[name], narrow)
        if narrow is None or after is None:
            continue
        if all(node.kind(Elementwise) or node.op == "identity" for node in narrow.program.nodes):
            for inputs in fed(narrow.inputs):
                assert not lost(narrow.program, after, inputs), instance.origin


def test_scores_stay_small_where_queries_and_keys_were_scaled_before_they_met() -> None:
    made = program(
        """
        input %x: f16[2, 64]
        input %z: f16[64, 2]
        const %c: f16[] = 0.25
        const %d: f16[] = 0.5
        %a: f16[2, 64] = mul(%x, %c)
        %b: f16[64, 2] = mul(%z, %d)
        %y: f16[2, 2] = matmul(%a, %b)
        return %y
        """
    )
    simple = simplify(made).program
    inputs = {name: np.full(type_.static, 64, np.float16) for name, type_ in made.inputs.items()}
    assert [node.op for node in simple.nodes] == ["mul", "matmul"]
    assert np.all(interpret(simple, inputs)["y"] == 2**15)

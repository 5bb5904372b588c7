"""Constants that hold infinities, as masks do, and what cannot be made of them."""

from __future__ import annotations

import numpy as np
import pytest

from lossy_samples import Interpreted, Net, run
from tensmith.errors import ProgramError
from tensmith.ir import Program
from tensmith.rewrite.method import LOSSY, Prospect, apply_lossy


def masked(least: float) -> Program:
    """Attention over what came before: a mask of 8 x 8 is added."""
    net = Net(image=(8, 16))
    scores = net.op("matmul", "x", net.weights(16, 8))
    mask = net.constant(np.triu(np.full((8, 8), least), 1))
    return net.program(net.op("softmax", net.op("add", scores, mask), axis=-1))


def test_a_mask_of_infinities_is_stored_in_halves() -> None:
    program = masked(-np.inf)
    (form,) = LOSSY["half"].starts(Prospect(program, 8, frozenset(), {}, dict))
    assert form.steps[0].params == {"type": "float16"}
    for type_ in ("float16", "bfloat16"):
        after = apply_lossy(program, LOSSY["half"].step(type=type_), Interpreted())
        np.testing.assert_allclose(run(after), run(program), atol=0.02)


@pytest.mark.parametrize(
    ("type_", "message"), [("float16", "float16; use bfloat16$"), ("bfloat16", "bfloat16$")]
)
def test_what_fits_into_no_half_is_told(type_: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        apply_lossy(masked(float(np.finfo(np.float32).min)), LOSSY["half"].step(type=type_), Interpreted())


def test_infinite_weights_have_no_factors() -> None:
    net = Net(image=(16,))
    weights = net.weights(16, 16)
    net.constants[weights][3, 4] = np.inf
    site = net.op("matmul", "x", weights)
    step = LOSSY["low_rank"].step(site, rank=2, criterion="weights")
    with pytest.raises(ProgramError, match="infinite"):
        apply_lossy(net.program(site), step, Interpreted())

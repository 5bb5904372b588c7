"""Emitted Python against the meaning of the terms, target by target."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from lifting.summaries import KERNELS, evaluate
from lifting.tensorize.test_tensorize import SIZES, arguments
from tensmith.lifting.emit import EMITTERS
from tensmith.lifting.tensorize import tensorize

LIBRARIES = {"numpy": "numpy", "torch": "torch", "tensorflow": "tensorflow", "jax": "jax", "mlx": "mlx.core"}


def load(target: str, name: str) -> Any:
    """The emitted function of a kernel."""
    library = LIBRARIES[target]
    pytest.importorskip(library, reason=f"{library} is an extra and not installed")
    (text,) = EMITTERS[target].emit(tensorize(KERNELS[name])).files.values()
    space: dict[str, Any] = {}
    exec(compile(text, f"{target}/{name}.py", "exec"), space)
    return space[name]


def array(value: Any) -> np.ndarray:
    return np.asarray(value)


@pytest.mark.parametrize("target", LIBRARIES)
@pytest.mark.parametrize("name", KERNELS)
def test_emitted_functions_compute_what_the_terms_say(target, name):
    function, claim = load(target, name), KERNELS[name]
    for n, m, k in SIZES:
        if name == "greatest" and n == 0:
            continue
        given = arguments(claim, n, m, k)
        kept = {key: np.array(value) for key, value in given.items()}
        found = function(*given.values())
        expected = evaluate(claim, given)
        results = found if isinstance(found, tuple) else (found,)
        for (key, value), result in zip(expected.items(), results, strict=True):
            assert array(result).dtype == (value.dtype if key != "return" else np.int32)
            np.testing.assert_allclose(array(result).reshape(value.shape), value, rtol=2e-5, err_msg=key)
        for key, value in kept.items():
            np.testing.assert_array_equal(given[key], value, err_msg=f"{key} was changed")

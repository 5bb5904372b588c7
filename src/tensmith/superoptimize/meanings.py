"""All that is known of NumPy: what its functions are in TensIR, and which methods of arrays they are."""

from __future__ import annotations

from tensmith.superoptimize import numpy_linear, numpy_shapes, numpy_table
from tensmith.superoptimize.trace import MEANINGS, METHODS

__all__ = ["MEANINGS", "METHODS", "numpy_linear", "numpy_shapes", "numpy_table"]

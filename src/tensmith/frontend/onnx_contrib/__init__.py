"""Operators that ONNX Runtime's own tools write, as bodies of the standard's operators.

Most are of the domain com.microsoft; a few stand in the default domain, where the standard has none of them.
A definition says what ONNX Runtime's processor kernels compute.
"""

from tensmith.frontend.onnx_contrib import (  # noqa: F401 - they register their definitions
    attention,
    codes,
    fused,
    normalizations,
)
from tensmith.frontend.onnx_contrib.common import BODIES, MICROSOFT

__all__ = ["BODIES", "MICROSOFT"]

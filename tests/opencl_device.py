"""Whether there is an OpenCL device whose driver compiles for it; tests of devices are skipped elsewhere."""

from __future__ import annotations

import pytest

from tensmith.engine import ENGINES
from tensmith.errors import EngineError


def _reason() -> str:
    """Why there is none; "" where there is."""
    if reason := ENGINES["opencl"].missing():
        return reason
    from tensmith.engine.engines.opencl import refusal

    try:
        return refusal()
    except EngineError as error:
        return str(error)


NO_OPENCL = _reason()
needs_opencl = pytest.mark.skipif(bool(NO_OPENCL), reason=NO_OPENCL)

"""tensmith makes trained models smaller and faster, and says exactly what it knows about the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tensmith.compression import compress
    from tensmith.deploy.front import Front
    from tensmith.deploy.generation import Sampling
    from tensmith.deploy.model import load
    from tensmith.errors import TensmithError
    from tensmith.lifting.decorator import lift
    from tensmith.quantization import quantize
    from tensmith.superoptimize.decorator import optimize

__all__ = [
    "Front", "Sampling", "TensmithError", "__version__", "compress", "lift", "load", "optimize", "quantize",
]  # fmt: skip

# Imported at first use: `tensmith --help` must not wait for numpy and onnx.
_HOMES = {
    "compress": "tensmith.compression",
    "Front": "tensmith.deploy.front",
    "lift": "tensmith.lifting.decorator",
    "load": "tensmith.deploy.model",
    "Sampling": "tensmith.deploy.generation",
    "TensmithError": "tensmith.errors",
    "optimize": "tensmith.superoptimize.decorator",
    "quantize": "tensmith.quantization",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tensmith' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)

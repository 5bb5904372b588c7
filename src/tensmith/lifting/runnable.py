"""Targets whose programs run from Python."""

# Those of Python, and the module each needs.
MODULES = {
    "numpy": "numpy",
    "torch": "torch",
    "tensorflow": "tensorflow",
    "jax": "jax",
    "mlx": "mlx",
    "onnx": "onnxruntime",
}
RUNNABLE = (*MODULES, "c")

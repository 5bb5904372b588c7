"""A user's own function as a dataset."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from tensmith.data.arrays import as_dataset
from tensmith.data.dataset import Dataset
from tensmith.data.opening import reader
from tensmith.errors import DataError, TensmithError, UsageError


@reader("python", example="MODULE:FUNCTION")
def open_python(path: str, /, **options: Any) -> Dataset:
    """A function of your own: `python:my_data:load` calls load() of my_data.py, here or installed.

    It returns a Dataset, arrays (x, y), a dict of parts {"train": (x, y), "test": (x, y)}, or an iterable of
    batches (x, y), which is read once and kept in memory. `?name=value` is passed on as a keyword (text).
    """
    module_name, _, function_name = path.partition(":")
    if not module_name or not function_name:
        raise UsageError(f"name the function as python:MODULE:FUNCTION, not 'python:{path}'")
    function = getattr(_module(module_name), function_name, None)
    if not callable(function):
        raise UsageError(f"module {module_name} has no function '{function_name}'; check the name")
    try:
        return as_dataset(function(**options), f"python:{path}")
    except TensmithError:
        raise
    except Exception as error:  # whatever the user's function raises
        raise DataError(
            f"python:{path} failed with {type(error).__name__}: {error}; try it in Python"
        ) from error


def _module(name: str) -> Any:
    """Imports a module, also from the current folder, as `python -m` does."""
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except Exception as error:  # importing runs the user's code
        raise UsageError(
            f"cannot import '{name}' ({type(error).__name__}: {error}); run from its folder"
        ) from error
    finally:
        if added:
            sys.path.remove(here)

"""Which TVM this code is written for, and whether it is installed."""

from __future__ import annotations

import importlib.metadata
import sys

from tensmith.errors import EngineError, MissingExtra

# TVM renames what it offers from one version to the next; apache-tvm-ffi 0.1.15 crashes under this one.
PACKAGES = {"apache-tvm": "0.27.", "apache-tvm-ffi": "0.1.14.post1"}


def check_packages() -> None:
    """MissingExtra if a package is not installed, EngineError if it is of another version; imports none."""
    for package, wanted in PACKAGES.items():
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError as error:
            raise MissingExtra("TVM", "tvm") from error
        if not found.startswith(wanted):
            raise EngineError(
                f"{package} is {found}, and tensmith works with {wanted.rstrip('.')}: "
                "pip install 'tensmith[tvm]'"
            )


def import_tvm() -> None:
    """Imports tvm without torch, which it would load where there is one: seconds, for nothing."""
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        import tvm  # noqa: F401
    finally:
        del sys.modules["torch"]

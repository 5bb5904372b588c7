"""Unpacks the files of a folder with a library of symbols.c: run under the sanitizers by a test.

python sanitized_unpack.py LIBRARY FOLDER
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from tensmith.backend.packed import model, unpack
from tensmith.backend.packed.compiled import bind
from tensmith.errors import TensmithError


def main(library: str, folder: str) -> None:
    """Prints how many of them were refused."""
    bound = bind(ctypes.CDLL(library))
    model.compiled_library = lambda elements: bound
    refused = 0
    for file in sorted(Path(folder).glob("*.packed")):
        try:
            unpack(file.read_bytes(), compiled=True)
        except TensmithError:
            refused += 1
    print(refused)


if __name__ == "__main__":
    main(*sys.argv[1:])

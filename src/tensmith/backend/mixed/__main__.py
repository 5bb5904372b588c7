"""Compiles a model file into a mixed folder, as `python -m tensmith.backend.native` does into a native one.

Regions run in one thread, whatever THREADS says.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tensmith.backend.mixed.folder import mix, write_folder
from tensmith.backend.native.__main__ import main
from tensmith.backend.native.choose.choosers import Choosing
from tensmith.ir import Program
from tensmith.kernel.isa import Isa


def _mixed(program: Program, isa: Isa, chooser: Choosing, threads: int, folder: Path) -> None:
    write_folder(mix(program, isa, chooser), folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], _mixed))

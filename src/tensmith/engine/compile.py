"""The child's side of compiling: one engine, one file, one folder.

    python -m tensmith.engine.compile MODULE NAME MODEL FOLDER '{"settings": {}, "sizes": {}, "threads": 1}'

MODULE registers engine NAME. An error is one line on standard error, and exit code 1.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from tensmith.engine.compiled import compiling
from tensmith.errors import TensmithError


def main() -> int:
    """The command."""
    module, engine, model, folder, asked = sys.argv[1:]
    importlib.import_module(module)
    how = json.loads(asked)
    try:
        by = compiling(engine)
        by.compile(Path(model), Path(folder), how["sizes"], how["threads"], **how["settings"])
    except TensmithError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

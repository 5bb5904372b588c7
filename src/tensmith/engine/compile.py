"""The child's side of compiling: one engine, one file, one folder.

    python -m tensmith.engine.compile MODULE NAME MODEL FOLDER '{"settings": {}, "sizes": {}, "threads": 1}'

MODULE registers engine NAME. An error is one line on standard error, and exit code 1; UNWRITTEN where the
system would not write.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from tensmith.backend.onnx import write_onnx
from tensmith.engine.compiled import NATIVE, UNWRITTEN, compiling
from tensmith.errors import TensmithError, is_of_disk, of_disk, system_sentence
from tensmith.files import TemporaryFolder
from tensmith.ir import Program, TensorType, make_node


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
        return UNWRITTEN if is_of_disk(error) else 1
    except OSError as error:
        print(system_sentence(error, "check the path"), file=sys.stderr)
        return UNWRITTEN if of_disk(error) else 1
    return 0


def warm(*_: str) -> None:
    """Compiles a program of one node: what every compilation reads (tables of rules and kernels, the C
    compiler) is then there for those in forks of this process."""
    x = TensorType("f32", (1, 4))
    one = Program("one", {"x": x}, ("y",), (make_node("relu", ("x",), ("y",)),), {})
    native = compiling(NATIVE)
    with TemporaryFolder() as folder:
        model = Path(folder) / "one.onnx"
        write_onnx(one, model)
        native.compile(model, Path(folder) / "made", {}, 1, **native.completed({}))


if __name__ == "__main__":
    sys.exit(main())

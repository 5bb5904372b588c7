"""Packed files beside what others make of the same weights: nncodec (ISO/IEC 15938-17), zstd -19 and xz.

    python -m benchmarks.compress.packed_sizes [--only NAME,...] [--nncodec PYTHON] [--output FILE]

A part is a model with weights of so many bits (`weight_only`). packed, zstd, xz: bytes of the whole file.
packed_codes: bytes of the integer codes in the packed file; nncodec_codes: DeepCABAC's for the same integers,
by the interpreter PYTHON that has nncodec; nncodec: those and the rest of the file as xz leaves it.
bits: of one code, packed. All seconds are the processor's in user mode, on one core.
megabytes_a_second: of the weights as float32, the whole file unpacked by the compiled decoder, which is at
hand; numpy_...: by NumPy; codes_...: by the compiled decoder, a packed file of the codes alone; nncodec_...:
codes alone, by DeepCABAC. pack_seconds: to pack the file. compile_seconds: to compile the decoder, which is
done once and is in none of the others.
"""

from __future__ import annotations

import json
import lzma
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from onnx import TensorProto, helper

from benchmarks import DATA, ROOT, parts
from tensmith.backend.onnx import to_onnx
from tensmith.backend.packed import container, describe, pack, unpack, wire
from tensmith.backend.packed.compiled import text
from tensmith.backend.packed.elements import to_integers
from tensmith.files import TemporaryFolder
from tensmith.frontend.onnx import read_onnx
from tensmith.kernel import host_isa
from tensmith.kernel.toolchain import compile_library
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import simplify

DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
MODELS = {
    "digits": (8, 4),
    "resnet20_cifar10": (8, 4, 3),
    "resnet8_wide_cifar10": (4,),
    "stories260k": (4,),
    "mobilenetv2_imagenet": (8, 4),
}
_INTEGERS, _TURNS = {"int4": TensorProto.INT4, "int8": TensorProto.INT8}, 3
_HELPER = Path(__file__).with_name("deep_cabac.py")


def quantized(name: str, bits: int) -> bytes:
    """The model with its weights as codes of so many bits, as ONNX."""
    path = DIGITS if name == "digits" else DATA / "models" / f"{name}.onnx"
    step = Step("weight_only", params={"default_bits": bits}, kind="lossy")
    program = simplify(read_onnx(path)).program
    model: bytes = to_onnx(apply_lossy(program, step, calibration=None)).SerializeToString()  # type: ignore[arg-type]
    return model


def deep_cabac(python: str, codes: dict[str, Any]) -> dict[str, float]:
    """What `deep_cabac.py` says of them."""
    with TemporaryFolder("tensmith-codes-") as folder:
        file = Path(folder) / "codes.npz"
        np.savez(file, **codes)
        ran = subprocess.run([python, str(_HELPER), str(file)], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def user_seconds(work: Callable[[], object], turns: int = 1) -> float:
    """Of this process and those it waited for, the fewest of some turns."""
    who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    spent = []
    for _ in range(turns):
        began = sum(resource.getrusage(each).ru_utime for each in who)
        work()
        spent.append(sum(resource.getrusage(each).ru_utime for each in who) - began)
    return max(min(spent), 1e-6)


@cache
def compile_seconds() -> float:
    """To compile the decoder anew; ends where there is no compiler."""
    with TemporaryFolder("tensmith-decoder-") as folder:
        return user_seconds(lambda: compile_library(text(), host_isa(), room=Path(folder)))


def of_codes(model: bytes, spans: list[wire.TensorSpan]) -> bytes:
    """A model that holds these tensors and nothing else."""
    tensors = [
        helper.make_tensor(
            span.name,
            _INTEGERS[span.spec.type.name],
            span.spec.shape,
            model[span.start : span.stop],
            raw=True,
        )
        for span in spans
    ]
    graph = helper.make_graph([], "codes", [], [], initializer=tensors)
    alone: bytes = helper.make_model(graph).SerializeToString()
    return alone


def measured(part: tuple[str, int], nncodec: str | None) -> parts.Found:
    """A model's figures."""
    model = quantized(*part)
    made: list[bytes] = []
    pack_seconds = user_seconds(lambda: made.append(pack(model)))
    packed = made[0]
    spans = [
        span for span in wire.spans_of_model(model) if span.spec.type.name in _INTEGERS and span.spec.shape
    ]
    weights = sum(span.spec.elements for span in spans)
    names = {span.name for span in spans}
    rows = [item for item in describe(packed) if item.dtype in _INTEGERS and item.name in names]
    own = sum(row.bits * float(np.prod(row.shape)) / 8 for row in rows)
    row: dict[str, float] = {
        "weights": weights,
        "onnx": len(model),
        "packed": len(packed),
        "zstd": len(zstandard.compress(model, 19)),
        "xz": len(lzma.compress(model, preset=9 | lzma.PRESET_EXTREME)),
        "packed_codes": round(own),
        "bits": round(8 * own / weights, 3),
        "pack_seconds": round(pack_seconds, 2),
        "compile_seconds": round(compile_seconds(), 2),
        "megabytes_a_second": speed(weights, packed, True),
        "codes_megabytes_a_second": speed(weights, pack(of_codes(model, spans)), True),
        "numpy_megabytes_a_second": speed(weights, packed, False),
    }
    if nncodec is not None:
        codes = {}
        for number, span in enumerate(spans):
            values = to_integers(model[span.start : span.stop], span.spec.type, span.spec.elements)
            assert values is not None
            codes[str(number)] = values.reshape(span.spec.shape)
        theirs = deep_cabac(nncodec, codes)
        rest = len(lzma.compress(wire.cut(model, spans), preset=9 | lzma.PRESET_EXTREME))
        row |= {
            "nncodec_codes": theirs["bytes"],
            "nncodec": theirs["bytes"] + rest,
            "nncodec_megabytes_a_second": round(4e-6 * weights / max(theirs["seconds"], 1e-9), 1),
            "codes_saved_percent": round(100 * (1 - own / theirs["bytes"]), 2),
            "saved_percent": round(100 * (1 - len(packed) / (theirs["bytes"] + rest)), 2),
        }
    return parts.Found(row=row)


def speed(weights: int, packed: bytes, compiled: bool) -> float:
    """Megabytes of so many float32 a second."""
    unpack(packed, compiled=compiled)
    turns = 3 * _TURNS if compiled else _TURNS
    return round(4e-6 * weights / user_seconds(lambda: unpack(packed, compiled=compiled), turns), 1)


def main() -> int:
    """1 where a model could not be measured."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--only", type=parts.names, default=list(MODELS), help="models, by name")
    parser.add_argument(
        "--nncodec", metavar="PYTHON", help="an interpreter with nncodec; without, it is left out"
    )
    options = parser.parse_args()
    chosen = {f"{name} {bits} bits": (name, bits) for name in options.only for bits in MODELS[name]}
    settings = {"bench": "packed sizes", "format": container.VERSION, "nncodec": options.nncodec is not None}
    return parts.main(chosen, measured, options.output, settings, nncodec=options.nncodec)


if __name__ == "__main__":
    sys.exit(main())

"""A plan as C for a device without operating system: weights in flash, the arena beside the program's data.

model.c and model.h need nothing but a compiler: no C library, no memory but what they declare.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tensmith.backend.native.emit.folder import whole
from tensmith.backend.native.emit.header import declared, guarded
from tensmith.backend.native.emit.source import ENTRY, print_c
from tensmith.backend.native.plan import NativePlan
from tensmith.kernel.buffer import C_TYPES

FUNCTION = "model_run"
_WORDS_A_LINE = 9
# As they are called, and as EACH takes them. Square roots and absolute values are instructions.
_LIBRARY = re.compile(
    r"\b((?:a?(?:sin|cos|tan)h?|atan2|exp2?|expm1|log(?:1p|2|10)?|pow|cbrt|erfc?"
    r"|fmod|floor|ceil|rint|trunc)f)[(,]"
)

_SAYS = """\
Computes the model: 0 on success. Inputs, then outputs, in the order above: dense row-major arrays, aligned
   to 4 bytes. One call at a time: it works in memory of its own, which holds nothing between calls."""

_RUN = """
static const uint32_t model_weights[] __attribute__((aligned(64))) = {{
{words}
}};
static uint8_t model_arena[{arena}] __attribute__((aligned(64)));

int {signature}
{{
    const void *const inputs[] = {{{inputs}}};
    void *const outputs[] = {{{outputs}}};
    return {entry}(model_weights, inputs, outputs, model_arena);
}}
"""


def print_freestanding(plan: NativePlan) -> str:
    """The text of model.c."""
    inputs, outputs = (", ".join(_arguments(kind, names)) for kind, names in _ends(plan).items())
    return print_c(plan) + _RUN.format(
        words=_words(plan), arena=max(1, plan.arena_bytes), signature=_signature(plan), entry=ENTRY,
        inputs=inputs, outputs=outputs,
    )  # fmt: skip


def called_library(text: str) -> str | None:
    """A function of <math.h> that the text calls and a device without a C library lacks."""
    found = _LIBRARY.search(text)
    return found[1] if found else None


def write_freestanding(plan: NativePlan, folder: Path) -> None:
    """Writes model.c and model.h, whole or not at all; OutputError if the folder exists already."""
    header = guarded(plan, declared(_SAYS, _signature(plan)), "#include <stdint.h>\n\n")
    with whole(folder) as made:
        (made / "model.c").write_text(print_freestanding(plan), encoding="utf-8")
        (made / "model.h").write_text(header, encoding="utf-8")


def _ends(plan: NativePlan) -> dict[str, tuple[str, ...]]:
    return {"input": tuple(plan.program.inputs), "output": plan.program.outputs}


def _arguments(kind: str, names: tuple[str, ...]) -> list[str]:
    return [f"{kind}_{index}" for index in range(len(names))] or ["0"]


def _signature(plan: NativePlan) -> str:
    """The function as C declares it: `const float *input_0, float *output_0`."""
    parameters = [
        f"{'const ' if kind == 'input' else ''}{C_TYPES[plan.program.type(name).dtype]} *{argument}"
        for kind, names in _ends(plan).items()
        for name, argument in zip(names, _arguments(kind, names))
    ]
    return f"{FUNCTION}({', '.join(parameters)})"


def _words(plan: NativePlan) -> str:
    """All weights, as C writes numbers of 32 bits."""
    filled = np.concatenate([plan.weights, np.zeros(-len(plan.weights) % 4 or 4, np.uint8)])
    words = [f"{word:#x}" for word in filled.view("<u4").tolist()]
    lines = (words[start : start + _WORDS_A_LINE] for start in range(0, len(words), _WORDS_A_LINE))
    return "\n".join(f"    {', '.join(line)}," for line in lines)

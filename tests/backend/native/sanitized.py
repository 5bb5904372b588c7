"""Compiled programs under the sanitizers: each array, the weights and the arena in a heap block of its size.

What is read or written beyond one of them hits the sanitizer's red zone. The program around the model runs
it several times, in one thread or in as many as it was cut for, and the outputs are compared.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.backend.native.emit.header import print_header
from tensmith.backend.native.emit.source import print_c
from tensmith.backend.native.plan import NativePlan
from tensmith.children import ProcessResult, run
from tensmith.files import TemporaryFolder
from tensmith.kernel.toolchain import OPTIMIZED, find_compiler

Array = np.ndarray[Any, Any]

# Accesses through null and beyond an object are the address sanitizer's; to check twice takes a fifth longer.
MEMORY = (
    *("-fsanitize=address,undefined", "-fno-sanitize=null,object-size"),
    *("-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
)
THREADS = ("-fsanitize=thread",)
# What they report does not depend on it, and it compiles five times as fast.
UNOPTIMIZED = ("-O0",)
_FLAGS = ("-g1", "-w", "-fno-strict-aliasing")
_LONGEST_SECONDS = 300.0

_MAIN = """
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include "model.h"

static void *block(size_t bytes) { void *p = 0; return posix_memalign(&p, 64, bytes) ? 0 : p; }

static void *filled(const char *path, size_t bytes)
{
    void *p = block(bytes);
    FILE *file = fopen(path, "rb");
    if (!p || !file || fread(p, 1, bytes, file) != bytes) exit(3);
    fclose(file);
    return p;
}

static const void *weights, *inputs[TENSMITH_INPUTS + 1];
static void *outputs[TENSMITH_OUTPUTS + 1], *arena;
#ifdef TENSMITH_THREADS
static unsigned long meeting[2];
static void pause_(void) { sched_yield(); }
static void *part(void *number)
{
    const int own = (int)(size_t)number;
    for (unsigned long n = 0; n < RUNS; n++)
        if (tensmith_run_part(weights, inputs, outputs, arena, own, meeting, n, pause_)) exit(4);
    return 0;
}
#endif

int main(int count, char **paths)
{
    const size_t in[] = TENSMITH_INPUT_BYTES, out[] = TENSMITH_OUTPUT_BYTES;
    (void)count;
    weights = filled(*++paths, TENSMITH_WEIGHTS_BYTES);
    for (int i = 0; i < TENSMITH_INPUTS; i++) inputs[i] = filled(*++paths, in[i]);
    for (int i = 0; i < TENSMITH_OUTPUTS; i++) outputs[i] = block(out[i]);
    arena = block(TENSMITH_ARENA_BYTES);
#ifdef TENSMITH_THREADS
    pthread_t threads[TENSMITH_THREADS];
    for (size_t n = 1; n < TENSMITH_THREADS; n++) pthread_create(threads + n, 0, part, (void *)n);
    part(0);
    for (size_t n = 1; n < TENSMITH_THREADS; n++) pthread_join(threads[n], 0);
#else
    for (int n = 0; n < RUNS; n++)
        if (tensmith_run(weights, inputs, outputs, arena)) exit(4);
#endif
    for (int i = 0; i < TENSMITH_OUTPUTS; i++) {
        FILE *file = fopen(*++paths, "wb");
        if (!file || fwrite(outputs[i], 1, out[i], file) != out[i]) exit(5);
        fclose(file);
    }
    return 0;
}
"""


# For the thread sanitizer: who arrives late sees what others did after the meeting, and would count as being
# after it. So nobody goes on before all have left; how they know is relaxed, which orders nothing.
_STRICT = """
static int meet(unsigned long *meeting, unsigned long all, void (*yield)(void));
static int strictly_meet(unsigned long *meeting, unsigned long all, void (*yield)(void))
{
    static unsigned long left;
    int ended = meet(meeting, all, yield);
    __atomic_fetch_add(&left, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&left, __ATOMIC_RELAXED) < all) yield();
    return ended;
}
"""


def has_sanitizers() -> bool:
    """Whether the compiler here has them."""
    compiler = find_compiler()
    probe = ["sh", "-c", 'echo "int main(void) { return 0; }" | "$@" -x c - -o /dev/null', "sh"]
    return (
        not compiler.cross
        and not subprocess.run(
            [*probe, *compiler.command, *MEMORY], capture_output=True, check=False
        ).returncode
    )


def sanitized(
    plan: NativePlan,
    inputs: Mapping[str, Array],
    folder: Path,
    flags: tuple[str, ...] = MEMORY,
    runs: int = 2,
) -> tuple[dict[str, Array], str]:
    """(outputs of a plan compiled with a sanitizer, what that complains about: "" if it does not)."""
    program = plan.program
    text = print_c(plan)
    if flags[: len(THREADS)] == THREADS:
        text = _STRICT + text.replace("meet(meeting, before", "strictly_meet(meeting, before")
    (folder / "model.c").write_text(text, encoding="utf-8")
    (folder / "model.h").write_text(print_header(plan), encoding="utf-8")
    (folder / "main.c").write_text(f"#define RUNS {runs}\n{_MAIN}", encoding="utf-8")
    plan.weights.tofile(folder / "weights")
    words = ["weights"]
    for index, (name, type_) in enumerate(program.inputs.items()):
        np.ascontiguousarray(inputs[name], type_.numpy).tofile(folder / f"in{index}")
        words.append(f"in{index}")
    written = [f"out{index}" for index in range(len(program.outputs))]
    options = (*OPTIMIZED, *plan.isa.flags, *_FLAGS, *flags)
    includes = [line for line in plan.isa.prelude.splitlines() if line.startswith("#include")]
    header = ("-include", str(Path(_precompiled("\n".join(includes), options).name) / "all.h"))
    files = ("main.c", "model.c", "-o", "model", "-lm", "-lpthread")
    command = (*find_compiler().command, *options, *header, *files)
    built = run(command, _LONGEST_SECONDS, folder=folder)
    if built.code:
        return {}, f"it does not compile: {_first(built)}"
    ran = run((str(folder / "model"), *words, *written), _LONGEST_SECONDS, folder=folder)
    if ran.code or ran.stderr:
        return {}, f"it {ran.ending}: {_first(ran)}"
    types = [program.type(name) for name in program.outputs]
    arrays = [
        np.fromfile(folder / path, type_.numpy).reshape(type_.static or ())
        for path, type_ in zip(written, types)
    ]
    return dict(zip(program.outputs, arrays)), ""


@functools.cache
def _precompiled(includes: str, options: tuple[str, ...]) -> TemporaryFolder:
    """A folder with all.h, read by the compiler once for all models: intrinsics are most of a small one."""
    folder = TemporaryFolder("tensmith-header-")
    (Path(folder.name) / "all.h").write_text(f"{includes}\n", encoding="utf-8")
    command = (*find_compiler().command, *options, "all.h", "-o", "all.h.gch")
    run(command, _LONGEST_SECONDS, folder=Path(folder.name))
    return folder


def _first(done: ProcessResult) -> str:
    """What is telling of a sanitizer's report."""
    lines = [line for line in done.stderr.splitlines() if "error" in line.lower() or "WARNING" in line]
    where = [line.strip() for line in done.stderr.splitlines() if "model.c:" in line][:2]
    return "; ".join([*(lines or done.stderr.splitlines())[:1], *where])

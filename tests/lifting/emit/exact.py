"""Sources and what is emitted for them in C, one program under the sanitizers; every array has exactly the
elements it is called with, so that a read beside them ends the call."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensmith.formula.types import MachineType
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Array

SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
_PRELUDE = """
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *copy_of(const void *from, size_t size) {
    char *to = malloc(size);
    if (size) memcpy(to, from, size);
    return to;
}
static void show(const char *kind, const void *at, size_t count) {
    const bool small = kind[1] == '8', wide = kind[1] == '6';
    for (size_t i = 0; i < count; i++) {
        if (kind[0] == 'f')
            printf(" %.17g", wide ? ((const double *)at)[i] : ((const float *)at)[i]);
        else if (kind[0] == 'b')
            printf(" %d", ((const bool *)at)[i]);
        else if (kind[0] == 'u')
            printf(" %" PRIu64, small  ? ((const uint8_t *)at)[i]
                                : wide ? ((const uint64_t *)at)[i]
                                       : ((const uint32_t *)at)[i]);
        else
            printf(" %" PRId64, small  ? ((const int8_t *)at)[i]
                                : wide ? ((const int64_t *)at)[i]
                                       : ((const int32_t *)at)[i]);
    }
    printf(" ;");
}
"""
_TYPES = {"f32": "float", "f64": "double", "bool": "bool", "u8": "uint8_t", "i8": "int8_t"}


def ctype(type_: MachineType) -> str:
    """The C type of an element."""
    return _TYPES.get(type_, f"{'' if type_.signed else 'u'}int{type_.bits}_t")


def written(lifted: Lifted) -> list[str]:
    """Arrays that are outputs, in the order of parameters."""
    names = {output.view.array for output in lifted.outputs if output.view is not None}
    return [name for name, _ in lifted.function.fields if name in names]


def _literal(value: Any, type_: MachineType) -> str:
    if type_.kind == "float":
        return f"({ctype(type_)}){value!r}"
    return str(int(value))


def _call(lifted: Lifted, call: Sequence[Any], emitted: bool) -> str:
    """A block that calls the source or what was emitted, and prints what came out."""
    lines, given, shown, freed, outs = [], [], [], [], []
    for (name, type_), value in zip(lifted.function.fields, call, strict=True):
        if isinstance(type_, MachineType):
            given.append(_literal(value, type_))
            continue
        kind, count = ctype(type_.element), len(value)
        elements = ", ".join(_literal(part, type_.element) for part in value) or "0"
        lines.append(f"const {kind} from_{name}[] = {{{elements}}};")
        lines.append(f"{kind} *p_{name} = copy_of(from_{name}, {count} * sizeof({kind}));")
        freed.append(f"free(p_{name});")
        given += [f"p_{name}", str(count)] if emitted else [f"p_{name}"]
        if name not in written(lifted):
            continue
        place = f"p_{name}"
        if emitted:
            place = f"o_{name}"
            lines.append(f"{kind} *{place} = malloc({count} * sizeof({kind}));")
            outs.append(place)
            freed.append(f"free({place});")
        shown.append(f'show("{type_.element}", {place}, {count});')
    name, returns = lifted.function.name, lifted.function.returns
    assert not isinstance(returns, Array)
    if returns is not None:
        lines.append(f"{ctype(returns)} result = 0;")
        outs.append("&result")
        shown.append(f'show("{returns}", &result, 1);')
    if emitted:
        lines.append(f"int status = {name}({', '.join([*given, *outs])});")
        lines.append(f'if (status) printf(" refused: %s", {name}_requirement(status));')
        shown = ["else {", *shown, "}"]
    else:
        lines.append(f"{'result = ' if returns is not None else ''}source_{name}({', '.join(given)});")
    return "\n    ".join(["{", *lines, *shown, *freed, "}"])


_MAIN = """
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    for (int call = 0; call < COUNT; call++) {
        fflush(stdout);
        int status = 0;
        pid_t child = fork();
        if (!child) {
            one(call);
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, &status, 0);
        puts(status ? " fault" : "");
    }
    return 0;
}
"""

Given = tuple[str, Lifted, Mapping[str, bytes], Sequence[Sequence[Any]]]


def run(functions: Mapping[str, Given], folder: Path) -> dict[str, list[tuple[str, str]]]:
    """For every call of every function what the source prints, and what is emitted for it prints.

    functions: name -> source, lifted program, C files, calls. A call that the sanitizers end prints "fault".
    """
    parts, calls = [_PRELUDE], []
    for name, (source, lifted, files, listed) in functions.items():
        for file, content in files.items():
            (folder / file).write_bytes(content)
        parts.append(f"#define {name} source_{name}\n{source}\n#undef {name}\n")
        parts.append(f'#include "{name}.h"')
        calls += [(name, _call(lifted, call, side)) for call in listed for side in (False, True)]
    body = "\n".join(f"case {number}: {code} break;" for number, (_, code) in enumerate(calls))
    parts.append(f"static void one(int call) {{ switch (call) {{\n{body}\n}} }}\n#define COUNT {len(calls)}")
    (folder / "every_call.c").write_text("\n".join([*parts, _MAIN]))
    files = [folder / "every_call.c", *(folder / f"{name}.c" for name in functions)]
    program = folder / "every_call"
    subprocess.run(["gcc", "-std=gnu11", "-O0", "-w", *SANITIZE, "-o", program, *files, "-lm"], check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=True)
    found: dict[str, list[str]] = {}
    for (name, _), line in zip(calls, done.stdout.splitlines(), strict=True):
        found.setdefault(name, []).append(line.strip())
    return {name: list(zip(lines[::2], lines[1::2])) for name, lines in found.items()}

"""Sources and what is emitted for them in C, one program under the sanitizers; every array has exactly the
elements it is called with, so that a read beside them ends the call."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensmith.lifting.emit.kernel.parameters import flat_fields
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Array, Scalar

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
    for (size_t i = 0; i < count; i++) {
        if (kind[0] == 'f') printf(" %.17g", kind[1] == '3' ? ((const float *)at)[i] : ((const double *)at)[i]);
        else if (kind[0] == 'b') printf(" %d", ((const bool *)at)[i]);
        else if (kind[0] == 'u') printf(" %" PRIu64, kind[1] == '8' ? ((const uint8_t *)at)[i] : kind[1] == '3' ? ((const uint32_t *)at)[i] : ((const uint64_t *)at)[i]);
        else printf(" %" PRId64, kind[1] == '8' ? ((const int8_t *)at)[i] : kind[1] == '3' ? ((const int32_t *)at)[i] : ((const int64_t *)at)[i]);
    }
    printf(" ;");
}
"""
_TYPES = {"f32": "float", "f64": "double", "bool": "bool", "u8": "uint8_t", "i8": "int8_t"}


def ctype(type_: Scalar) -> str:
    """The C type of an element."""
    return _TYPES.get(type_.name, f"{'' if type_.signed else 'u'}int{type_.bits}_t")


def fields(lifted: Lifted) -> list[tuple[str, Scalar | Array]]:
    """Parameters in order."""
    return [field for parameter in lifted.function.parameters for field in flat_fields(parameter)]


def written(lifted: Lifted) -> list[str]:
    """Arrays that are outputs, in the order of parameters."""
    names = {output.view.array for output in lifted.outputs if output.view is not None}
    return [name for name, _ in fields(lifted) if name in names]


def _literal(value: Any, type_: Scalar) -> str:
    if type_.kind == "float":
        return f"({ctype(type_)}){value!r}"
    return str(int(value))


def _call(lifted: Lifted, call: Sequence[Any], emitted: bool) -> str:
    """A block that calls the source or what was emitted, and prints what came out."""
    lines, given, after, outs = [], [], [], []
    for (name, type_), value in zip(fields(lifted), call, strict=True):
        if isinstance(type_, Scalar):
            given.append(_literal(value, type_))
            continue
        kind, count = ctype(type_.element), len(value)
        elements = ", ".join(_literal(part, type_.element) for part in value) or "0"
        lines.append(f"const {kind} from_{name}[] = {{{elements}}};")
        lines.append(f"{kind} *p_{name} = copy_of(from_{name}, {count} * sizeof({kind}));")
        after.append(f"free(p_{name});")
        given += [f"p_{name}", str(count)] if emitted else [f"p_{name}"]
        if name in written(lifted):
            shown = f"p_{name}"
            if emitted:
                lines.append(f"{kind} *o_{name} = malloc({count} * sizeof({kind}));")
                outs.append(f"o_{name}")
                after.append(f"free(o_{name});")
                shown = f"o_{name}"
            after.insert(0, f'show("{type_.element.name}", {shown}, {count});')
    name, returns = lifted.function.name, lifted.function.returns
    assert not isinstance(returns, Array)
    if returns is not None:
        lines.append(f"{ctype(returns)} result = 0;")
        after.insert(0, f'show("{returns.name}", &result, 1);')
    if emitted:
        every = ", ".join([*given, *outs, *(["&result"] if returns is not None else [])])
        lines.append(
            f'int status = {name}({every}); if (status) printf(" refused: %s ;", {name}_requirement(status)); else {{'
        )
        after.insert(sum(line.startswith("show(") for line in after), "}")
    else:
        lines.append(f"{'result = ' if returns is not None else ''}source_{name}({', '.join(given)});")
    return "\n    ".join(["{", *lines, *after, 'printf("\\n"); fflush(stdout);', "}"])


def run(
    functions: Mapping[str, tuple[str, Lifted, Mapping[str, bytes], Sequence[Sequence[Any]]]], folder: Path
) -> dict[str, list[tuple[str, str]]]:
    """For every call of every function what the source prints, and what is emitted for it prints.

    functions: name -> source, lifted program, C files, calls. A call that reads beside its arrays prints what
    the sanitizer says of it.
    """
    parts, calls = [_PRELUDE], []
    for name, (source, lifted, files, listed) in functions.items():
        for file, content in files.items():
            (folder / file).write_bytes(content)
        parts.append(f"#define {name} source_{name}\n{source}\n#undef {name}\n")
        parts.append(f'#include "{name}.h"')
        calls += [(name, _call(lifted, call, side)) for call in listed for side in (False, True)]
    body = "\n".join(f"case {number}: {code} break;" for number, (_, code) in enumerate(calls))
    parts.append(f"int main(int c, char **v) {{ (void)c; switch (atoi(v[1])) {{\n{body}\n}} return 0; }}")
    (folder / "every_call.c").write_text("\n".join(parts))
    objects = [folder / f"{name}.c" for name in functions]
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-w", *SANITIZE, "-o", folder / "every_call", folder / "every_call.c", *objects, "-lm"],
        check=True, cwd=folder,
    )  # fmt: skip
    found: dict[str, list[str]] = {}
    for number, (name, _) in enumerate(calls):
        done = subprocess.run(
            [folder / "every_call", str(number)], capture_output=True, text=True, timeout=60
        )
        fault = next((line for line in done.stderr.splitlines() if "ERROR" in line or "error" in line), "")
        found.setdefault(name, []).append(done.stdout.strip() if done.returncode == 0 else f"fault: {fault}")
    return {name: list(zip(lines[::2], lines[1::2])) for name, lines in found.items()}

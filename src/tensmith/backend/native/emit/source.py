"""A plan as one C file: equal kernels once, then a function that calls them in order."""

from __future__ import annotations

import re

from tensmith.backend.native.invented import spelled
from tensmith.backend.native.layout import Action
from tensmith.backend.native.plan import FUNCTION, NativePlan
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.buffer import ELEMENT_BYTES, NO_HALO
from tensmith.kernel.toolchain import OPTIMIZED

ENTRY, PART_ENTRY = "tensmith_run", "tensmith_run_part"

_CLEAR = """
/* `fill` around `planes` images of rows x columns blocks of bytes: t, l, b, r blocks at each side. */
static void clear_halo(void *at, int fill, size_t planes, size_t rows, size_t columns, size_t block,
        size_t t, size_t l, size_t b, size_t r)
{
    char *p = at;
    size_t row = (l + columns + r) * block;
    for (size_t n = 0; n < planes; n++, p += (t + rows + b) * row) {
        memset(p, fill, t * row);
        for (size_t i = t; i < t + rows; i++) {
            memset(p + i * row, fill, l * block);
            memset(p + i * row + (l + columns) * block, fill, r * block);
        }
        memset(p + (t + rows) * row, fill, b * row);
    }
}
"""

_ARGUMENTS = "const char *weights, const void *const *inputs, void *const *outputs, char *arena"

# One thread more has arrived; then all are waited for. Others keep a thread waiting for less than a layer
# takes, if they run: who waits longer offers its processor. 1 if the caller says that not all will come.
_MEET = """
static int meet(unsigned long *meeting, unsigned long all, void (*yield)(void))
{
    __atomic_fetch_add(meeting, 1, __ATOMIC_ACQ_REL);
    for (long n = 0; __atomic_load_n(meeting, __ATOMIC_ACQUIRE) < all; n++) {
        if (__atomic_load_n(meeting + 1, __ATOMIC_RELAXED)) return 1;
        if (n > 2000) yield();
    }
    return __atomic_load_n(meeting + 1, __ATOMIC_RELAXED) != 0;
}
"""

_TIME = """
#include <time.h>
static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + 1e-9 * at.tv_nsec;
}
"""
_TIMED = "    { double at = now(); seconds[NUMBER] += at - then; then = at; }\n"

_NUMBER = "NUMBER"
_LONGEST_NAME = 200


def print_c(plan: NativePlan, entry: str = ENTRY, timed: bool = False) -> str:
    """The whole C file, of which `entry` is the function that does everything in order.

    A `timed` one adds to `double seconds[]`, its last argument, what each action takes.
    """
    functions: dict[str, str] = {}
    calls = []
    for index, (action, text) in enumerate(zip(plan.actions, plan.functions)):
        name = functions.setdefault(text, f"{_word(action)}_{len(functions)}")
        calls.append(_step(index, _call(plan, index, action, name)))
    bodies = [text.replace(FUNCTION, name) for text, name in functions.items()]
    flags = " ".join((*OPTIMIZED, *plan.needed.flags))
    library = " -lm" if plan.isa.hosted else ""
    first = f"/* {plan.isa.architecture}: cc {flags} main.c model.c -o model{library} */\n"
    if timed:
        entries = [_TIME, _run(plan, entry, ", double *seconds", _TIMED)]
    else:
        entries = [_run(plan, entry), *([_MEET, _run_part(plan)] if plan.threads > 1 else [])]
    return "\n".join([first + plan.needed.prelude, _CLEAR, *bodies, *calls, *entries])


def distinct(plan: NativePlan) -> int:
    """How many functions compute the actions: equal ones are written once."""
    return len(set(plan.functions))


def _step(index: int, calls: str) -> str:
    """The function of one action."""
    return f"""\
static void step_{index}({_ARGUMENTS})
{{
    (void)weights; (void)inputs; (void)outputs; (void)arena;
{calls}}}
"""


def _run(plan: NativePlan, entry: str, more: str = "", after: str = "") -> str:
    """The function that does everything in order; `after` stands behind each call."""
    steps = "".join(
        f"    step_{n}(weights, inputs, outputs, arena);\n{after.replace(_NUMBER, str(n))}"
        for n in range(len(plan.actions))
    )
    return f"""\
__attribute__((visibility("default")))
int {entry}(const void *weights, const void *const *inputs, void *const *outputs, void *arena{more})
{{
    (void)weights; (void)inputs; (void)outputs; (void)arena;
{"    double then = now();" + chr(10) if after else ""}{steps}    return 0;
}}
"""


def _run_part(plan: NativePlan) -> str:
    """The function of one of several threads: its part of what is done side by side, and then they meet.

    The first thread alone does what is not cut.
    """
    lines: list[str] = []
    meetings, alone = 0, False
    for phase in plan.phases:
        if lines and not (alone and len(phase) == 1):
            meetings += 1
            lines.append(f"    if (meet(meeting, before + {meetings * plan.threads}, yield)) return 1;\n")
        for part, index in enumerate(phase):
            lines.append(f"    if (part == {part}) step_{index}(weights, inputs, outputs, arena);\n")
        alone = len(phase) == 1
    return f"""\
__attribute__((visibility("default")))
int {PART_ENTRY}(const void *weights, const void *const *inputs, void *const *outputs, void *arena,
        int part, unsigned long *meeting, unsigned long run, void (*yield)(void))
{{
    unsigned long before = run * {(meetings + 1) * plan.threads};
{"".join(lines)}    return meet(meeting, before + {(meetings + 1) * plan.threads}, yield);
}}
"""


def _word(action: Action) -> str:
    if isinstance(action.work, Kernel):
        return action.work.name
    return type(action.work).__name__.removesuffix("Routine").lower()


def _call(plan: NativePlan, index: int, action: Action, name: str) -> str:
    """The C statements of one action: clear the halo of what it writes, then compute it image by image."""
    count = plan.layout.images[action.writes].batch
    reads = [_address(plan, value, count) for value in action.reads]
    writes = _address(plan, action.writes, count)
    weights = _weight(plan, index, "weights")
    constants = _weight(plan, index, "constants")
    if action.table is not None:
        constants = f"(const float *)({_address(plan, action.table, 1)})"
    scratch = f"hidden(arena + {plan.scratch[index]})" if index in plan.scratch else "0"
    if isinstance(action.work, Kernel):
        residual = reads[1] if len(reads) > 1 else "0"
        call = f"{name}({reads[0]}, {weights}, {constants}, {residual}, {writes}, {scratch});"
    else:
        pointers = ", ".join(f"(const float *)({read})" for read in reads)
        call = f"{name}((const float *const[]){{{pointers}}}, {constants}, (float *)({writes}), {scratch});"
    loop = f"for (int n = 0; n < {count}; n++) " if count != 1 else ""
    lines = [*_clear(plan, action, loop), loop + call]
    return f"    /* {in_comment(action.writes)} */\n" + "".join(f"    {line}\n" for line in lines)


def in_comment(name: str) -> str:
    """A name that a stranger chose, for a comment in C: nothing in it ends a comment or splices a line."""
    return re.sub(r"[^A-Za-z0-9_.:/ -]", "_", spelled(name))[:_LONGEST_NAME]


def _clear(plan: NativePlan, action: Action, loop: str) -> list[str]:
    """The statement that clears the halo of what an action writes, if that has one.

    Of an image that is written in windows, the first one's action clears it all.
    """
    value = action.writes
    while value in plan.layout.windows:
        value, window = plan.layout.windows[value]
        if window.top or window.left:
            return []
    buffer = plan.layout.buffer(value)
    h = buffer.halo
    if h == NO_HALO:
        return []
    address = _address(plan, value, plan.layout.images[value].batch)
    grid = plan.layout.parameters.get(value)
    block = buffer.block * ELEMENT_BYTES[buffer.dtype]
    sizes = f"{grid.zero_point if grid else 0}, {buffer.blocks}, {buffer.height}, {buffer.width}, {block}"
    return [f"{loop}clear_halo({address}, {sizes}, {h.top}, {h.left}, {h.bottom}, {h.right});"]


def _address(plan: NativePlan, value: str, count: int) -> str:
    place = plan.places[value]
    type_ = plan.layout.buffer(value).c_type
    base = f"({type_} *)hidden(arena + {place.start})"
    if place.region != "arena":
        base = f"({type_} *){place.region}[{place.start}]"
    if place.offset:
        base += f" + {place.offset}"
    return base if count == 1 else f"{base} + n * {place.stride}L"


def _weight(plan: NativePlan, index: int, kind: str) -> str:
    offset = plan.weight_offsets.get((index, kind))
    return "0" if offset is None else f"(const float *)(weights + {offset})"

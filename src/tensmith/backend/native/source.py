"""A plan as one C file: equal kernels once, then a function that calls them in order."""

from __future__ import annotations

from tensmith.backend.native.layout import Action
from tensmith.backend.native.plan import Plan
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.buffer import ELEMENT_BYTES, NO_HALO
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.toolchain import OPTIMIZED

ENTRY = "tensmith_run"

_CLEAR = """
/* `fill` around `planes` images of rows x columns blocks of bytes: t, l, b, r blocks at each side. */
static void clear_halo(void *at, int fill, int planes, int rows, int columns, int block,
        int t, int l, int b, int r)
{
    char *p = at;
    int row = (l + columns + r) * block;
    for (int n = 0; n < planes; n++, p += (t + rows + b) * row) {
        memset(p, fill, t * row);
        for (int i = t; i < t + rows; i++) {
            memset(p + i * row, fill, l * block);
            memset(p + i * row + (l + columns) * block, fill, r * block);
        }
        memset(p + (t + rows) * row, fill, b * row);
    }
}
"""

_NAME = "KERNEL"


def print_c(plan: Plan) -> str:
    """The whole C file."""
    functions: dict[str, str] = {}
    calls = []
    for index, action in enumerate(plan.actions):
        text = _code(plan, action)
        name = functions.setdefault(text, f"{_word(action)}_{len(functions)}")
        calls.append(_call(plan, index, action, name))
    bodies = [text.replace(_NAME, name) for text, name in functions.items()]
    run = f"""\
__attribute__((visibility("default")))
int {ENTRY}(const void *weights_, const void *const *inputs, void *const *outputs, void *arena_)
{{
    const char *weights = weights_;
    char *arena = arena_;
    (void)weights; (void)arena;
{"".join(calls)}    return 0;
}}
"""
    flags = " ".join((*OPTIMIZED, *plan.isa.flags))
    first = f"/* {plan.isa.architecture}: cc {flags} main.c model.c -o model */\n"
    return "\n".join([first + plan.isa.prelude, _CLEAR, *bodies, run])


def _word(action: Action) -> str:
    return action.work.name if isinstance(action.work, Kernel) else type(action.work).__name__.lower()


def _code(plan: Plan, action: Action) -> str:
    sources = tuple(map(plan.layout.buffer, action.reads))
    target = plan.layout.buffer(action.writes)
    if isinstance(action.work, Kernel):
        residual = sources[1] if len(sources) > 1 else None
        epilogue = Epilogue(
            action.constants is not None, residual, action.activation, action.inner, action.late
        )
        return action.work.code(_NAME, sources[0], target, epilogue)
    return action.work.code(_NAME, sources, target)


def _call(plan: Plan, index: int, action: Action, name: str) -> str:
    """The C statements of one action: clear the halo of what it writes, then compute it image by image."""
    count = plan.layout.images[action.writes].batch
    reads = [_address(plan, value, count) for value in action.reads]
    writes = _address(plan, action.writes, count)
    weights = _weight(plan, index, "weights")
    constants = _weight(plan, index, "constants")
    scratch = f"arena + {plan.scratch[index]}" if index in plan.scratch else "0"
    if isinstance(action.work, Kernel):
        residual = reads[1] if len(reads) > 1 else "0"
        call = f"{name}({reads[0]}, {weights}, {constants}, {residual}, {writes}, {scratch});"
    else:
        pointers = ", ".join(f"(const float *)({read})" for read in reads)
        call = f"{name}((const float *const[]){{{pointers}}}, {constants}, (float *)({writes}), {scratch});"
    loop = f"for (int n = 0; n < {count}; n++) " if count != 1 else ""
    lines = [
        *([_clear(plan, action.writes, loop, writes)] if _needs_clearing(plan, action) else []),
        loop + call,
    ]
    return f"    /* {action.writes.replace('*/', '* /')} */\n" + "".join(f"    {line}\n" for line in lines)


def _needs_clearing(plan: Plan, action: Action) -> bool:
    return plan.layout.buffer(action.writes).halo != NO_HALO


def _clear(plan: Plan, value: str, loop: str, address: str) -> str:
    buffer = plan.layout.buffer(value)
    h = buffer.halo
    grid = plan.layout.grids.get(value)
    block = buffer.block * ELEMENT_BYTES[buffer.dtype]
    sizes = f"{grid.zero_point if grid else 0}, {buffer.blocks}, {buffer.height}, {buffer.width}, {block}"
    return f"{loop}clear_halo({address}, {sizes}, {h.top}, {h.left}, {h.bottom}, {h.right});"


def _address(plan: Plan, value: str, count: int) -> str:
    place = plan.places[value]
    type_ = "uint8_t" if value in plan.layout.grids else "float"
    base = f"({type_} *)(arena + {place.start})"
    if place.region != "arena":
        base = f"({type_} *){place.region}[{place.start}]"
    return base if count == 1 else f"{base} + n * {place.stride}"


def _weight(plan: Plan, index: int, kind: str) -> str:
    offset = plan.weight_offsets.get((index, kind))
    return "0" if offset is None else f"(const float *)(weights + {offset})"

"""Expressions as TPC-C: every operation is an intrinsic on 64 lanes of 32 bits.

Bytes and 16-bit integers are widened as they are loaded, 256 or 128 at a time, so a kernel that touches them
works on four or two vectors side by side, its `parts`. Truth values are integer lanes that are 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from tensmith.ctext.names import Names, enclosed, floor_text, literal, poly_text
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Call, Choose, Expr, Num, Read, Size
from tensmith.formula.poly import Poly
from tensmith.formula.walk import free_variables
from tensmith.lifting.refusal import Refusal

# Lanes of a vector register (2048 bits) by element type, and how TPC-C calls the register.
LANES = {"f32": 64, "i32": 64, "i16": 128, "u16": 128, "i8": 256, "u8": 256}
REGISTERS = {
    "f32": "float64", "i32": "int64", "i16": "short128", "u16": "ushort128", "i8": "char256",
    "u8": "uchar256",
}  # fmt: skip
# Special functions of the TPC library.
_SPECIAL = {
    "exp": "v_exp_f32", "log": "v_log_f32", "sqrt": "v_sqrt_f32", "tanh": "v_tanh_f32", "sin": "v_sin_f32",
    "cos": "v_cos_f32", "div": "v_div_f32", "pow": "v_pow_f32",
}  # fmt: skip
_COMPARE = {"less": "less", "less_equal": "leq", "greater": "grt", "greater_equal": "geq", "equal": "eq"}
_BITS = {
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip
_PLAIN = {"add": "add", "sub": "sub", "maximum": "max", "minimum": "min"}

DIVISION = """\
/* Towards zero: an estimate in floats, corrected until the remainder is smaller than the divisor. */
int64 div_i32(int64 a, int64 b)
{
    const float64 divisor = convert_int64_to_float64(b, SW_RHNE);
    int64 quotient = 0;
    int64 rest = a;
    for (int round = 0; round < 3; round++) {
        const float64 share = v_div_f32(convert_int64_to_float64(rest, SW_RHNE), divisor);
        const int64 more = convert_float64_to_int64(share, SW_RZ);
        quotient = v_i32_add_b(quotient, more);
        rest = v_i32_sub_b(rest, v_i32_mul_b(more, b).v1);
    }
    const int64 sign = v_i32_sel_less_i32_b(v_i32_xor_b(a, b), 0, -1, 1);
    const int64 below_b = v_i32_sel_less_i32_b(b, 0, b, v_i32_sub_b(0, b)); /* -|b|, as |b| may not fit */
    const int64 below_rest = v_i32_sel_less_i32_b(rest, 0, rest, v_i32_sub_b(0, rest));
    const int64 over = v_i32_sel_less_i32_b(below_b, below_rest, 0, 1);
    const int64 wrong = v_i32_sel_less_i32_b(v_i32_xor_b(rest, a), 0, 1, 0);
    const int64 back = v_i32_and_b(wrong, v_i32_sel_neq_i32_b(rest, 0, 1, 0));
    quotient = v_i32_add_b(quotient, v_i32_mul_b(sign, v_i32_sub_b(over, back)).v1);
    return quotient;
}
"""


def _refuse_floor() -> NoReturn:
    raise Refusal("a position that may be negative is divided, and the vector cores round that towards zero")


def lanes_of(dtype: str) -> int:
    """Lanes of an element type; refuses types that no lane holds."""
    if dtype not in LANES:
        raise Refusal(
            f"Gaudi's vector cores have no lanes of {dtype}; use float or integers of up to 32 bits"
        )
    return LANES[dtype]


@dataclass
class Vector:
    """What one kernel's expressions need: tensor names, symbols, and where the vectors lie.

    `variable` runs along the lanes, or is "" where all lanes hold one element. `covered` are the lanes of one
    step (64 a part).
    """

    tensors: Mapping[str, str]
    scalars: Mapping[str, str]
    symbol: Callable[[str], str]
    names: Names
    variable: str
    ranges: Ranges
    divides: bool = False
    lines: list[str] = field(default_factory=list)
    known: dict[tuple[int, int], str] = field(default_factory=dict)
    indent: int = 1

    # Writing

    def line(self, text: str) -> None:
        """Adds a statement."""
        self.lines.append("    " * self.indent + text)

    def keep(self, register: str, text: str, base: str = "v") -> str:
        """Names a vector."""
        name = self.names.fresh(base)
        self.line(f"const {register} {name} = {text};")
        return name

    # Values

    def value(self, expr: Expr, part: int) -> str:
        """64 lanes of an expression: float64 of floats, int64 of everything else."""
        key = (id(expr), part)
        if key not in self.known:
            self.known[key] = self._text(expr, part)
        return self.known[key]

    def _text(self, expr: Expr, part: int) -> str:
        match expr:
            case Num(value, dtype):
                return literal(value, "i32" if dtype in ("bool", "i64") else dtype)
            case Read(name, ()):
                return self.scalars[name]
            case Size(poly):
                return self._position(poly, part)
            case Read():
                return self._load(expr, part)
            case Choose():
                return self._choose(expr, part)
            case Call():
                return self._call(expr, part)
        raise Refusal("a sum inside a sum, or an element picked by a computed position, has no kernel")

    def kind(self, dtype: str) -> str:
        """The type of lanes that an element type is computed in."""
        return "f32" if dtype == "f32" else "i32"

    def poly(self, poly: Poly) -> str:
        """A polynomial that does not run along the lanes."""
        return poly_text(poly, self.symbol, floor_text(self.ranges, _refuse_floor))

    def _position(self, poly: Poly, part: int) -> str:
        """Positions as values; the lane number counts where they run along the lanes."""
        factor = poly.coefficient(self.variable) if self.variable in poly.symbols() else Poly.of(0)
        if factor is None:
            raise Refusal("a position is used as a value in a way that lanes cannot count")
        if factor == 0:
            return enclosed(self.poly(poly))
        start = poly + factor * (64 * part)
        lane = "convert_uint64_to_int64(read_lane_id_4b_b(), 0)"
        scaled = lane if factor == 1 else f"v_i32_mul_b({lane}, {enclosed(self.poly(factor))}).v1"
        return self.keep("int64", f"v_i32_add_b({scaled}, {enclosed(self.poly(start))})", "at")

    # Loads

    def _load(self, load: Read, part: int) -> str:
        lanes = lanes_of(load.type)
        first = part * 64 // lanes * lanes
        along = [axis for axis, place in enumerate(load.indices) if self.variable in place.symbols()]
        last = len(load.indices) - 1
        if along and (along != [last] or load.indices[last].coefficient(self.variable) != 1):
            raise Refusal(
                "lanes would be gathered from far apart; exchange the loops, or transpose the array"
            )
        at = self._coordinates(load, first if along else 0)
        tensor = self.tensors[load.tensor]
        if not along:
            text = f"s_{load.type}_ld_g(gen_addr({at}, {tensor}))"
            return self.keep("float" if load.type == "f32" else "int", text, "s")
        whole = self._whole(load, tensor, at, first)
        return whole if lanes == 64 else f"{whole}.v{part - first // 64 + 1}"

    def _whole(self, load: Read, tensor: str, at: str, first: int) -> str:
        """One vector load, widened to 32 bits in the order of its elements."""
        key = (id(load), -1 - first)
        if key not in self.known:
            dtype, register = load.type, REGISTERS[load.type]
            loaded = f"v_{dtype}_ld_tnsr_b({at}, {tensor})"
            lanes = LANES[dtype]
            if lanes == 64:
                self.known[key] = self.keep(register, loaded)
            else:
                widened = f"convert_{register}_to_int{lanes}({loaded}, SW_LINEAR)"
                self.known[key] = self.keep(f"int{lanes}", widened)
        return self.known[key]

    def _coordinates(self, load: Read, ahead: int) -> str:
        """The int5 of an element: the last axis is the tensor's dimension 0."""
        places = [*load.indices[:-1], load.indices[-1] + ahead]
        texts = [self.poly(place) for place in reversed(places)]
        return self.keep("int5", "{ " + ", ".join(texts + ["0"] * (5 - len(texts))) + " }", "at")

    # Operators

    def _choose(self, expr: Choose, part: int) -> str:
        """Both values, and a selection by position; vector loads outside a tensor give its padding."""
        for side in (expr.then, expr.otherwise):
            if isinstance(side, Read) and side.indices and self.variable not in free_variables(side):
                raise Refusal("a choice by position reads single elements that may lie outside an array")
        result, kind = self.value(expr.then, part), self.kind(expr.type)
        other = self.value(expr.otherwise, part)
        for condition in expr.conditions:
            place = self._position(condition, part)
            text = f"v_{kind}_sel_geq_i32_b({place}, 0, {result}, {other})"
            result = self.keep(REGISTERS[kind], text)
        return result

    def _call(self, expr: Call, part: int) -> str:
        op, dtype = expr.function, expr.type
        source = expr.args[-1].type
        if dtype != "bool" and not _sizes_only(expr):
            lanes_of(dtype)
        args = [self.value(arg, part) for arg in expr.args]
        text = self.operation(op, dtype, source, args)
        return self.keep(REGISTERS[self.kind(dtype)], self._wrapped(text, op, dtype))

    def operation(self, op: str, dtype: str, source: str, args: list[str]) -> str:
        """An operator on lanes of `source`, as text."""
        kind, from_kind = self.kind(dtype), self.kind(source)
        listed = ", ".join(args)
        if op == "cast":
            return self._cast(dtype, source, args[0])
        if op == "where":
            return f"v_{kind}_sel_neq_i32_b({args[0]}, 0, {args[1]}, {args[2]})"
        if op in _COMPARE:
            return f"v_i32_sel_{_COMPARE[op]}_{from_kind}_b({listed}, 1, 0)"
        if op == "not":
            return f"v_i32_xor_b({args[0]}, 1)"
        if op in _BITS:
            return f"v_i32_{_BITS[op]}_b({listed})"
        if op == "neg":
            return f"v_{kind}_sub_b(0, {args[0]})" if kind == "i32" else f"v_f32_sub_b(0.0f, {args[0]})"
        if op in _PLAIN:
            return f"v_{kind}_{_PLAIN[op]}_b({listed})"
        if op == "mul":
            return f"v_f32_mul_b({listed})" if kind == "f32" else f"v_i32_mul_b({listed}).v1"
        if op == "abs":
            return f"v_{kind}_abs_b({args[0]})"
        if op in _SPECIAL and kind == "f32":
            return f"{_SPECIAL[op]}({listed})"
        if op in ("div", "fmod") and kind == "i32":
            self.divides = True
            if op == "div":
                return f"div_i32({listed})"
            return f"v_i32_sub_b({args[0]}, v_i32_mul_b(div_i32({listed}), {args[1]}).v1)"
        raise Refusal(f"operator '{op}' on {source} has no TPC intrinsic; use another target")

    def _cast(self, dtype: str, source: str, value: str) -> str:
        if dtype == "bool":
            zero = "0.0f" if source == "f32" else "0"
            return f"v_i32_sel_neq_{self.kind(source)}_b({value}, {zero}, 1, 0)"
        if dtype == "f32" and source != "f32":
            return f"convert_int64_to_float64({value}, SW_RHNE)"
        if dtype != "f32" and source == "f32":
            return f"convert_float64_to_int64({value}, SW_RZ)"
        return value

    def _wrapped(self, text: str, op: str, dtype: str) -> str:
        """Narrow integers after an operation: the low bits, and the sign they mean."""
        if dtype not in ("u8", "u16", "i8", "i16") or op == "where":
            return text
        bits = int(dtype[1:])
        low = f"v_i32_and_b({text}, {(1 << bits) - 1})"
        half = 1 << (bits - 1)
        return low if dtype[0] == "u" else f"v_i32_sub_b(v_i32_xor_b({low}, {half}), {half})"


def _sizes_only(expr: Call) -> bool:
    """Whether an expression is over sizes and positions alone, which fit in 32 bits on the device."""
    return all(isinstance(arg, Size | Num) for arg in expr.args)

"""Random C and C++ functions: a loop or two over arrays, with every operator, type and statement."""

from __future__ import annotations

from lifting.generate.program import Generated, Generator

INTEGERS = (
    *("signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long", "unsigned long"),
    *("int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "size_t", "char"),
)
FLOATS = ("float", "double")
COUNTS = ("int", "int", "int", "long", "unsigned", "size_t", "short", "uint8_t")
ARITHMETIC = ("+", "-", "*", "+", "-", "/", "%", "&", "|", "^", "<<", ">>")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
COMPOUND = ("+=", "-=", "*=", "|=", "&=", "^=")
DIVIDING = ("/=", "%=", ">>=")
# Types that are promoted, and one of their width with the other sign.
NARROW = {
    **dict.fromkeys(("signed char", "int8_t", "char"), "unsigned char"),
    **dict.fromkeys(("unsigned char", "uint8_t"), "signed char"),
    **dict.fromkeys(("short", "int16_t"), "unsigned short"),
    **dict.fromkeys(("unsigned short", "uint16_t"), "short"),
}
C_HEADERS = ("stdint.h", "stddef.h", "stdbool.h", "math.h", "stdlib.h", "string.h")
CPP_HEADERS = ("cstdint", "cstddef", "cmath", "cstdlib", "vector", "algorithm")
HEAD_C = "".join(f"#include <{header}>\n" for header in C_HEADERS)
HEAD_CPP = "".join(f"#include <{header}>\n" for header in CPP_HEADERS)


def program(seed: int, name: str, cpp: bool = False) -> Generated:
    """The function of a seed, with its helpers before it; file scope names carry its name."""
    writer = Function(seed, name, cpp)
    text = writer.write()
    return Generated(name, text, frozenset(writer.used))


class Function(Generator):
    """One function. reads: expressions that are in bounds in the innermost loop, with whether they are
    integers."""

    def __init__(self, seed: int, name: str, cpp: bool) -> None:
        super().__init__(seed)
        self.name, self.cpp = name, cpp
        self.before: list[str] = []
        self.parameters: list[str] = []
        self.reads: list[tuple[str, bool]] = []
        self.arrays: list[tuple[str, bool]] = []  # one-dimensional ones, with whether they hold integers
        self.helpers: list[tuple[str, int, bool]] = []
        self.n = "n"

    def write(self) -> str:
        shape = self.pick(
            *(self.map, self.map, self.reduce, self.reduce, self.walk, self.matrix, self.branches),
            *(self.scan_flag, self.structs, self.switched, self.converted, self.local_array, self.several),
            *((self.vectors, self.vectors, self.ranges) if self.cpp else (self.bits,)),
        )
        if self.often(0.25):
            self.helper()
        if self.often(0.2):
            self.macro()
        if self.often(0.15):
            self.table()
        head, body = shape()
        lines = "\n".join(f"    {line}" for line in body)
        return "".join(f"{line}\n" for line in self.before) + f"{head} {{\n{lines}\n}}\n"

    # Types and parameters

    def type(self, floats: float = 0.3) -> str:
        found = self.of(FLOATS) if self.often(floats) else self.of(INTEGERS)
        self.use(f"type {found}")
        return found

    def count(self) -> str:
        """Declares n; its type."""
        kind = self.of(COUNTS)
        self.use(f"count {kind}")
        self.parameters.append(f"{kind} n")
        return kind

    def array(self, name: str, subscript: str, written: bool = False, kind: str = "") -> str:
        """Declares an array that is read at a subscript; its element type."""
        kind = kind or self.type()
        whole = kind not in FLOATS
        constant = "" if written or self.often(0.3) else "const "
        if self.often(0.3):
            self.use("array parameter []")
            self.parameters.append(f"{constant}{kind} {name}[]")
        else:
            restrict = "" if self.cpp or self.often(0.8) else "restrict "
            self.parameters.append(f"{constant}{kind} *{restrict}{name}")
        self.arrays.append((name, whole))
        self.reads.append((f"{name}[{subscript}]", whole))
        if self.often(0.1):
            self.use("pointer arithmetic *(a + i)")
            self.reads[-1] = (f"*({name} + {subscript})", whole)
        return kind

    def scalar(self) -> None:
        kind = self.type(0.5)
        self.parameters.append(f"{kind} x")
        self.reads.append(("x", kind not in FLOATS))

    def header(self, returns: str) -> str:
        static = "static " if self.often(0.1) else ""
        order = list(self.parameters)
        if self.often(0.3):
            self.chance.shuffle(order)
            order.sort(key=lambda text: "[n][m]" in text)  # n and m stand before what they measure
        return f"{static}{returns} {self.name}({', '.join(order)})"

    # What stands before the function

    def helper(self) -> None:
        self.use("helper function")
        kind = self.pick("int", "double", "unsigned", "unsigned char", "float")
        name = f"{self.name}_help"
        inner = Function(self.chance.randrange(1 << 30), name, self.cpp)
        inner.reads = [("p", kind not in FLOATS), ("q", kind not in FLOATS)]
        value = inner.expression(2, kind not in FLOATS)
        body = f"return {value};"
        if self.often(0.4):
            self.use("helper with an early return")
            body = f"if ({inner.condition(1)}) return {inner.expression(1, kind not in FLOATS)}; {body}"
        self.used |= inner.used
        self.before.append(f"static {self.pick('inline ', '')}{kind} {name}({kind} p, {kind} q) {{ {body} }}")
        self.helpers.append((name, 2, kind not in FLOATS))

    def macro(self) -> None:
        name = f"M_{self.name}"
        if self.often(0.5):
            self.use("object-like macro")
            self.before.append(f"#define {name} {self.pick('3', '(-2)', '7u', '0x1F')}")
            self.reads.append((name, True))
            return
        self.use("function-like macro")
        text = self.pick(
            "((p) < (q) ? (p) : (q))", "((p) * (p) + (q))", "((p) - (q))", "((p) > 0 ? (p) : -(q))"
        )
        self.before.append(f"#define {name}(p, q) {text}")
        self.helpers.append((name, 2, True))

    def table(self) -> None:
        if self.often(0.5):
            self.use("enum constant")
            self.before.append(f"enum {{ E_{self.name} = {self.chance.randrange(-3, 9)} }};")
            self.reads.append((f"E_{self.name}", True))
        else:
            self.use("constant of the file")
            self.before.append(f"static const int T_{self.name} = {self.chance.randrange(-3, 9)};")
            self.reads.append((f"T_{self.name}", True))

    # Expressions

    def literal(self, whole: bool) -> str:
        if not whole:
            self.use("float literal")
            return self.pick("0.5", "2.0f", "(-1.5)", "3.", "1e2", "0.25f")
        form = self.pick("{}", "{}", "{}", "{}u", "{}L", "0x{:x}", "'{}'", "(-{})")
        value = self.chance.randrange(0, 10)
        self.use(f"literal {form}")
        return form.format(value)

    def leaf(self, whole: bool) -> str:
        fitting = [text for text, integer in self.reads if integer == whole]
        if fitting and self.often(0.8):
            return self.of(fitting)
        if not whole and self.reads and self.often(0.4):
            return self.of(self.reads)[0]
        return self.literal(whole)

    def expression(self, depth: int, whole: bool) -> str:
        """An expression, of an integer type or not; in parentheses where it is not a leaf."""
        if depth <= 0 or self.often(0.15):
            return self.leaf(whole)
        a = lambda kind=whole: self.expression(depth - 1, kind)  # noqa: E731
        form = self.chance.randrange(16)
        if form == 0:
            self.use("ternary")
            return f"({self.condition(depth - 1)} ? {a()} : {a()})"
        if form == 1:
            kind = self.of(INTEGERS) if whole else self.of(FLOATS)
            inner = a(self.often(0.7)) if not whole else a()
            self.use(f"cast to {kind}")
            if self.cpp and self.often(0.5):
                self.use("static_cast")
                return f"static_cast<{kind}>({inner})"
            return f"(({kind}){inner})"
        if form == 2:
            operator = self.pick("-", "+", "~", "!") if whole else self.pick("-", "+")
            self.use(f"unary {operator}")
            return f"({operator}{a()})"
        if form == 3 and whole:
            return f"({self.condition(depth - 1, number=False)})"
        callees = [helper for helper in self.helpers if helper[2] or not whole]
        if form == 4 and callees:
            name, count, integer = self.of(callees)
            self.use("call")
            return f"{name}({', '.join(a(integer) for _ in range(count))})"
        if form == 5:
            return self.library(a, whole)
        if form == 6 and self.often(0.5):
            self.use("comma")
            return f"({a()}, {a()})"
        if whole:
            operator = self.of(ARITHMETIC)
            self.use(f"binary {operator} of integers")
            if operator in ("<<", ">>"):
                return f"({a()} {operator} {self.chance.randrange(0, 5)})"
            if operator in ("/", "%") and self.often(0.6):
                return f"({a()} {operator} {self.pick('3', '-3', '2', '7u', '4')})"
            return f"({a()} {operator} {a()})"
        operator = self.pick("+", "-", "*", "/") if self.often(0.8) else "+"
        self.use(f"binary {operator} of floats")
        return f"({a()} {operator} {a(self.often(0.2))})"

    def library(self, a: object, whole: bool) -> str:
        assert callable(a)
        space = "std::" if self.cpp else ""
        if whole:
            if self.cpp and self.often(0.5):
                self.use("std::max, std::min")
                return f"std::{self.pick('max', 'min')}<int>({a()}, {a()})"
            self.use("abs")
            return f"{space}abs((int){a()})"
        name = self.pick(
            "sqrt",
            "fabs",
            "floor",
            "ceil",
            "exp",
            "fmax",
            "fmin",
            "sqrtf",
            "fabsf",
            "tanh",
            "pow",
            "round",
            "rint",
            "erf",
            "atan",
        )
        self.use(name)
        if name.endswith("f"):
            space = ""
        if name in ("fmax", "fmin"):
            return f"{space}{name}({a()}, {a()})"
        return f"{space}pow({a()}, 2)" if name == "pow" else f"{space}{name}({a()})"

    def condition(self, depth: int, number: bool = True) -> str:
        """number: whether one will do, of whatever type."""
        form = self.chance.randrange(8)
        if depth > 0 and form == 0:
            operator = self.pick("&&", "||")
            self.use(operator)
            return f"{self.condition(depth - 1)} {operator} {self.condition(depth - 1)}".join("()")
        if depth > 0 and form == 1:
            self.use("condition !")
            return f"!({self.condition(depth - 1)})"
        whole = self.often(0.7)
        if form == 2 and number:
            self.use("number as condition")
            return self.expression(depth - 1, whole)
        operator = self.of(COMPARISONS)
        self.use(f"comparison {operator}")
        return f"{self.expression(depth - 1, whole)} {operator} {self.expression(depth - 1, whole)}"

    def dividing(self, place: str, kind: str) -> str:
        """A compound assignment that promotes both sides where they are narrow."""
        operator = self.of(DIVIDING)
        self.use(f"{'narrow' if kind in NARROW else 'element'} {operator}")
        if operator == ">>=":
            return f"{place} >>= {self.chance.randrange(0, 8)};"
        other = NARROW[kind] if kind in NARROW and self.often(0.7) else self.of(tuple(NARROW))
        right = self.pick("({})3", "({})-3", "({})-7", "({})100").format(other)
        return f"{place} {operator} {right};"

    # Loops

    def loop(self, index: str, bound: str, body: list[str], kind: str = "int") -> list[str]:
        """The body for index = 0 .. bound-1, in one of the ways to write it."""
        inner = [f"    {line}" for line in body]
        jumps = any("continue" in line for line in body)
        form = self.pick(
            "for", "for", "for", "while", "down", "do", "not equal", "inclusive", "endless", "comma"
        )
        if jumps and form in ("while", "do", "endless"):
            form = "for"
        signed = kind not in ("unsigned", "size_t", "uint8_t")
        if form in ("down", "inclusive") and not signed:
            form = "for"
        self.use(f"loop {form}")
        step = self.pick(f"{index}++", f"++{index}", f"{index} += 1", f"{index} = {index} + 1")
        start = f"{kind} {index} = 0"
        match form:
            case "while":
                return [f"{start};", f"while ({index} < {bound}) {{", *inner, f"    {step};", "}"]
            case "down":
                return [f"for ({kind} {index} = {bound} - 1; {index} >= 0; {index}--) {{", *inner, "}"]
            case "do":
                guard = f"if ({bound} > 0) do {{"
                return [f"{start};", guard, *inner, f"    {step};", f"}} while ({index} < {bound});"]
            case "inclusive":
                return [f"for ({start}; {index} <= {bound} - 1; {step}) {{", *inner, "}"]
            case "endless":
                stop = f"    if (!({index} < {bound})) break;"
                return [f"{start};", "for (;;) {", stop, *inner, f"    {step};", "}"]
            case "not equal" if not signed:
                return [f"for ({start}; {index} != {bound}; {step}) {{", *inner, "}"]
            case "comma":
                self.use("comma in a for")
                return [
                    f"{kind} {index}, {index}_w;",
                    f"for ({index} = 0, {index}_w = 3; {index} < {bound}; {step}, {index}_w += 2) {{",
                    *inner,
                    "}",
                ]
        return [f"for ({start}; {index} < {bound}; {step}) {{", *inner, "}"]

    def guard(self, value: str = "") -> list[str]:
        if not self.often(0.15):
            return []
        self.use("early return")
        return [f"if (n {self.pick('<=', '<', '==')} 0) return{' ' + value if value else ''};"]

    def subscripts(self) -> str:
        """How arrays are read at i."""
        form = self.pick("i", "i", "i", "i", "i + 1", "2 * i", "n - 1 - i", "i + 2")
        self.use(f"subscript {form}")
        return form

    def inputs(self, most: int = 2) -> None:
        for number in range(self.chance.randrange(1, most + 1)):
            self.array("ab"[number], self.subscripts() if number else "i")
        if self.often(0.5):
            self.scalar()

    # Shapes of functions; each gives the head and the body

    def map(self) -> tuple[str, list[str]]:
        kind = self.count()
        out = self.type()
        self.inputs()
        self.parameters.append(f"{out} *out")
        self.reads.append(("i", True))
        whole = self.often(0.6) if out not in FLOATS else self.often(0.2)
        body = []
        if self.often(0.25):
            self.use("if, continue")
            body.append(f"if ({self.condition(1)}) {{ out[i] = {self.expression(1, whole)}; continue; }}")
        if self.often(0.3):
            local = self.type()
            body.append(f"{self.pick('', 'const ')}{local} t = {self.expression(2, local not in FLOATS)};")
            self.use("local variable")
            self.reads.append(("t", local not in FLOATS))
            if local not in FLOATS and not body[-1].startswith("const ") and self.often(0.4):
                body.append(self.dividing("t", local))
        if self.often(0.2):
            operator = self.of(COMPOUND) if whole and out not in FLOATS else self.pick("+=", "-=", "*=")
            self.use(f"element {operator}")
            body.append(f"out[i] {operator} {self.expression(2, whole and out not in FLOATS)};")
        elif out not in FLOATS and self.often(0.5 if out in NARROW else 0.1):
            body.append(self.dividing("out[i]", out))
        else:
            body.append(f"out[i] = {self.expression(3, whole)};")
        return self.header("void"), [*self.guard(), *self.loop("i", "n", body, kind)]

    def accumulate(self, kind: str) -> list[str]:
        """Statements that change s."""
        whole = kind not in FLOATS
        form = self.chance.randrange(7)
        if form == 0:
            self.use("running extreme")
            return [f"if ({self.leaf(whole)} {self.pick('>', '<', '>=')} s) s = {self.leaf(whole)};"]
        if form == 1:
            self.use("extreme by ternary")
            value = self.leaf(whole)
            return [f"s = {value} {self.pick('>', '<')} s ? {value} : s;"]
        if form == 2:
            self.use("conditional count")
            step = self.pick("s++", "++s", "s += 1", "s--")
            self.use(step)
            return [f"if ({self.condition(2)}) {step};"]
        if form == 3 and whole:
            operator = self.of(COMPOUND)
            self.use(f"sum {operator}")
            return [f"s {operator} {self.expression(2, True)};"]
        if form == 4:
            self.use("sum under a condition")
            return [
                f"if ({self.condition(1)}) s += {self.expression(2, whole)};",
                f"else s -= {self.leaf(whole)};",
            ]
        if form == 5:
            self.use("continue")
            return [f"if ({self.condition(1)}) continue;", f"s += {self.expression(2, whole)};"]
        return [f"s += {self.expression(2, whole)};"]

    def reduce(self) -> tuple[str, list[str]]:
        kind, total = self.count(), self.type(0.4)
        self.inputs()
        body = self.accumulate(total)
        start = self.pick("0", "0", "1", "x" if ("x", True) in self.reads else "0")
        text = [*self.guard("0"), f"{total} s = {start};", *self.loop("i", "n", body, kind)]
        returns = total if self.often(0.7) else self.type(0.4)
        return self.header(returns), [*text, f"return {self.pick('s', 's', '-s', 's + 1')};"]

    def walk(self) -> tuple[str, list[str]]:
        """Pointers that move."""
        self.use("pointer walk")
        count = self.pick("int", "unsigned", "size_t", "long")
        self.parameters.append(f"{count} n")
        kind, out = self.type(), self.type()
        self.parameters += [f"const {kind} *a", f"{out} *out"]
        self.reads.append(("*a", kind not in FLOATS))
        value = self.expression(2, out not in FLOATS)
        form = self.chance.randrange(5)
        if form == 0:
            loop = [f"while (n{self.pick('--', '-- > 0') if count in ('int', 'long') else '--'}) {{"]
            if loop[0] == "while (n--) {" and count in ("int", "long"):
                loop = ["while (n-- > 0) {"]
            loop += [f"    *out++ = {value};", "    a++;", "}"]
        elif form == 1:
            self.use("*p++ on both sides")
            loop = ["for (; n > 0; n--)", f"    *out++ = {self.pick('', '2 * ', '-')}*a++;"]
        elif form == 2:
            self.use("end pointer")
            loop = [
                f"const {kind} *end = a + n;",
                f"while (a {self.pick('!=', '<')} end) {{",
                f"    *out = {value};",
                "    ++out; ++a;",
                "}",
            ]
        elif form == 3:
            self.use("*--p")
            loop = ["a += n;", "for (int i = 0; i < (int)n; i++) {", "    *out++ = *--a;", "}"]
        else:
            self.use("pointer stride")
            loop = ["for (int i = 0; i < (int)n; i++, a += 2) {", f"    out[i] = {value};", "}"]
        return self.header("void"), loop

    def matrix(self) -> tuple[str, list[str]]:
        """Two axes."""
        self.parameters += ["int n", "int m"]
        kind, total = self.type(), self.type(0.5)
        whole = kind not in FLOATS
        form = self.pick("flat", "flat", "fixed", "variable" if not self.cpp else "fixed", "transposed")
        self.use(f"matrix {form}")
        columns = {"fixed": "4"}.get(form, "m")
        place = {"flat": "a[i * m + j]", "transposed": "a[j * n + i]"}.get(form, "a[i][j]")
        declared = {"fixed": f"const {kind} a[][4]", "variable": f"{kind} a[n][m]"}.get(
            form, f"const {kind} *a"
        )
        self.parameters.append(declared)
        self.reads += [(place, whole), ("i", True), ("j", True)]
        if self.often(0.4):
            self.array("b", "j")
        if self.often(0.5):
            self.use("row reduction")
            self.parameters.append(f"{total} *out")
            inner = self.loop("j", columns, self.accumulate(total))
            body = [f"{total} s = 0;", *inner, "out[i] = s;"]
            return self.header("void"), self.loop("i", "n", body)
        if self.often(0.5):
            self.use("matrix map")
            self.parameters.append(f"{total} *out")
            inner = self.loop(
                "j", columns, [f"out[i * {columns} + j] = {self.expression(2, total not in FLOATS)};"]
            )
            return self.header("void"), self.loop("i", "n", inner)
        self.use("total of a matrix")
        body = self.loop("i", "n", self.loop("j", columns, self.accumulate(total)))
        return self.header(total), [f"{total} s = 0;", *body, "return s;"]

    def branches(self) -> tuple[str, list[str]]:
        """if, else if, else."""
        self.use("if, else if, else")
        kind, out = self.count(), self.type()
        self.inputs()
        self.parameters.append(f"{out} *out")
        whole = out not in FLOATS
        body = [
            f"if ({self.condition(2)}) {{ out[i] = {self.expression(1, whole)}; }}",
            f"else if ({self.condition(1)}) out[i] = {self.expression(1, whole)};",
            f"else {{ out[i] = {self.expression(2, whole)}; }}",
        ]
        return self.header("void"), self.loop("i", "n", body, kind)

    def scan_flag(self) -> tuple[str, list[str]]:
        """A search that ends early."""
        self.use("search with break or return")
        kind = self.count()
        self.inputs()
        if self.often(0.5):
            self.use("return in a loop")
            body = [f"if ({self.condition(1)}) return {self.pick('1', '0', '(int)i')};"]
            return self.header("int"), [
                *self.loop("i", "n", body, kind),
                f"return {self.pick('0', '-1', '1')};",
            ]
        self.use("break")
        body = [f"if ({self.condition(1)}) {{ found = {self.pick('1', '(int)i')}; break; }}"]
        return self.header("int"), ["int found = -1;", *self.loop("i", "n", body, kind), "return found;"]

    def structs(self) -> tuple[str, list[str]]:
        self.use("struct parameter")
        kind, name = self.type(), f"struct S_{self.name}"
        last = self.pick("int k;", "double k;", "short k; int unused;")
        self.before.append(f"{name} {{ int n; {kind} *v; {last} }};")
        pointer = self.often(0.5)
        access = "s->" if pointer else "s."
        self.parameters += [f"{self.pick('const ', '')}{name} {'*' if pointer else ''}s"]
        self.reads += [
            (f"{access}v[i]", kind not in FLOATS),
            (f"{access}k", last != "double k;"),
            ("i", True),
        ]
        total = self.type(0.4)
        body = [
            line.replace("s ", "t ", 1) if line.startswith("s ") else line
            for line in [f"t += {self.expression(2, total not in FLOATS)};"]
        ]
        return self.header(total), [f"{total} t = 0;", *self.loop("i", f"{access}n", body), "return t;"]

    def bits(self) -> tuple[str, list[str]]:
        """A local struct with bit-fields."""
        self.use("bit-field")
        width = self.chance.randrange(1, 9)
        kind = self.pick("unsigned", "int", "unsigned char")
        self.before.append(f"struct B_{self.name} {{ {kind} x : {width}; int y; }};")
        count = self.count()
        self.inputs()
        body = [f"t.x = {self.expression(2, True)};", f"s += t.x {self.pick('+ t.y', '', '* 2')};"]
        text = [f"struct B_{self.name} t;", "t.y = 1;", "long s = 0;", *self.loop("i", "n", body, count)]
        return self.header("long"), [*text, "return s;"]

    def switched(self) -> tuple[str, list[str]]:
        self.use("switch")
        kind, out = self.count(), self.type()
        self.inputs()
        self.parameters.append(f"{out} *out")
        whole = out not in FLOATS
        value = self.expression(1, True)
        cases = []
        for label in self.chance.sample(range(-2, 6), 3):
            if self.often(0.25):
                self.use("case that falls through")
                cases.append(f"case {label}:")
            else:
                cases.append(f"case {label}: out[i] = {self.expression(1, whole)}; break;")
        body = [f"switch ((int){value}) {{", *cases, f"default: out[i] = {self.leaf(whole)};", "}"]
        return self.header("void"), self.loop("i", "n", body, kind)

    def local_array(self) -> tuple[str, list[str]]:
        self.use("local array")
        self.count()
        kind = self.type()
        size = self.chance.randrange(2, 6)
        self.inputs(1)
        whole = kind not in FLOATS
        self.reads.append((f"w[{self.chance.randrange(size)}]", whole))
        cast = f"({kind})" if self.cpp else ""  # in C++ a list may not narrow
        filled = ", ".join(f"{cast}{self.literal(whole)}" for _ in range(size))
        self.parameters.append(f"{kind} *out")
        body = [f"out[i] = {self.expression(2, whole)};"]
        return self.header("void"), [
            f"{self.pick('const ', '')}{kind} w[{size}] = {{{filled}}};",
            *self.loop("i", "(int)n", body),
        ]

    def several(self) -> tuple[str, list[str]]:
        """Side effects inside expressions, several accumulators, two loops."""
        self.use("several accumulators")
        kind = self.count()
        self.inputs()
        whole = True
        lines = [f"s += {self.expression(2, whole)};"]
        form = self.chance.randrange(4)
        if form == 0:
            self.use("++ inside an expression")
            lines.append(f"k += c{self.pick('++', '--')};")
        elif form == 1:
            self.use("assignment as a value")
            lines.append(f"k += (c = {self.expression(1, whole)});")
        elif form == 2:
            self.use("prefix ++ inside an expression")
            lines.append(f"k = k + {self.pick('++', '--')}c;")
        else:
            self.use("chained assignment")
            lines.append(f"c = k = {self.expression(1, whole)};")
        total = self.pick("int", "unsigned", "long")
        text = [f"{total} s = 0, k = 0;", "int c = 0;", *self.loop("i", "n", lines, kind)]
        return self.header(total), [*text, "return s + k + c;"]

    def converted(self) -> tuple[str, list[str]]:
        """A scalar in another type of integers, alone and beside elements."""
        self.use("scalar converted")
        count = self.count()
        source, kind = (self.pick(self.of(INTEGERS), "int", "unsigned", "long") for _ in range(2))
        total = self.pick("long", "int64_t", "double", self.of(INTEGERS))
        self.parameters.append(f"{source} x")
        form = self.pick("local", "cast", "assignment", "function")
        self.use(f"scalar converted by a {form}")
        first = [f"{kind} c = {'x' if form == 'local' else '0'};", f"{total} s = 0;"]
        value = {"local": "c", "cast": f"({kind})x", "assignment": "(c = x)"}.get(form, f"{self.name}_as(x)")
        if form == "function":
            self.before.append(f"static {kind} {self.name}_as({source} p) {{ return p; }}")
        if self.often(0.5):
            body = [f"s += {value};"]
            return self.header(total), [*first, *self.loop("i", "n", body, count), "return s;"]
        self.array("a", "i", written=True)
        operator = self.pick("=", "+=", "=")
        body = [f"a[i] {operator} {value} {self.pick('', '', '+ i', '* i', '- (int)i')};"]
        return self.header("void"), [*first, *self.loop("i", "n", body, count)]

    # C++

    def vectors(self) -> tuple[str, list[str]]:
        self.use("std::vector")
        kind, out = self.type(), self.type()
        self.parameters += [f"const std::vector<{kind}> &a"]
        self.reads += [("a[i]", kind not in FLOATS), ("(int)i", True)]
        if self.often(0.4):
            self.scalar()
        index = self.pick("int", "size_t", "unsigned")
        size = "a.size()" if index == "size_t" else f"({index})a.size()"
        if self.often(0.4):
            self.use("push_back")
            body = [f"r.push_back({self.expression(2, out not in FLOATS)});"]
            text = [f"std::vector<{out}> r;", *self.loop("i", size, body, index)]
            return self.header(f"std::vector<{out}>"), [*text, "return r;"]
        if self.often(0.5):
            self.use("vector of a size")
            body = [f"r[i] = {self.expression(2, out not in FLOATS)};"]
            text = [
                f"std::vector<{out}> r(a.size(){self.pick('', ', 1')});",
                *self.loop("i", size, body, index),
            ]
            return self.header(f"std::vector<{out}>"), [*text, "return r;"]
        total = self.type(0.4)
        text = [f"{total} s = 0;", *self.loop("i", size, self.accumulate(total), index)]
        return self.header(total), [*text, "return s;"]

    def ranges(self) -> tuple[str, list[str]]:
        self.use("range for")
        kind, total = self.type(), self.type(0.4)
        self.parameters += [f"const std::vector<{kind}> &a"]
        self.reads += [("v", kind not in FLOATS)]
        if self.often(0.4):
            self.scalar()
        declared = self.pick("auto", f"{kind}", "const auto &")
        body = [f"    {line}" for line in self.accumulate(total)]
        return self.header(total), [f"{total} s = 0;", f"for ({declared} v : a) {{", *body, "}", "return s;"]

"""Random Python functions over lists, lists of lists and NumPy arrays."""

from __future__ import annotations

from lifting.generate.program import Generated, Generator

HEAD = "import math\n\nimport numpy as np\n\n"
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
DTYPES = ("int32", "int64", "uint8", "float32", "float64", "int16", "int8")


def program(seed: int, name: str) -> Generated:
    """The function of a seed, with its helpers before it."""
    writer = Function(seed, name)
    text = writer.write()
    return Generated(name, text, frozenset(writer.used))


class Function(Generator):
    """One function; see `c.Function`."""

    def __init__(self, seed: int, name: str) -> None:
        super().__init__(seed)
        self.name = name
        self.before: list[str] = []
        self.parameters: list[str] = []
        self.reads: list[tuple[str, bool]] = []
        self.helpers: list[tuple[str, bool]] = []

    def write(self) -> str:
        shape = self.pick(
            *(self.map, self.map, self.reduce, self.reduce, self.comprehension, self.generator, self.search),
            *(self.matrix, self.rows, self.in_place, self.numpy, self.numpy, self.slices, self.scalars),
        )
        if self.often(0.2):
            self.helper()
        if self.often(0.2):
            self.use("constant of the module")
            self.before.append(f"K_{self.name} = {self.pick('3', '-2', '0.5', '7')}")
            self.reads.append((f"K_{self.name}", True))
        returns, body = shape()
        head = f"def {self.name}({', '.join(self.parameters)}){f' -> {returns}' if returns else ''}:"
        return "\n".join([*self.before, head, *(f"    {line}" for line in body)]) + "\n"

    def helper(self) -> None:
        self.use("helper function")
        kind = self.pick("int", "float")
        inner = Function(self.chance.randrange(1 << 30), f"{self.name}_help")
        inner.reads = [("p", kind == "int"), ("q", kind == "int")]
        value = inner.expression(2, kind == "int")
        self.used |= inner.used
        self.before.append(f"def {inner.name}(p: {kind}, q: {kind}) -> {kind}:\n    return {value}\n\n")
        self.helpers.append((inner.name, kind == "int"))

    def list(self, name: str, whole: bool | None = None) -> bool:
        """Declares a list; whether it holds integers."""
        whole = self.often(0.5) if whole is None else whole
        self.parameters.append(f"{name}: list[{'int' if whole else 'float'}]")
        self.use(f"list of {'int' if whole else 'float'}")
        return whole

    def scalar(self) -> None:
        whole = self.often(0.5)
        self.parameters.append(f"x: {'int' if whole else 'float'}")
        self.reads.append(("x", whole))

    # Expressions

    def literal(self, whole: bool) -> str:
        if whole:
            return str(self.chance.randrange(-4, 10))
        return self.pick("0.5", "2.0", "-1.5", "1e2", "0.25")

    def leaf(self, whole: bool) -> str:
        fitting = [text for text, integer in self.reads if integer == whole]
        if fitting and self.often(0.8):
            return self.of(fitting)
        if not whole and self.reads and self.often(0.4):
            return self.of(self.reads)[0]
        return self.literal(whole)

    def expression(self, depth: int, whole: bool) -> str:
        if depth <= 0 or self.often(0.15):
            return self.leaf(whole)
        a = lambda kind=whole: self.expression(depth - 1, kind)  # noqa: E731
        form = self.chance.randrange(12)
        if form == 0:
            self.use("conditional expression")
            return f"({a()} if {self.condition(depth - 1)} else {a()})"
        if form == 1:
            name = self.pick("abs", "max", "min", "max3")
            self.use(name)
            if name == "abs":
                return f"abs({a()})"
            return f"{name[:3]}({a()}, {a()}{f', {a()}' if name == 'max3' else ''})"
        if form == 2:
            operator = self.pick("-", "+", "~") if whole else "-"
            self.use(f"unary {operator}")
            return f"({operator}{a()})"
        if form == 3 and self.helpers:
            name, integer = self.of(self.helpers)
            if integer == whole:
                self.use("call")
                return f"{name}({a()}, {a()})"
        if form == 4:
            self.use("power")
            return f"({a()} ** {self.pick('2', '3') if whole else self.pick('2', '3', '0.5', '2.0')})"
        if form == 5:
            if whole:
                self.use("int(), bool")
                return self.pick(f"int({a(False)})", f"int({self.condition(0)})", f"(not {self.leaf(True)})")
            name = self.pick("sqrt", "exp", "fabs", "floor", "tanh", "sin", "log", "ceil", "erf", "atan")
            self.use(f"math.{name}")
            return f"math.{name}({a()})" if name not in ("floor", "ceil") else f"float(math.{name}({a()}))"
        if whole:
            operator = self.pick("+", "-", "*", "+", "-", "//", "%", "&", "|", "^", "<<", ">>")
            self.use(f"binary {operator} of integers")
            if operator in ("<<", ">>"):
                return f"({a()} {operator} {self.chance.randrange(0, 5)})"
            if operator in ("//", "%"):
                return f"({a()} {operator} {self.pick('3', '-3', '2', '7')})"
            return f"({a()} {operator} {a()})"
        operator = self.pick("+", "-", "*", "/", "//", "%") if self.often(0.7) else "+"
        self.use(f"binary {operator} of floats")
        right = self.pick("2.0", "-3.0", "0.5") if operator in ("/", "//", "%") else a(self.often(0.2))
        return f"({a()} {operator} {right})"

    def condition(self, depth: int) -> str:
        form = self.chance.randrange(8)
        if depth > 0 and form == 0:
            operator = self.pick("and", "or")
            self.use(operator)
            return f"({self.condition(depth - 1)} {operator} {self.condition(depth - 1)})"
        if depth > 0 and form == 1:
            self.use("not")
            return f"not ({self.condition(depth - 1)})"
        whole = self.often(0.6)
        a = lambda: self.expression(depth - 1, whole)  # noqa: E731
        if form == 2:
            self.use("chained comparison")
            return f"{a()} {self.of(COMPARISONS)} {a()} {self.of(COMPARISONS)} {a()}"
        if form == 3:
            self.use("number as condition")
            return self.leaf(True)
        operator = self.of(COMPARISONS)
        self.use(f"comparison {operator}")
        return f"{a()} {operator} {a()}"

    # Loops over a list

    def over(self, body: list[str], written: bool = False) -> list[str]:
        """A loop over a, whose element and place the body knows as `v` and `i`."""
        inner = [f"    {line}" for line in body]
        form = self.pick(
            "range", "range", "enumerate", "in", "zip", "while", "down", "step", "range n", "from"
        )
        text = "\n".join(body)
        if form in ("in", "zip") and "i" in text.replace("if", "").replace("min", "").split("v")[0]:
            form = "enumerate"
        self.use(f"loop {form}")
        match form:
            case "range":
                return ["for i in range(len(a)):", "    v = a[i]", *inner]
            case "in":
                return ["i = 0", "for v in a:", *inner]
            case "zip":
                return ["i = 0", "for v, w in zip(a, a):", *inner]
            case "while" if "continue" not in text:
                return ["i = 0", "while i < len(a):", "    v = a[i]", *inner, "    i += 1"]
            case "down":
                return ["for i in range(len(a) - 1, -1, -1):", "    v = a[i]", *inner]
            case "step":
                return ["for i in range(0, len(a), 2):", "    v = a[i]", *inner]
            case "from":
                return ["for i in range(1, len(a)):", "    v = a[i] - a[i - 1]", *inner]
            case "range n":
                self.parameters.append("n: int")
                return ["for i in range(n):", "    v = a[i]", *inner]
        return ["for i, v in enumerate(a):", *inner]

    def given(self) -> bool:
        whole = self.list("a")
        self.reads += [("v", whole), ("i", True)]
        if self.often(0.5):
            self.scalar()
        return whole

    def guard(self, value: str) -> list[str]:
        if not self.often(0.15):
            return []
        self.use("early return")
        return [f"if len(a) {self.pick('==', '<=')} 0:", f"    return {value}"]

    # Shapes

    def map(self) -> tuple[str, list[str]]:
        self.given()
        whole = self.often(0.5)
        kind = "int" if whole else "float"
        body = []
        if self.often(0.3):
            self.use("if, else")
            body = [
                f"if {self.condition(2)}:",
                f"    t = {self.expression(2, whole)}",
                "else:",
                f"    t = {self.expression(1, whole)}",
                f"out.append({'' if whole else '1.0 * '}t)",
            ]
        else:
            body = [f"out.append({self.expression(3, whole)})"]
        self.use("append")
        return f"list[{kind}]", ["out = []", *self.over(body), "return out"]

    def accumulate(self, whole: bool) -> list[str]:
        form = self.chance.randrange(6)
        if form == 0:
            self.use("running extreme")
            return [f"if v {self.pick('>', '<', '>=')} s:", "    s = v"]
        if form == 1:
            self.use("max of s and v")
            return [f"s = {self.pick('max', 'min')}(s, {self.leaf(whole)})"]
        if form == 2:
            self.use("conditional count")
            return [f"if {self.condition(2)}:", "    s += 1"]
        if form == 3:
            self.use("continue")
            return [f"if {self.condition(1)}:", "    continue", f"s += {self.expression(2, whole)}"]
        if form == 4 and whole:
            operator = self.pick("|=", "&=", "^=", "-=")
            self.use(f"sum {operator}")
            return [f"s {operator} {self.expression(2, True)}"]
        return [f"s {self.pick('+=', '-=', '+=')} {self.expression(2, whole)}"]

    def reduce(self) -> tuple[str, list[str]]:
        whole = self.given()
        start = self.pick("0", "1") if whole else self.pick("0.0", "1.0")
        body = self.over(self.accumulate(whole))
        return "int" if whole else "float", [
            *self.guard(start),
            f"s = {start}",
            *body,
            f"return {self.pick('s', 's', '-s')}",
        ]

    def comprehension(self) -> tuple[str, list[str]]:
        self.use("list comprehension")
        whole = self.list("a")
        out = self.often(0.5)
        form = self.chance.randrange(4)
        if form == 0:
            self.reads += [("v", whole)]
            source = "v in a"
        elif form == 1:
            self.use("enumerate in a comprehension")
            self.reads += [("v", whole), ("i", True)]
            source = "i, v in enumerate(a)"
        elif form == 2:
            self.use("zip in a comprehension")
            other = self.list("b")
            self.reads += [("v", whole), ("w", other)]
            source = "v, w in zip(a, b)"
        else:
            self.use("range in a comprehension")
            self.reads += [("a[i]", whole), ("i", True)]
            source = f"i in range({self.pick('len(a)', 'len(a) - 1', '1, len(a)', '0, len(a), 2')})"
        return f"list[{'int' if out else 'float'}]", [f"return [{self.expression(3, out)} for {source}]"]

    def generator(self) -> tuple[str, list[str]]:
        whole = self.list("a")
        self.reads += [("v", whole)]
        name = self.pick("sum", "sum", "any", "all", "max", "min")
        self.use(f"{name} of a generator")
        if name in ("any", "all"):
            return "bool", [f"return {name}({self.condition(2)} for v in a)"]
        condition = f" if {self.condition(1)}" if name == "sum" and self.often(0.3) else ""
        return "int" if whole else "float", [
            f"return {name}({self.expression(2, whole)} for v in a{condition})"
        ]

    def search(self) -> tuple[str, list[str]]:
        self.use("search with break or return")
        self.given()
        if self.often(0.5):
            self.use("return in a loop")
            return "int", [
                *self.over([f"if {self.condition(1)}:", f"    return {self.pick('1', 'i')}"]),
                "return -1",
            ]
        self.use("break")
        return "int", [
            "found = -1",
            *self.over([f"if {self.condition(1)}:", "    found = i", "    break"]),
            "return found",
        ]

    def matrix(self) -> tuple[str, list[str]]:
        self.use("list of lists")
        whole = self.often(0.5)
        self.parameters.append(f"a: list[list[{'int' if whole else 'float'}]]")
        form = self.chance.randrange(3)
        kind = "int" if whole else "float"
        if form == 0:
            self.use("rows in a loop")
            self.reads += [("v", whole)]
            inner = [f"        {line}" for line in self.accumulate(whole)]
            return kind, [
                f"s = {'0' if whole else '0.0'}",
                "for row in a:",
                "    for v in row:",
                *inner,
                "return s",
            ]
        if form == 1:
            self.use("nested comprehension")
            self.reads += [("v", whole)]
            return f"list[list[{kind}]]", [
                f"return [[{self.expression(2, whole)} for v in row] for row in a]"
            ]
        self.use("subscripts of a matrix")
        self.reads += [("a[i][j]", whole), ("i", True), ("j", True)]
        text = [
            f"s = {'0' if whole else '0.0'}",
            "for i in range(len(a)):",
            f"    for j in range(len(a[{self.pick('i', '0')}])):",
        ]
        return kind, [*text, f"        s += {self.expression(2, whole)}", "return s"]

    def rows(self) -> tuple[str, list[str]]:
        self.use("sum of each row")
        whole = self.often(0.5)
        kind = "int" if whole else "float"
        self.parameters.append(f"a: list[list[{kind}]]")
        self.reads += [("v", whole)]
        return f"list[{kind}]", [
            f"return [{self.pick('sum', 'sum')}({self.expression(2, whole)} for v in row) for row in a]"
        ]

    def in_place(self) -> tuple[str, list[str]]:
        self.use("list changed in place")
        whole = self.list("a")
        self.reads += [("a[i]", whole), ("i", True)]
        if self.often(0.5):
            self.scalar()
        operator = self.pick("=", "+=", "-=", "*=")
        return "None", ["for i in range(len(a)):", f"    a[i] {operator} {self.expression(2, whole)}"]

    def numpy(self) -> tuple[str, list[str]]:
        self.use("NumPy")
        kind = self.of(DTYPES)
        whole = "int" in kind
        self.parameters.append(f"a: np.ndarray[tuple[int], np.dtype[np.{kind}]]")
        self.use(f"dtype {kind}")
        self.reads += [("a[i]", whole), ("i", True)]
        if self.often(0.4):
            self.scalar()
        if self.often(0.5):
            self.use("np.zeros")
            made = (
                f"np.zeros({self.pick('len(a)', 'a.shape[0]')}, dtype=np.{kind})"
                if self.often(0.5)
                else self.pick("np.zeros_like(a)", "np.empty_like(a)")
            )
            body = ["for i in range(a.shape[0]):", f"    out[i] = {self.expression(2, whole)}"]
            return "", [f"out = {made}", *body, "return out"]
        self.use("NumPy in a reduction")
        return "", [
            f"s = {'0' if whole else '0.0'}",
            "for i in range(len(a)):",
            f"    s += {self.expression(2, whole)}",
            "return s",
        ]

    def slices(self) -> tuple[str, list[str]]:
        self.use("slice")
        whole = self.list("a")
        part = self.pick(
            "a[1:]", "a[:-1]", "a[::2]", "a[::-1]", "a[2:5]", "a[1:-1]", "a[-2:]", "a[:n]", "a[n:]"
        )
        if "n" in part:
            self.parameters.append("n: int")
        self.use(f"slice {part}")
        self.reads += [("v", whole)]
        if self.often(0.5):
            return f"list[{'int' if whole else 'float'}]", [
                f"return [{self.expression(2, whole)} for v in {part}]"
            ]
        return "int" if whole else "float", [
            f"s = {'0' if whole else '0.0'}",
            f"for v in {part}:",
            f"    s += {self.expression(2, whole)}",
            "return s",
        ]

    def scalars(self) -> tuple[str, list[str]]:
        self.use("scalar recurrence")
        self.parameters += ["n: int", "x: int"]
        self.reads += [("x", True), ("i", True)]
        body = ["s, t = 0, 1"] if self.often(0.5) else ["s = 0", "t = 1"]
        change = self.pick("s, t = t, s", "s += t", "t = s + i", "s = s + 2; t -= 1")
        self.use("tuple assignment")
        return "int", [
            *body,
            "for i in range(n):",
            f"    {change}",
            f"    s += {self.expression(1, True)}",
            "return s + t",
        ]

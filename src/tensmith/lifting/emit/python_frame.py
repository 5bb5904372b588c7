"""What all Python targets share: one function with the source's parameters, its guards, and its outputs.

signature   the source's parameters in the source's order
coercion    each parameter in the source's element type, refused where a value would change
sizes       max(0, ...) of integer parameters and lengths
guards      every requirement, as a ValueError that names it
body        the program, from views of the parameters
outputs     copies of written arrays with their boxes replaced, then returned values
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Mapping
from typing import ClassVar

from tensmith.formula.arith import Array as Values
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.ir import Program
from tensmith.lifting.emit import Emitter
from tensmith.lifting.emit.expression import ExpressionText, Rule
from tensmith.lifting.emit.flat import flattened
from tensmith.lifting.emit.narrow import narrowed
from tensmith.lifting.emit.python_names import BUILTINS, global_names, renamed
from tensmith.lifting.emit.python_text import basic, extents, grid, poly, run_of
from tensmith.lifting.emit.python_writer import PythonWriter, literal
from tensmith.lifting.lifted import ArrayView, EmittedFiles, Input, Lifted, Output
from tensmith.lifting.loops import Array
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summary import Requirement, SizeSymbol, length_symbol, measured

# Templates of what array libraries say much alike.
SPELLINGS = {
    "cast": "{0.atom}.astype({1})",  # of an expression, to a type
    "positions": "{module}.arange({})",  # 0, 1, ..., extent-1
    "any_zero": "not {module}.all({})",  # a condition that some element is 0
    "any_true": "{module}.any({})",
    "any_outside": "not {module}.all((0 <= {0}) & ({0} < {1}))",  # that some element is no place of so many
    "any_nan": "{module}.isnan({}).any()",
    "is_nan": "{module}.isnan({})",  # of a scalar parameter
    "reshaped": "{}.reshape{}",  # to a shape, a tuple's text
    "flattened": "{}.reshape(-1)",
    "turned": "{0.atom}.T",  # of an expression
    "transposed": "{0.atom}.transpose{1}",  # the axes of an expression in an order
    "flipped": "{module}.flip({0}, {1})",  # along an axis
    "copied": "{}.copy()",  # to be changed; the array itself where arrays cannot change
    "typed": "{1}({0})",  # a Python number as a scalar of a type
    "filling": "{0}",  # a Python number as a pad of a type takes it
    "nothing": "{module}.zeros({1}, {2})",  # in the place of an array that is not read, of a shape and type
    "coerced": "{}",  # a type, as the helpers that coerce arrays take it
}


class PythonEmitter(Emitter):
    """A target whose functions are Python. Subclasses say how its library spells things."""

    title: ClassVar[str]  # "NumPy"
    imports: ClassVar[tuple[str, ...]]
    module: ClassVar[str]  # how element types are spelled: "np" for np.int32
    truth: ClassVar[str] = "bool_"  # that of truth values
    # Whether elements that slices cannot say are read by their places, and not in strides.
    gathers: ClassVar[bool] = False
    # Element types for arithmetic that fits them; none where the library fuses loops itself.
    narrow: ClassVar[tuple[str, ...]] = ()
    table: ClassVar[Mapping[str, Rule]]
    helper_texts: ClassVar[Mapping[str, str]]

    fixed: ClassVar[frozenset[str]] = frozenset()  # locals that rules spell out
    # How it says what is in SPELLINGS, where it says it in another way.
    spellings: ClassVar[Mapping[str, str]] = {}

    @property
    def reserved(self) -> frozenset[str]:
        """Names that a text may use for itself: imports, helpers, builtins."""
        return self.fixed | BUILTINS | {line.split()[-1] for line in self.imports} | self.helper_texts.keys()

    # The target's own spelling

    def rule(self, op: str) -> Rule:
        """How an op is written."""
        if op not in self.table:
            raise Refusal(f"{self.title} has no form of the op '{op}' yet")
        return self.table[op]

    def dtype(self, dtype: str) -> str:
        """An element type."""
        names = {"i": "int", "u": "uint", "f": "float"}
        name = self.truth if dtype == "bool" else f"{names[dtype[0]]}{dtype[1:]}"
        return f"{self.module}.{name}"

    def typed(self, number: ExpressionText, dtype: str) -> ExpressionText:
        """A Python number as a scalar of the element type."""
        return ExpressionText(self.spell("typed", number.code, self.dtype(dtype)))

    def fills(self, writer: PythonWriter, name: str, value: ExpressionText) -> bool:
        """Whether expanding a value is filling an array with it, rather than a view."""
        return value.literal

    def stays(self, writer: PythonWriter, given: Input) -> bool:
        """Whether a scalar parameter stays a Python number, which takes the element type of what it meets."""
        return False

    def front(self, writer: PythonWriter, array: str, end: str) -> str:
        """The first elements of an array of one axis."""
        return f"{array}[:{end}]"

    def constant(self, array: Values) -> ExpressionText:
        """A constant of the program."""
        if array.ndim == 0:
            return literal(array)
        raise Refusal(f"{self.title} cannot spell a constant of shape {array.shape}")

    def box(self, writer: PythonWriter, array: str, view: ArrayView) -> str:
        """A view that slices cannot say: strides of a flat array, subscripts of another."""
        if self.gathers:
            return f"{array}[{view_places(writer, view)}]"
        if len(view.offset) > 1:
            return f"{array}[{grid(view, writer.names, self.spell('positions', '{}'))}]"
        steps, shape = extents(view.steps[0], writer.names), extents(view.shape, writer.names)
        offset = poly(view.offset[0], writer.names).code
        return f"{writer.helper('_box')}({array}, {offset}, {shape}, {steps})"

    def scattered(self, writer: PythonWriter, array: str, view: ArrayView, value: str) -> str:
        """A statement that replaces the elements of a view of a copy."""
        target = view_text(writer, view, array)
        return f"{target}{'' if target.endswith(']') else '[...]'} = {value}"

    def spell(self, what: str, *parts: object) -> str:
        """What SPELLINGS names, said of texts."""
        return (self.spellings.get(what) or SPELLINGS[what]).format(*parts, module=self.module)

    def transposed(self, text: ExpressionText, order: tuple[int, ...]) -> str:
        """The axes in another order."""
        return self.spell("turned", text) if order == (1, 0) else self.spell("transposed", text, order)

    def fresh(self, writer: PythonWriter, name: str) -> str:
        """A value that shares no memory with a parameter."""
        return writer.typed(writer.value(name), writer.type(name).dtype).code

    def moved(self, writer: PythonWriter, name: str) -> str:
        """A value that replaces elements of a copy, which may be what it is read from."""
        return writer.value(name).code

    def holds(self, writer: PythonWriter, condition: ExpressionText) -> str:
        """A 0-d truth value, for an `if`."""
        return condition.code

    def decorators(self, writer: PythonWriter) -> list[str]:
        """Lines before the function."""
        return []

    def preamble(self, writer: PythonWriter, lifted: Lifted, signature: list[str]) -> list[str]:
        """First statements of the function."""
        return []

    def prepared(self, program: Program) -> Program:
        """The program in the element types that the target computes in."""
        return narrowed(program, self.narrow) if self.narrow else program

    # The frame

    def input(self, writer: PythonWriter, given: Input) -> ExpressionText:
        """An input of the program as an expression."""
        if given.positions is not None:
            return ExpressionText(self.spell("positions", poly(given.positions, writer.names).code))
        dtype = writer.program.inputs[given.name].dtype
        if given.scalar is not None:
            local = writer.arrays[given.scalar]
            if self.stays(writer, given):
                return ExpressionText(local, literal=True)
            return self.typed(ExpressionText(local), dtype) if dtype[0] in "iub" else ExpressionText(local)
        assert given.view is not None
        array = writer.arrays[given.view.array]
        code = view_text(writer, given.view, array)
        if given.when:
            condition, shape = writer.condition(given.when), extents(given.view.shape, writer.names)
            code = f"({code} if {condition} else {self.spell('nothing', array, shape, self.dtype(dtype))})"
        return ExpressionText(code)

    def emit(self, lifted: Lifted) -> EmittedFiles:
        """One module with one function of the source's name and parameters."""
        lifted = flattened(lifted)
        program = self.prepared(lifted.program)
        function, parameters = lifted.function.name, [p.name for p in lifted.function.parameters]
        writer = PythonWriter(self, lifted, program, self.reserved)
        text = self._text(lifted, writer)
        if not self.reserved.isdisjoint((function, *parameters)):
            used = global_names(text) - {writer.function} | self.fixed
            writer = PythonWriter(self, lifted, program, used)
            text = self._text(lifted, writer)
            if not used.isdisjoint((function, *writer.public.values())):
                names = {**writer.public, writer.function: function}
                text = renamed(text, writer.function, names, self.fixed)
        return EmittedFiles({f"{function}.py": text.encode()})

    def _text(self, lifted: Lifted, writer: PythonWriter) -> str:
        """The module, with what is local under names of the writer's choice."""
        signature = [writer.parameter(parameter.name) for parameter in lifted.function.parameters]
        for statement in self.preamble(writer, lifted, signature):
            writer.line(statement)
        _coerce(writer, signature)
        given = dict(writer.names)
        early = [r for r in lifted.requires if r.poly is not None and not r.when]
        early = [r for r in early if r.poly is not None and r.poly.symbols() <= given.keys()]
        for requirement in early:
            _guard(writer, requirement, given)
        late = [r for r in lifted.requires if r not in early]
        _sizes(writer, given, [r.poly for r in late if r.poly is not None])
        # What decides, first; whether elements are NaN only where they are there.
        for requirement in sorted(late, key=lambda r: (r.kind == "ordered", len(r.where))):
            _guard(writer, requirement, {**writer.names, **given})
        results = _outputs(writer)
        writer.line(f"return {', '.join(results)}")
        return _module(writer, signature)


# Parameters


def _coerce(writer: PythonWriter, signature: list[str]) -> None:
    """Every parameter that is used, in its type, under its own name."""
    for name, parameter in zip(signature, writer.lifted.function.parameters):
        for field, type_ in parameter.fields:
            local = name if field == parameter.name else writer.name(field)
            _one(writer, field, type_, f"{name}{field.removeprefix(parameter.name)}", local)


def _one(writer: PythonWriter, name: str, type_: MachineType | Array, given: str, local: str) -> None:
    writer.arrays[name] = local
    if not _used(writer, name):
        return
    if isinstance(type_, Array):
        element = writer.target.dtype("i64" if type_.element == "int" else type_.element)
        helper, rank = ("_flat", "") if type_.memory == "flat" else ("_array", f", {type_.axes}")
        code = f'{writer.helper(helper)}("{name}", {given}, {writer.target.spell("coerced", element)}{rank})'
        missing = f" if {given} is not None else None" if _may_be_none(writer, name) else ""
        writer.line(f"{local} = {code}{missing}")
        writer.names |= {length_symbol(name, axis): f"{local}.shape[{axis}]" for axis in range(type_.axes)}
        return
    writer.names[name] = local
    if type_.kind == "int":
        helper = writer.helper("_integer")
        bits, low = (64 if type_.bits is None else type_.bits), "" if type_.signed else ", signed=False"
        writer.line(f'{local} = {helper}("{name}", {given}, {bits}{low})')
    elif any(entry.scalar == name and writer.target.stays(writer, entry) for entry in writer.lifted.inputs):
        number = f"{writer.helper('_single')}({given})" if type_ == "f32" else f"float({given})"
        writer.line(f"{local} = {number}")
    else:
        if type_ == "bool" and writer.lifted.function.language == "python":  # C makes one of any number
            given = f'{writer.helper("_integer")}("{name}", {given}, 1, signed=False)'
        writer.line(f"{local} = {writer.target.typed(ExpressionText(given), type_).code}")
        writer.refuse_if(f"{local}.ndim != 0", f"that {name} is one number")


def _used(writer: PythonWriter, name: str) -> bool:
    """Whether anything reads a parameter: a view, a scalar input, a size, a requirement, an output; or Python
    raises where it is too short, whatever becomes of what it reads there."""
    lifted = writer.lifted
    raises = lifted.function.language == "python"
    if raises and any(entry.kind == "length" and entry.array == name for entry in lifted.requires):
        return True
    polys = [size.poly for size in lifted.sizes]
    polys += [requirement.poly for requirement in lifted.requires if requirement.poly is not None]
    for given in lifted.inputs:
        if given.scalar == name or (given.view is not None and given.view.array == name):
            return True
        polys += given.polys
    polys += [each for output in lifted.outputs if output.view is not None for each in output.view.polys]
    symbols = {symbol for each in polys for symbol in each.symbols()}
    return name in symbols or name in lifted.written or name in measured(symbols)


def _sizes(writer: PythonWriter, given: Mapping[str, str], asked: Iterable[Poly]) -> None:
    """Size symbols under their own names; another where the parameter itself is needed as a value.

    Those over parameters are bound at once, as they may take the parameters' names; then the others, and
    those of paths. given: parameters and lengths; asked: what is evaluated over them after that.
    """
    later = [s for s in writer.lifted.sizes if s.when or not s.poly.symbols() <= given.keys()]
    values = {entry.scalar for entry in writer.lifted.inputs}
    values |= {s for poly in (*asked, *(size.poly for size in later)) for s in poly.symbols()}
    bound: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for size in (size for size in writer.lifted.sizes if size not in later):
        local = writer.names.get(size.symbol)
        if local is None or size.symbol in values:
            local = writer.name(size.symbol if local is None else f"{size.symbol}_size")
        bound[local] = _size(writer, size, writer.names)
        renamed[size.symbol] = local
    if bound:
        writer.line(f"{', '.join(bound)} = {', '.join(bound.values())}")
    writer.names |= renamed
    for size in later:
        local = writer.name(size.symbol)
        writer.line(f"{local} = {_size(writer, size, {**writer.names, **given})}")
        writer.names[size.symbol] = local


def _size(writer: PythonWriter, size: SizeSymbol, names: Mapping[str, str]) -> str:
    """max(poly, 0); 0 where its path is not taken, or it divides by 0 and only some paths refuse that."""
    asked = [writer.condition(size.when)] if size.when else []
    requires = [r for r in writer.lifted.requires if r.kind == "at_least" and not r.when]
    for bottom in dict.fromkeys(division.bottom for division in size.poly.divisions()):
        above = [(bottom - r.poly).constant or 0 for r in requires if r.poly is not None]
        if bottom.constant is None and max(above, default=0) < 1:
            asked.append(f"{poly(bottom, names).code} != 0")
    asked = [f"({each})" for each in asked] if len(asked) > 1 else asked
    return f"max({poly(size.poly, names).code}, 0)" + (f" if {' and '.join(asked)} else 0" if asked else "")


def _guard(writer: PythonWriter, requirement: Requirement, names: Mapping[str, str]) -> None:
    """A check of one requirement, where there is something to check before the values are known.

    names: symbols of its polynomial -> Python names.
    """
    kind, bound, array = requirement.kind, requirement.poly, requirement.array
    when = f"({writer.condition(requirement.when)}) and " if requirement.when else ""
    if kind in ("at_least", "equal") and bound is not None:
        sign = "<" if kind == "at_least" else "!="
        writer.refuse_if(f"{when}{poly(bound, names).code} {sign} 0", requirement.text)
    elif kind == "nonzero" and bound is not None:
        writer.refuse_if(f"{when}{poly(bound, names).code} == 0", requirement.text)
    elif kind == "length" and bound is not None and length_symbol(array, requirement.axis) in names:
        size = names[length_symbol(array, requirement.axis)]
        short = f"{size} < {poly(bound, names).code}"
        given = f"{writer.arrays[array]} is not None and " if _may_be_none(writer, array) else ""
        writer.refuse_if(when + given + short, requirement.text)
    elif kind == "ordered":
        for read in writer.lifted.inputs:
            if array == (read.scalar if read.view is None else read.view.array):
                how = "is_nan" if read.view is None else "any_nan"
                writer.refuse_if(writer.target.spell(how, writer.assigned(read.name).code), requirement.text)


def _may_be_none(writer: PythonWriter, array: str) -> bool:
    return any(output.whole for output in writer.lifted.written.get(array, ()))


# Outputs


def _outputs(writer: PythonWriter) -> list[str]:
    """Expressions of the results in order: written arrays, then what is returned."""
    lifted = writer.lifted
    if len(lifted.outputs) > 1:  # all values before the first array changes
        for output in lifted.outputs:
            writer.assigned(output.name)
    results = [_stored(writer, name, outputs) for name, outputs in lifted.written.items()]
    return results + [writer.target.fresh(writer, output.name) for output in lifted.returned.values()]


def _stored(writer: PythonWriter, name: str, outputs: list[Output]) -> str:
    """A value that fills the front of its array is placed there; others replace boxes of a copy."""
    local = writer.arrays[name]
    view = outputs[0].view
    if len(outputs) == 1 and view is not None and view.front:
        value = writer.target.fresh(writer, outputs[0].name)
        if len(view.offset) != len(view.shape):  # a flat array stays flat
            value = writer.target.spell("flattened", value if value.isidentifier() else f"({value})")
        return f"{writer.helper('_placed')}({local}, {value})"
    values = [writer.target.moved(writer, output.name) for output in outputs]
    copied = writer.target.spell("copied", local)
    if copied != local:
        writer.line(f"{local} = {copied}")
    for output, value in zip(outputs, values):
        assert output.view is not None
        writer.line(writer.target.scattered(writer, local, output.view, value))
    return local


def view_text(writer: PythonWriter, view: ArrayView, array: str) -> str:
    """A view of an array: a reshaped run, slices, or what the target has for the rest."""
    names = writer.names
    order = view.run
    if order == (0,) and view.offset[0] == 0:
        if view.shape[0] == Poly.symbol(length_symbol(view.array, 0)):
            return array
        return writer.target.front(writer, array, poly(view.shape[0], names).code)
    if order is not None and len(order) > 1:
        shape = extents([view.shape[axis] for axis in order], names)
        return _turned(writer, writer.target.spell("reshaped", f"{array}{run_of(view, names)}", shape), order)
    if (slices := basic(view, names)) is not None:
        code, axes = slices
        return _turned(writer, f"{array}[{code}]", axes)
    return writer.target.box(writer, array, view)


def view_places(writer: PythonWriter, view: ArrayView, slices: bool = True) -> str:
    """Subscripts of a view's elements: slices where they can say it, or positions."""
    names = writer.names
    sliced = basic(view, names) if slices else None
    if sliced is not None and sliced[1] == tuple(range(len(view.shape))):
        return sliced[0]
    if len(view.offset) > 1:
        return grid(view, names, "np.arange({})")
    steps, shape = extents(view.steps[0], names), extents(view.shape, names)
    return f"{writer.helper('_places')}({poly(view.offset[0], names).code}, {shape}, {steps})"


def _turned(writer: PythonWriter, code: str, axes: tuple[int, ...]) -> str:
    """The text of a view whose axes are `axes` of the wanted one, in the wanted order."""
    order = tuple(axes.index(axis) for axis in range(len(axes)))
    same = order == tuple(range(len(order)))
    return code if same else writer.target.transposed(ExpressionText(code), order)


# The module


def _module(writer: PythonWriter, signature: list[str]) -> str:
    lifted = writer.lifted
    function = lifted.function
    decorators = writer.target.decorators(writer)
    code = "\n\n\n".join(textwrap.dedent(text).strip() for text in writer.helpers.values())
    body = "\n".join(f"    {line}" for line in writer.lines)
    imports = _imports(writer)
    head = [*decorators, f"def {writer.function}({', '.join(signature)}):", f'    """{_summary(lifted)}"""']
    title = f'"""{function.name} of {lifted.source}, as {writer.target.title}.\n\n{_claims(lifted)}"""'
    parts = [title, "\n".join(imports), *([f"\n{code}"] if code else []), "\n" + "\n".join([*head, body])]
    return "\n\n".join(parts) + "\n"


def _imports(writer: PythonWriter) -> list[str]:
    """The imports that are used."""
    text = "\n".join([*writer.target.decorators(writer), *writer.helpers.values(), *writer.lines])
    found = [line for line in writer.target.imports if f"{line.split()[-1]}." in text]
    standard = [line for line in found if line.split()[-1] in sys.stdlib_module_names]
    return [*standard, *([""] if standard else []), *(line for line in found if line not in standard)]


def _summary(lifted: Lifted) -> str:
    found = [*lifted.written, *(["what the source returns"] if lifted.returned else [])]
    whole = [name for name, outputs in lifted.written.items() if any(o.whole for o in outputs)]
    none = f" {' and '.join(whole)} may be None." if whole else ""
    return f"Returns {', '.join(found)}; inputs are not changed.{none}"


def _claims(lifted: Lifted) -> str:
    """What is known about the function, wrapped."""
    equal = f"equal to the source's loops for all inputs and sizes, in the arithmetic of {lifted.arithmetic}."
    conditions = [f"Requires {r.text}." for r in lifted.requires]
    conditions += [f"Assumes {text}." for text in lifted.assumes]
    conditions += [f"Note: {text}." for text in lifted.notes]
    if conditions:
        lines = ["Lifted by tensmith.", *conditions, f"Where this holds, {equal}"]
    else:
        lines = [f"Lifted by tensmith: {equal}"]
    plain = [line.replace("\\", "/").replace('"""', "'''") for line in lines]
    return "\n".join(part for line in plain for part in textwrap.wrap(line, 100)) + "\n"

"""What a branch guards is read nowhere else, in any target, and is required nowhere else.

The sources run compiled under the sanitizers, with exactly the memory of each call; so does emitted C.
"""

from __future__ import annotations

import re
from dataclasses import replace

import exact
import numpy as np
import pytest
from branches import FUNCTIONS

from tensmith.formula.expr import Call, Num, Size
from tensmith.formula.poly import Poly
from tensmith.formula.types import BOOL, I64
from tensmith.ir import Node
from tensmith.lifting.conditions import program_obligations
from tensmith.lifting.loops import Array
from tensmith.lifting.pipeline import emitter_of, lift_file
from tensmith.verify.solve import discharge

pytestmark = pytest.mark.xdist_group("traced")

PYTHON = ("numpy", "torch", "tensorflow", "jax", "mlx")
SLOW = ("tensorflow", "jax")  # to call: on what is guarded alone
# Refused as a whole: where they write depends on the branch.
REFUSED = {"backwards", "divided_loop"}
# What is required also on paths that do not need it, because of a loop's bounds or of what is written.
STRONGER = {
    "max_strided",
    "scaled_by_first",
    "copy_last",
    "clipped",
    "two_halves",
    "matrix_sum",
    "shifted_loop",
    "stored_otherwise",
}
DTYPES = {"f32": "f4", "f64": "f8", "i32": "i4", "u32": "u4", "i64": "i8", "u8": "u1", "bool": "?"}


def source_of(name):
    """The C of an entry under its own name."""
    return re.sub(r"\bF\b", name, FUNCTIONS[name][0])


@pytest.fixture(scope="module")
def lifted(tmp_path_factory):
    """Every function that lifts."""
    folder, found = tmp_path_factory.mktemp("branches"), {}
    path = folder / "branches.c"
    path.write_text("\n".join(source_of(name) for name in FUNCTIONS))
    for result in lift_file(path, targets=()):
        assert result.proved != (result.name in REFUSED), (result.name, result.reason)
        if result.proved:
            found[result.name] = result.work
    return found


@pytest.fixture(scope="module")
def compiled(lifted, tmp_path_factory):
    """What sources and emitted C print for every call."""
    entries = {
        name: (source_of(name), work.lifted, emitter_of("c").emit(work.lifted).files, FUNCTIONS[name][1])
        for name, work in lifted.items()
        if FUNCTIONS[name][1]
    }
    return exact.run(entries, tmp_path_factory.mktemp("native"))


def agrees(name, call, source, found):
    """Whether what was found is what the source gives; a refusal only where more is required than needed."""
    assert source != "fault", f"{name}{call} has no meaning in the source"
    return found == source or (found.startswith("refused") and name in STRONGER)


def test_the_table_is_large_enough():
    assert len(FUNCTIONS) >= 60 and sum(len(calls) for _, calls in FUNCTIONS.values()) >= 200


def test_c_reads_what_the_branch_reads(compiled):
    for name, rows in compiled.items():
        for call, (source, found) in zip(FUNCTIONS[name][1], rows, strict=True):
            assert agrees(name, call, source, found), (name, call, source, found)


def arguments(work, call):
    """A call's arguments by name, arrays as NumPy's."""
    return {
        name: np.array(value, DTYPES[type_.element]) if isinstance(type_, Array) else value
        for (name, type_), value in zip(work.lifted.function.fields, call, strict=True)
    }


def numbers(line):
    """Outputs that a program printed."""
    return [[float(word) for word in part.split()] for part in line.split(";")[:-1]]


def same(source, outputs):
    """Whether outputs are those that the source printed."""
    wanted = numbers(source)
    given = [np.asarray(part, float).reshape(-1) for part in outputs]
    return len(wanted) == len(given) and all(
        len(a) == len(b) and np.allclose(a, b, rtol=1e-6, equal_nan=True) for a, b in zip(wanted, given)
    )


@pytest.mark.parametrize("target", PYTHON)
def test_python_reads_what_the_branch_reads(target, lifted, compiled):
    pytest.importorskip({"mlx": "mlx.core"}.get(target, target))
    give = {"torch": __import__("torch").from_numpy} if target == "torch" else {}
    for name, rows in compiled.items():
        if target in SLOW and not any(given.when for given in lifted[name].lifted.inputs):
            continue
        text = emitter_of(target).emit(lifted[name].lifted).files[f"{name}.py"]
        space = {"__name__": name}
        exec(text, space)
        for call, (source, _) in zip(FUNCTIONS[name][1], rows, strict=True):
            given = arguments(lifted[name], call).values()
            given = [give[target](v) if target in give and isinstance(v, np.ndarray) else v for v in given]
            try:
                found = space[name](*given)
            except ValueError as error:
                assert name in STRONGER and "requires" in str(error), (name, call, error)
                continue
            outputs = found if isinstance(found, tuple) else (found,)
            assert same(source, outputs), (name, call, source, outputs)


def test_onnx_reads_what_the_branch_reads(lifted, compiled):
    runtime = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(4)
    for name, rows in compiled.items():
        if name in STRONGER:  # a model cannot refuse
            continue
        model = emitter_of("onnx").emit(lifted[name].lifted).files[f"{name}.onnx"]
        session = runtime.InferenceSession(model)
        kinds = dict(lifted[name].lifted.function.fields)
        for call, (source, _) in zip(FUNCTIONS[name][1], rows, strict=True):
            given = arguments(lifted[name], call)
            feed = {
                i.name: np.asarray(
                    given[i.name],
                    given[i.name].dtype if isinstance(kinds[i.name], Array) else DTYPES[kinds[i.name]],
                )
                for i in session.get_inputs()
            }
            assert same(source, session.run(None, feed)), (name, call, source)


@pytest.mark.parametrize(
    "name", ["strided_sum", "last", "row_or_none", "ternaries", "and_in_if", "stored_sum"]
)
def test_a_read_without_its_guard_is_a_failed_proof(name, lifted):
    """The wrong twin of every guard."""
    work = lifted[name]
    assert any(given.when for given in work.lifted.inputs)
    bare = replace(work.lifted, inputs=tuple(replace(given, when="") for given in work.lifted.inputs))
    failed = [v for v in discharge(program_obligations(bare, work.summary)) if v.status != "proved"]
    assert any("inside it" in verdict.obligation.name for verdict in failed)


@pytest.mark.parametrize("name", ["strided_sum", "flag_choice", "nested", "by_data"])
def test_a_guard_of_another_branch_is_a_failed_proof(name, lifted):
    """A view that is read on the path that does not need it, and not on the one that does."""
    work = lifted[name]
    program, when = work.lifted.program, next(given.when for given in work.lifted.inputs if given.when)
    turned = replace(
        program,
        nodes=(*program.nodes, Node("not", (when,), ("turned",))),
        outputs=(*program.outputs, "turned"),
        _known={},
    )
    inputs = tuple(replace(g, when="turned" if g.when == when else g.when) for g in work.lifted.inputs)
    wrong = replace(work.lifted, inputs=inputs, program=turned)
    assert any(v.status != "proved" for v in discharge(program_obligations(wrong, work.summary)))


@pytest.mark.parametrize("name", ["strided_sum", "flag_element", "by_data"])
def test_a_requirement_checked_on_another_path_is_a_failed_proof(name, lifted):
    work = lifted[name]
    place = next(p for p, entry in enumerate(work.lifted.requires) if entry.when)
    entry = work.lifted.requires[place]
    turned = replace(entry, where=tuple((term, not holds) for term, holds in entry.where))
    wrong = replace(work.lifted, requires=(*work.lifted.requires[:place], turned))
    assert any(v.status != "proved" for v in discharge(program_obligations(wrong, work.summary)))


def part_of(work):
    """The one size that belongs to a path, and the program with the opposite of its condition beside it."""
    (size,) = (size for size in work.lifted.sizes if size.where)
    program = work.lifted.program
    nodes = (*program.nodes, Node("not", (size.when,), ("turned",)))
    return size, replace(program, nodes=nodes, outputs=(*program.outputs, "turned"), _known={})


@pytest.mark.parametrize("name", ["stored_by_flag", "stored_sum", "stored_everywhere"])
def test_a_size_of_another_path_is_a_failed_proof(name, lifted):
    """Bound on a path that is not stated, stated for the path that leaves all alone, or for every path."""
    work = lifted[name]
    size, program = part_of(work)
    away = tuple((condition, not holds) for condition, holds in size.where)
    for other in (
        replace(size, when="turned"),
        replace(size, where=away, when="turned"),
        replace(size, where=away),
        replace(size, where=()),
        replace(size, when=""),
        replace(size, where=(), when=""),
    ):
        sizes = tuple(other if entry is size else entry for entry in work.lifted.sizes)
        wrong = replace(work.lifted, sizes=sizes, program=program)
        assert any(v.status != "proved" for v in discharge(program_obligations(wrong, work.summary))), other


@pytest.mark.parametrize("name", ["stored_by_flag", "stored_sum", "stored_everywhere"])
def test_a_store_required_on_another_path_is_a_failed_proof(name, lifted):
    work = lifted[name]
    place = next(p for p, entry in enumerate(work.lifted.requires) if entry.when and entry.array == "out")
    entry = work.lifted.requires[place]
    away = replace(entry, where=tuple((condition, not holds) for condition, holds in entry.where))
    requires = (*work.lifted.requires[:place], away, *work.lifted.requires[place + 1 :])
    wrong = replace(work.lifted, requires=requires)
    assert any(v.status != "proved" for v in discharge(program_obligations(wrong, work.summary)))


def test_a_size_that_decides_itself_is_refused(lifted):
    """Its definition would hold of nothing, and anything follows from that."""
    work = lifted["stored_by_flag"]
    size, program = part_of(work)
    itself = Call("less_equal", (Size(Poly.symbol(size.symbol), I64), Num(0, I64)), BOOL)
    sizes = tuple(
        replace(entry, where=((itself, True),)) if entry is size else entry for entry in work.lifted.sizes
    )
    wrong = replace(work.lifted, sizes=sizes, program=program)
    (verdict,) = discharge(program_obligations(wrong, work.summary))
    assert verdict.status != "proved" and verdict.obligation.kind == "form"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("strided_sum", "elements of x >= n*s + 1 - s where s > 0"),
        ("nested", "elements of a >= 1 where n > 0 and k > 0"),
        ("by_first", "elements of b >= 1 where n > 0 and a[0] > 0"),
        ("flag_choice", "elements of b >= 3 where f <= 0"),
        ("copied", "elements of a >= n where n > 0"),
        ("stored_by_flag", "elements of out >= n where flag > 0"),
        ("stored_sum", "elements of out >= 1 where x > 0"),
        ("stored_either", "elements of out >= n where not (x > 0) and y > 0"),
        ("stored_otherwise", "elements of out >= n"),
    ],
)
def test_requirements_say_where_they_hold(name, text, lifted):
    assert text in [entry.text for entry in lifted[name].lifted.requires]


@pytest.mark.parametrize(
    "body",
    [
        "__builtin_memcpy(b, a, n * sizeof(int));",
        "__builtin_memset(b, 0, n * sizeof(int));",
        "for (unsigned i = 0; i < (unsigned)n; i++) b[i] = a[i];",
    ],
)
def test_sizes_that_would_wrap_are_required_not_to(body, tmp_path):
    path = tmp_path / "sized.c"
    path.write_text(f"void sized(int n, const int *a, int *b) {{ {body} }}\n")
    (result,) = lift_file(path, targets=("numpy",))
    assert "n >= 0" in result.requires

"""The text form: golden texts, the round trip as a law, and errors that say where."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensmith.errors import ProgramError
from tensmith.formula.poly import Poly
from tensmith.ir.program import Origin, Program, make_node
from tensmith.ir.text import array_digest, parse_program, print_program
from tensmith.ir.types import DTYPES, TensorType

GOLDEN = """\
program small {
  opset onnx 17, com.microsoft 1
  producer "pytorch 2.13.0"
  metadata "author" = "a \\"quoted\\" name"
  input %x: f32[batch, 2, 5, 5]
  const %w: f32[1, 2, 1, 1] = [[[[0.1]], [[-2.0]]]]
  const %"a b": f32[] = 1e-05
  %y: f32[batch, 1, 3, 3] = conv(%x, %w) {strides = [2, 2]} @first
  %z: f32[batch, 1, 3, 3] = add(%y, %"a b")
  return %z, %y
}
"""


def test_golden_text_parses_and_prints_as_itself() -> None:
    program = parse_program(GOLDEN)
    assert print_program(program) == GOLDEN
    assert program.nodes[0].attrs["strides"] == (2, 2)
    assert program.nodes[0].attrs["group"] == 1
    assert program.origin.opsets == {"": 17, "com.microsoft": 1}
    assert program.constants["w"].dtype == np.float32


def test_types_and_comments_may_be_left_out_or_added() -> None:
    program = parse_program("program p { input %x: f32[n] # a comment\n %y = exp(%x) return %y }")
    assert program.type("y") == TensorType("f32", (Poly.symbol("n"),))


def test_sizes_are_polynomials() -> None:
    n, m = Poly.symbol("n"), Poly.symbol("m")
    shape = ((n * 2 + 3) // 4 + n * m * m - 7, 5, n)
    text = print_program(Program("p", {"x": TensorType("f32", shape)}, ("x",), (), {}))
    assert parse_program(text).inputs["x"].shape == shape


def test_hash_and_elided_texts_take_their_constants_from_the_caller() -> None:
    weights = np.arange(100, dtype=np.float32)
    node = make_node("add", ("x", "w"), ("y",))
    program = Program("p", {"x": TensorType("f32", (100,))}, ("y",), (node,), {"w": weights})
    for mode in ("hash", "elide"):
        text = print_program(program, mode)  # type: ignore[arg-type]
        assert parse_program(text, {"w": weights}).digest == program.digest
        with pytest.raises(ProgramError, match=r"line 3, column \d+: .*does not hold 'w'"):
            parse_program(text)
    with pytest.raises(ProgramError, match="not the array the text was made from"):
        parse_program(print_program(program, "hash"), {"w": weights + 1})


def test_programs_that_differ_in_one_weight_have_other_digests() -> None:
    one = Program("p", {}, ("w",), (), {"w": np.zeros(50, np.float32)})
    other = one.with_constants({"w": np.ones(50, np.float32)})
    assert one.digest != other.digest
    assert array_digest(np.zeros(2, np.int32)) != array_digest(np.zeros(1, np.int64))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace("conv(", "convolve("), r"line 8, column 29: unknown op 'convolve'"),
        (lambda t: t.replace("strides", "stride"), r"line 8, column 43: op 'conv' has no attribute 'stride'"),
        (lambda t: t.replace("add(%y", "add(%q"), r"line 9, column 33: 'q' is not defined before this"),
        (lambda t: t.replace("%z: f32[batch, 1, 3", "%z: f32[1, 1, 3"), r"line 9, .*'z' is f32\[batch, 1, 3"),
        (lambda t: t.replace("f32[] = 1e-05", "f32[] = [1.0]"), r"line 7, column 25: .*not nested as f32"),
        (lambda t: t.replace("f32[] =", "f33[] ="), r"line 7, column 17: unknown element type 'f33'"),
        (lambda t: t.replace("%z: f32", "%y: f32", 1), r"line 9, column 3: 'y' is defined a second time"),
        (lambda t: t[:-3], r"line 10, column 16: expected ',', found the end"),
        (lambda t: t + "more", r"line 12, column 1: expected the end, found 'more'"),
        (lambda t: t.replace("5, 5]", "5, " + "(" * 200), r"line 5, .*nested more than 64 deep"),
        (lambda t: t.replace("[batch, 2", "[batch // 0, 2"), r"line 5, column 26: division by zero"),
        (lambda t: t.replace('"a b": ', '"a \\q": '), r"line 7, .*wrong escape"),
        (lambda t: t.replace("1e-05", 'base64"AAA"'), r"line 7, .*damaged base64"),
        (lambda t: t.replace("1e-05", 'base64"AAA="'), r"line 7, .*2 bytes do not make f32\[\]"),
    ],
)  # fmt: skip
def test_errors_say_line_and_column(change: Callable[[str], str], message: str) -> None:
    changed = change(GOLDEN)
    assert changed != GOLDEN
    with pytest.raises(ProgramError, match=message):
        parse_program(changed)


# The round trip as a law


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Arrays of every element type, bit patterns at random."""
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    count = int(np.prod(shape))
    if dtype == "string":
        array = np.empty(count, dtype=object)
        array[:] = draw(st.lists(st.text(max_size=5), min_size=count, max_size=count))
        return array.reshape(shape)
    numpy = DTYPES[dtype]
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype in ("i4", "u4", "i2", "u2", "f4e2m1", "bool"):
        return random.integers(0, 2, count).astype(numpy).reshape(shape)
    return np.frombuffer(random.bytes(count * numpy.itemsize), numpy).reshape(shape)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Chains of unary and binary ops over random constants, with names that need quoting."""
    n = Poly.symbol("n")
    floats = st.floats(width=32)
    names = draw(st.lists(st.text(min_size=1, max_size=8), min_size=6, max_size=6, unique=True))
    values, nodes = names[:2], []
    for name in names[2:5]:
        op, count = draw(st.sampled_from([("add", 2), ("sin", 1), ("mul", 2), ("exp", 1)]))
        inputs = [draw(st.sampled_from(values)) for _ in range(count)]
        nodes.append(make_node(op, inputs, (name,)))
        values = [*values, name]
    constants = {
        names[1]: np.array(draw(st.lists(floats, min_size=1, max_size=1)), np.float32),
        names[5]: draw(arrays()),
    }
    origin = Origin(
        opsets={"": draw(st.integers(13, 20)), "a.b": 1},
        doc=draw(st.text(max_size=9)),
        metadata={"k": names[0]},
    )
    inputs = {names[0]: TensorType("f32", (n * 2 + 1,))}
    return Program(names[0], inputs, (names[4],), tuple(nodes), constants, origin=origin)


@given(programs())
def test_printing_then_parsing_gives_the_same_program(program: Program) -> None:
    text = print_program(program)
    parsed = parse_program(text)
    assert print_program(parsed) == text
    assert parsed.origin == program.origin
    assert [(n.op, n.inputs, n.outputs, dict(n.attrs)) for n in parsed.nodes] == [
        (n.op, n.inputs, n.outputs, dict(n.attrs)) for n in program.nodes
    ]
    for name, array in program.constants.items():
        assert parsed.constants[name].dtype == array.dtype
        assert parsed.constants[name].shape == array.shape
        assert parsed.constants[name].tobytes() == array.tobytes() or array.dtype == object


@given(st.text(alphabet='%program{}input const:f32[],=()"@_#0123456789.*/+- \n', max_size=80))
def test_no_text_crashes_the_parser(text: str) -> None:
    with pytest.raises(ProgramError, match=r"^line \d+, column \d+: "):
        parse_program("program p {" + text)


def test_sub_byte_literals() -> None:
    program = Program("p", {}, ("w",), (), {"w": np.array([-8, 7], ml_dtypes.int4)})
    assert "const %w: i4[2] = [-8, 7]" in print_program(program)

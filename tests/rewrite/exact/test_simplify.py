"""Whatever the rules do to a program, it computes what it did: exactly, over a prime field."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import Builder

from tensmith.formula.arith import PrimeField
from tensmith.ir import Program, interpret
from tensmith.ir.text import parse_program, print_program
from tensmith.rewrite.rule import EXACT
from tensmith.rewrite.trail import replay_exact, simplify

FIELD = PrimeField(1_048_573, 3)
# 32-bit floats through a dozen steps of a few hundred terms each, differences of large numbers among them.
TOLERANCE = 1e-3


def exact_outputs(program: Program) -> dict[str, np.ndarray]:
    return interpret(program, {"x": FIELD.random("x", (2, 3, 6, 5))}, FIELD)


def assert_same_in_the_field(before: Program, after: Program) -> None:
    ours, theirs = exact_outputs(before), exact_outputs(after)
    for name, array in ours.items():
        assert np.array_equal(array, theirs[name]), f"output {name} of\n{before}\ndiffers from\n{after}"


def assert_close(before: Program, after: Program, seed: int) -> None:
    x = np.random.default_rng(seed).uniform(-1, 1, (2, 3, 6, 5)).astype(np.float32)
    ours, theirs = interpret(before, {"x": x}), interpret(after, {"x": x})
    for name, array in ours.items():
        scale = np.max(np.abs(array)) + 1
        assert np.max(np.abs(array - theirs[name])) <= TOLERANCE * scale, f"{before}\n{after}"


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), steps=st.integers(2, 14))
def test_simplified_programs_are_equal_over_a_prime_field(seed: int, steps: int) -> None:
    program = Builder(seed).program(steps)
    assert_same_in_the_field(program, simplify(program, fold=False).program)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), steps=st.integers(2, 14))
def test_folded_programs_compute_the_same_numbers_and_stay_as_they_are(seed: int, steps: int) -> None:
    program = Builder(seed).program(steps)
    simple = simplify(program)
    assert_close(program, simple.program, seed)
    assert len(simple.program.nodes) <= len(program.nodes)
    assert simplify(simple.program).trail == ()


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_trails_replay_to_the_same_program(seed: int) -> None:
    program = Builder(seed).program(10)
    simple = simplify(program)
    assert replay_exact(program, simple.trail).digest == simple.program.digest
    assert parse_program(print_program(simple.program)).digest == simple.program.digest


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_every_single_step_of_every_rule_keeps_the_program(seed: int) -> None:
    """Offers too, and rules that another rule would usually get ahead of."""
    program = Builder(seed).program(8)
    for rule in EXACT.values():
        if rule.phase == "fold":
            continue
        for site in list(rule.sites(program))[:3]:
            assert_same_in_the_field(program, rule.apply(program, site))


def test_nothing_to_do_is_no_step() -> None:
    program = parse_program(
        "program p {\n  input %x: f32[n, 3]\n  %y: f32[n, 3] = relu(%x)\n  return %y\n}\n"
    )
    assert simplify(program).trail == ()
    assert simplify(program).program is program

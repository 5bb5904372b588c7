"""Lossy methods on models that hold recurrent layers: smaller where they act, unharmed where they do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lossy_samples import Interpreted
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.backend.onnx import to_onnx
from tensmith.backend.packed import pack
from tensmith.deploy.layers import treatment
from tensmith.errors import ProgramError
from tensmith.evaluate.layers import layer_costs
from tensmith.formula.poly import Poly
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import load_target
from tensmith.ir import Program, TensorType, interpret, make_node
from tensmith.kernel import host_isa
from tensmith.rewrite.kept import kept_sites
from tensmith.rewrite.lossy.dependency import groups, without_channels
from tensmith.rewrite.lossy.weights import stored_weights
from tensmith.rewrite.method import LOSSY, Prospect, Standing, apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step
from tensmith.search.plan import Plan

SITES = ["y (element)", "y (state)", "tags"]


def tagger(head: bool = True) -> Program:
    """Two directions over a sequence, and a product behind them."""
    random = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)

    constants = {"w": weights(2, 32, 6), "r": weights(2, 32, 8), "b": weights(2, 64), "m": weights(8, 10)}
    lstm = make_node("lstm", ("x", "w", "r", "b"), ("y",), {"direction": "bidirectional", "hidden_size": 8})
    nodes = [lstm, make_node("matmul", ("y", "m"), ("tags",))] if head else [lstm]
    inputs = {"x": TensorType("f32", (5, 1, 6))}
    kept = constants if head else {name: constants[name] for name in "wrb"}
    return Program("tagger", inputs, (nodes[-1].output,), tuple(nodes), kept)


def moved(program: Program, treated: Program) -> float:
    """How far the output moves, as a share of its range."""
    x = np.random.default_rng(1).standard_normal((5, 1, 6)).astype(np.float32)
    before, after = (interpret(p, {"x": x})[program.outputs[0]] for p in (program, treated))
    return float(abs(before - after).max() / np.ptp(before))


def on_grid(program: Program, **params: Any) -> Program:
    return apply_lossy(program, Step("weight_only", EVERYWHERE, params, "lossy"), Interpreted())


@pytest.mark.parametrize("head", [True, False])
@pytest.mark.parametrize("stored", ["codes", "floats"])
def test_weights_on_a_grid(stored: str, head: bool) -> None:
    program = tagger(head)
    eight, three = (on_grid(program, stored=stored, default_bits=bits) for bits in (8, 3))
    assert 0 < moved(program, eight) < 0.02 < moved(program, three)
    assert read_onnx(to_onnx(eight)).outputs == program.outputs
    if stored == "codes":
        floats, codes = (sum(a.nbytes for a in p.constants.values()) for p in (program, eight))
        assert codes < 0.55 * floats


@pytest.mark.parametrize("named", [["y", "tags"], ["y (element)", "y (state)", "tags"]])
def test_weights_can_be_skipped_by_their_layer_and_on_their_own(named: list[str]) -> None:
    program = tagger()
    assert moved(program, on_grid(program, stored="floats", skip=named)) == 0
    assert moved(program, on_grid(program, stored="floats", skip=named[1:])) > 0


@pytest.mark.parametrize("stored", ["codes", "floats"])
def test_a_higher_price_makes_smaller_files(stored: str) -> None:
    """Of weights that are rounded by the length of their codes, those of recurrent layers among them."""
    program = tagger()
    worth = {own.site: 0.01 for own in stored_weights(program)}
    assert list(worth) == SITES
    rounding = {"stored": stored, "rounding": "coded", "worth": worth}
    cheap, dear = (on_grid(program, **rounding, price=price) for price in (1.0, 1e3))
    assert moved(program, cheap) < moved(program, dear) < 0.5
    sizes = [len(pack(to_onnx(each).SerializeToString())) for each in (program, cheap, dear)]
    assert sizes[0] > 1.5 * sizes[1] > 2 * sizes[2]


def test_each_matrix_has_a_row_of_its_own() -> None:
    """In what a report says of layers, with its share of what the layer computes."""
    element, state, tags = layer_costs(tagger(), load_target("host"))
    assert (element.shape, state.shape, tags.shape) == ("64 x 6", "64 x 8", "8 x 10")
    assert element.multiply_adds and state.multiply_adds
    assert element.multiply_adds / state.multiply_adds == pytest.approx(6 / 8)


@pytest.mark.parametrize("name", SITES[:2])
def test_values_that_are_called_as_weights_are_do_not_pass_for_them(name: str) -> None:
    """The matrix of that site is left alone, and the layer of that name is what plans mean."""
    program = tagger()
    lstm, head = program.nodes
    program = replace(program, nodes=(lstm, replace(head, outputs=(name,))), outputs=(name,))
    found = {own.site: own.weight for own in stored_weights(program)}
    assert found[name] == "m" and len(found) == 2
    step = Step("channel_pruning", min(found, key=lambda site: site == name), {"keep": 4}, "lossy")
    pruned = apply_lossy(program, step, Interpreted())
    assert pruned.constants["m"].shape == (4, 10) and pruned.constants["r"].shape == (2, 16, 4)


@pytest.mark.parametrize("stored", ["codes", "floats"])
def test_weights_that_two_layers_share_are_rounded_once(stored: str) -> None:
    program = tagger(False)
    again = make_node("lstm", ("x", "w", "r", "b"), ("z",), program.nodes[0].attrs)
    twice = replace(program, nodes=(*program.nodes, again), outputs=("y", "z"))
    assert moved(twice, on_grid(twice, stored=stored, skip=["y"])) == 0
    assert 0 < moved(twice, on_grid(twice, stored=stored)) < 0.02


@pytest.mark.parametrize(
    ("rule", "params", "said"),
    [
        ("weight_only", {"stored": "codes"}, "weight_only, 8-bit weights"),
        ("weight_only", {"stored": "codes", "skip": ["y"]}, "left in float by weight_only"),
        ("weight_only", {"stored": "codes", "kept": ["y"]}, "kept as it is"),
        ("int8", {"calibration": "minmax"}, "int8, 8-bit weights"),
        ("weight_clustering", {"bits": 5}, "exact rewrites only"),
    ],
)
def test_a_report_says_what_became_of_them(rule: str, params: dict[str, Any], said: str) -> None:
    program = tagger()
    element = stored_weights(program)[0]
    assert treatment(Plan((Step(rule, EVERYWHERE, params, "lossy"),)), element, program) == said


def test_they_are_kept_by_any_of_their_names() -> None:
    program = tagger()
    for name in ("y", "w", "y (state)"):
        assert kept_sites(program, program, [name]) == ("y",)


def in_bytes(program: Program, **params: Any) -> Program:
    step = Step("int8", EVERYWHERE, {"calibration": "minmax", **params}, "lossy")
    return apply_lossy(program, step, Interpreted())


@pytest.mark.parametrize("head", [True, False])
def test_static_int8_rounds_them_and_the_elements_that_they_multiply(head: bool, tmp_path: Path) -> None:
    program = tagger(head)
    treated = in_bytes(program)
    assert 0 < moved(program, treated) < 0.05
    assert {"w", "r"}.isdisjoint(treated.constants)
    elements = treated.producers[treated.producers["y"].inputs[0]]
    assert elements.op == "dequantize_linear" and treated.producers[elements.inputs[0]].inputs[0] == "x"
    plan = make_plan(treated, host_isa())
    products = [str(action.work) for action in plan.actions if action.writes in ("y products", "tags")]
    assert len(products) == 1 + head and all("(u8" in work for work in products)
    write_folder(plan, tmp_path / "compiled")
    x = np.random.default_rng(1).standard_normal((5, 1, 6)).astype(np.float32)
    found, expected = Model(tmp_path / "compiled")(x=x), interpret(treated, {"x": x})
    np.testing.assert_allclose(found[treated.outputs[0]], expected[treated.outputs[0]], atol=2e-2)


def test_static_int8_leaves_what_is_skipped() -> None:
    """A search names them to it, as it probed them with the others."""
    program = tagger()
    rounding = {"rounding": "coded", "price": 10.0, "worth": dict.fromkeys(SITES, 0.01)}
    treated = in_bytes(program, **rounding, skip=SITES[:1])
    assert treated.constants["w"].dtype == np.float32 and "r" not in treated.constants
    assert treated.producers["y"].inputs[0] == "x"
    assert 0 < moved(program, treated) < 0.5


def test_bits_that_are_no_grid() -> None:
    with pytest.raises(ProgramError, match="2 to 8 bits"):
        on_grid(tagger(False), default_bits=1)


@pytest.mark.parametrize("method", list(LOSSY))
def test_the_plain_forms_of_every_method_run(method: str) -> None:
    """As a search begins with them."""
    program = tagger()
    for form in LOSSY[method].starts(Prospect(program, 8, frozenset(), {}, dict)):
        treated = program
        for step in form.steps:
            treated = apply_lossy(treated, step, Interpreted())
        assert moved(program, treated) < 1


@pytest.mark.parametrize("method", list(LOSSY))
def test_a_report_has_words_for_whatever_a_search_tries(method: str) -> None:
    program = tagger()
    prospect = Prospect(program, 8, frozenset({"bf16"}), {}, lambda: dict.fromkeys(SITES, 1.0))
    graded = LOSSY["weight_only"].step(stored="codes", default_bits=8)
    bases = [Standing((), "", None, False, True), Standing((graded,), "", graded, False, True)]
    forms = [form for base in bases for form in LOSSY[method].extensions(base, prospect)]
    for form in (*forms, *LOSSY[method].starts(prospect)):
        for weights in stored_weights(program):
            assert treatment(Plan(form.steps), weights, program)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(("op", "gates"), [("lstm", 4), ("gru", 3), ("rnn", 1)])
def test_states_that_nobody_reads_may_go(op: str, gates: int, direction: str) -> None:
    """From every gate, bias, peephole and first state, of both directions, and from the layers behind."""
    random, ways, removed = np.random.default_rng(0), 1 + (direction == "bidirectional"), [1, 4, 6]

    def weights(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)

    def layer(number: int, x: str, depth: int, *rest: str) -> Any:
        constants.update({
            f"w{number}": weights(ways, gates * 8, depth), f"r{number}": weights(ways, gates * 8, 8),
            f"b{number}": weights(ways, 2 * gates * 8),
        })  # fmt: skip
        inputs = (x, f"w{number}", f"r{number}", f"b{number}", *rest)
        outputs = (f"y{number}", "", f"c{number}") if op == "lstm" else (f"y{number}", f"c{number}")
        return make_node(op, inputs, outputs, {"direction": direction, "hidden_size": 8})

    constants = {"h": weights(ways, 1, 8), "shape": np.array([0, 0, -1])}
    constants |= {"m": weights(8 * ways, 10), "c": weights(8, 10)}
    more = ("", "h", "h", "p") if op == "lstm" else ("", "h")
    if op == "lstm":
        constants["p"] = weights(ways, 24)
    nodes = [
        layer(0, "x", 6, *more),
        make_node("transpose", ("y0",), ("turned",), {"perm": (0, 2, 1, 3)}),
        make_node("reshape", ("turned", "shape"), ("joined",)),
        layer(1, "joined", 8 * ways),
        make_node("matmul", ("joined", "m"), ("tags",)),
        make_node("matmul", ("c0", "c"), ("last",)),
    ]
    program = Program(
        "states", {"x": TensorType("f32", (5, 1, 6))}, ("tags", "last", "y1"), tuple(nodes), constants
    )
    (group,) = groups(program)
    assert group.size == 8 and group.id == "y0 (element)"
    blind = {name: program.constants[name].copy() for name in ("r0", "w1", "m", "c")}
    blind["r0"][..., removed] = blind["c"][removed] = 0
    for way in range(ways):
        at = [8 * way + place for place in removed]
        blind["w1"][..., at] = blind["m"][at] = 0
    before = program.with_constants(blind)
    after = without_channels(before, group, np.array(removed))
    assert after.constants["r0"].shape == (ways, gates * 5, 5) and after.nodes[0].attrs["hidden_size"] == 5
    x = random.standard_normal((5, 1, 6)).astype(np.float32)
    for name, array in interpret(before, {"x": x}).items():
        np.testing.assert_allclose(interpret(after, {"x": x})[name], array, rtol=1e-4, atol=1e-5)


def test_a_search_takes_states_out_of_recurrent_layers() -> None:
    step = Step("channel_pruning", "y (element)", {"ratio": 0.5, "multiple": 4}, "lossy")
    pruned = apply_lossy(tagger(), step, Interpreted())
    assert pruned.constants["r"].shape == (2, 16, 4) and pruned.constants["m"].shape == (4, 10)
    assert [group.id for group in groups(tagger(head=False))] == []  # what is an output stays


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(("op", "gates"), [("lstm", 4), ("gru", 3), ("rnn", 1)])
def test_others_make_up_for_states_that_go(op: str, gates: int, biased: bool) -> None:
    """In the layer itself and in what reads it: a state that is the same as another is not missed, and one
    that never changes is a bias."""
    random, ways = np.random.default_rng(2), 2
    same = np.array([0, 1, 2, 3, 0, 1, 2])  # of which state each has the weights

    def gated(array: np.ndarray) -> np.ndarray:
        return array[:, :, same].reshape(ways, -1, *array.shape[3:]).astype(np.float32)

    constants = {
        "w": gated(random.standard_normal((ways, gates, 4, 6))),
        "r": gated(random.standard_normal((ways, gates, 4, 7)) / 3),
        "b": gated(random.standard_normal((ways, gates, 4))).repeat(2, axis=0).reshape(ways, -1) / 2,
        "m": random.standard_normal((7, 10)).astype(np.float32),
    }
    inputs = ("x", "w", "r", "b")[: 3 + biased]
    layer = make_node(op, inputs, ("y",), {"direction": "bidirectional", "hidden_size": 7})
    program = Program(
        "twice", {"x": TensorType("f32", (20, 1, 6))}, ("tags",),
        (layer, make_node("matmul", ("y", "m"), ("tags",))),
        {name: array for name, array in constants.items() if name == "m" or name in inputs},
    )  # fmt: skip
    params = {"keep": 4, "reconstruct": True}

    class Twenty(Interpreted):
        """Over a sequence as long as the program takes."""

        def _value(self, program: Program, name: str) -> np.ndarray:
            alone = replace(program, outputs=() if name == "x" else (name,))
            return {"x": x, **interpret(alone, {"x": x})}[name]

    x = random.standard_normal((20, 1, 6)).astype(np.float32)
    pruned = apply_lossy(program, Step("channel_pruning", "y (element)", params, "lossy"), Twenty())
    assert pruned.constants["m"].shape == (4, 10)
    (before,), (after,) = (interpret(p, {"x": x}).values() for p in (program, pruned))
    assert abs(before - after).max() < 0.02 * np.ptp(before)


@pytest.mark.parametrize("site", ["y (element)", "y (state)"])
def test_weights_make_up_for_the_rounding_of_others(site: str) -> None:
    """Those of recurrent layers too: what they multiply moves them by less than to the nearest."""
    program, moment = tagger(), Interpreted().moment(tagger(), site)
    (own,) = (own for own in stored_weights(program) if own.site == site)
    others = [name for name in SITES if name != site]

    def lost(rounding: str) -> float:
        rounded = on_grid(program, stored="floats", default_bits=3, rounding=rounding, skip=others)
        error = own.rows(own.stored(program)) - own.rows(own.stored(rounded))
        return float(np.einsum("grd,gde,gre->", error, moment.second, error))

    assert lost("compensated") < 0.9 * lost("nearest")


def test_states_that_begin_with_zeros_of_a_computed_shape_may_go() -> None:
    """As PyTorch exports them: zeros as wide as the states, for as many samples as there are."""
    random = np.random.default_rng(0)
    constants = {
        name: random.standard_normal(shape).astype(np.float32)
        for name, shape in {"w": (1, 24, 6), "r": (1, 24, 8), "m": (8, 10)}.items()
    }
    constants |= {"zero": np.zeros((), np.float32), "two": np.array([2]), "wide": np.array([8])}
    constants |= {"from": np.array([0]), "to": np.array([1]), "m": constants["m"]}
    nodes = (
        make_node("shape", ("x",), ("batch",), {"start": 1, "end": 2}),
        make_node("concat", ("two", "batch", "wide"), ("sizes",), {"axis": 0}),
        make_node("expand", ("zero", "sizes"), ("zeros",)),
        make_node("slice", ("zeros", "from", "to"), ("start",)),
        make_node("gru", ("x", "w", "r", "", "", "start"), ("y",), {"hidden_size": 8}),
        make_node("matmul", ("y", "m"), ("tags",)),
    )
    program = Program(
        "zeros", {"x": TensorType("f32", (5, Poly.symbol("batch"), 6))}, ("tags",), nodes, constants
    )
    (group,) = groups(program)
    after = without_channels(program, group, np.array([0, 7]))
    assert next(node.inputs for node in after.nodes if node.op == "gru") == ("x", "w", "r")
    blind = {name: constants[name].copy() for name in ("r", "m")}
    blind["r"][..., [0, 7]] = blind["m"][[0, 7]] = 0
    x = random.standard_normal((5, 3, 6)).astype(np.float32)
    found, wanted = (interpret(p, {"x": x})["tags"] for p in (after, program.with_constants(blind)))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)

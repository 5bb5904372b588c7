"""Layers that are kept: no method changes them, whichever it is, and one that drops them is found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lossy_samples import Interpreted, chain
from small_network import network
from tensmith.errors import ProgramError, UsageError
from tensmith.ir import Program
from tensmith.rewrite.calibration import Calibration, Listening
from tensmith.rewrite.kept import KEPT, changed_layer, kept_sites, named_layers
from tensmith.rewrite.lossy.weights import weighted_layers
from tensmith.rewrite.method import LOSSY, WEIGHTS, Method, apply_lossy
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import replay, simplify

PROGRAM = simplify(chain()).program
SITES = [layer.site for layer in weighted_layers(PROGRAM)]
STEPS = [
    ("int8", "*", {}),
    ("weight_only", "*", {"stored": "codes"}),
    ("weight_only", "*", {"stored": "floats", "default_bits": 3}),
    ("half", "*", {}),
    ("magnitude_pruning", "*", {"sparsity": 0.5, "scope": "global", "criterion": "obs"}),
    ("weight_clustering", "*", {"bits": 2}),
    ("low_rank", "v3", {"energy": 0.5}),
    ("channel_pruning", "v3", {"ratio": 0.5}),
    ("channel_pruning", "v6", {"ratio": 0.5}),
]


def lossy(rule: str, site: str, params: Mapping[str, Any], *kept: str) -> Program:
    step = Step(rule, site, {**params, **({KEPT: list(kept)} if kept else {})}, "lossy")
    return apply_lossy(PROGRAM, step, Interpreted())


@pytest.mark.parametrize(("rule", "site", "params"), STEPS)
def test_a_kept_layer_is_the_same_numbers(rule: str, site: str, params: dict[str, Any]) -> None:
    """Each layer that the method changes, kept alone: it stays, or the step cannot be made at all."""
    changed = [name for name in SITES if changed_layer(PROGRAM, lossy(rule, site, params), [name])]
    assert changed  # else nothing is tested
    stayed = 0
    for name in changed:
        try:
            after = lossy(rule, site, params, name)
        except ProgramError:
            assert rule in ("low_rank", "channel_pruning")
            continue
        stayed += 1
        assert changed_layer(PROGRAM, after, [name]) is None
        assert changed_layer(PROGRAM, after, SITES) is not None
        assert after.inputs == PROGRAM.inputs
    assert stayed or rule in ("low_rank", "channel_pruning")


class Rogue(Method):
    """Swaps the inputs of the last product for others."""

    name, stage, promise = "rogue", WEIGHTS, "none"

    def apply(
        self, program: Program, site: str, params: Mapping[str, Any], calibration: Calibration
    ) -> Program:
        *nodes, last = program.nodes
        other = replace(last, attrs={**last.attrs, "alpha": 2.0})
        return replace(program, nodes=(*nodes, other))


def test_a_method_that_works_around_the_weights_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOSSY._items, "rogue", Rogue())
    assert lossy("rogue", "*", {}, "v3")
    with pytest.raises(ProgramError, match="'rogue' changes 'v10', which is to be kept"):
        lossy("rogue", "*", {}, "v10")


def test_statistics_are_those_of_the_whole_program() -> None:
    listening = Listening(Interpreted())
    apply_lossy(PROGRAM, Step("int8", params={KEPT: ["v3"]}, kind="lossy"), listening)
    assert listening.asked and all(question.program.digest == PROGRAM.digest for question in listening.asked)


def test_a_trail_with_kept_layers_replays() -> None:
    step = Step("int8", params={KEPT: ["v3", "v10"]}, kind="lossy")
    again = replay(PROGRAM, [Step.from_json(step.to_json())], Interpreted())
    assert again.digest == apply_lossy(PROGRAM, step, Interpreted()).digest


def test_layers_are_called_as_in_the_original_too() -> None:
    """The first convolution takes a batch norm in, and with it that one's output."""
    original = network()
    simplified = simplify(original).program

    def found(*patterns: str) -> tuple[str, ...]:
        return kept_sites(original, simplified, patterns)

    assert found("c1") == found("w1") == found("n1") == ("n1",)
    assert found("w3", "c2") == ("c2", "y") and found("w*") == found("*") == ("n1", "c2", "y")
    names = {layer.site: layer.names for layer in named_layers(original, simplified)}
    assert {"n1", "c1", "w1"} <= set(names["n1"]) and "w1" not in names["c2"]


@pytest.mark.parametrize("pattern", ["c11", "head*", ""])
def test_a_name_that_fits_no_layer_is_refused(pattern: str) -> None:
    original = network()
    with pytest.raises(UsageError, match=r"no layer .*(did you mean 'c1'|known: n1).*tensmith explain"):
        kept_sites(original, simplify(original).program, [pattern])


def test_a_site_that_is_no_layer_is_no_step() -> None:
    with pytest.raises(ProgramError, match="'v4' is to be kept and is no layer"):
        lossy("int8", "*", {}, "v4")

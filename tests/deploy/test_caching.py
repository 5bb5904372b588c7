"""Decoders without caches get them: the same tokens come out, and what looks ahead is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from command_line import refused, tensmith
from decoders import HEAD, HEADS, MOST, VOCABULARY, decoder
from tensmith import load
from tensmith.backend.onnx import write_onnx
from tensmith.cli.cache import cache
from tensmith.data import as_dataset, split
from tensmith.deploy.caching import CachedDecoder, apart, cached_decoder
from tensmith.deploy.generation import GREEDY, Sampling, TokenDecoder
from tensmith.deploy.slots import SlotDecoders
from tensmith.engine.base import ENGINES
from tensmith.errors import EngineError, ModelError, OutputError
from tensmith.evaluate.calibrator import Calibrator
from tensmith.frontend.onnx import read_onnx
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step
from tensmith.rewrite.tokens.caching import with_slots
from tensmith.rewrite.trail import simplify


def made(path: Path, target: Path) -> CachedDecoder:
    model = load(path)
    return cached_decoder(model.program, TokenDecoder(model.session), target, "onnxruntime", 1)


@pytest.mark.parametrize("merged", [False, True], ids=["apart", "merged"])
@pytest.mark.parametrize("mask", ["triangle", "compared"])
def test_rows_are_computed_once(mask: str, merged: bool, tmp_path: Path) -> None:
    found = made(decoder(tmp_path / "d.onnx", mask=mask, merged=merged), tmp_path / "c.onnx")
    assert found.compared.apart < 1e-5
    assert 32 < found.compared.tokens <= MOST, "as many as there are positions for"
    assert len(found.caches) == 4, "keys and values of two layers, as large as they are computed"
    program = read_onnx(tmp_path / "c.onnx")
    caches = [type_ for name, type_ in program.inputs.items() if name.startswith("past")]
    assert {tuple(map(str, type_.dims)) for type_ in caches} == {("batch", str(HEADS), "before", str(HEAD))}


@pytest.mark.parametrize("stored", ["codes", "floats"])
def test_rows_of_rounded_activations_are_computed_once(stored: str, tmp_path: Path) -> None:
    """In int8, and in codes that are opened: what a row was quantized to does not change."""
    program = read_onnx(decoder(tmp_path / "d.onnx", mask="triangle"))
    methods = {"codes": ("weight_only", {"stored": "codes"}), "floats": ("int8", {"calibration": "minmax"})}
    rule, params = methods[stored]
    texts = np.random.default_rng(2).integers(0, VOCABULARY, (40, 9))
    view = split(as_dataset((texts, np.zeros(40, int))), 8, 8).calibration
    lossy = apply_lossy(program, Step(rule, EVERYWHERE, params, "lossy"), Calibrator(view, None, 1))
    write_onnx(lossy, tmp_path / "q.onnx")
    found = made(tmp_path / "q.onnx", tmp_path / "c.onnx")
    assert found.compared.apart < 1e-3 and not found.causality.late
    assert len(found.caches) == 4


def test_batches_and_parts_of_a_prompt(tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx", mask="triangle")
    made(source, tmp_path / "c.onnx")
    ids = np.random.default_rng(1).integers(0, VOCABULARY, (3, 12))
    whole = onnxruntime.InferenceSession(source).run(None, {"ids": ids})[0]
    session = onnxruntime.InferenceSession(tmp_path / "c.onnx")
    names = [output.name for output in session.get_outputs()]
    state = {
        spec.name: np.zeros((3, HEADS, 0, HEAD), np.float32)
        for spec in session.get_inputs()
        if spec.name != "ids"
    }
    rows = []
    for start, stop in ((0, 5), (5, 6), (6, 12)):
        found = dict(zip(names, session.run(None, {"ids": ids[:, start:stop], **state})))
        rows.append(found["logits"])
        state = {name: found[name.replace("past_key_values", "present")] for name in state}
    np.testing.assert_allclose(np.concatenate(rows, axis=1), whole, rtol=1e-4, atol=1e-4)


def test_words_chosen_by_ones_and_zeros(tmp_path: Path) -> None:
    """An op that nothing but its formula is known of."""
    model = onnx.load(decoder(tmp_path / "d.onnx", mask="triangle"))
    (place,) = (n for n, node in enumerate(model.graph.node) if list(node.input) == ["words", "ids"])
    chosen = [
        helper.make_node("OneHot", ["ids", "depth", "off and on"], ["hot"]),
        helper.make_node("MatMul", ["hot", "words"], model.graph.node[place].output),
    ]
    del model.graph.node[place]
    for node in reversed(chosen):
        model.graph.node.insert(place, node)
    numbers = {"depth": np.array([VOCABULARY]), "off and on": np.array([0, 1], np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in numbers.items())
    onnx.save(model, tmp_path / "hot.onnx")
    assert made(tmp_path / "hot.onnx", tmp_path / "c.onnx").compared.apart < 1e-5


def test_positions_counted_in_32_bits(tmp_path: Path) -> None:
    assert made(decoder(tmp_path / "d.onnx", small=True), tmp_path / "c.onnx").compared.apart < 1e-5


def test_a_text_ends_where_its_tables_do(tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx", mask="sliced", most=40)
    found = made(source, tmp_path / "c.onnx")
    assert found.compared.apart < 1e-5 and found.compared.tokens == 37
    said = found.steps([3, 1], 60, GREEDY)
    assert len([next(said) for _ in range(39)]) == 39
    with pytest.raises(EngineError, match="the model has no positions for 41 tokens"):
        next(said)
    program = simplify(read_onnx(source)).program
    with_slots(program, 40)
    with pytest.raises(ModelError, match="ends at 41 for 41 tokens, behind its 40 rows"):
        with_slots(program, 41)


def test_what_looks_ahead_is_refused(tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx", causal=False)
    with pytest.raises(ModelError, match="look at later ones"):
        made(source, tmp_path / "c.onnx")
    model = load(source)
    assert len(model.generate([1, 2], 9)) == 9, "then the whole text is computed"
    assert not [*Path(model._folder.name).rglob("*.onnx*")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"causal": False, "word": -1e9},
        {"causal": False, "word": -np.inf},
        {"ahead": 20},
        {"scaled": 32},
    ],
    ids=["beside one huge logit", "beside a word ruled out", "20 ahead", "beyond 32 tokens"],
)
def test_what_hides_from_a_short_comparison(wrong: dict[str, Any], tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx", **wrong)
    with pytest.raises(ModelError, match="of their range apart"):
        made(source, tmp_path / "c.onnx")


def test_a_word_that_is_ruled_out_is_no_difference(tmp_path: Path) -> None:
    found = made(decoder(tmp_path / "d.onnx", word=-np.inf), tmp_path / "c.onnx")
    assert found.compared.apart < 1e-5


def test_rows_of_logits() -> None:
    row = np.array([3.0, 1.0, -1e9, -np.inf])
    assert apart(row, row) == 0.0
    assert apart(row + np.array([0, 0, 1e3, 0]), row) == 0.0, "too far below the best to be said"
    assert apart(row + np.array([0, 1, 0, 0]), row) == 0.5
    for broken in (np.nan, np.inf, -np.inf):
        assert apart(np.array([3.0, broken, -1e9, -np.inf]), row) == np.inf
        assert apart(row, np.array([3.0, broken, -1e9, -np.inf])) == np.inf


@pytest.mark.parametrize("engine", ["onnxruntime", "native"])
def test_what_changes_beyond_the_texts_compared_is_computed_whole(engine: str, tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx", scaled=280, most=800)
    assert made(source, tmp_path / "c.onnx").compared.tokens < 280, "it shows in no comparison"
    model = load(source, engine=engine)
    for length, seed in ((270, 0), (700, 2)):  # each said something else
        known = np.random.default_rng(length + seed).integers(0, VOCABULARY, length).tolist()
        plain = TokenDecoder(load(source).session).steps(known, 40, Sampling(1.0, seed=seed))
        assert model.generate(known, 40, temperature=1.0, seed=seed) == list(plain)
    assert isinstance(model.decoder, SlotDecoders) == (engine == "native")


def test_generating_uses_them_and_says_the_same(tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx")
    model = load(source)
    known = [3, 1]
    for _ in range(12):  # one token at a time is too few for caches
        known += model.generate(known, 1)
    assert model._cached_decoder is not None
    assert model.generate([3, 1], 12) == known[2:]


def test_caches_run_as_the_model_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its settings; and their file stays, as engines that compile read it at each new size."""
    model = load(decoder(tmp_path / "d.onnx"))
    model._settings = {"optimization": "basic"}
    asked: list[tuple[Path, dict[str, str]]] = []
    engine = type(ENGINES["onnxruntime"])
    prepare = engine.prepare

    def seen(self: Any, path: Path, threads: int, *, sizes: Any = None, **settings: str) -> Any:
        asked.append((path, settings))
        return prepare(self, path, threads, sizes=sizes, **settings)

    monkeypatch.setattr(engine, "prepare", seen)
    assert model._cached_decoder is not None
    assert [settings for _, settings in asked] == 2 * [{"optimization": "basic"}]
    assert all(path.is_file() for path, _ in asked)


@pytest.mark.parametrize(("mask", "merged"), [("triangle", False), ("filled", False), ("compared", True)])
def test_compiled_for_one_token_at_a_time_it_says_the_same(mask: str, merged: bool, tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx", mask=mask, merged=merged)
    plain, model = load(source), load(source, engine="native")
    wanted = plain.generate([3, 1], 30)
    assert model.generate([3, 1], 30) == wanted
    assert model.generate([3, 1], 30, temperature=1.0) == plain.generate([3, 1], 30, temperature=1.0)
    slots = model.decoder
    assert isinstance(slots, SlotDecoders) and list(slots.made) == [MOST]
    assert slots.made[MOST].compared.apart < 1e-5 and slots.made[MOST].compared.tokens == MOST


def test_a_compiled_step_is_compared_too(tmp_path: Path) -> None:
    ahead = decoder(tmp_path / "ahead.onnx", causal=False)
    assert load(ahead, engine="native").generate([3, 1], 9) == load(ahead).generate([3, 1], 9)
    model = load(decoder(tmp_path / "d.onnx"), engine="native")
    slots = model.decoder
    assert isinstance(slots, SlotDecoders)
    assert model.generate([3, 1], 9)
    other = load(decoder(tmp_path / "other.onnx", word=5.0))
    step = slots.made[MOST]
    step.original, step.compared = TokenDecoder(other.session), replace(step.compared, apart=0.1)
    for drawn in ({}, {"temperature": 1.0, "seed": 3}):
        assert model.generate([3, 1], 9, **drawn) == other.generate([3, 1], 9, **drawn), "the last word"


def test_texts_that_c_goes_on_with_do_not_touch_each_other(tmp_path: Path) -> None:
    model, plain = load(decoder(tmp_path / "d.onnx"), engine="native"), load(tmp_path / "d.onnx")
    wanted = {first: plain.generate([first, 1], 40) for first in (3, 7)}
    begun = model.stream([3, 1], 40)
    assert [next(begun) for _ in range(9)] == wanted[3][:9]
    assert model.generate([7, 1], 40) == wanted[7]
    assert list(begun) == wanted[3][9:]
    left = model.stream([3, 1], 40)
    next(left)
    del left
    assert model.generate([7, 1], 40) == wanted[7], "what a text left behind is forgotten"
    assert isinstance(model.decoder, SlotDecoders)
    step = model.decoder.made[MOST]
    assert all(text._loop is not None for text in step._idle) and len(step._idle) == 1
    begun = [model.stream([3, 1], 4) for _ in range(5)]
    assert [next(each) for each in begun] == 5 * wanted[3][:1]
    assert [[*each] for each in begun] == 5 * [wanted[3][1:4]]
    assert len(step._idle) == 2, "no more are kept"


def test_without_c_tokens_are_found_call_by_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise EngineError("no compiler")

    wanted = load(decoder(tmp_path / "d.onnx")).generate([3, 1], 30)
    monkeypatch.setattr("tensmith.deploy.greedy._library", refuse)
    model = load(tmp_path / "d.onnx", engine="native")
    assert model.generate([3, 1], 30) == wanted
    assert load(tmp_path / "d.onnx", engine="native", threads=2).generate([3, 1], 30) == wanted


@pytest.mark.parametrize("here", [True, False])
def test_logits_that_are_no_numbers_end_a_text(here: bool, tmp_path: Path) -> None:
    model = load(decoder(tmp_path / "d.onnx"), engine="native")
    model.generate([3, 1], 30)
    assert isinstance(model.decoder, SlotDecoders)
    step = model.decoder.made[MOST]
    if not here:
        vars(step._idle[0])["_loop"] = None
    begun = model.stream([3, 1], 30)
    next(begun), next(begun)
    step.model._weights[:] = len(step.model._weights) * b"\xff"
    with pytest.raises(ModelError, match="logits that are no numbers"):
        next(begun)


def test_a_step_of_as_many_tokens_as_the_model_takes(tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx", most=70)
    said = load(source, engine="native").generate([3, 1], 68)
    assert said == load(source).generate([3, 1], 68)


def test_caches_that_no_memory_holds_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("tensmith.deploy.slots.SlotText", full)
    with pytest.raises(EngineError, match="not enough memory for caches of 31 tokens; ask for fewer"):
        load(decoder(tmp_path / "d.onnx"), engine="native").generate([3, 1], 30)


def test_the_command_writes_a_file_that_generates(tmp_path: Path) -> None:
    decoder(tmp_path / "d.onnx")
    document = json.loads(tensmith("cache", "d.onnx", "--json", folder=tmp_path).stdout)
    assert document["causal"]["evidence"] == "proved" and len(document["causal"]["assumes"]) == 1
    assert (
        document["caches"] == 4
        and document["tested_tokens"] > 32
        and document["evidence"] == "tested"
        and document["apart"] < 1e-5
    )
    words = ("generate", "--tokens", "1,2", "--max-new-tokens", "9", "--json")
    said = [
        json.loads(tensmith(*words, name, folder=tmp_path).stdout) for name in ("d.onnx", "d.cached.onnx")
    ]
    assert said[0]["tokens"] == said[1]["tokens"]
    refused(tensmith("cache", "d.onnx", "d.gguf", folder=tmp_path), 2, "'d.gguf' must end in .onnx")
    refused(tensmith("cache", "d.cached.onnx", folder=tmp_path), 1, "has caches already")


def test_weights_beside_the_file_go_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder(tmp_path / "d.onnx")
    beside = partial(write_onnx, external_threshold=0)
    monkeypatch.setattr("tensmith.deploy.caching.write_onnx", beside)
    place = tmp_path / "far" / "c.onnx"
    cache(tmp_path / "d.onnx", place)
    assert place.with_name("c.onnx.data").is_file()
    assert load(place).generate([1, 2], 9) == load(tmp_path / "d.onnx").generate([1, 2], 9)
    with pytest.raises(OutputError, match="--force"):
        cache(tmp_path / "d.onnx", place)


def test_a_node_that_mixes_rows_is_named(tmp_path: Path) -> None:
    model = onnx.load(decoder(tmp_path / "d.onnx"))
    last = model.graph.node[-1]
    model.graph.node.insert(
        len(model.graph.node) - 1, helper.make_node("CumSum", [last.input[0], "one"], ["sums"])
    )
    last.input[0] = "sums"
    onnx.save(model, tmp_path / "mixed.onnx")
    refused(tensmith("cache", "mixed.onnx", folder=tmp_path), 1, "(cum_sum)", "rows of tokens")
    assert not (tmp_path / "mixed.cached.onnx").exists()


@pytest.mark.data
def test_a_real_one(data_dir: Path, tmp_path: Path) -> None:
    found = made(data_dir / "models" / "stories260k.onnx", tmp_path / "c.onnx")
    assert len(found.caches) == 10 and found.compared.apart < 1e-4 and found.compared.tokens > 256


def test_weights_in_codes_are_compiled_for_one_token_at_a_time(tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx", mask="compared")
    program = read_onnx(source)
    step = Step("weight_only", EVERYWHERE, {"stored": "codes", "default_bits": 8}, "lossy")
    write_onnx(apply_lossy(program, step, None), tmp_path / "codes.onnx")
    model = load(tmp_path / "codes.onnx", engine="native")
    model.generate([3, 1], 20)
    assert isinstance(model.decoder, SlotDecoders)
    assert all(made.compared.apart <= made.borne for made in model.decoder.made.values())


def test_a_compiled_step_serves_all_texts_that_fit_and_what_was_refused_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots, tried = load(decoder(tmp_path / "d.onnx"), engine="native").decoder, list[int]()
    assert isinstance(slots, SlotDecoders)

    def made(self: SlotDecoders, capacity: int) -> Any:
        tried.append(capacity)
        if capacity > 100:
            raise ModelError("it has 100 positions")
        return capacity

    monkeypatch.setattr(SlotDecoders, "_made", made)
    assert [slots._of(tokens) for tokens in (69, 66, 80, 72, 30, 40)] == [69, 69, 80, 80, 64, 64]
    assert tried == [128, 69, 80, 64]

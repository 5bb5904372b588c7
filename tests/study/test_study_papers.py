"""Tables in a paper's columns: every cell a figure with its evidence, or a reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tensmith.errors import UsageError
from tensmith.report.metric import exact, spread
from tensmith.study.papers import PAPERS, paper_tables, pareto_figures
from tensmith.study.plan import StudyCell, StudyPlan, cells, read_plan
from tensmith.study.results import CellResult
from tensmith.study.tables import draw_as, write_as

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "study"
TEXT = """name: small
datasets: [{name: d, data: "npz:d.npz"}]
models: [{name: net, path: net.onnx, dataset: d}, {name: noise, path: n.onnx, dataset: d, weights: random}]
optimizations: [none, int8, float16]
systems: [onnxruntime, untuned]
hardware: [cpu, cuda, "estimated:raspberry-pi-5"]
measure: [packed, memory, energy]
tables:
  - title: Methods
    source: A summary.
    columns: [accuracy, latency, memory, speedup, size, throughput, energy_saving]
    rows:
      - name: original
        cells: [{optimization: none, system: onnxruntime}, {optimization: none, hardware: "estimated:*"}]
        absent: ONNX Runtime is not there
      - {name: quantized, cells: [{optimization: int8}], published: {"net": {size: 2.7}}}
"""
LATENCY = {"none": 4.0, "int8": 2.0}


@pytest.fixture
def plan(tmp_path: Path) -> StudyPlan:
    (tmp_path / "study.yaml").write_text(TEXT)
    return read_plan(tmp_path / "study.yaml")


def result(cell: StudyCell) -> CellResult:
    """int8 is twice as fast and a quarter as large; there is no GPU."""
    if cell.hardware == "cuda":
        return CellResult(cell, "", 1.0, "no GPU answers")
    here, small = cell.hardware.startswith("cpu"), cell.optimization == "int8"
    figures = {
        "accuracy": spread(90.0 - small, 89.0 - small, 91.0, "%"),
        "latency_ms": exact(LATENCY[cell.optimization], "ms", "measured" if here else "estimated"),
        "file_bytes": exact(4000.0, "bytes"),
        "energy_mj": spread(2.0 - small, 1.0 - small / 2, 4.0 - 2 * small, "mJ", "estimated"),
    }
    if small:
        figures["packed_bytes"] = exact(1000.0, "bytes")
    if here:
        figures |= {"peak_bytes": exact(9000.0, "bytes"), "ratio": spread(1.0 + 0.9 * small, 0.9, 2.0, "x")}
    return CellResult(cell, "", 1.0, "", figures)


def told(plan: StudyPlan, results: list[CellResult]) -> dict[tuple[str, str, str], dict[str, str]]:
    """Cells of the first table by model, platform and method, by column."""
    table = paper_tables(plan, results)[0]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {(row["model"], row["platform"], row["method"]): row for row in rows}


def test_cells_outside_of_the_tables_are_not_run(plan: StudyPlan) -> None:
    found = cells(plan)
    assert {cell.optimization for cell in found} == {"none", "int8"}
    assert not any(
        c.optimization == "none" and c.system == "untuned" and c.hardware == "cpu:1" for c in found
    )


def test_every_cell_is_a_figure_with_its_evidence_or_a_reason(plan: StudyPlan) -> None:
    found = told(plan, list(map(result, cells(plan))))
    assert len(found) == 2 * 3 * 2
    ours = [text for row in found.values() for name, text in row.items()
            if name not in ("model", "platform", "method") and not name.endswith("theirs")]  # fmt: skip
    assert all("measured)" in t or "estimated)" in t or t.startswith("not possible here, ") for t in ours)
    assert any(t == "not possible here, as said" for t in ours)
    here = found["net", "this CPU, one thread", "quantized"]
    assert here["size reduction"] == "4 x (measured)" and here["size reduction, theirs"] == "2.7x (published)"
    assert here["speed-up"].startswith("1.9 x")  # in turns, not the quotient of two medians
    assert here["throughput"] == "500 samples/s (measured)"
    assert here["energy saving"] == "2 x (estimated)"
    modelled = found["net", "raspberry-pi-5, one core, modelled", "quantized"]
    assert modelled["speed-up"] == "2 x (estimated)" and "modelled" in modelled["memory"]
    assert "no GPU answers" in found["net", "GPU, cuda", "quantized"]["accuracy"]
    assert "ONNX Runtime is not there" in found["net", "GPU, cuda", "original"]["accuracy"]
    noise = found["noise", "this CPU, one thread", "quantized"]
    assert "weights are random" in noise["accuracy"] and noise["latency"] == "2 ms (measured)"


def test_of_modelled_cpus_one_core_computes_and_gpus_whole(plan: StudyPlan) -> None:
    plan = plan.model_copy(update={"hardware": ("estimated:host", "estimated:nvidia-t4")})
    assert {platform for _, platform, _ in told(plan, [])} == {
        "host, one core, modelled",
        "nvidia-t4, modelled",
    }


def test_a_device_is_called_what_it_is(plan: StudyPlan) -> None:
    plan = plan.model_copy(update={"hardware": ("opencl", "cuda"), "systems": ("untuned",)})
    here = {"opencl": "CPU pthread-Xeon", "cuda": "GPU NVIDIA T4"}
    found = [result(cell) for cell in cells(plan)]
    setting = [replace(each, setting={"device": here[each.cell.hardware]}) for each in found]
    assert {platform for _, platform, _ in told(plan, found)} == {"a device, opencl", "GPU, cuda"}
    assert {platform for _, platform, _ in told(plan, setting)} == {
        "CPU pthread-Xeon, opencl",
        "GPU NVIDIA T4, cuda",
    }


def test_a_model_of_a_fixed_batch_answers_so_many_times_as_many_samples(plan: StudyPlan) -> None:
    results = [result(cell) for cell in cells(plan)]
    eight = [
        r if r.failed else replace(r, figures={**r.figures, "batch": exact(8, "samples")}) for r in results
    ]
    here = told(plan, eight)["net", "this CPU, one thread", "quantized"]
    assert here["throughput"] == "4000 samples/s (measured)" and here["latency"] == "2 ms (measured)"


def test_what_a_paper_does_not_say_is_a_gap(plan: StudyPlan) -> None:
    found = told(plan, list(map(result, cells(plan))))
    gaps = {key: row["size reduction, theirs"] for key, row in found.items() if "theirs" in "".join(row)}
    for (model, _, method), text in gaps.items():
        known = model == "net" and method == "quantized"
        assert text == ("2.7x (published)" if known else "not published, or not known to us")
    columns = paper_tables(plan, [])[0].columns
    assert sum(name.endswith("theirs") for name in columns) == 1


def test_cells_that_were_not_run_say_so(plan: StudyPlan) -> None:
    found = told(plan, [])
    assert found["net", "this CPU, one thread", "quantized"]["latency"] == "not run yet"


def test_the_front_joins_what_nothing_beats(plan: StudyPlan, tmp_path: Path) -> None:
    def better(cell: StudyCell) -> CellResult:
        made = result(cell)
        good = cell.optimization == "int8" and not made.failed
        figures = {**made.figures, "accuracy": exact(99.0, "%")} if good else made.figures
        return replace(made, figures=figures)

    for make, joined in ((result, (2.0, 4.0)), (better, (2.0,))):
        made = pareto_figures(plan, list(map(make, cells(plan))))
        assert [figure.curves[0].x for figure in made] == [joined, joined]  # this CPU, and the modelled one
    pytest.importorskip("matplotlib")
    results = list(map(result, cells(plan)))
    draw_as(pareto_figures(plan, results), "pareto", tmp_path)
    assert (tmp_path / "pareto-1.png").read_bytes().startswith(b"\x89PNG")
    write_as(paper_tables(plan, results), PAPERS, tmp_path)
    assert all((tmp_path / f"{PAPERS}.{kind}").read_text().count("Methods") for kind in ("html", "md", "tex"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("speedup, size", "speed, size", ("study.yaml:11", "did you mean 'speedup'?")),
        ("optimization: int8", "optimization: int9", ("study.yaml:16", "did you mean 'int8'?")),
        ("{size: 2.7}", "{sise: 2.7}", ("study.yaml:16", "did you mean 'size'?")),
        ("absent: ONNX", "absnt: ONNX", ("study.yaml:15", "did you mean 'absent'?")),
        ("memory, energy]", "memory, enrgy]", ("study.yaml:7", "did you mean 'energy'?")),
    ],
)
def test_a_typo_in_a_table_is_named(tmp_path: Path, old: str, new: str, words: tuple[str, ...]) -> None:
    (tmp_path / "study.yaml").write_text(TEXT.replace(old, new))
    with pytest.raises(UsageError) as raised:
        read_plan(tmp_path / "study.yaml")
    assert all(word in str(raised.value) for word in words), raised.value


def test_the_papers_of_the_examples_are_read_and_name_their_sources() -> None:
    plan = read_plan(EXAMPLES / "tensorcompress.yaml")
    tables = paper_tables(plan, [])
    assert len(tables) == 3 and all("not known to us" in table.note for table in tables)
    theirs = [row[list(tables[0].columns).index("speed-up, theirs")] for row in tables[0].rows[:7]]
    assert theirs[1:3] == ["1.4x (published)", "1.6x (published)"]

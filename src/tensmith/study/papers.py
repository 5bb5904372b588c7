"""Tables in the columns of other people's papers, ours beside theirs, and the figure of accuracy and time.

Every cell says what is known of it: a figure with its interval and evidence, or why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tensmith.hardware.target import HOST, load_target
from tensmith.report.metric import Metric, spread
from tensmith.study.materials import ORIGINAL
from tensmith.study.plan import PaperRow, PaperTable, StudyCell, StudyPlan, cells, fits
from tensmith.study.results import DEVICE, CellResult
from tensmith.study.run import BUSY
from tensmith.study.tables import StudyCurve, StudyFigure, StudyTable

PAPERS = "papers"
_RANDOM = "the weights are random"
_BASIS = "Every method's model is simplified by exact rules first, the first line's is as it came."
_NOT_RUN = "not run yet"
# Units of what a model is judged by, of which less is better.
_LESS_IS_BETTER = ("nats/token",)
_MODELLED = "the device is modelled, and nothing runs on it"
_TITLES = {
    "accuracy": "accuracy", "drop": "points lost", "latency": "latency", "throughput": "throughput",
    "memory": "memory", "speedup": "speed-up", "size": "size reduction", "energy": "energy",
    "energy_saving": "energy saving",
}  # fmt: skip
# What figures of a cell are called, where a column shows them as they are.
_PLAIN = {"accuracy": "accuracy", "drop": "drop", "latency": "latency_ms", "memory": "peak_bytes",
          "energy": "energy_mj"}  # fmt: skip


@dataclass(frozen=True)
class PaperLine:
    """A row of a table for one model and hardware: its cell and result, if any, and the first row's."""

    row: PaperRow
    model: str
    hardware: str
    cell: StudyCell | None
    result: CellResult | None
    original: CellResult | None


def paper_lines(plan: StudyPlan, table: PaperTable, results: Sequence[CellResult]) -> list[PaperLine]:
    """The rows of a table, for each model and hardware that any of them has a cell of."""
    found = {result.cell: result for result in results}
    patterns = [pattern for row in table.rows for pattern in row.cells]
    every = [cell for cell in cells(plan) if any(fits(cell, pattern) for pattern in patterns)]
    lines: list[PaperLine] = []
    for model, hardware in dict.fromkeys((cell.model, cell.hardware) for cell in every):
        here = [cell for cell in every if (cell.model, cell.hardware) == (model, hardware)]
        original: CellResult | None = None
        for number, row in enumerate(table.rows):
            fitting = (cell for pattern in row.cells for cell in here if fits(cell, pattern))
            cell = next(fitting, None)
            result = found.get(cell) if cell else None
            original = result if not number and result and not result.failed else original
            lines.append(PaperLine(row, model, hardware, cell, result, original))
    return lines


def paper_tables(plan: StudyPlan, results: Sequence[CellResult]) -> tuple[StudyTable, ...]:
    """The tables of a plan, theirs beside ours wherever a paper's figure is known."""
    return tuple(_table(plan, number, table, results) for number, table in enumerate(plan.tables, 1))


def _table(plan: StudyPlan, number: int, table: PaperTable, results: Sequence[CellResult]) -> StudyTable:
    lines, devices = paper_lines(plan, table, results), _devices(results)
    known = {name for row in table.rows for figures in row.published.values() for name in figures}
    shown = [(name, side) for name in table.columns for side in ("", "theirs") if not side or name in known]
    rows = []
    for line in lines:
        ours = _ours(line, table.columns, line.model in plan.random)
        told = (_theirs(line, name) if side else ours[name] for name, side in shown)
        rows.append((line.row.name, line.model, _platform(line.hardware, devices), *told))
    heads = (f"{_TITLES[name]}, theirs" if side else _TITLES[name] for name, side in shown)
    ratios = any(name in _RATIOS for name in table.columns)
    against = f'Ratios are against "{table.rows[0].name}".' if ratios else ""
    basis = _BASIS if len(table.rows) > 1 else ""
    note = " ".join(filter(None, (against, basis, _busy(lines), table.source)))
    return StudyTable(number, table.title, ("method", "model", "platform", *heads), tuple(rows), note)


def _busy(lines: Sequence[PaperLine]) -> str:
    """On how many lines latencies are those of a machine that others used, too."""
    measured = [line.result for line in lines if line.result and not line.result.failed]
    busy = sum(BUSY in result.notes for result in measured)
    return f"On {busy} of {len(measured)} lines with figures {BUSY}." if busy else ""


def _devices(results: Iterable[CellResult]) -> dict[str, str]:
    """What was found to compute, by hardware."""
    return {r.cell.hardware: r.setting[DEVICE] for r in results if DEVICE in r.setting}


def _platform(hardware: str, devices: Mapping[str, str]) -> str:
    """Hardware in a reader's words."""
    kind, _, what = hardware.partition(":")
    if kind == "cpu":
        return "this CPU, one thread" if what == "1" else f"this CPU, {what} threads"
    if kind == "estimated":
        cpu = what == HOST or load_target(what).kind == "cpu"
        return f"{what}, {'one core, ' if cpu else ''}modelled"
    return f"{devices.get(hardware, 'GPU' if kind == 'cuda' else 'a device')}, {kind}"


def _ours(line: PaperLine, columns: Sequence[str], random: bool) -> dict[str, str]:
    """Our figures of a line by column; a reason that stands for several is said once."""
    if line.cell is not None and line.result is None:
        return dict.fromkeys(columns, _NOT_RUN)
    told: dict[str, str] = {}
    said: set[str] = set()
    for column in columns:
        found = figure(line, column, random)
        if isinstance(found, Metric):
            told[column] = str(found)
        else:
            told[column] = f"not possible here, {'as said' if found in said else f'because {found}'}"
            said.add(found)
    return told


def _theirs(line: PaperLine, column: str) -> str:
    for pattern, figures in line.row.published.items():
        if fnmatchcase(line.model, pattern) and column in figures:
            return f"{figures[column]:g}{'x' if column in _RATIOS else ''} (published)"
    return "not published, or not known to us"


def figure(line: PaperLine, column: str, random: bool = False) -> Metric | str:
    """A figure of a line, or why there is none; `random`: the model's weights are."""
    if line.cell is None:
        return line.row.absent
    if line.result is None:
        return _NOT_RUN
    if line.result.failed:
        return line.result.reason
    if random and column in ("accuracy", "drop"):
        return _RANDOM
    if column in _RATIOS:
        return _ratio(line, line.result, column)
    if column == "throughput":
        return _throughput(line.result.figures["latency_ms"], line.result.value("batch") or 1.0)
    found = line.result.figures.get(_PLAIN[column])
    if found is None:
        return _unmeasured(line)
    return found if found.unit != "bytes" else _megabytes(found)


def _unmeasured(line: PaperLine) -> str:
    return _MODELLED if line.hardware.startswith("estimated:") else "the study does not measure it there"


def _megabytes(size: Metric) -> Metric:
    return Metric(size.value / 1e6, size.low / 1e6, size.high / 1e6, "MB", size.evidence)


def _throughput(latency: Metric, batch: float) -> Metric:
    """Samples a second, one inference of so many after the other."""
    each = (1e3 * batch / latency.value, 1e3 * batch / latency.high, 1e3 * batch / latency.low)
    return spread(*each, "samples/s", latency.evidence)


def _ratio(line: PaperLine, result: CellResult, column: str) -> Metric | str:
    """How many times better than the original.

    Where that is the original in ONNX Runtime on a CPU, a speed-up is the ratio that was measured in turns.
    """
    if line.original is None:
        return "the original did not run there"
    here = line.original.cell
    stock = (here.optimization, here.system) == (ORIGINAL, "onnxruntime") and here.hardware.startswith("cpu:")
    if column == "speedup" and stock and "ratio" in result.figures:
        return result.figures["ratio"]
    before, after = (_RATIOS[column](each.figures) for each in (line.original, result))
    if column == "size":
        before = line.original.figures["file_bytes"]
    if before is None or after is None or not after.low > 0:
        return _unmeasured(line)
    if result is line.original:
        return Metric(1.0, 1.0, 1.0, "x", after.evidence)
    value = before.value / after.value
    if "estimated" in (before.evidence, after.evidence):
        # What a byte costs is unknown, but one number for both, so the ends go together.
        ends = before.low / after.low, before.high / after.high
        return spread(value, min(ends), max(ends), "x", "estimated")
    return spread(value, before.low / after.high, before.high / after.low, "x", after.evidence)


_RATIOS: Mapping[str, Callable[[Mapping[str, Metric]], Metric | None]] = {
    "speedup": lambda figures: figures.get("latency_ms"),
    "size": lambda figures: figures.get("packed_bytes", figures.get("file_bytes")),
    "energy_saving": lambda figures: figures.get("energy_mj"),
}


def pareto_figures(plan: StudyPlan, results: Sequence[CellResult]) -> tuple[StudyFigure, ...]:
    """Accuracy over latency of the first table's methods, a figure a model and hardware; a line joins those
    that no other beats in both."""
    lines = paper_lines(plan, plan.tables[0], results) if plan.tables else []
    trained = {model.name for model in plan.models if model.weights == "trained"}
    places = dict.fromkeys((line.model, line.hardware) for line in lines if line.model in trained)
    made: list[StudyFigure] = []
    devices = _devices(results)
    for model, hardware in places:
        points = {
            line.row.name: (latency, accuracy)
            for line in lines
            if (line.model, line.hardware) == (model, hardware)
            and isinstance(latency := figure(line, "latency"), Metric)
            and isinstance(accuracy := figure(line, "accuracy"), Metric)
        }
        if points:
            title = f"Accuracy and latency, {model}, {_platform(hardware, devices)}"
            curves = (_front(list(points.values())), *(_curve(name, [at]) for name, at in points.items()))
            made.append(StudyFigure(len(made) + 1, title, "latency, ms", "accuracy", False, curves))
    return tuple(made)


def _front(points: list[tuple[Metric, Metric]]) -> StudyCurve:
    """The points than which none is faster and as accurate, or as fast and more accurate."""
    best: list[tuple[Metric, Metric]] = []
    better = -1 if any(accuracy.unit in _LESS_IS_BETTER for _, accuracy in points) else 1
    for latency, accuracy in sorted(points, key=lambda at: (at[0].value, -better * at[1].value)):
        if not best or better * accuracy.value > better * best[-1][1].value:
            best.append((latency, accuracy))
    return _curve("Pareto front", best)


def _curve(name: str, points: list[tuple[Metric, Metric]]) -> StudyCurve:
    return StudyCurve(name, tuple(latency.value for latency, _ in points), tuple(up for _, up in points))

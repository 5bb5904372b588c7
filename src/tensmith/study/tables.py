"""The tables and figures of a study, in the forms of the paper's, as HTML, Markdown, LaTeX and PNG.

Tables 2 to 6: the dense models; elbow points of the two prunings; number formats; the fastest algorithm,
untuned and tuned; expected speed-ups and the share of them that was reached. Figures 3 to 7: accuracy over
the ladders of weight and of channel pruning; times by algorithm, untuned and tuned; times by hardware.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensmith.backend.native.choose.choosers import ANY
from tensmith.backend.native.choose.tuning import TUNED, UNTUNED
from tensmith.files import atomic_path, write_text
from tensmith.report.escape import html_text, printable
from tensmith.report.metric import Metric, arms
from tensmith.report.quantity import with_interval
from tensmith.study.materials import ORIGINAL
from tensmith.study.plan import LAYERS, TRAINED, StudyCell, rung
from tensmith.study.results import CellResult

# Points of accuracy that a model may lose up to its elbow.
ELBOW_POINTS = 1.0
# Units that heads of columns name.
_USUAL = {"accuracy": "%", "drop": "pt"}
_FORMATS = ("none", "float16", "int8_uncalibrated", "int8", "ours")
NOTHING = "no result"


@dataclass(frozen=True)
class StudyTable:
    """Rows of text under columns; `note` says how to read them."""

    number: int
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def html(self) -> str:
        """As a table element."""
        head = "".join(f"<th>{html_text(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{html_text(cell)}</td>' for cell in row)}</tr>\n" for row in self.rows
        )
        caption = html_text(f"Table {self.number}: {self.title}. {self.note}", 1000)
        return f"<table>\n<caption>{caption}</caption>\n<tr>{head}</tr>\n{body}</table>\n"

    def markdown(self) -> str:
        """As Markdown."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        table = "\n".join(f"| {' | '.join(map(_markdown, line))} |" for line in lines)
        return f"**Table {self.number}: {_markdown(self.title)}.** {_markdown(self.note)}\n\n{table}\n"

    def latex(self) -> str:
        """As a LaTeX table."""
        rows = "\n".join(f"{' & '.join(map(_latex, row))} \\\\" for row in (self.columns, *self.rows))
        head, _, body = rows.partition("\n")
        caption = _latex(f"{self.title}. {self.note}")
        return (
            f"\\begin{{table}}\n\\caption{{{caption}}}\n\\begin{{tabular}}{{{'l' * len(self.columns)}}}\n"
            f"\\hline\n{head}\n\\hline\n{body}\n\\hline\n\\end{{tabular}}\n\\end{{table}}\n"
        )


def _markdown(text: str) -> str:
    marked = re.sub(r"([\\|`*_\[\]!])", r"\\\1", printable(text, 1000))
    return marked.replace("<", "&lt;")


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
          "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}",
          **{letter: f"\\{letter}" for letter in "&%$#_{}"}}  # fmt: skip


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in printable(text, 1000))


@dataclass(frozen=True)
class Elbow:
    """The last rung of a ladder up to which accuracy holds; `low`, `high`: of the points lost there.

    `amount` is 0 where not even the first rung holds; `falls`: the first rung that does not, infinity where
    all hold. Accuracy falls somewhere between the two.
    """

    model: str
    kind: str
    amount: int
    result: CellResult | None
    falls: float

    @property
    def beyond(self) -> bool:
        """Whether all rungs hold, so that the elbow lies at the last one or further."""
        return math.isinf(self.falls)

    @property
    def certain(self) -> bool:
        """Whether the interval of the drop ends below the bound."""
        return self.result is not None and self.result.figures["drop"].high <= ELBOW_POINTS


def elbows(results: Iterable[CellResult]) -> list[Elbow]:
    """The elbow of each model and ladder: the rungs before the first that loses over a point."""
    found: dict[tuple[str, str], dict[int, CellResult]] = defaultdict(dict)
    for result in results:
        kind, amount = rung(result.cell.optimization)
        if amount is not None and "drop" in result.figures:
            found[result.cell.model, kind][amount] = result
    made = []
    for (model, kind), rungs in found.items():
        held, at, falls = 0, None, math.inf
        for amount in sorted(rungs):
            if rungs[amount].figures["drop"].value > ELBOW_POINTS:
                falls = amount
                break
            held, at = amount, rungs[amount]
        made.append(Elbow(model, kind, held, at, falls))
    return made


# What an algorithm for zeros is held against, where it is not held against itself.
_DENSE = {"sparse": (ANY, "direct")}


def beside(cell: StudyCell, **others: str) -> tuple[str, ...]:
    """The layers of a cell, some of them changed: what a comparison pairs by."""
    return tuple(others.get(layer, getattr(cell, layer)) for layer in LAYERS)


@dataclass(frozen=True)
class Reached:
    """What an optimization was to gain, and gained: both against the dense model in a cell that differs by
    its algorithm, `over`, at most. `low`, `high`: by the ends of both intervals."""

    result: CellResult
    over: str
    expected: float
    speedup: float
    low: float
    high: float

    @property
    def dense(self) -> tuple[str, ...]:
        """The layers of the cell that it is held against."""
        return beside(self.result.cell, optimization=ORIGINAL, algorithm=self.over)

    @property
    def share(self) -> float:
        """Of the expected speed-up."""
        return self.speedup / self.expected


def reached(results: Iterable[CellResult]) -> list[Reached]:
    """Of every cell with an optimization that lets expect something, and a dense counterpart that ran.

    Weights that are zero are skipped by one algorithm alone: `sparse` is held against the fastest mix of
    dense ones, and against `direct`, which computes the same products and no fewer.
    """
    done = {beside(r.cell): r for r in results if not r.failed and "latency_ms" in r.figures}
    found = []
    for result in done.values():
        if result.cell.optimization == ORIGINAL or "expected" not in result.figures:
            continue
        for over in _DENSE.get(result.cell.algorithm, (result.cell.algorithm,)):
            dense = done.get(beside(result.cell, optimization=ORIGINAL, algorithm=over))
            if dense is not None and result.ms > 0:
                expected = result.figures["expected"].value
                ours, theirs = (each.figures["latency_ms"] for each in (result, dense))
                high = theirs.high / ours.low if ours.low > 0 else math.inf
                found.append(
                    Reached(result, over, expected, dense.ms / result.ms, theirs.low / ours.high, high)
                )
    return found


def fastest(results: Iterable[CellResult]) -> dict[tuple[str, ...], CellResult]:
    """The fastest algorithm of each cell but for its algorithm."""
    best: dict[tuple[str, ...], CellResult] = {}
    for result in results:
        key = beside(result.cell, algorithm="")
        if result.failed or "latency_ms" not in result.figures or result.cell.algorithm == ANY:
            continue
        if key not in best or result.ms < best[key].ms:
            best[key] = result
    return best


def tables(results: Sequence[CellResult]) -> tuple[StudyTable, ...]:
    """Tables 2 to 6."""
    return (
        _models(results), _elbows(results), _formats(results), _algorithms(results), _speedups(results),
    )  # fmt: skip


def _models(results: Sequence[CellResult]) -> StudyTable:
    first = _first_of(results, ORIGINAL)
    rows = tuple(
        (result.cell.dataset, model, _told(result, "accuracy"),
         *(f"{result.figures[name].value / 1e6:.3g}" for name in ("weights", "macs", "file_bytes")))
        for model, result in first.items()
    )  # fmt: skip
    columns = ("dataset", "model", "accuracy, %", "weights, 1e6", "multiply-adds, 1e6", "file, MB")
    return StudyTable(2, "Dense models", columns, rows)


def _first_of(results: Sequence[CellResult], optimization: str) -> dict[str, CellResult]:
    """A finished cell of each model with an optimization: accuracy and size are one for all of them."""
    found: dict[str, CellResult] = {}
    for result in results:
        if not result.failed and result.cell.optimization == optimization:
            found.setdefault(result.cell.model, result)
    return found


def _elbows(results: Sequence[CellResult]) -> StudyTable:
    rows = []
    for elbow in elbows(results):
        figures = ("accuracy", "drop") if elbow.result else ()
        told = tuple(_told(elbow.result, name) for name in figures if elbow.result) or (NOTHING, NOTHING)
        amount = (
            f"{elbow.amount}%{' at least' if elbow.beyond else ''}" if elbow.amount else "below the ladder"
        )
        rows.append((elbow.model, elbow.kind, amount, *told, "yes" if elbow.certain else "no"))
    columns = ("model", "pruning", "elbow", "accuracy, %", "points lost", "significant")
    note = (
        f"The elbow is the last rung before one that loses over {ELBOW_POINTS:g} points; it is significant "
        "where the 95% interval of what is lost there ends below that."
    )
    if any(r.figures["drop"].unit != "pt" for r in results if "drop" in r.figures):
        note += f" What is not judged in points may lose {ELBOW_POINTS:g} per cent of what it is judged by."
    return StudyTable(3, "Elbow points", columns, tuple(rows), note)


def _formats(results: Sequence[CellResult]) -> StudyTable:
    firsts = {name: _first_of(results, name) for name in _FORMATS}
    judged = (result for result in results if result.failed or "accuracy" in result.figures)
    models = list(dict.fromkeys(result.cell.model for result in judged))
    rows = tuple(
        (m, *(_told(firsts[name][m], "accuracy") if m in firsts[name] else NOTHING for name in _FORMATS))
        for m in models
    )
    columns = ("model", "float32", "float16", "int8 uncalibrated", "int8 calibrated", "ours")
    return StudyTable(4, "Accuracy of number formats, %", columns, rows)


def _algorithms(results: Sequence[CellResult]) -> StudyTable:
    best = fastest(results)
    keys = dict.fromkeys((*key[:4], "", *key[5:]) for key in best)
    rows = []
    for key in keys:
        told = []
        for system in (UNTUNED, TUNED):
            found = best.get((*key[:4], system, key[5]))
            told += [found.cell.algorithm, _told(found, "latency_ms")] if found else [NOTHING, ""]
        rows.append((key[1], key[2], key[5], *told))
    columns = ("model", "optimization", "hardware", "untuned", "ms", "tuned", "ms")
    return StudyTable(5, "The fastest algorithm", columns, tuple(rows))


def _speedups(results: Sequence[CellResult]) -> StudyTable:
    found = reached(results)
    rows = tuple(
        (r.result.cell.model, r.result.cell.optimization, r.result.cell.algorithm, r.over,
         r.result.cell.system, r.result.cell.hardware, f"{r.expected:.2f}", f"{r.speedup:.2f}",
         f"{100 * r.share:.0f}%", r.result.figures["latency_ms"].evidence)
        for r in found
    )  # fmt: skip
    columns = ("model", "optimization", "algorithm", "over", "system", "hardware", "expected, x",
               "speed-up, x", "share reached", "evidence")  # fmt: skip
    note = (
        "Expected is what time would fall by if it were work: multiply-adds with weights that are not zero, \
and as many at once as a narrower format lets."
    )
    shares: dict[tuple[str, str], list[float]] = {}
    for r in found:
        shares.setdefault((r.result.cell.algorithm, r.over), []).append(r.share)
    if shares:
        note += f" Shares reached: {'; '.join(_typical(*item) for item in shares.items())}."
    return StudyTable(6, "Expected and reached speed-ups over the dense model", columns, rows, note)


def _typical(compared: tuple[str, str], shares: Sequence[float]) -> str:
    """The share that an algorithm reaches over another one, of several cells."""
    half = sum(share >= 0.5 for share in shares)
    return (
        f"{compared[0]} over {compared[1]}: median {100 * statistics.median(shares):.0f}%, "
        f"half or more in {half} of {len(shares)}"
    )


def _told(result: CellResult, name: str) -> str:
    """A figure with its interval."""
    metric = result.figures.get(name)
    if metric is None:
        return NOTHING
    unit = f" {metric.unit}" if metric.unit != _USUAL.get(name, metric.unit) else ""
    return with_interval(metric, unit)


@dataclass(frozen=True)
class StudyCurve:
    """Points of a line, or heights of bars by name."""

    name: str
    x: tuple[Any, ...]
    y: tuple[Metric, ...]


@dataclass(frozen=True)
class StudyFigure:
    """Lines over a ladder (`bars` is false), or groups of bars."""

    number: int
    title: str
    across: str
    up: str
    bars: bool
    curves: tuple[StudyCurve, ...]


def figures(results: Sequence[CellResult]) -> tuple[StudyFigure, ...]:
    """Figures 3 to 7; one without curves where nothing of it was measured."""
    ok = [r for r in results if not r.failed]

    def rungs(kind: str, more: str) -> tuple[StudyCurve, ...]:
        def place(result: CellResult) -> Any:
            found, amount = rung(result.cell.optimization)
            return 0 if result.cell.optimization == ORIGINAL else amount if found == kind else None

        return _curves(ok, "accuracy", lambda r: r.cell.model + more, place)

    def ladder(number: int, kind: str) -> StudyFigure:
        curves = rungs(kind, "") + rungs(f"{TRAINED}:{kind}", ", trained")
        words = kind.replace("_", " ")
        units = dict.fromkeys(metric.unit for curve in curves for metric in curve.y)
        up = f"accuracy, {' or '.join(units) or '%'}"
        return StudyFigure(number, f"Accuracy after {words}", "taken away, %", up, False, curves)

    def bars(number: int, title: str, wanted: Callable[[CellResult], bool], layer: str) -> StudyFigure:
        chosen = [r for r in ok if wanted(r)]
        curves = _curves(
            chosen, "latency_ms", lambda r: str(getattr(r.cell, layer)),
            lambda r: f"{r.cell.model} {r.cell.optimization}",
        )  # fmt: skip
        return StudyFigure(number, title, "model and optimization", "latency, ms", True, curves)

    return (
        ladder(3, "weight_pruning"),
        ladder(4, "channel_pruning"),
        bars(5, "Time by algorithm, untuned", lambda r: r.cell.system == UNTUNED and _here(r), "algorithm"),
        bars(6, "Time by algorithm, tuned", lambda r: r.cell.system == TUNED and _here(r), "algorithm"),
        bars(
            7,
            "Time by hardware, untuned",
            lambda r: r.cell.algorithm == ANY and r.cell.system == UNTUNED,
            "hardware",
        ),
    )


def _here(result: CellResult) -> bool:
    return result.cell.hardware == "cpu:1"


def _curves(
    results: Sequence[CellResult], figure: str, name: Callable[[CellResult], str],
    place: Callable[[CellResult], Any],
) -> tuple[StudyCurve, ...]:  # fmt: skip
    """A curve for each name; of several cells at one place the first counts."""
    points: dict[str, dict[Any, Metric]] = defaultdict(dict)
    for result in results:
        x = place(result)
        if x is not None and figure in result.figures:
            points[name(result)].setdefault(x, result.figures[figure])
    found = []
    for label, at in points.items():
        if len(at) > 1 or isinstance(next(iter(at)), str):
            xs = tuple(sorted(at) if not isinstance(next(iter(at)), str) else at)
            found.append(StudyCurve(label, xs, tuple(at[x] for x in xs)))
    return tuple(found)


def draw_as(found: Iterable[StudyFigure], name: str, folder: Path) -> None:
    """Figures as NAME-NUMBER.png, those that have anything to show."""
    for figure in found:
        if figure.curves:
            draw(figure, folder / f"{name}-{figure.number}.png")


def draw(figure: StudyFigure, path: Path) -> None:
    """A figure as PNG, by matplotlib."""
    import matplotlib
    import matplotlib.figure

    with matplotlib.rc_context({"text.parse_math": False}), atomic_path(path) as made:
        canvas = matplotlib.figure.Figure(figsize=(8, 4.5), layout="constrained")
        _draw(figure, canvas.add_subplot())
        canvas.savefig(made, format="png", dpi=120)


def _draw(figure: StudyFigure, axes: Any) -> None:
    names = list(dict.fromkeys(x for curve in figure.curves for x in curve.x))
    width = 0.8 / len(figure.curves)
    for number, curve in enumerate(figure.curves):
        heights, errors = [m.value for m in curve.y], [*zip(*map(arms, curve.y))]
        if figure.bars:
            at = [names.index(x) + (number + 0.5) * width - 0.4 for x in curve.x]
            axes.bar(at, heights, width, yerr=errors, label=printable(curve.name, 40))
        else:
            axes.errorbar(curve.x, heights, yerr=errors, marker="o", label=printable(curve.name, 40))
    if figure.bars:
        axes.set_xticks(range(len(names)), [printable(name, 40) for name in names], rotation=45, ha="right")
    axes.set(title=f"Figure {figure.number}: {figure.title}", xlabel=figure.across, ylabel=figure.up)
    axes.legend(fontsize="small")


def write_as(found: Sequence[StudyTable], name: str, folder: Path) -> None:
    """Tables as NAME.html, NAME.md and NAME.tex."""
    style = "<style>body{font:14px sans-serif}td,th,caption{padding:2px 8px;text-align:left}</style>"
    head = f'<!doctype html>\n<meta charset="utf-8">\n<title>Tables of the study</title>\n{style}\n'
    write_text(folder / f"{name}.html", head + "\n".join(table.html() for table in found))
    write_text(folder / f"{name}.md", "\n".join(table.markdown() for table in found))
    write_text(folder / f"{name}.tex", "\n".join(table.latex() for table in found))

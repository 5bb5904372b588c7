"""Extraction as an integer program: y[c] for classes, x[n] for nodes, all 0 or 1.

    minimize    sum of cost[n] x[n]
    such that   y[root] = 1
                y[c] = sum of x[n] over the nodes n of c
                y[d] >= sum of x[n] over the nodes n of c that read d       for classes c and d
                what unfounded sets lack (see unfounded)

There are too many such sets to write down. A program is given those that solutions before it held; its bound
holds whichever it is given.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensmith.egraph.reduce import Selection, bits, union
from tensmith.egraph.unfounded import Place, UnfoundedSet, ways_out
from tensmith.errors import needing

# A row of the program: coefficients by column, the least and the most of their sum.
_Row = tuple[dict[int, float], float, float]


@dataclass(frozen=True)
class Solved:
    """bound: what no solution costs less than. shares: what is chosen of each node, nothing where no solution
    was found. raises: by how much the bound would rise if a node had to be chosen (of a relaxation alone)."""

    bound: float
    shares: Mapping[Place, float] = field(default_factory=dict)
    raises: Mapping[Place, float] = field(default_factory=dict)


def relaxed(selection: Selection, sets: Collection[UnfoundedSet], seconds: float) -> Solved:
    """The program with shares between 0 and 1: bound 0 where there was no time, infinity without solution."""
    highs, highspy = _run(selection, sets, False, seconds)
    if highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return Solved(math.inf)
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return Solved(0.0)
    found = highs.getSolution()
    unit, columns = _unit(selection), _columns(selection)
    values, duals = list(found.col_value), list(found.col_dual)
    return Solved(
        highs.getInfo().objective_function_value * unit,
        {place: values[column] for place, column in columns.items()},
        {place: duals[column] * unit for place, column in columns.items()},
    )


def solved(selection: Selection, sets: Collection[UnfoundedSet], seconds: float) -> Solved:
    """The program in whole numbers, as far as the time goes."""
    highs, highspy = _run(selection, sets, True, seconds)
    if highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return Solved(math.inf)
    info = highs.getInfo()
    bound = info.mip_dual_bound * _unit(selection) if math.isfinite(info.mip_dual_bound) else 0.0
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Solved(bound)
    values = list(highs.getSolution().col_value)
    return Solved(
        bound, {place: float(round(values[column])) for place, column in _columns(selection).items()}
    )


def solver() -> Any:
    """HiGHS (Huangfu, Hall: Parallelizing the dual revised simplex method, 2018); MissingExtra without it."""
    with needing("extraction by an integer program", "search"):
        import highspy
    return highspy


def _columns(selection: Selection) -> dict[Place, int]:
    """The column of each node; those of classes come first."""
    places = [(c, o.position) for c, options in selection.options.items() for o in options]
    return {place: column for column, place in enumerate(places, start=len(selection.options))}


def _unit(selection: Selection) -> float:
    """What costs are counted in, so that the solver's tolerances are small beside them."""
    return max((o.cost for options in selection.options.values() for o in options), default=0.0) / 1000 or 1.0


def _rows(
    selection: Selection, columns: Mapping[Place, int], sets: Collection[UnfoundedSet]
) -> Iterator[_Row]:
    ys = {c: column for column, c in enumerate(selection.options)}

    def arc(reader: int, read: int) -> dict[int, float]:
        options = selection.options[reader]
        return {columns[reader, o.position]: -1.0 for o in options if o.reads >> read & 1}

    for c, options in selection.options.items():
        yield {ys[c]: 1.0, **{columns[c, option.position]: -1.0 for option in options}}, 0.0, 0.0
        for read in bits(union(option.reads for option in options)):
            yield {ys[read]: 1.0, **arc(c, read)}, 0.0, math.inf
    for which in sets:
        if which.needs in ys:
            out = {columns[place]: 1.0 for place in ways_out(selection, which)}
            yield {**out, ys[which.needs]: -1.0}, 0.0, math.inf


def _run(
    selection: Selection, sets: Collection[UnfoundedSet], whole: bool, seconds: float
) -> tuple[Any, Any]:
    """HiGHS after it ran, and its module."""
    highspy = solver()
    highs, model, columns = highspy.Highs(), highspy.HighsLp(), _columns(selection)
    rows = list(_rows(selection, columns, sets))
    classes, count = len(selection.options), len(selection.options) + len(columns)
    costs, lower = np.zeros(count), np.zeros(count)
    costs[classes:] = [o.cost for options in selection.options.values() for o in options]
    lower[:classes] = [selection.wanted >> c & 1 for c in selection.options]
    model.num_col_, model.num_row_ = count, len(rows)
    costs *= 1 / _unit(selection)
    model.col_cost_, model.col_lower_, model.col_upper_ = costs, lower, np.ones(count)
    model.row_lower_ = np.array([least for _, least, _ in rows])
    model.row_upper_ = np.array([most for _, _, most in rows])
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.cumsum([0, *(len(row) for row, _, _ in rows)])
    model.a_matrix_.index_ = np.array([column for row, _, _ in rows for column in row])
    model.a_matrix_.value_ = np.array([value for row, _, _ in rows for value in row.values()])
    if whole:
        model.integrality_ = [highspy.HighsVarType.kInteger] * count
    settings = {"output_flag": False, "threads": 1, "time_limit": max(seconds, 0.1),
                "mip_rel_gap": 0.0, "mip_abs_gap": 0.0}  # fmt: skip
    for name, value in settings.items():
        highs.setOptionValue(name, value)
    highs.passModel(model)
    highs.run()
    return highs, highspy

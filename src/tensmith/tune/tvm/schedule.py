"""The process that searches schedules: MetaSchedule (Shao et al., NeurIPS 2022), one generation a request.

    python -m tensmith.tune.tvm.schedule

A request is a frame (see engine.frame): `count` trials of a `function`, which is its text in TVMScript, a
target, the shapes of its arguments, and a seed; the same function again goes on with its search. The answer
holds the trials so far, and of the best one seconds, assembler text and the order of arguments; `end` if
there is nothing left to try.
"""

from __future__ import annotations

import math
import os
import re
import sys
import types
from typing import Any

import numpy as np

from tensmith.engine.frame import Answer, Array, serve, take_stdout
from tensmith.kernel.scheduled import FUNCTION
from tensmith.tune.tvm.packages import import_tvm

# Trials before the cost model is trusted.
_WARM = 16
# Far below MetaSchedule's defaults, which are made for thousands of trials.
_POPULATION = {"population_size": 64, "init_min_unmeasured": 16, "genetic_num_iters": 3}
_PIPELINE = "tensmith"
# What compiled code may call, which whoever loads it has anyway.
_FUNCTIONS = {"memset", "memcpy"}


class Unusable(Exception):
    """Compiled code that needs TVM beside it."""


class ScheduleSearch:
    """One function's search. tvm and its parts are imported by then."""

    def __init__(self, text: str, target: dict[str, Any], shapes: list[list[int]], seed: int) -> None:
        import tvm
        from tvm.s_tir import meta_schedule

        self._tvm, self._ms = tvm, meta_schedule
        self._target = tvm.target.Target(target)
        generator = np.random.default_rng(0)
        arrays = (generator.standard_normal(shape, np.float32) for shape in shapes)
        self._arguments = [tvm.runtime.tensor(array) for array in arrays]
        self._context = meta_schedule.TuneContext(
            tvm.script.from_source(text), target=self._target, space_generator=self._space(),
            search_strategy=meta_schedule.search_strategy.EvolutionarySearch(**_POPULATION),
            rand_state=seed, num_threads=1,
        )  # fmt: skip
        self._database = meta_schedule.database.MemoryDatabase()
        self._workload = self._database.commit_workload(self._context.mod)
        self._model = meta_schedule.cost_model.XGBModel(num_warmup_samples=_WARM, num_tuning_cores=1)
        spaces = self._context.generate_design_space()
        self._context.pre_tuning(1 << 20, _WARM, spaces, self._database, self._model)
        self._untold: tuple[list[Any], list[Any]] = ([], [])
        self._trials, self._seconds, self._assembly, self._order = 0, math.inf, "", [""]

    def _space(self) -> Any:
        """Tiles with sums in a small buffer; no threads."""
        rules, ms = self._ms.schedule_rule, self._ms
        small = rules.ReuseType(req="may", levels=[1, 2], scope="local")
        mutators = ms.Mutator.create("llvm").items()
        return ms.space_generator.PostOrderApply(
            sch_rules=[
                rules.MultiLevelTiling(structure="SSRSRS", max_innermost_factor=64, reuse_write=small),
                rules.ParallelizeVectorizeUnroll(
                    max_jobs_per_core=-1, max_vectorize_extent=64, unroll_max_steps=[0, 16, 64, 512]
                ),
            ],
            postprocs=list(ms.Postproc.create("llvm")),
            mutator_probs={kind: share for kind, share in mutators if "Parallel" not in str(kind)},
        )

    def more(self, count: int) -> dict[str, Any]:
        """Builds and times some more schedules."""
        if any(self._untold):  # only now, since a last time would be for nothing
            self._context.notify_runner_results(*self._untold)
            self._model.update(self._context, *self._untold)
        found = list(self._context.generate_measure_candidates() or [])[:count]
        self._untold = found, [self._timed(candidate) for candidate in found]
        return {
            "trials": self._trials, "end": not found, "seconds": self._seconds,
            "assembly": self._assembly, "order": self._order,
        }  # fmt: skip

    def _timed(self, candidate: Any) -> Any:
        self._trials += 1
        try:
            built = self._tvm.tirx.build(candidate.sch.mod, self._target, pipeline=_PIPELINE)
            assembly = extracted(built.inspect_source("asm"))
            clock = built.time_evaluator("main", self._tvm.cpu(), number=1, repeat=3, min_repeat_ms=1)
            seconds = float(min(clock(*self._arguments).results))
        except (RuntimeError, Unusable) as error:
            return self._ms.runner.RunnerResult(None, str(error)[:200])
        if seconds < self._seconds:
            order = argument_names(built.inspect_source("ll"))
            self._seconds, self._assembly, self._order = seconds, assembly, order
        record = self._ms.database.TuningRecord(
            candidate.sch.trace, self._workload, [seconds], self._target, candidate.args_info
        )
        self._database.commit_tuning_record(record)
        return self._ms.runner.RunnerResult([seconds], None)


def extracted(assembly: str) -> str:
    """The text of FUNCTION and its constants, out of a module's; Unusable if it calls more than it may."""
    lines = assembly.splitlines()
    start = lines.index(f"{FUNCTION}:")
    ends = [n for n, line in enumerate(lines) if line.startswith("\t.size\t")]
    begin = max((end for end in ends if end < start), default=-1) + 1
    end = min(end for end in ends if end > start)
    kept = [line for line in lines[begin:end] if line.strip() and not re.match(_IDLE, line)]
    called = {m[1] for line in kept if (m := re.match(r"\t(?:callq?|bl)\t(\S+?)(?:@PLT)?$", line))}
    if called - _FUNCTIONS or any("__TVM" in line for line in kept):
        raise Unusable(f"it calls {', '.join(sorted(called))}")
    return "\n".join(kept)


# Lines for debuggers: where a line comes from, how to unwind, what a variable is.
_IDLE = r"\t\.(loc|file|cfi_\w+)\b|\.Ltmp\d+:|\.Lfunc_(begin|end)\d+:|\s*(#|//)"


def argument_names(text: str) -> list[str]:
    """The arguments of FUNCTION in their order, from LLVM's text of a module."""
    found = re.search(rf"^define .*@{FUNCTION}\((.*)\)", text, re.MULTILINE)
    return re.findall(r"%(\w+)", found[1]) if found else []


def add_pipeline() -> None:
    """TVM's passes, but small buffers go on the stack: TVM's own allocator is not there later."""
    from tvm import ir, tirx
    from tvm.s_tir.pipeline import default_s_tir_pipeline

    def moved(statement: Any) -> Any:
        if isinstance(statement, tirx.AllocBuffer):
            return tirx.AllocBuffer(statement.buffer, {"disable_lower_builtin": tirx.const(1, "bool")})
        if isinstance(statement, tirx.SeqStmt):
            return tirx.SeqStmt(list(map(moved, statement.seq)))
        if isinstance(statement, tirx.AttrStmt):
            key, value = statement.attr_key, statement.value
            return tirx.AttrStmt(statement.node, key, value, moved(statement.body))
        return statement

    def function(f: Any, _module: Any, _context: Any) -> Any:
        return f.with_body(moved(f.body))

    def pipeline() -> tuple[Any, Any, Any]:
        passes, _, device = default_s_tir_pipeline()
        on_stack = tirx.transform.prim_func_pass(function, opt_level=0)
        last = [on_stack, tirx.transform.LowerTVMBuiltin(), tirx.transform.LowerIntrin()]
        return passes, lambda: ir.transform.Sequential(last), device

    tirx.compilation_pipeline.PIPELINE_MAP[_PIPELINE] = pipeline


def main() -> None:
    """Answers until the pipe closes."""
    answers = take_stdout()
    os.environ |= {"TVM_BIND_THREADS": "0", "TVM_NUM_THREADS": "1"}
    import_tvm()
    # Importing the real one takes 17 s; of intrinsics, floats need none.
    sys.modules["tvm.s_tir.tensor_intrin"] = types.ModuleType("tvm.s_tir.tensor_intrin")
    add_pipeline()
    search: ScheduleSearch | None = None
    asked = None

    def answer(request: dict[str, Any], _arrays: dict[str, Array]) -> Answer:
        nonlocal search, asked
        if search is None or request["function"] != asked:
            search, asked = ScheduleSearch(**request["function"]), request["function"]
        return search.more(request["count"]), {}

    serve(answers, answer)


if __name__ == "__main__":
    main()

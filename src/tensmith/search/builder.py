"""Plans carried out: the program of each with its trail, and its files.

Programs are kept by the steps that made them, so that plans share their beginnings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tensmith.backend.onnx import write_onnx
from tensmith.backend.packed import pack
from tensmith.evaluate.pace import BUILD, Pace
from tensmith.files import write_bytes
from tensmith.frontend.model_files import model_files
from tensmith.ir import Program
from tensmith.rewrite.calibration import Calibration, Listening, Question
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import Traced, simplified, simplify, stepped
from tensmith.search.plan import UNTOUCHED, Plan
from tensmith.search.run import RunDescription

_KEPT_PROGRAMS = 24


@dataclass(frozen=True)
class Built:
    """What a plan led to, and its file. asked: what its lossy steps asked of the calibration.

    packed: None where packing saves nothing; a model in several files is shipped as it is.
    """

    program: Program
    trail: tuple[Step, ...]
    asked: tuple[Question, ...]
    path: Path
    packed: Path | None


@dataclass
class Builder:
    """Builds the plans of one run in its folder."""

    run: RunDescription
    calibration: Calibration
    pace: Pace = field(default_factory=Pace)
    _known: dict[str, tuple[Traced, tuple[Question, ...]]] = field(default_factory=dict)

    def program(self, plan: Plan) -> Traced:
        """The program of a plan with its whole trail. ProgramError if a step does not fit."""
        if plan == UNTOUCHED:
            return Traced(self.run.program)
        return simplified(self._after(plan.steps)[0])

    def treated(self, plan: Plan) -> Program:
        """The program that a plan's steps lead to, before it is simplified: what a further step sees."""
        return self._after(plan.steps)[0].program

    def built(self, plan: Plan) -> Built:
        """All of a plan; files are written where they are not there. TensmithError if a step does not fit."""
        with self.pace.timed(BUILD):
            traced = self.program(plan)
        asked = () if plan == UNTOUCHED else self._after(plan.steps)[1]
        path = self._written(plan, traced)
        return Built(traced.program, traced.trail, asked, path, self._packed(plan, path))

    def file(self, plan: Plan) -> Path:
        """The file of a plan: the model itself for the untouched one."""
        path = self._place(plan)
        return path if path.exists() else self._written(plan, self.program(plan))

    def _place(self, plan: Plan) -> Path:
        return self.run.model if plan == UNTOUCHED else self.run.folder / f"{plan.id}.onnx"

    def _written(self, plan: Plan, traced: Traced) -> Path:
        path = self._place(plan)
        if not path.exists():
            write_onnx(traced.program, path)
        return path

    def _packed(self, plan: Plan, path: Path) -> Path | None:
        packed = self.run.folder / f"{plan.id}.packed"
        if not packed.exists():
            if len(model_files(path)) > 1:
                return None
            write_bytes(packed, pack(path.read_bytes()))
        return packed if packed.stat().st_size < path.stat().st_size else None

    def _after(self, steps: Sequence[Step]) -> tuple[Traced, tuple[Question, ...]]:
        """The simplified program after some steps, and what they asked."""
        key = Plan(tuple(steps)).key
        if key not in self._known:
            listening = Listening(self.calibration)
            if steps:
                before, asked = self._after(steps[:-1])
                made = _stepped(before, steps[-1], listening), (*asked, *listening.asked)
            else:
                made = simplify(self.run.program), ()
            while len(self._known) >= _KEPT_PROGRAMS:
                self._known.pop(next(known for known in self._known if known != Plan().key))
            self._known[key] = made
        return self._known[key]


def _stepped(before: Traced, step: Step, calibration: Calibration) -> Traced:
    """One step later, lossy or exact."""
    if step.kind == "lossy":
        return before.then(apply_lossy(before.program, step, calibration), step)
    return stepped(before, step)

"""Plans carried out: the program of each with its trail, and its files.

Programs are kept by the steps that made them, so that plans share their beginnings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tensmith.backend.onnx import write_onnx
from tensmith.backend.packed import TooSmallError, pack
from tensmith.evaluate import size
from tensmith.evaluate.pace import BUILD, Pace
from tensmith.files import TemporaryFolder, write_bytes
from tensmith.frontend.model_files import model_files
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.report.metric import Metric, exact
from tensmith.rewrite.calibration import Calibration, Listening, Question
from tensmith.rewrite.kept import demand_unchanged
from tensmith.rewrite.method import apply_lossy, exact_steps
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import Traced, replay_exact, simplified, simplify, stepped
from tensmith.search.allowed import Allowed
from tensmith.search.plan import UNTOUCHED, Plan

if TYPE_CHECKING:
    from tensmith.search.building import Delivered

_KEPT_PROGRAMS = 24
# Below a builder's folder: files that were built elsewhere.
_DELIVERED = "delivered"


@dataclass(frozen=True)
class Built:
    """What a plan led to, and its file. asked: what its lossy steps asked of the calibration.

    packed: None where packing saves nothing, or more than readers believe; several files are shipped as they
    are.
    """

    program: Program
    trail: tuple[Step, ...]
    asked: tuple[Question, ...]
    path: Path
    packed: Path | None

    def sizes(self) -> dict[str, Metric]:
        """Bytes of the file, of what would be shipped, of the weights."""
        stored = size.file_bytes(self.path)
        packed = exact(self.packed.stat().st_size, "bytes") if self.packed else stored
        return {"file_bytes": stored, "packed_bytes": packed, "weight_bytes": size.weight_bytes(self.path)}


@dataclass
class Builder:
    """Builds plans for the `program` of the file `model` in a folder.

    deliver: builds several elsewhere; by key what came of those that it could build. Their files lie in a
    folder of their own until they are confirmed, where no later process looks. allowed: a plan that does more
    is not built, and neither is one whose steps change a layer that is kept.
    """

    model: Path
    original: Program
    folder: Path
    calibration: Calibration
    pace: Pace = field(default_factory=Pace)
    deliver: Callable[[Sequence[Plan]], Mapping[str, Delivered]] | None = None
    allowed: Allowed = field(default_factory=Allowed)
    _known: dict[str, tuple[Traced, tuple[Question, ...]]] = field(default_factory=dict)
    _trails: dict[str, tuple[Step, ...]] = field(default_factory=dict)

    def program(self, plan: Plan) -> Traced:
        """The program of a plan with its whole trail. ProgramError if a step does not fit."""
        if plan == UNTOUCHED:
            return Traced(self.original)
        return simplified(self._after(plan.steps)[0])

    def treated(self, plan: Plan) -> Program:
        """The program that a plan's steps lead to, before it is simplified: what a further step sees."""
        return self._after(plan.steps)[0].program

    def built(self, plan: Plan) -> Built:
        """All of a plan; files are written where they are not there. TensmithError if a step does not fit, or
        is not allowed.

        What was delivered is read, and nothing is known of what it asked until it is confirmed.
        """
        self.allowed.demand(plan)
        if plan.key in self._trails:
            path = self._place(plan)
            return Built(read_onnx(path), self._trails[plan.key], (), path, self._packed(plan, path))
        with self.pace.timed(BUILD):
            traced = self.program(plan)
        asked = () if plan == UNTOUCHED else self._after(plan.steps)[1]
        path = self._written(plan, traced)
        return Built(traced.program, traced.trail, asked, path, self._packed(plan, path))

    def prepare(self, plans: Iterable[Plan]) -> None:
        """Has plans built elsewhere, where that can be; those that cannot are built when they are needed."""
        wanted = {plan.key: plan for plan in plans if not self._place(plan).exists()}
        found_of = self.deliver(list(wanted.values())) if self.deliver is not None else {}
        for key, found in found_of.items():
            plan = wanted[key]
            self._trails[key] = found.trail
            (self.folder / _DELIVERED).mkdir(exist_ok=True)
            self._packed_place(plan).unlink(missing_ok=True)
            if found.packed is not None:
                write_bytes(self._packed_place(plan), found.packed)
            write_bytes(self._place(plan), found.model)
            self.pace.note(BUILD, found.seconds)

    def confirmed(self, plan: Plan) -> bool:
        """Whether this process builds of a plan what was delivered; from then on it counts as built here.

        TensmithError where it cannot build the plan.
        """
        if plan.key not in self._trails:
            return True
        delivered, packed = self._place(plan), self._packed_place(plan)
        trail = self._trails.pop(plan.key)
        with self.pace.timed(BUILD), TemporaryFolder() as folder:
            traced = self.program(plan)
            again = Path(folder) / "again.onnx"
            write_onnx(traced.program, again)
            if traced.trail != trail or again.read_bytes() != delivered.read_bytes():
                return False
        delivered.replace(self._place(plan))
        packed.unlink(missing_ok=True)  # nobody compared it: it is packed here when it is asked for
        return True

    def file(self, plan: Plan) -> Path:
        """The file of a plan: the model itself for the untouched one."""
        path = self._place(plan)
        return path if path.exists() else self._written(plan, self.program(plan))

    def _place(self, plan: Plan) -> Path:
        return self.model if plan == UNTOUCHED else self._room(plan) / f"{plan.id}.onnx"

    def _packed_place(self, plan: Plan) -> Path:
        return self._room(plan) / f"{plan.id}.packed"

    def _room(self, plan: Plan) -> Path:
        return self.folder / _DELIVERED if plan.key in self._trails else self.folder

    def _written(self, plan: Plan, traced: Traced) -> Path:
        path = self._place(plan)
        if not path.exists():
            write_onnx(traced.program, path)
        return path

    def _packed(self, plan: Plan, path: Path) -> Path | None:
        packed = self._packed_place(plan)
        if not packed.exists():
            if len(model_files(path)) > 1:
                return None
            try:
                write_bytes(packed, pack(path.read_bytes(), compiled=True))
            except TooSmallError:
                return None
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
                made = simplify(self.original), ()
            while len(self._known) >= _KEPT_PROGRAMS:
                self._known.pop(next(known for known in self._known if known != Plan().key))
            self._demand_kept(steps, made[0].program)
            self._known[key] = made
        return self._known[key]

    def _demand_kept(self, steps: Sequence[Step], program: Program) -> None:
        """ProgramError where steps with a lossy one among them led away from layers that are to be kept."""
        if self.allowed.kept and any(step.kind == "lossy" for step in steps):
            start = self._after(())[0].program
            demand_unchanged(start, program, self.allowed.kept, "this plan")


def _stepped(before: Traced, step: Step, listening: Listening) -> Traced:
    """One step later, lossy or exact. What chooses exact steps is not needed to replay them."""
    if step.kind == "exact":
        return stepped(before, step)
    exact = exact_steps(before.program, step, listening.source)
    if exact is not None:
        return simplified(before.then(replay_exact(before.program, exact), *exact))
    return before.then(apply_lossy(before.program, step, listening), step)

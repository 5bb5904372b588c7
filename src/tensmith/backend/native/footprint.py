"""What a plan takes of a small device, and whether that is there."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from tensmith.backend.native.emit.source import in_comment
from tensmith.backend.native.plan import NativePlan
from tensmith.errors import EngineError
from tensmith.kernel.image import Image

# How many of the values that make a peak an error names.
_NAMED = 3


@dataclass(frozen=True)
class Footprint:
    """Bytes. `given` are the caller's arrays of inputs and outputs; `stack` is a bound on the stack.

    Without a compiler for the device, `code` and `stack` are not known: None.
    """

    arena: int
    given: int
    stack: int | None
    weights: int
    code: int | None

    @property
    def ram(self) -> int:
        """What is written, while the model runs."""
        return self.arena + self.given + (self.stack or 0)

    @property
    def flash(self) -> int:
        """What is only read."""
        return self.weights + (self.code or 0)

    def to_json(self) -> dict[str, int | None]:
        """Its parts and their sums."""
        return {**asdict(self), "ram": self.ram, "flash": self.flash}

    def __str__(self) -> str:
        unknown = "" if self.code is not None else " (code and stack not measured: pip install ziglang)"
        return (
            f"{self.ram:,} bytes of RAM ({self._ram_parts}), {self.flash:,} of flash ({self._flash_parts})"
            f"{unknown}"
        )

    def require(self, ram: int, flash: int | None, plan: NativePlan, otherwise: str = "") -> None:
        """EngineError if there is less than that: by how much, what of the plan takes most, `otherwise`."""
        if self.ram > ram:
            raise EngineError(
                f"the model takes {self.ram:,} bytes of RAM ({self._ram_parts}), {self.ram - ram:,} more "
                f"than {ram:,}; {_peak(plan)}; {otherwise}"
                "make its input or first layers smaller"
            )
        if flash is not None and self.flash > flash:
            raise EngineError(
                f"the model takes {self.flash:,} bytes of flash ({self._flash_parts}), "
                f"{self.flash - flash:,} more than {flash:,}; {_heaviest(plan)}; "
                "`tensmith compress` makes them smaller"
            )

    @property
    def _ram_parts(self) -> str:
        return _sum({"arena": self.arena, "inputs and outputs": self.given, "stack": self.stack})

    @property
    def _flash_parts(self) -> str:
        return _sum({"weights": self.weights, "code": self.code})


def footprint(plan: NativePlan, image: Image | None) -> Footprint:
    """What a plan takes, with what is known of its image."""
    program, weights = plan.program, int(plan.weights.nbytes)
    types = [program.type(name) for name in (*program.inputs, *program.outputs)]
    given = sum(int(np.prod(type_.static or ())) * type_.numpy.itemsize for type_ in types)
    if image is None:
        return Footprint(plan.arena_bytes, given, None, weights, None)
    return Footprint(image.ram_bytes, given, image.stack, weights, image.flash_bytes - weights)


def _sum(parts: dict[str, int | None]) -> str:
    return " + ".join(f"{size:,} {name}" for name, size in parts.items() if size is not None)


def _peak(plan: NativePlan) -> str:
    """The step during which most is alive in the arena, and the largest of that."""
    during = [alive(plan, phase) for phase in range(len(plan.phases))]
    phase, most = max(enumerate(during), key=lambda item: sum(item[1].values()))
    largest = sorted(most.items(), key=lambda item: -item[1])[:_NAMED]
    if not most:
        return "nothing of it is kept between steps"
    told = ", ".join(f"{in_comment(name)} {size:,}" for name, size in largest)
    step = in_comment(plan.actions[plan.phases[phase][0]].writes)
    return f"most, {sum(most.values()):,}, is alive at step '{step}': {told}"


def alive(plan: NativePlan, phase: int) -> dict[str, int]:
    """What lies in the arena during one of the plan's phases, and its bytes."""
    return {name: span.bytes for name, span in plan.lifetimes.items() if span.first <= phase <= span.last}


def _heaviest(plan: NativePlan) -> str:
    """The step with the largest weights."""
    sizes = [(action.weights.nbytes, action.writes) for action in plan.actions if action.weights is not None]
    size, step = max(sizes, default=(0, "none"))
    return f"the largest weights, {size:,}, are those of step '{in_comment(step)}'"

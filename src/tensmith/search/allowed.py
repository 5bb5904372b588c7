"""What lossy methods may do in a run: the layers that stay as they are, and the methods that there are.

A search passes every plan through `fitted`; whoever builds one demands that nothing else got in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tensmith.errors import ProgramError
from tensmith.ir import Program
from tensmith.rewrite.kept import KEPT, Covered, kept_by
from tensmith.rewrite.method import LOSSY, Method, lists_of_layers
from tensmith.rewrite.rule import Step
from tensmith.search.plan import Plan


@dataclass(frozen=True)
class Allowed:
    """kept: sites of layers that stay as they are. only: the methods that may be used, None for all.

    Where either is said, engines compute in floats, too: what they round then is no method's business.
    """

    kept: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None

    @cached_property
    def methods(self) -> list[Method]:
        """The methods that may be used."""
        return [method for name, method in LOSSY.items() if self.only is None or name in self.only]

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.kept and self.only is None

    @property
    def graded(self) -> bool:
        """Whether one of them puts weights on grids, which others begin with."""
        return any(method.graded for method in self.methods)

    def covered(self, program: Program) -> Program:
        """A program as methods see it: kept layers have no weights there."""
        return Covered.of(program, self.kept).program if self.kept else program

    def fitted(self, plan: Plan) -> Plan:
        """The plan with what is not allowed left out, and kept layers named by each lossy step."""
        if self.everything:
            return plan
        settings = {name: value for name, value in plan.settings.items() if name not in _rounding(plan)}
        return Plan.of(filter(None, map(self.fitted_step, plan.steps)), settings)

    def fitted_step(self, step: Step) -> Step | None:
        """The step, with kept layers named if it is lossy; None where it is not allowed.

        ProgramError where it names such by no list.
        """
        if step.kind == "exact":
            return step
        if step.site in self.kept or (self.only is not None and step.rule not in self.only):
            return None
        if not self.kept:
            return step
        named = sorted({*kept_by(step), *self.kept})
        return replace(step, params={**without_layers(step.params, named), KEPT: named})

    def demand(self, plan: Plan) -> None:
        """ProgramError where a plan does more than is allowed."""
        for step in plan.steps:
            if step.kind == "exact":
                continue
            if self.only is not None and step.rule not in self.only:
                raise ProgramError(f"lossy method '{step.rule}' is none of those that may be used")
            if left := set(self.kept) - set(kept_by(step)):
                raise ProgramError(f"lossy method '{step.rule}' does not leave '{min(left)}' as it is")
        if not self.everything and (rounding := _rounding(plan)):
            raise ProgramError(f"the setting {', '.join(sorted(rounding))} rounds in every layer")


def _rounding(plan: Plan) -> set[str]:
    """The settings of a plan that make its engine round."""
    return {name for name, _ in plan.engine_settings}


def without_layers(params: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """Parameters that say nothing of some layers."""
    lists = lists_of_layers()
    said = dict(params)
    for name, value in params.items():
        if name in lists and isinstance(value, (list, tuple)):
            said[name] = [site for site in value if site not in gone]
        elif name in ("bits", "worth") and isinstance(value, Mapping):
            said[name] = {site: count for site, count in value.items() if site not in gone}
    return said

"""A plan as YAML: what each point of a front was made by, and what another run may start from.

keep: [conv1]         # layers that no lossy method changes
only: [int8]          # the lossy methods that may be used; without it, all
steps:                # in whatever order: they act in one
- {rule: int8, site: '*', params: {calibration: minmax, default_bits: 7}, kind: lossy}
settings: {}          # of the engine
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, JsonValue, field_validator, model_validator

from tensmith.backend.native.choose.precision import PRECISIONS
from tensmith.engine.base import ENGINES
from tensmith.errors import TensmithError, nearest
from tensmith.rewrite.kept import KEPT, layers_with_weights
from tensmith.rewrite.lossy.weights import stored_weights
from tensmith.rewrite.method import LOSSY, lists_of_layers
from tensmith.rewrite.rule import EVERYWHERE, EXACT, Step
from tensmith.rewrite.trail import Traced, moved
from tensmith.search.builder import Builder
from tensmith.search.plan import UNTOUCHED, Plan
from tensmith.yaml_text import YamlPart, YamlText, read_yaml

_MOST_STEPS = 10_000
_SETTINGS = ("engine", "precision", "untouched")
_PLAN = "a plan; give a plan.yaml, as each point of a finished run holds one"


class WrittenStep(YamlPart):
    """A step as `Step.to_json` has it; what is usual may be left out."""

    rule: str
    site: str = EVERYWHERE
    params: dict[str, JsonValue] = Field(default_factory=dict)
    kind: Literal["exact", "lossy"] = "lossy"

    @model_validator(mode="after")
    def _known(self) -> WrittenStep:
        table: Collection[str] = LOSSY if self.kind == "lossy" else EXACT
        if self.rule not in table:
            noun = "lossy method" if self.kind == "lossy" else "exact rule"
            raise ValueError(f"there is no {noun} '{self.rule}'{nearest(self.rule, list(table), 12)}")
        return self

    def step(self) -> Step:
        """The step."""
        return Step(self.rule, self.site, self.params, self.kind)


class WrittenPlan(YamlPart):
    """A plan with what was demanded of the run it is of."""

    keep: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    steps: tuple[WrittenStep, ...] = Field((), max_length=_MOST_STEPS)
    settings: dict[str, str] = Field(default_factory=dict)

    @field_validator("only")
    @classmethod
    def _methods(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return known_methods(names)

    @field_validator("settings")
    @classmethod
    def _settings(cls, settings: dict[str, str]) -> dict[str, str]:
        for name in settings:
            if name not in _SETTINGS:
                raise ValueError(f"there is no setting '{name}'{nearest(name, _SETTINGS)}")
        _one_of("precision", settings, PRECISIONS)
        _one_of("engine", settings, list(ENGINES))
        return settings

    def plan(self) -> Plan:
        """The plan alone."""
        return Plan.of((written.step() for written in self.steps), self.settings)


def _one_of(name: str, settings: Mapping[str, str], known: Sequence[str]) -> None:
    if name in settings and settings[name] not in known:
        raise ValueError(f"there is no {name} '{settings[name]}'{nearest(settings[name], known)}")


def known_methods(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of lossy methods, each once; ValueError naming the nearest where there is none of that name."""
    for name in names:
        if name not in LOSSY:
            known = list(LOSSY)
            near = nearest(name, known)
            also = "" if "known" in near else f" known: {', '.join(known)}"
            raise ValueError(f"there is no lossy method '{name}'{near}{also}")
    return tuple(dict.fromkeys(names))


def read_plan_file(path: Path) -> YamlText[WrittenPlan]:
    """The plan in a file; UsageError naming line and nearest word where it is none."""
    return read_yaml(path, WrittenPlan, {"steps": WrittenStep}, _PLAN)


def plan_text(plan: Plan, keep: Sequence[str], only: Sequence[str] | None) -> str:
    """A plan in the words that `read_plan_file` reads."""
    document = {"keep": list(keep), "only": list(only or ()), **plan.to_json()}
    return "# tensmith compress MODEL --data KIND:PATH --plan THIS_FILE starts from here\n" + yaml.safe_dump(
        document, sort_keys=False
    )


def demand_fitting(text: YamlText[WrittenPlan], builder: Builder, engines: Sequence[str]) -> Plan:
    """The plan, as the run that it is for allows it; UsageError naming what does not fit the model, or an
    engine that is none of the run's.

    It is built for that, as far as its steps go; who tries it finds that done.
    """
    written = [each.step() for each in text.content.steps]
    plan = text.content.plan()
    engine = plan.settings.get("engine")
    if engine not in (None, *engines) and plan != UNTOUCHED:
        what = f"engine '{engine}' is none of the run's: {', '.join(engines)}; name it by --engines, too"
        raise text.wrong(("settings", "engine"), what)
    fitting: tuple[Step, ...] = ()
    for step in plan.steps:
        place = ("steps", written.index(step))
        for wrong, what in _faults(builder, fitting, step):
            raise text.wrong((*place, wrong), what)
        try:
            fitting = (*fitting, *builder.allowed.fitted(Plan((step,))).steps)
            builder.treated(Plan(fitting))
        except TensmithError as error:
            raise text.wrong(place, str(error)) from error
    allowed = builder.allowed.fitted(plan)
    if allowed.settings != plan.settings:
        gone = ", ".join(sorted(plan.settings.keys() - allowed.settings.keys()))
        raise text.wrong(("settings",), f"{gone} rounds in every layer, which --keep and --only rule out")
    return allowed


def _faults(builder: Builder, before: tuple[Step, ...], step: Step) -> Iterator[tuple[str, str]]:
    """(entry, what is wrong with it) of a step after others."""
    program = builder.treated(Plan(before))
    if step.kind == "exact":
        if moved(Traced(program), step) is None:
            yield "site", f"exact rule '{step.rule}' does not apply at '{step.site}' of this model"
        return
    allowed = builder.allowed
    if allowed.only is not None and step.rule not in allowed.only:
        yield "rule", f"'{step.rule}' is none of the methods that --only names: {', '.join(allowed.only)}"
    if step.site in allowed.kept:
        yield "site", f"'{step.site}' is to be kept as it is, and '{step.rule}' would change it"
    sites = list(LOSSY[step.rule].sites(allowed.covered(program)))
    if step.site not in sites:
        yield "site", f"'{step.rule}' has nothing to do at '{step.site}'{nearest(step.site, sites, 8)}"
    outputs = (node.output for node in layers_with_weights(program))
    layers = list(dict.fromkeys((*outputs, *(own.site for own in stored_weights(program)))))
    for name in (KEPT, *lists_of_layers(), "bits", "worth"):
        value = step.params.get(name, ())
        for site in value if isinstance(value, (list, tuple, dict)) else ():
            if site not in layers:
                yield "params", f"there is no layer '{site}' for {name}{nearest(str(site), layers, 8)}"

"""What a user demands of a search: layers to keep, the only methods to use, a plan to start from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tensmith.ir import Program
from tensmith.rewrite.archives import trained_path
from tensmith.rewrite.kept import kept_sites
from tensmith.rewrite.lossy.recover import Recover, trained_weights
from tensmith.search.allowed import Allowed
from tensmith.search.plan_file import WrittenPlan, read_plan_file
from tensmith.yaml_text import YamlText


@dataclass(frozen=True)
class SearchDemands:
    """By options, and by the file of a plan, which may hold more of them. only: empty for all methods."""

    keep: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    text: YamlText[WrittenPlan] | None = None

    @staticmethod
    def of(keep: Sequence[str], only: Sequence[str], plan: str) -> SearchDemands:
        """What is kept is kept by either; methods named by an option overrule those of the file.

        UsageError if the file is no plan.
        """
        text = read_plan_file(Path(plan)) if plan else None
        if text is None:
            return SearchDemands(tuple(keep), tuple(only))
        every = dict.fromkeys((*keep, *text.content.keep))
        return SearchDemands(tuple(every), tuple(only) or text.content.only, text)

    def allowed(self, original: Program, simplified: Program, recovers: bool) -> Allowed:
        """What that allows lossy methods; UsageError if a layer to keep is none of the model.

        recovers: training was asked for, and so is allowed whatever else is.
        """
        only = (*self.only, *((Recover.name,) if recovers else ())) if self.only else None
        return Allowed(kept_sites(original, simplified, self.keep), only)

    def trained(self, kept: Path) -> Iterator[tuple[Path, Path]]:
        """(file, its place in the folder `kept`) of weights that the plan's steps found by training.

        They lie beside the plan, as a run writes it.
        """
        for weights in trained_weights(self.text.content.plan().steps) if self.text else ():
            assert self.text is not None
            source, place = trained_path(self.text.path.parent, weights), trained_path(kept, weights)
            if not place.exists():
                yield source, place

    def require_data(self, fingerprint: str) -> None:
        """UsageError where steps of the plan were trained on other data, or other splits of it, than those of
        this fingerprint: what a run judges by may be among what they were fitted to."""
        for place, step in enumerate(self.text.content.steps if self.text else ()):
            if step.rule == Recover.name and step.params.get("data") != fingerprint:
                assert self.text is not None
                what = (
                    "its weights were trained in a run of other samples, which may be those to judge by here"
                )
                advice = "give the data, --seed and numbers of samples of that run, or take the step out"
                raise self.text.wrong(("steps", place), f"{what}; {advice}")

    def told(self, allowed: Allowed) -> Iterator[str]:
        """Sentences for the report."""
        if allowed.kept:
            yield f"no lossy method was to change {', '.join(allowed.kept)}"
        if self.only:
            yield f"the only lossy methods were {', '.join(self.only)}"
        if self.text is not None:
            yield f"the search began with the plan in {self.text.path.name}"

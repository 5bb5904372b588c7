"""What a certificate says in words, made from what it holds in figures: a verifier makes the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from tensmith.engine.base import compiler
from tensmith.report.metric import MEASURES, Evidence, Metric
from tensmith.verify.schema import ClaimRow, Deployed, Judged, Proof, RunCheck, TrailStep

REALS = (
    "Numbers are real numbers: how floating-point arithmetic rounds on the way is not part of the claim.",
    "Both sides are defined: no divisor is zero, no root or logarithm is taken of a negative number.",
    "Open sizes are at least 1; those that meet are equal: none is 1, and stretched to another.",
)
DRAWN = "Integer inputs and symbolic sizes are tested at the values drawn."
FIELD = (
    *REALS,
    "Functions that are not arithmetic (exp, sqrt, max ...) are taken as unknown functions, stood for by a "
    "keyed hash.",
    DRAWN,
)
PURE = ("Ops are pure functions of their inputs and attributes.",)
# A false pass below this probability makes a test an exact check.
CHECKED = 1e-6
# The metrics that hang on what a model answers.
ANSWERS = frozenset({"accuracy", "accuracy_drop"})


def claims(
    trail: Sequence[TrailStep],
    runs: Sequence[RunCheck],
    rules: Sequence[Proof],
    metrics: Mapping[str, Metric],
    deployed: Deployed,
    judged: Judged | None,
) -> list[ClaimRow]:
    """Every statement of the certificate with its evidence, in order: no other is made."""
    rows = _rule_rows(rules)
    rows += [_fold_row(run) if run.sort == "fold" else _field_row(run) for run in runs]
    rows += _later_rows(trail, rules)
    rows += _compiled_rows(deployed)
    return rows + _metric_rows(metrics, judged)


def _later_rows(trail: Sequence[TrailStep], rules: Sequence[Proof]) -> list[ClaimRow]:
    """Lossy steps, and the exact ones after the first of them."""
    prefix = sum(1 for _ in takewhile(lambda step: step.kind == "exact", trail))
    lossy = [step.rule for step in trail if step.kind == "lossy"]
    later = {step.rule for step in trail[prefix:] if step.kind == "exact"}
    rows = []
    if lossy:
        names = ", ".join(sorted(set(lossy)))
        claim = f"{len(lossy)} lossy steps ({names}) change values."
        rows.append(_row(claim, "measured", "What they cost is the accuracy of the deployed file."))
    if later:
        count = sum(step.kind == "exact" for step in trail[prefix:])
        proved = all(rule.verdict == "proved" for rule in rules if rule.rule in later)
        rows.append(
            _row(
                f"{count} exact steps after the first lossy one change no value.",
                "proved" if proved else "tested",
                f"By their rules alone: {', '.join(sorted(later))}.",
                REALS,
            )
        )
    return rows


def _compiled_rows(deployed: Deployed) -> list[ClaimRow]:
    """What is known of the way from the model to compiled code."""
    by = compiler(deployed.engine)
    if by is None:
        return []
    library = by.library
    claim = f"{library} computes what model.onnx does, but for rounding."
    kernels = "Kernels and generated C are tested by running them; they are not proved."
    rows = [_row(claim, "tested", kernels)]
    if deployed.prepared is None:
        claim = f"How model.onnx was prepared for {library} is not known step by step."
        return [*rows, _row(claim, "tested", "Only the whole is.")]
    for word in ("proved", "checked", "tested"):
        steps = [each.step for each in deployed.prepared if each.evidence == word]
        if steps:
            names = ", ".join(sorted(set(steps)))
            claim = f"{len(steps)} steps prepare model.onnx for {library} and change no value: {names}."
            rows.append(_row(claim, word, f"How: see {_MANIFEST}.", REALS if word != "tested" else ()))
    return rows


def judged_on(judged: Judged | None) -> str:
    """What the figure called accuracy is, and on how many samples."""
    if judged is None:
        return "what a function of the user's says"
    return f"{MEASURES[judged.measure]} on {judged.judged:,} held-out samples"


def _metric_rows(metrics: Mapping[str, Metric], judged: Judged | None) -> list[ClaimRow]:
    """One row for each evidence word that metrics have."""
    rows = []
    for word, claim in _METRIC_CLAIMS.items():
        figures = {name: metric for name, metric in metrics.items() if metric.evidence == word}
        if figures:
            measure = f". Accuracy is {judged_on(judged)}." if ANSWERS & figures.keys() else ""
            rows.append(_row(claim, word, _figures(figures) + measure))
    return rows


_MANIFEST = "model.json"
_METRIC_CLAIMS: dict[Evidence, str] = {
    "measured": "These metrics are of the deployed file, on the machine where it was made.",
    "estimated": "These metrics are estimates, for no machine in particular.",
}


def _field_row(run: RunCheck) -> ClaimRow:
    steps = f"Steps {run.start + 1} to {run.stop} (exact)"
    if run.verdict == "different":
        return _row(f"{steps} CHANGE the outputs.", "checked", run.reason, FIELD)
    if run.verdict == "unknown":
        return _row(f"{steps} are not checked as a whole.", "tested", run.reason, FIELD)
    if not run.primes:
        return _row(f"{steps} do not change the outputs.", "checked", f"{run.reason}.".capitalize(), PURE)
    detail = f"Outputs are equal modulo {len(run.primes)} random primes"
    if run.cuts:
        detail += f", with unknown functions at {run.cuts} values that both sides compute"
    if run.error_probability <= CHECKED:
        detail += (
            f"; polynomials have degree {run.degree} at most, and different programs pass with probability "
            f"{_upwards(run.error_probability)} at most."
        )
        return _row(f"{steps} do not change the outputs.", "checked", detail, FIELD)
    detail += f"; there is no useful bound on a false pass: {run.reason or f'degree {run.degree}'}."
    return _row(f"{steps} do not change the outputs.", "tested", detail, FIELD)


def _fold_row(run: RunCheck) -> ClaimRow:
    if run.ulps is None:
        return _row(f"Step {run.stop} folds a constant WRONGLY: '{run.reason}'.", "bounded", "")
    ulps = -(-run.ulps * 100 // 1) / 100
    return _row(
        f"The {run.constants} constants folded by step {run.stop} are within {ulps:.2f} "
        "units in the last place of what they replace.",
        "bounded",
        f"The unfolded expressions were computed in float64; the worst is '{run.reason}'.",
        ("The rounding of float64 in the reference is not counted.",),
    )


def _rule_rows(rules: Sequence[Proof]) -> list[ClaimRow]:
    rows = []
    proved = [rule for rule in rules if rule.verdict == "proved"]
    if proved:
        rows.append(
            _row(
                f"Equalities for all sizes: the rules {', '.join(rule.rule for rule in proved)}.",
                "proved",
                f"{sum(rule.obligations for rule in proved)} obligations, by normal forms or an SMT solver.",
                REALS,
            )
        )
    for rule in rules:
        if rule.verdict == "structural":
            rows.append(_row(f"The rule {rule.rule} changes no formula.", "tested", f"{rule.how}."))
        elif rule.verdict == "not proved":
            rows.append(_row(f"The rule {rule.rule} is NOT proved.", "tested", rule.how))
    return rows


def _row(claim: str, evidence: Evidence, detail: str, assumptions: Sequence[str] = ()) -> ClaimRow:
    return ClaimRow(
        claim=claim[:4000], evidence=evidence, detail=detail[:4000], assumptions=list(assumptions)
    )


def _figures(metrics: Mapping[str, Metric]) -> str:
    """Metrics in one line."""
    return "; ".join(
        f"{name} {m.value:.6g} [{m.low:.6g}, {m.high:.6g}] {m.unit} ({m.evidence})".strip()
        for name, m in sorted(metrics.items())
    )


def _upwards(probability: float) -> str:
    """A probability in two digits, rounded up."""
    return f"{probability * 1.05:.1e}"

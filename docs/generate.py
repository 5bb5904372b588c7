"""The reference pages that are read off the code: `python -m docs.generate [FOLDER]`, by `make docs`.

docs/operators.md has a generator of its own (benchmarks.trust.onnx_conformance): it runs ONNX's node tests.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rules.xla import ENTRIES, Entry
from docs.interfaces import cli_page, formats_page, python_page
from docs.markup import NOTE, cell, fields, paragraphs

from tensmith.data import READERS, DatasetReader
from tensmith.engine.base import ENGINES
from tensmith.engine.sized import KEPT_MODELS, MOST_BYTES, MOST_MODELS
from tensmith.files import write_text
from tensmith.hardware import Target, load_target, target_names
from tensmith.report.schema import front_schema
from tensmith.rewrite.method import LOSSY, NUMBERS, STRUCTURE, TRAINING, WEIGHTS
from tensmith.rewrite.rule import EXACT, Rule

PHASES = {
    "simplify": "Applied wherever they match, until none does.",
    "fold": "Applied last: what constants compute becomes a constant, which rounds once.",
    "offer": "Left to the search: they pay on some programs and engines only.",
    "form": "Other forms of a value, which pay after further steps if at all: for searches of many steps.",
    "lower": "Applied before a program is compiled: ops as others that have fast kernels.",
    "patch": "Applied where a device's RAM is short, by who plans it: images patch by patch.",
}
STAGES = {
    STRUCTURE: "shapes",
    WEIGHTS: "values of weights",
    NUMBERS: "element types",
    TRAINING: "what constants hold",
}


def rules_page() -> str:
    """docs/rules.md: every exact rule with what it says and why it is sound, every lossy method."""
    lines = ["# Rules", "", f"{NOTE} from `tensmith.rewrite`.", "", "## Exact rules", ""]
    lines += [
        "Equal before and after in real arithmetic, for all sizes. A rule is proved in every case that its "
        "pattern covers (ranks, with and without bias, ...), and its wrong twins, plausible mistakes, must "
        "be refuted by the same prover.",
        "",
    ]
    for phase, meaning in PHASES.items():
        rules = sorted((r for r in EXACT.values() if r.phase == phase), key=lambda r: (r.order, r.name))
        lines += [f"### {phase}", "", meaning, "", "| rule | what it does | why it is sound |"]
        lines += ["| --- | --- | --- |", *map(_rule_row, rules), ""]
    lines += [
        "## Lossy methods",
        "",
        "These change what a program computes. Each has parameters, and a price that is measured.",
        "",
    ]
    for name, method in LOSSY.items():
        lines += [f"### {name}", "", f"Changes {STAGES[method.stage]}: {method.promise}.", ""]
        lines += [paragraphs(inspect.getdoc(type(method)) or ""), ""]
    return "\n".join(lines)


def _rule_row(rule: Rule) -> str:
    what = (inspect.getdoc(rule) or "").partition("\n\n")[0].replace("\n", " ")
    if rule.structural:
        why = f"by structure: {rule.structural}"
    else:
        proved, refuted = len(list(rule.obligations())), len(list(rule.twins()))
        why = f"cases proved: {proved}; wrong twins refuted: {refuted}"
    why += f"; found by {rule.found}" if rule.found else ""
    return f"| `{rule.name}` | {cell(what)} | {cell(why)} |"


def xla_page() -> str:
    """docs/xla_rules.md: XLA's rules, each with a verdict."""
    lines = ["# The rules of XLA", "", f"{NOTE} from `benchmarks.rules.xla`.", ""]
    lines += [
        "The rules of XLA's algebraic simplifier that TensorRight formalized (Arora et al., POPL 2025). "
        "*Proved* is over the reals, for all sizes, by the prover of the exact rules; a plausible mistake in "
        "each is refuted. Those that are rules of tensmith, or cases of one, are named.",
        "",
    ]
    proved = sum(bool(entry.rule or entry.claims) for entry in ENTRIES.values())
    lines += [
        f"{proved} of {len(ENTRIES)} are proved.",
        "",
        "| XLA | statement | verdict | by | in which generality |",
    ]
    lines += ["| --- | --- | --- | --- | --- |", *map(_xla_row, ENTRIES.values())]
    return "\n".join(lines)


def _xla_row(entry: Entry) -> str:
    verdict, by = ("proved", f"rule `{entry.rule}`") if entry.rule else ("proved", "a lemma")
    generality = entry.generality or "that of the rule"
    if entry.reason:
        verdict, by, generality = "open", "", entry.reason
    return f"| {entry.name} | {cell(entry.statement)} | {verdict} | {by} | {cell(generality)} |"


def datasets_page() -> str:
    """docs/datasets.md: every KIND:PATH that --data takes."""
    lines = ["# Datasets", "", f"{NOTE} from the readers in `tensmith.data.readers`.", ""]
    lines += [
        "`--data KIND:PATH` names a dataset; options follow as `?name=value&name=value`. Samples are read "
        "when they are needed; splits are disjoint and seeded. Which samples a search sees, and which it is "
        "judged by: [use your own data](howto/data.md#arrays-in-a-file).",
        "",
    ]
    for kinds, reader in _readers():
        lines += [f"## {', '.join(kinds)}", "", f"`{reader.example}`", ""]
        options = _options(reader)
        lines += [paragraphs(reader.doc), ""] + ([f"Options: {options}.", ""] if options else [])
    return "\n".join(lines)


def _readers() -> Iterator[tuple[list[str], DatasetReader]]:
    """Every reader once, with all kinds it is registered under."""
    kinds: dict[object, list[str]] = {}
    for kind, reader in READERS.items():
        kinds.setdefault(reader.open, []).append(kind)
    yield from ((names, READERS[names[-1]]) for names in kinds.values())


def _options(reader: DatasetReader) -> str:
    named = [p for p in inspect.signature(reader.open).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return ", ".join(f"`{p.name}` (default {p.default})" for p in named)


def engines_page() -> str:
    """docs/engines.md: every engine, and the settings that it takes."""
    lines = ["# Engines", "", f"{NOTE} from `tensmith.engine.engines`.", ""]
    lines += [
        "`--engines A,B` names those that may run a model; where it is left out, all that are installed "
        "do, but for those that are used on request. `tensmith bench` takes settings behind colons: "
        "`--engines onnxruntime,native:algorithm=direct:tuning=untuned`. `tensmith doctor` says what is "
        "here.",
        "",
        "cuda, mixed, native and opencl compile for fixed sizes: where a file leaves them open, for each set "
        f"of sizes that inputs have. A session keeps the {KEPT_MODELS} models used last, and up to "
        f"{MOST_MODELS} while they take no more than {MOST_BYTES >> 30} GiB.",
        "",
    ]
    for name, found in sorted(ENGINES.items()):
        lines += [f"## {name}", "", *(["Used on request only.", ""] if found.on_request else [])]
        lines += [paragraphs(inspect.getdoc(type(found)) or ""), ""]
    return "\n".join(lines)


def targets_page() -> str:
    """docs/targets.md: every device that comes with tensmith, and where its numbers are from."""
    lines = ["# Targets", "", f"{NOTE} from `tensmith/hardware/targets/*.toml`.", ""]
    lines += [
        "`--target NAME` is the device to compress for, `--target FILE.toml` one of your own. `host`, the "
        "default, is the machine at hand: its bandwidth is measured, its peak follows from what it can do. "
        "Peaks are in 1e9 operations a second over all cores, a multiply-add counted as two.",
        "",
        "| target | kind | cores | peak | bandwidth | memory |",
        "| --- | --- | ---: | --- | ---: | ---: |",
    ]
    targets = [load_target(name) for name in target_names()[1:]]
    lines += [*map(_target_row, targets), ""]
    for target in targets:
        lines += [f"## {target.name}", "", f"{target.description}.", ""]
        lines += [f"- {name}: {text}" for name, text in target.sources.model_dump().items()] + [""]
    return "\n".join(lines)


def _target_row(target: Target) -> str:
    peaks = ", ".join(f"{dtype} {peak:g}" for dtype, peak in target.peak_gflops.items())
    unit, size = ("GiB", 1 << 30) if target.ram_bytes >= 1 << 30 else ("KiB", 1 << 10)
    memory = f"{target.ram_bytes / size:g} {unit}"
    return (
        f"| `{target.name}` | {target.kind} | {target.cores} | {peaks} | {target.bandwidth_gbs:g} GB/s "
        f"| {memory} |"
    )


def front_page() -> str:
    """docs/front.md: what front.json says, field by field."""
    schema = front_schema()
    lines = [
        "# front.json",
        "",
        f"{NOTE} from `tensmith/report/front.schema.json`, which is JSON Schema.",
        "",
    ]
    lines += [
        f"{schema['description']} This is schema {schema['properties']['schema']['enum'][-1]}; another "
        "number means that a reader has to know something else. `tensmith.Front.read(FOLDER)` reads it in "
        "Python.",
        "",
        "Every figure of a candidate has an interval and a word of evidence. The search judges it on as many "
        "samples as show, with 99 %, whether it holds the drop budget. Where its time ends first it is "
        "*unsure*, and held-out data decides. Few samples flatter: where less than an eighth of the changed "
        "answers seems lost, something between the two counts, nearer to whichever is surer.",
        "",
        "Points that lose up to four times the drop budget (up to one point, or per cent of a loss, where it "
        "is 0) are kept and marked, in a part of the time; they hold every other budget. Held-out data may "
        "put a point beyond the budget, and never brings one back. `best/` is what `--prefer` says among "
        "those within.",
        "",
        *fields("front.json", schema),
    ]
    parts = schema["$defs"]
    parts = {**parts, "all_metrics": {**parts["some_metrics"], **parts["all_metrics"]}}
    for name in ("point", "search", "all_metrics", "metric", "step"):
        lines += [f"## {name}", "", *fields(name, parts[name])]
    return "\n".join(lines)


PAGES = {
    "rules.md": rules_page,
    "xla_rules.md": xla_page,
    "datasets.md": datasets_page,
    "targets.md": targets_page,
    "engines.md": engines_page,
    "front.md": front_page,
    "cli.md": cli_page,
    "python.md": python_page,
    "formats.md": formats_page,
}


def main(folder: Path) -> None:
    """Writes the pages."""
    for name, page in PAGES.items():
        write_text(folder / name, page().rstrip("\n") + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent)

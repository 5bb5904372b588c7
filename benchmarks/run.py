"""`make bench`: every measurement behind a figure of README, one after the other, a process each.

    python -m benchmarks.run [--list] [--quick] [--all] [--only NAME,...] [--amx] [--anew] [--at-once N]

A bench writes benchmarks/results/NAME.json and goes on from there where it was stopped; --anew forgets what
is there. One that fails says why, and the others go on; the exit status is then 1. At the end README's
figures are written. --quick takes minutes: less of everything, into build/quick, and README stays as it is.
--all adds the benches that no figure of README rests on. --at-once: so many at once, each on a core of its
own: models, of benches that compress whole ones, or else benches, the longest first.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import ROOT, parts, readme
from tensmith.hardware import detect_cpu

RESULTS, QUICK = ROOT / "benchmarks" / "results", ROOT / "build" / "quick"
FRONTS = ROOT / "build" / "fronts"
# In place of the user's: what was tuned on this machine before counts for nothing.
CACHE = ROOT / "build" / "cache"


@dataclass(frozen=True)
class Bench:
    """A bench. minutes: a guess, for one core, before it was ever run; quick: options that make it short;
    needs: a feature without which a CPU leaves it out, unless it is named; models: it takes --at-once;
    threads: what it times takes several cores; folder: it keeps files in one, called so where it is quick.
    """

    name: str
    module: str
    minutes: float
    options: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()
    readme: bool = True
    needs: str = ""
    models: bool = False
    threads: bool = False
    folder: str = ""

    def command(self, output: Path, quick: bool, at_once: int = 1) -> list[str]:
        """Runs it; later options win."""
        apart = ("--folder", str(QUICK / self.folder)) if self.folder else ()
        several = ("--at-once", str(at_once)) if self.models and at_once > 1 else ()
        more = (*self.quick, *apart) if quick else several
        module = f"benchmarks.{self.module}"
        return [sys.executable, "-m", module, *self.options, *more, "--output", str(output)]

    def left(self, output: Path) -> float:
        """Minutes that it will still take: by what its parts took so far, or else by the guess."""
        if not output.exists():
            return self.minutes
        document = parts.read(output)
        spent, ended = (sum(run[key] for run in document["runs"]) for key in ("seconds", "parts"))
        if not ended or not document["of"]:
            return max(0.0, self.minutes - spent / 60)
        return spent / ended / 60 * max(0, document["of"] - len(document["done"]))


_BRIEF = ("--seconds", "3")
_SMALL = (*_BRIEF, "--only", "resnet20_cifar10,resnet18")
_PRECISION = ("--only", "resnet18,resnet50,mobilenet_v2", "--precision", "bf16")
_THREADS = ("--only", "resnet50,mobilenet_v2,bert_base", "--threads", "2")
_FRONTS = ("--folder", str(FRONTS))
_DIGITS = ("--only", "digits", "--minutes", "0.5", "--time-budget", "1m")
_TRAINED = ("--time-budget", "8m", "--recover", "44m")
_ONE = ("--models", "resnet20_cifar10")
_PRICED = ("--seconds", "100", "--plan-seconds", "4", "--time-budget", "120")
_ONCE = ("--seconds", "30", "--seeds", "1", "--time-budget", "60", "--searches", "beam", "genetic")

BENCHES = (
    Bench(
        "fronts",
        "compress.fronts",
        65,
        _FRONTS,
        (*_ONE, "--time-budget", "1m"),
        models=True,
        folder="fronts",
    ),
    Bench("native", "native.networks", 10, quick=_SMALL),
    Bench("native_int8", "native.networks_int8", 20, quick=_SMALL),
    Bench("native_sparse", "native.sparse", 6, quick=(*_BRIEF, "--zeros", "90")),
    Bench("native_sparse_int8", "native.sparse_int8", 8, quick=(*_BRIEF, "--runs", "1")),
    Bench("native_sparse_layers", "native.sparse_layers", 5, quick=("--turns", "1", "--dtype", "f32")),
    Bench(
        "native_bf16",
        "native.networks",
        4,
        _PRECISION,
        (*_BRIEF, "--only", "resnet18"),
        needs="avx512_bf16",
    ),
    Bench("native_codes", "native.codes", 5, quick=(*_BRIEF, "--rows", "1")),
    Bench("native_mixed", "native.mixed", 4, quick=(*_BRIEF, "--only", "mobilenet_v2")),
    Bench("native_memory", "native.memory", 10, quick=("--only", "resnet18")),
    Bench("lifting_speed", "lifting.speed", 10, quick=("--seconds", "0.05", "--targets", "numpy,c")),
    Bench("lifting_differential", "lifting.differential", 20, quick=("--inputs", "50", "--groups", "own")),
    Bench(
        "native_threads",
        "native.networks",
        4,
        _THREADS,
        (*_BRIEF, "--only", "mobilenet_v2"),
        threads=True,
    ),
    Bench(
        "peers",
        "compress.peers",
        150,
        ("--fronts", str(FRONTS)),
        (*_ONE, "--quick", "--seconds", "6", "--fronts", str(QUICK / "fronts")),
        models=True,
        folder="peers",
    ),
    Bench("sensor_node", "native.sensor_node", 3, quick=("--only", "keyword_spotting"), readme=False),
    Bench("searches", "compress.searches", 150, _PRICED, (*_ONE, *_ONCE), readme=False, folder="searches"),
    Bench(
        "byte_classifier",
        "compress.byte_classifier",
        10,
        (),
        ("--seconds", "20", "--time-budget", "1m"),
        readme=False,
        folder="bytes",
    ),
    Bench("tasks", "tasks.compressed", 85, (), _DIGITS, readme=False, folder="tasks"),
    Bench(
        "recovered",
        "compress.recovered",
        240,
        (),
        (*_ONE, "--time-budget", "1m", "--recover", "4m"),
        models=True,
        folder="recovered",
    ),
    Bench(
        "tasks_recovered",
        "tasks.compressed",
        260,
        _TRAINED,
        (*_DIGITS, "--recover", "2m"),
        folder="tasks",
    ),
    Bench("detector", "compress.detector", 13, (), ("--time-budget", "1m"), readme=False, folder="detector"),
    Bench(
        "gate",
        "compress.gate",
        110,
        (),
        ("--runs", "1", "--time-budget", "1m"),
        readme=False,
        models=True,
        folder="gate",
    ),
    Bench("portability", "compress.portability", 5, (), ("--samples", "200"), readme=False),
    Bench(
        "workers",
        "compress.workers",
        3,
        (),
        ("--turns", "2", "--samples", "500"),
        readme=False,
        threads=True,
    ),
    Bench("import_speed", "compress.import_speed", 5, (), ("--only", "resnet18"), readme=False),
    Bench(
        "keras_twins",
        "compress.keras_twins",
        5,
        (),
        (*_BRIEF, "--time-budget", "30s"),
        readme=False,
        folder="keras_twins",
    ),
    Bench(
        "characters",
        "compress.characters",
        45,
        (),
        ("--minutes", "0.5", "--time-budget", "1m", "--windows", "5", "--tokens", "20"),
        folder="characters",
    ),
    Bench("gguf", "compress.gguf", 2, (), ("--only", "llama-F32"), readme=False),
    Bench("calibration_memory", "compress.calibration_memory", 3, readme=False),
    Bench("large_model", "compress.large_model", 8, (), ("--layers", "2"), readme=False),
    Bench("native_tuning", "native.tuning", 35, (), (*_SMALL, "--budget", "10"), readme=False),
    Bench(
        "native_recurrent",
        "native.recurrent",
        8,
        ("--seconds", "5"),
        (*_BRIEF, "--hidden", "64"),
        readme=False,
    ),
    Bench("native_generation", "native.generation", 2, (), (*_BRIEF, "--tokens", "60"), readme=False),
    Bench("native_kernels", "native.kernels", 8, ("--dtype", "f32"), readme=False),
    Bench("native_kernels_int8", "native.kernels", 3, ("--dtype", "u8"), readme=False),
    Bench("native_operators", "native.operators", 15, (), ("--uses", "1"), readme=False),
    Bench("native_random", "native.random_kernels", 60, (), ("--count", "100"), readme=False),
    Bench("native_sanitized", "native.sanitized", 35, (), ("--count", "20"), readme=False),
    Bench("lifting_coverage", "lifting.coverage", 10, (), ("--groups", "own"), readme=False),
    Bench("lifting_certificates", "lifting.certificates", 25, (), ("--groups", "own"), readme=False),
    Bench("lifting_ablation", "lifting.ablation", 20, (), ("--limit", "0.2"), readme=False),
    Bench("lifting_mutants", "lifting.mutants", 40, (), ("--mutants", "100"), readme=False),
    Bench("lifting_generated", "lifting.generated", 135, (), ("--programs", "300"), readme=False),
    Bench("small_spaces", "search.small_spaces", 7, (), ("--timing", "0.3", "--seeds", "1"), readme=False),
    Bench("growth", "search.growth", 1, (), ("--depths", "3"), readme=False),
    Bench("extraction", "search.extraction", 6, (), ("--seconds", "5"), readme=False),
    Bench("egraphs", "search.egraphs", 12, (), ("--seconds", "5", "--timing", "1", "nasrnn"), readme=False),
    Bench("numpy_programs", "optimize.numpy_programs", 6, (), ("--seconds", "3"), readme=False),
    Bench("rule_mutants", "rules.mutants", 15, (), ("--only", "mul_into_conv"), readme=False),
    Bench("rules_on_programs", "rules.on_programs", 15, (), ("--count", "5"), readme=False),
    Bench("differences", "trust.differences", 15, (), ("--mutants", "2"), readme=False),
    Bench("packed_mutants", "trust.packed_mutants", 20, (), ("--mutants", "6000"), readme=False),
    Bench("trellis", "compress.trellis", 25, (), ("--models", "resnet20_cifar10"), readme=False, models=True),
    Bench("packed_sizes", "compress.packed_sizes", 4, (), ("--only", "digits"), readme=False),
    Bench("forge", "trust.forge", 27, (), ("--every", "50"), readme=False),
    Bench("fuzz_importer", "trust.fuzz_importer", 10, (), ("250",), readme=False),
    Bench("fuzz_commands", "trust.fuzz_commands", 27, (), ("20",), readme=False),
    Bench("corpus", "trust.corpus", 60, (), ("--graphs", "10", "--only", "random"), readme=False),
    Bench("kills", "trust.kills", 29, (), ("20",), readme=False),
)


def failure(code: int, output: Path) -> str:
    """Why a bench that ended with that status did not end well; "" if it did."""
    if code == 0:
        return ""
    if code < 0:
        return f"died of signal {-code}"
    document = parts.read(output) if output.exists() else {"wrong": {}, "failed": {}}
    wrong = [sentence for said in document["wrong"].values() for sentence in said]
    sentences = [*wrong, *(f"{name}: {reason}" for name, reason in document["failed"].items())]
    more = f", and {len(sentences) - 1} more" if len(sentences) > 1 else ""
    return sentences[0].strip() + more if sentences else f"ended with status {code}; see above"


def duration(minutes: float) -> str:
    """In words: "4 min", "2 h 5 min"."""
    hours, rest = divmod(round(minutes), 60)
    return f"{hours} h {rest} min" if hours else f"{rest} min"


def run(benches: Sequence[Bench], folder: Path, quick: bool, at_once: int = 1) -> dict[str, str]:
    """Runs them; why, by name, those failed that did."""
    failed: dict[str, str] = {}
    number = itertools.count(1)

    def one(bench: Bench, beside: int = 1) -> None:
        left = {each: each.left(folder / f"{each.name}.json") for each in benches}
        times = f", about {duration(left[bench])}; {duration(sum(left.values()))} left in all"
        print(f"\n== {bench.name}, {next(number)} of {len(benches)}{'' if quick else times}", flush=True)
        output = folder / f"{bench.name}.json"
        environment = {**os.environ, parts.BENCHES: str(beside), "XDG_CACHE_HOME": str(CACHE)}
        code = subprocess.run(bench.command(output, quick, at_once), cwd=ROOT, env=environment).returncode
        if reason := failure(code, output):
            failed[bench.name] = reason

    narrow = [bench for bench in benches if at_once > 1 and not (bench.models or bench.threads)]
    for bench in benches:
        if bench not in narrow:
            one(bench)
    narrow.sort(key=lambda bench: bench.left(folder / f"{bench.name}.json"), reverse=True)
    with parts.pinned_threads(at_once) as pool:
        list(pool.map(partial(one, beside=min(at_once, len(narrow))), narrow))
    return failed


def main() -> int:
    """0 when every bench ended well."""
    known = {bench.name: bench for bench in BENCHES}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="say what there is, and what is left of it")
    parser.add_argument("--quick", action="store_true", help="minutes instead of hours, wider intervals")
    parser.add_argument("--all", action="store_true", help="also those that no figure of README rests on")
    parser.add_argument("--only", type=parts.names, help="these, as A,B")
    parser.add_argument(
        "--amx", action="store_true", help="into results/amx, which README shows beside the others"
    )
    parser.add_argument("--anew", action="store_true", help="forget earlier results of those that are run")
    parser.add_argument(
        "--at-once", type=parts.cores, default=1, help="models or benches, each on a core of its own"
    )
    options = parser.parse_args()
    if unknown := [name for name in options.only or () if name not in known]:
        parser.error(f"no bench {', '.join(unknown)}; --list --all names all")
    has = {"", *detect_cpu().features}
    if options.amx and "amx_int8" not in has:
        parser.error("--amx is for processors with tile registers, and this one has, or lends, none")
    here = [bench.name for bench in BENCHES if bench.needs in has]
    chosen = [
        known[name] for name in options.only or here if options.only or options.all or known[name].readme
    ]
    folder = QUICK if options.quick else RESULTS / readme.AMX if options.amx else RESULTS
    if options.list:
        for bench in chosen:
            print(f"{bench.name:24} {duration(bench.left(folder / f'{bench.name}.json')):>12} left")
        return 0
    for bench in chosen if options.anew or options.quick else ():
        (folder / f"{bench.name}.json").unlink(missing_ok=True)
    failed = run(chosen, folder, options.quick, options.at_once)
    print("".join(f"\n{name} failed: {reason}" for name, reason in failed.items()))
    if not options.quick:
        readme.write()
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

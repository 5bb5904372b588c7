"""README's figures, written from benchmarks/results: `python -m benchmarks.readme`, by `make docs`.

Between `<!-- NAME -->` and `<!-- end NAME -->` README holds what `BLOCKS[NAME]` makes of the results. Where
nothing is there to make it of, the block stays as it is, with the commit that its figures are of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks import ROOT, parts
from benchmarks.compress.stock.cases import CASES
from tensmith.evaluate.task import Task
from tensmith.files import write_text
from tensmith.report.text import front_text

README, RESULTS = ROOT / "README.md", ROOT / "benchmarks" / "results"
AMX = "amx"  # the folder of what was measured on a processor with tile registers, too
Results = Mapping[str, parts.Document]
Rows = Mapping[str, Mapping[str, Any]]

NAMES = {
    "resnet20_cifar10": "ResNet-20, CIFAR-10",
    "resnet56_cifar10": "ResNet-56, CIFAR-10",
    "resnet8_wide_cifar10": "ResNet-8 wide, CIFAR-10",
    "squeezenet1_1_imagenet": "SqueezeNet 1.1, ImageNet",
    "mobilenetv2_imagenet": "MobileNetV2, ImageNet",
    "stories260k": "a 260k-parameter Llama, TinyStories",
    "sentiment": "an encoder of sentences, SST-2",
    "mobilenet_v3": "a network like MobileNetV3, CIFAR-10",
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "vgg16": "VGG-16",
    "mobilenet_v2": "MobileNetV2",
    "densenet161": "DenseNet-161",
    "efficientnet_b0": "EfficientNet-B0",
    "bert_base": "BERT-base, 128 tokens",
    "gpt2": "GPT-2, 128 tokens",
}
MORE = ("native_sparse", "native_sparse_int8", "native_sparse_layers", "native_bf16", "native_codes",
        "native_threads", "native_mixed")  # fmt: skip
_AREAS = (
    " Last column: the area that the front covers in size and latency (hypervolume, 1 is all), beside the "
    "best of ONNX Runtime's and NNCF's own quantization under the same budget."
)
_MEANS = "†"  # behind ratios of turns that waited for a processor
_QUIET = 1.5  # processes that want to run when a bench begins, one of them its own
_SEVEN_BITS = (
    " Without VNNI sums of products of bytes saturate: weights of our file take 7 bits, as those of "
    "`compress` do there."
)
_TYPES = {"f32 any": "fp32", "u8 any": "8 bits"}
OURS = "tensmith"
TARGETS = {
    "numpy": "NumPy",
    "torch": "PyTorch",
    "c": "C, `-O3 -march=native`",
    "jax": "JAX",
    "mlx": "MLX",
    "tensorflow": "TensorFlow",
    "onnx": "ONNX Runtime",
}
_COMPILED = ("gcc -O3", "gcc -O3 -march=native")


def results(folder: Path = RESULTS) -> dict[str, parts.Document]:
    """Every result that is there, by the name of its bench, or folder/name."""
    paths = sorted([*folder.glob("*.json"), *folder.glob("*/*.json")])
    return {str(path.relative_to(folder).with_suffix("")): parts.read(path) for path in paths}


def written(text: str, found: Results) -> str:
    """The text with every block made anew."""
    for name, block in BLOCKS.items():
        content = "\n\n".join(block(found))
        made = f"<!-- {name} -->\n{content}\n<!-- end {name} -->"
        pattern = re.compile(rf"<!-- {name} -->.*?<!-- end {name} -->", re.DOTALL)
        kept = pattern.search(text) if not content else None
        new = kept.group() if kept is not None else made
        text, count = pattern.subn(lambda _, new=new: new, text)
        if count != 1:
            raise ValueError(f"README has {count} blocks '{name}'")
    return text


def write() -> None:
    """Writes README's blocks."""
    write_text(README, written(README.read_text(encoding="utf-8"), results()))


def front(found: Results) -> Iterator[str]:
    """The point of ResNet-20 that would ship, beside the original."""
    row = _rows(found, "fronts").get("resnet20_cifar10")
    if row is None:
        return
    points = [point for point in row["front"]["points"] if point["id"] == row["chosen"]]
    table = front_text({**row["front"], "points": points}, row["chosen"], Task(row["measure"]).title)
    yield (
        "ResNet-20 on CIFAR-10, "
        f"{found['fronts']['settings']['time_budget'].replace('m', ' minutes')}, one thread, one image "
        "at a time. Accuracy is of test images that the search has not seen; "
        "they say only which points hold the budget."
    )
    yield "".join(f"    {line}\n" if line else "\n" for line in table.splitlines()).rstrip("\n")
    yield "![The front of ResNet-20 beside plain int8](benchmarks/results/fronts.png)"
    yield _provenance(found, "fronts")


def fronts(found: Results) -> Iterator[str]:
    """What every front reaches, and the area it covers beside the stock tools'."""
    rows, peers = _rows(found, "fronts"), _peers(found)
    if not rows:
        return
    yield (
        "Every model under its budget of accuracy: the fastest point, and the smallest where it is another. "
        "Sizes are of `model.packed`, which is shipped; speeds of what is compiled from it, which is larger. "
        "A point holds a budget where its value does; where the interval reaches beyond, more data could say "
        f"otherwise.{_AREAS if peers else ''}"
    )
    yield _fronts_table(rows, peers)
    yield _provenance(found, "fronts", *(["peers"] if peers else []))


def recovered(found: Results) -> Iterator[str]:
    """The smallest point that was trained, and that was not, of every model that was trained."""
    lines = []
    documents = [name for name in ("recovered", "tasks_recovered") if name in found]
    for name, row in ((name, row) for each in documents for name, row in _rows(found, each).items()):
        smallest: dict[bool, Mapping[str, Any]] = {}  # the last one of each kind
        for point in sorted(row["points"], key=lambda p: (round(p["size_ratio"], 2), p["speedup"])):
            smallest["recover" in point["lossy"]] = point
        unit = "% of the loss" if name in CASES and CASES[name].measure == "loss" else "points"
        beyond = [point for point in row["beyond"] if "recover" in point["lossy"]]
        if trained := smallest.get(True):
            lines.append((NAMES[name], *_told(trained, unit), *_told(smallest[False], unit)))
        elif beyond:
            ratios, lost = _told(max(beyond, key=lambda point: point["size_ratio"]), unit)
            lines.append((NAMES[name], f"beyond the budget: {ratios}", lost, *_told(smallest[False], unit)))
    if not lines:
        return
    settings = (found[name]["settings"] for name in documents)
    words = (f"`--time-budget {each['time_budget']} --recover {each['recover']}`" for each in settings)
    yield (
        f"With training ({' or '.join(dict.fromkeys(words))}), within "
        "the same budgets: the smallest point, and of the same front the smallest that was not trained. What "
        "a trained point beats in speed and size at once is on no front. A budget is held where samples of "
        "the search say so; what is lost is of others."
    )
    yield _table(("model", "trained", "lost", "not trained, on the same front", "lost"), lines)
    yield _provenance(found, *documents)


def _told(point: Mapping[str, Any], unit: str) -> tuple[str, str]:
    """What a point of a run with training reached, and lost."""
    low, high = point["drop"]
    return (
        _ratios(point["speedup"], point["size_ratio"]),
        _interval(point["accuracy_drop"], low, high, unit),
    )


def amx(found: Results) -> Iterator[str]:
    """The fronts again, and 8 bits natively, on a processor with tile registers."""
    there = {
        name.removeprefix(f"{AMX}/"): document
        for name, document in found.items()
        if name.startswith(f"{AMX}/")
    }
    rows, ratios = _rows(there, "fronts"), _rows(there, "native_int8")
    if not rows or not ratios:
        return
    yield "The same on a server with tile registers (Intel AMX), which multiply matrices of bytes:"
    yield _fronts_table(rows, _peers(there))
    least, most = (pick(ratios, key=lambda name: ratios[name]["ratio"]) for pick in (min, max))
    ends = " to ".join(f"{ratios[name]['ratio']:.2f}x ({NAMES[name]})" for name in (least, most))
    faster = sum(row["low"] > 1 for row in ratios.values())
    floats = "" if _in_bf16(ratios) else " (OpenVINO's floats in fp32)"
    yield (
        f"There the native engine in 8 bits is {ends} over the fastest of the others{floats}; surely faster "
        f"on {faster} of {len(ratios)} networks."
    )
    yield _provenance(there, "fronts", "peers", "native_int8")


def _fronts_table(rows: Rows, peers: Rows) -> str:
    """A row a model; areas where peers were measured."""
    lines = []
    for name, row in rows.items():
        within = [point for point in row["front"]["points"] if point["within_budget"]]
        fastest, smallest = (
            max(within, key=lambda p: p["metrics"][metric]["value"]) for metric in ("speedup", "size_ratio")
        )
        points = [fastest] if fastest["id"] == smallest["id"] else [fastest, smallest]
        lines.append(
            (
                NAMES[name],
                "; ".join(map(_reached, points)),
                "; ".join(_lost(p) for p in points),
                _budget(row["budget"], points[0]),
                f"{row['front']['held_out_samples']:,}",
                *([_areas(peers.get(name))] if peers else []),
            )
        )
    areas = ["area, ours and theirs"] if peers else []
    return _table(("model", "reached", "lost", "budget", "held-out samples", *areas), lines)


def language(found: Results) -> Iterator[str]:
    """A language model's points beside llama.cpp's files of the same weights."""
    rows = _rows(found, "characters").get("characters")
    if rows is None:
        return
    minutes = found["characters"]["settings"]["time_budget"].replace("m", " minutes")
    yield (
        "A language model of 4.8 million weights (GPT-2 on characters, trained by a script here), compressed "
        f"from its GGUF file with a time budget of {minutes}, and quantized by llama.cpp{_version(rows)}: "
        "the same held-out text, one thread, single tokens in turns. At this size much of llama.cpp's time "
        "goes into what it does for every token, whatever the model; of large models this says nothing."
    )
    lines = [
        (
            f"ours, {row['words']}" if "words" in row else f"llama.cpp {name}",
            f"{row['bytes'] / 1e6:.2f}",
            f"{row['loss']:.4f}",
            f"{row['tokens_per_second']:,.0f}",
        )
        for name, row in sorted(rows.items(), key=lambda item: item[1]["bytes"])
    ]
    yield _table(("file", "MB", "nats a character", "tokens a second"), lines)
    if _version(rows):  # older runs paired no losses
        yield from _llama_beaten(rows)
    yield _provenance(found, "characters")


def _version(rows: Rows) -> str:
    versions = sorted({row["version"] for row in rows.values() if "version" in row})
    return f" (llama-cpp-python {_and(versions)})" if versions else ""


def _llama_beaten(rows: Rows) -> Iterator[str]:
    """Files that a point is smaller and faster than, at a loss that is surely less or may be the same."""
    theirs = {name: row for name, row in rows.items() if "words" not in row}
    more = {name: row["loses more"] for name, row in theirs.items() if "loses more" in row}
    kinds = {
        "Smaller, faster and of less loss": [name for name, each in more.items() if each["high"] < 0],
        "smaller and faster at a loss that paired 95% intervals cannot tell apart": [
            name for name, each in more.items() if each["high"] >= 0
        ],
        "not beaten": [name for name in theirs if name not in more],
    }
    said = "; ".join(f"{words}: {_and(names)}" for words, names in kinds.items() if names)
    if more:
        yield f"{said[:1].upper()}{said[1:]}."


def native(found: Results) -> Iterator[str]:
    """Whole networks over the fastest of the others."""
    columns = [_rows(found, name) for name in ("native", "native_int8", "native_memory")]
    networks = [name for name in NAMES if any(name in rows for rows in columns)]
    if not networks:
        return
    yield (
        "One thread, taking turns, each ratio over the fastest of the others: in fp32 ONNX Runtime and "
        "OpenVINO, in 8 bits those two on our file and NNCF's own file in OpenVINO"
        f"{', both in bfloat16 too' if _in_bf16(_rows(found, 'native_int8')) else ''}. "
        "Random weights where no dataset is named. In brackets: the 95% interval holds 1, so that neither is "
        "faster."
        f"{'' if _has_vnni(found) else _SEVEN_BITS}"
    )
    yield _table(
        ("network", "fp32", "8 bits", "memory, of ONNX Runtime's"),
        [(NAMES[name], *(_cell(rows.get(name)) for rows in columns)) for name in networks],
    )
    yield from _loses(found)
    yield _provenance(found, "native", "native_int8", "native_memory")


def _in_bf16(rows: Rows) -> bool:
    """Whether OpenVINO multiplied what stays in floats in bfloat16, too."""
    return any(name.endswith(" bf16") for row in rows.values() for name in row.get("ms", ()))


def native_more(found: Results) -> Iterator[str]:
    """Zeros, fewer bits, threads, detectors: a line for each that was measured."""
    lines = [line for make in (_zeros, _layers, _bf16, _codes, _threads, _mixed) for line in make(found)]
    if lines:
        yield "\n".join(f"- {line}" for line in lines)
        yield _provenance(found, *MORE)


def lifting(found: Results) -> Iterator[str]:
    """Speed and correctness of what is lifted."""
    if rows := _rows(found, "lifting_speed"):
        yield from _lifting_speed([each for row in rows.values() for each in row["seconds"].values()])
    counts = found["lifting_differential"]["counts"] if "lifting_differential" in found else {}
    if counts:
        compared = [count["compared"] for count in counts.values()]
        kernels, wrong = max(c["kernels"] for c in counts.values()), sum(c["wrong"] for c in counts.values())
        yield (
            f"{min(compared):,} random inputs and more of {kernels} kernels, on each of {len(counts)} "
            f"targets ({sum(compared) / 1e6:.1f} million comparisons): {wrong or 'no'} differences from the "
            "compiled source."
        )
    if rows or counts:
        yield _provenance(found, "lifting_speed", "lifting_differential")


def _lifting_speed(loops: list[Mapping[str, float]]) -> Iterator[str]:
    """How fast each target is beside the compiled source, with and without this CPU's instructions."""
    lines = []
    for target, words in TARGETS.items():
        timed = [loop for loop in loops if target in loop]
        over = [[loop[by] / loop[target] for loop in timed if by in loop] for by in _COMPILED]
        if timed:
            faster = sum(ratio > 1 for ratio in over[-1])
            means = (f"{geometric_mean(each):.2f}x" if each else "" for each in over)
            lines.append((words, *means, f"{faster} of {len(over[-1])}" if over[-1] else ""))
    heads = ("written as", *(f"over `{by}`" for by in _COMPILED), "ahead of the latter")
    yield (
        f"{len(loops)} loops of published benchmarks, matrices of 1000 x 1000, one thread: what is lifted "
        "over the compiled source, geometric means."
    )
    yield _table(heads, lines)


BLOCKS: dict[str, Callable[[Results], Iterator[str]]] = {
    "front": front,
    "fronts": fronts,
    "recovered": recovered,
    "amx": amx,
    "language": language,
    "native": native,
    "native more": native_more,
    "lifting": lifting,
}


def _has_vnni(found: Results) -> bool:
    return all("VNNI" in run["cpu"] for run in found.get("native_int8", {"runs": []})["runs"])


def _loses(found: Results) -> Iterator[str]:
    """Networks on which another engine is surely faster."""
    kinds = (("native", "fp32"), ("native_int8", "8 bits"))
    lost = [
        f"{NAMES[name].partition(',')[0]} in {kind} {_times(row)}"
        for bench, kind in kinds
        for name, row in _rows(found, bench).items()
        if row["high"] < 1
    ]
    if lost:
        yield f"**Where it loses**: {_and(lost)}."


def _zeros(found: Results) -> Iterator[str]:
    rows = {**_rows(found, "native_sparse"), **_rows(found, "native_sparse_int8")}
    fp32, int8 = (
        [f"{_zeros_of(name)} {_times(row)}" for name, row in rows.items() if (" by " in name) == int8]
        for int8 in (False, True)
    )
    if fp32:
        over = [f"{row['over dense']['ratio']:.2f}x" for row in rows.values() if "over dense" in row]
        dense = f"; over our own dense one {_and(over)}" if over else ""
        yield f"**Zeros.** ResNet-50 over the dense one in ONNX Runtime: {_and(fp32)}{dense}."
    if int8:
        yield f"In 8 bits, over the fastest dense one of all engines: {_and(int8)}."


def _zeros_of(name: str) -> str:
    """The zeros of a row, "resnet50 90% by 4", in words."""
    share, by, run = name.removeprefix("resnet50 ").partition(" by ")
    return share + {"": "", "1": ", wherever they lie,", "4": " in fours of channels"}.get(run, f"{by}{run}")


def _layers(found: Results) -> Iterator[str]:
    if rows := _rows(found, "native_sparse_layers"):
        zeros = found["native_sparse_layers"]["settings"]["zeros"]
        shares = [
            f"{row['median share over direct']:.0%} in {_TYPES.get(name, name)} "
            f"({row['half or more over direct']:.0%} of the layers half or more)"
            for name, row in rows.items()
        ]
        yield (
            f"Of the speed-up that {zeros:.0f} % zeros promise over our own direct kernels, the median layer "
            f"of ResNet-50 reaches {_and(shares)}."
        )


def _bf16(found: Results) -> Iterator[str]:
    if rows := _rows(found, "native_bf16"):
        yield (
            "**Fewer bits.** With `--engines native:precision=bf16,openvino:precision=bf16` both multiply in "
            f"bfloat16, OpenVINO's own default on CPUs that can: native is {_each(rows)}."
        )


def _codes(found: Results) -> Iterator[str]:
    if row := _rows(found, "native_codes").get("2048x8192, 1 rows"):
        yield (
            "Layers of 4-bit weights (blocks of 32, 2048x8192) are, for one row, "
            f"{row['over native fp32']['ratio']:.1f}x as fast as our fp32 ones and "
            f"{row['over onnxruntime 4 bits']['ratio']:.1f}x as ONNX Runtime's MatMulNBits in fp32."
        )


def _threads(found: Results) -> Iterator[str]:
    if rows := _rows(found, "native_threads"):
        yield f"**Threads.** On two, each engine with two: {_each(rows)} over the better one (`--threads 2`)."


def _mixed(found: Results) -> Iterator[str]:
    if rows := _rows(found, "native_mixed"):
        size = found["native_mixed"]["settings"]["size"]
        yield (
            f"**In parts.** Detectors at {size}x{size}, with a head of 3x3 convolutions, whose "
            f"NonMaxSuppression ONNX Runtime runs: {_each(rows)} over the faster of it and OpenVINO."
        )


def _rows(found: Results, name: str) -> Rows:
    return found[name]["rows"] if name in found else {}


def _times(row: Mapping[str, Any]) -> str:
    """In brackets where the interval holds 1."""
    times = f"{row['ratio']:.2f}x{_MEANS if row.get('busy') else ''}"
    return f"({times})" if row["low"] <= 1 <= row["high"] else times


def _cell(row: Mapping[str, Any] | None) -> str:
    """A ratio, or a share of memory."""
    if row is None:
        return ""
    return f"{row['share']:.2f}" if "share" in row else _times(row)


def _each(rows: Rows) -> str:
    return _and([f"{_times(row)} on {NAMES[name].partition(',')[0]}" for name, row in rows.items()])


def _and(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _reached(point: Mapping[str, Any]) -> str:
    return _ratios(*(point["metrics"][name]["value"] for name in ("speedup", "size_ratio")))


def _ratios(speed: float, size: float) -> str:
    return f"{speed:.2f}x faster, {size:.2f}x smaller"


def _lost(point: Mapping[str, Any]) -> str:
    """With its interval, which says on how few samples it may rest."""
    drop = point["metrics"]["accuracy_drop"]
    return _interval(drop["value"], drop["low"], drop["high"], _unit(point))


def _interval(value: float, low: float, high: float, unit: str) -> str:
    return f"{value:.2f} ({low:.2f} to {high:.2f}) {unit}"


def _unit(point: Mapping[str, Any]) -> str:
    return "points" if point["metrics"]["accuracy_drop"]["unit"] == "pt" else "% of the loss"


def _budget(most: float, point: Mapping[str, Any]) -> str:
    """What may be lost, in the unit of what is."""
    unit = _unit(point)
    return f"{most:g} {'point' if unit == 'points' and most == 1 else unit}"


def _areas(row: Mapping[str, Any] | None) -> str:
    """Ours, and the best of those that quantize."""
    if row is None:
        return ""
    areas: Mapping[str, float] = row["hypervolume"]
    theirs = [area for peer, area in areas.items() if peer != OURS and not peer.endswith((" fp32", " bf16"))]
    shown = [area for area in (areas.get(OURS), max(theirs, default=None)) if area is not None]
    digits = 2 if len({f"{area:.2f}" for area in shown}) == len(shown) else 4
    return ", ".join(f"{area:.{digits}f}" for area in shown)


def _table(heads: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    rows = [heads, tuple("---" for _ in heads), *lines]
    return "\n".join(re.sub(" {2,}", " ", f"| {' | '.join(cells)} |") for cells in rows)


def _peers(found: Results) -> Rows:
    """Those that were measured beside these fronts."""
    fronts = _rows(found, "fronts")
    return {name: row for name, row in _rows(found, "peers").items() if _beside(row, fronts.get(name))}


def _beside(row: Mapping[str, Any], front: Mapping[str, Any] | None) -> bool:
    """Whether peers were measured beside the points of this front, and not of an earlier one."""
    measured = {each["variant"] for each in row["rows"] if each["peer"] == OURS}
    found = set() if front is None else {point["id"] for point in front["front"]["points"]}
    return bool(measured) and measured <= found


def _provenance(found: Results, *names: str) -> str:
    """On what, of which commits and when; what was measured beside other work says so."""
    runs = [run for name in names if name in found for run in found[name]["runs"]]
    cpus, commits = (_and([*dict.fromkeys(run[key] for run in runs)]) for key in ("cpu", "commit"))
    dates = sorted({run["date"][:10] for run in runs if "date" in run})
    days = f", {dates[0]}{f' to {dates[-1]}' if len(dates) > 1 else ''}" if dates else ""
    others = max(run.get("load", 0.0) for run in runs)
    beside = f", beside other work (load up to {others:.0f})" if others > _QUIET else ""
    most = max(run.get("at_once", 1) for run in runs)
    several = f", up to {most} models at once, each on a core of its own" if most > 1 else ""
    benches = max(run.get("benches", 1) for run in runs)
    several += f", up to {benches} benches at once, each on a core of its own" if benches > 1 else ""
    busy = any(row.get("busy") for name in names for row in _rows(found, name).values())
    means = f" {_MEANS} The machine was busy: of means, less certain than of medians." if busy else ""
    return f"*{cpus}, commit {commits}{days}{several}{beside}.{means}*"


if __name__ == "__main__":
    write()

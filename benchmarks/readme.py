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
from tensmith.evaluate.task import Task
from tensmith.files import write_text
from tensmith.report.text import front_text

README, RESULTS = ROOT / "README.md", ROOT / "benchmarks" / "results"
Results = Mapping[str, parts.Document]
Rows = Mapping[str, Mapping[str, Any]]

NAMES = {
    "resnet20_cifar10": "ResNet-20, CIFAR-10",
    "resnet56_cifar10": "ResNet-56, CIFAR-10",
    "resnet8_wide_cifar10": "ResNet-8 wide, CIFAR-10",
    "squeezenet1_1_imagenet": "SqueezeNet 1.1, ImageNet",
    "mobilenetv2_imagenet": "MobileNetV2, ImageNet",
    "stories260k": "a 260k-parameter Llama, TinyStories",
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
_QUIET = 1.5  # processes that want to run when a bench begins, one of them its own
_SEVEN_BITS = (
    " Without VNNI sums of products of bytes saturate: weights of our file take 7 bits, as those of "
    "`compress` do there."
)
_TYPES = {"f32 any": "fp32", "u8 any": "8 bits"}
OURS, TARGETS = "tensmith", {"numpy": "NumPy", "torch": "PyTorch", "c": "C"}


def results(folder: Path = RESULTS) -> dict[str, parts.Document]:
    """Every result that is there, by the name of its bench."""
    return {path.stem: parts.read(path) for path in sorted(folder.glob("*.json"))}


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
        "What came out for ResNet-20 on CIFAR-10 in "
        f"{found['fronts']['settings']['time_budget'].replace('m', ' minutes')} "
        "(one thread; accuracy on test images that the search has not seen, but a point that breaks the "
        "budget on them is marked as beyond it, or dropped where it loses over four times as much):"
    )
    yield "".join(f"    {line}\n" if line else "\n" for line in table.splitlines()).rstrip("\n")
    yield "![The front of ResNet-20 beside plain int8](benchmarks/results/fronts.png)"
    yield _provenance(found, "fronts")


def fronts(found: Results) -> Iterator[str]:
    """What every front reaches, and the area it covers beside the stock tools'."""
    rows = _rows(found, "fronts")
    if not rows:
        return
    peers = {name: row for name, row in _rows(found, "peers").items() if _beside(row, rows.get(name))}
    yield (
        "Every model, under its budget: the fastest point, and the smallest where it is another."
        f"{_AREAS if peers else ''}"
    )
    yield _fronts_table(rows, peers)
    yield _provenance(found, "fronts", *(["peers"] if peers else []))


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
            (NAMES[name], "; ".join(map(_reached, points)), "; ".join(_lost(p) for p in points),
             *([_areas(peers.get(name))] if peers else []))
        )  # fmt: skip
    return _table(("model", "reached", "lost", *(["area, ours and theirs"] if peers else [])), lines)


def language(found: Results) -> Iterator[str]:
    """A language model's points beside llama.cpp's files of the same weights."""
    rows = _rows(found, "characters").get("characters")
    if rows is None:
        return
    minutes = found["characters"]["settings"]["time_budget"].replace("m", " minutes")
    yield (
        "A language model of 4.8 million weights (GPT-2 on characters, trained by a script here), compressed "
        f"from its GGUF file in {minutes} and quantized by llama.cpp: the same held-out text, one thread, "
        "single tokens in turns, each through its Python package."
    )
    lines = [
        (
            f"ours, {row['words']}" if "words" in row else f"llama.cpp {name}",
            f"{row['bytes'] / 1e6:.2f}",
            f"{row['loss']:.{parts.LOSS_PLACES}f}",
            f"{row['tokens_per_second']:,.0f}",
        )
        for name, row in sorted(rows.items(), key=lambda item: item[1]["bytes"])
    ]
    yield _table(("file", "MB", "nats a character", "tokens a second"), lines)
    theirs = [name for name, row in rows.items() if "words" not in row]
    said = " ".join(found["characters"]["wrong"].get("characters", ()))
    ahead = [name for name in theirs if f"beats {name} " in said]
    yield " ".join(
        f"{verb} in all three columns, as shown: {_and(names)}."
        for verb, names in (("Beaten", [name for name in theirs if name not in ahead]), ("Not beaten", ahead))
        if names
    )
    yield _provenance(found, "characters")


def native(found: Results) -> Iterator[str]:
    """Whole networks over the fastest of the others."""
    columns = [_rows(found, name) for name in ("native", "native_int8", "native_memory")]
    networks = [name for name in NAMES if any(name in rows for rows in columns)]
    if not networks:
        return
    yield (
        "One thread, taking turns, each ratio over the fastest of the others: in fp32 ONNX Runtime and "
        "OpenVINO, in 8 bits those two on our file and NNCF's own file in OpenVINO. Random weights where no "
        f"dataset is named.{'' if _has_vnni(found) else _SEVEN_BITS}"
    )
    yield _table(
        ("network", "fp32", "8 bits", "memory, of ONNX Runtime's"),
        [(NAMES[name], *(_cell(rows.get(name)) for rows in columns)) for name in networks],
    )
    yield from _loses(found)
    yield _provenance(found, "native", "native_int8", "native_memory")


def native_more(found: Results) -> Iterator[str]:
    """Zeros, fewer bits, threads, detectors: a line for each that was measured."""
    lines = [line for make in (_zeros, _layers, _bf16, _codes, _threads, _mixed) for line in make(found)]
    if lines:
        yield "\n".join(f"- {line}" for line in lines)
        yield _provenance(found, *MORE)


def lifting(found: Results) -> Iterator[str]:
    """Speed and correctness of what is lifted."""
    rows = _rows(found, "lifting_speed").values()
    ratios: dict[str, list[float]] = {name: [] for name in TARGETS}
    for times in (times for row in rows for times in row["seconds"].values()):
        for name in ratios.keys() & times.keys():
            ratios[name].append(times["gcc -O3"] / times[name])
    means = [f"{geometric_mean(r):.1f}x ({TARGETS[name]})" for name, r in ratios.items() if r]
    if means:
        yield (
            f"On {max(map(len, ratios.values()))} loops of published benchmarks, with matrices of 1000 x "
            f"1000 and one thread, what comes out is {_and(means)} as fast as the source under `gcc -O3` in "
            "geometric mean."
        )
    counts = found["lifting_differential"]["counts"] if "lifting_differential" in found else {}
    if counts:
        compared, wrong = (sum(count[key] for count in counts.values()) for key in ("compared", "wrong"))
        yield (
            f"{compared / 1e6:.1f} million random inputs of {max(c['kernels'] for c in counts.values())} "
            f"kernels, on {len(counts)} targets, found {wrong or 'no'} differences from the compiled source."
        )
    if means or counts:
        yield _provenance(found, "lifting_speed", "lifting_differential")


BLOCKS: dict[str, Callable[[Results], Iterator[str]]] = {
    "front": front,
    "fronts": fronts,
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
        yield f"**Zeros pay**, wherever they lie. ResNet-50 over the dense one in ONNX Runtime: {_and(fp32)}."
    if int8:
        yield f"In 8 bits, over the fastest dense one of all engines: {_and(int8)}."


def _zeros_of(name: str) -> str:
    """The zeros of a row, "resnet50 90% by 4", in words."""
    share, by, run = name.removeprefix("resnet50 ").partition(" by ")
    return share + {"": "", "1": ", wherever they lie,", "4": " in fours of channels"}.get(run, f"{by}{run}")


def _layers(found: Results) -> Iterator[str]:
    for name, row in _rows(found, "native_sparse_layers").items():
        zeros = found["native_sparse_layers"]["settings"]["zeros"]
        yield (
            f"Layers of ResNet-50 with {zeros:.0f} % zeros ({_TYPES.get(name, name)}) reach "
            f"{row['median share over direct']:.0%} of the speed-up that zeros promise over our own direct "
            "kernels (median), half or more in "
            f"{row['half or more over direct']:.0%} of them."
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
    return f"{row['ratio']:.2f}x"


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
    speed, size = (point["metrics"][name]["value"] for name in ("speedup", "size_ratio"))
    return f"{speed:.2f}x faster, {size:.2f}x smaller"


def _lost(point: Mapping[str, Any]) -> str:
    """With its interval, which says on how few samples it may rest."""
    drop = point["metrics"]["accuracy_drop"]
    unit = "points" if drop["unit"] == "pt" else "% of the loss"
    return f"{drop['value']:.2f} ({drop['low']:.2f} to {drop['high']:.2f}) {unit}"


def _areas(row: Mapping[str, Any] | None) -> str:
    """Ours, and the best of those that quantize."""
    if row is None:
        return ""
    areas: Mapping[str, float] = row["hypervolume"]
    theirs = [area for peer, area in areas.items() if peer != OURS and not peer.endswith((" fp32", " bf16"))]
    return ", ".join(
        f"{area:.2f}" for area in (areas.get(OURS), max(theirs, default=None)) if area is not None
    )


def _table(heads: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    rows = [heads, tuple("---" for _ in heads), *lines]
    return "\n".join(re.sub(" {2,}", " ", f"| {' | '.join(cells)} |") for cells in rows)


def _beside(row: Mapping[str, Any], front: Mapping[str, Any] | None) -> bool:
    """Whether peers were measured beside the points of this front, and not of an earlier one."""
    measured = {each["variant"] for each in row["rows"] if each["peer"] == OURS}
    return front is not None and measured <= {point["id"] for point in front["front"]["points"]}


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
    return f"*{cpus}, commit {commits}{days}{several}{beside}.*"


if __name__ == "__main__":
    write()

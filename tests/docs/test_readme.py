"""README's figures are those of benchmarks/results, and its counts those of the rules."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import readme

TEXT = readme.README.read_text(encoding="utf-8")
RUN = {"commit": "abc", "cpu": "A processor", "load": 0.1, "date": "2026-01-02T03:04:05+00:00"}


def metric(value: float, unit: str) -> dict[str, Any]:
    return {"value": value, "low": value, "high": value, "unit": unit, "evidence": "measured"}


def llama(megabytes: float) -> dict[str, Any]:
    return {"bytes": 1e6 * megabytes, "loss": 1.8, "tokens_per_second": 900.0, "version": "1.2.3"}


def point(name: str, speed: float, size: float, accuracy: float) -> dict[str, Any]:
    metrics = {"speedup": metric(speed, "x"), "size_ratio": metric(size, "x")}
    metrics["accuracy"] = metric(accuracy, "%")
    metrics["accuracy_drop"] = metric(91.0 - accuracy, "pt") | {"low": -1.0, "high": 2.0}
    return {"id": name, "within_budget": True, "engine": "native", "metrics": metrics}


FRONT = {
    "measure": "accuracy",
    "chosen": "c1",
    "budget": 0.5,
    "front": {
        "original": {"metrics": {"accuracy": metric(91.0, "%")}},
        "baseline": {"engine": "onnxruntime", "metrics": {"latency_ms": metric(1.5, "ms")}},
        "budget": {"accuracy_drop": 0.5},
        "held_out_samples": 8000,
        "points": [point("c1", 7, 5, 90.5), point("c2", 4, 11, 90.75)],
    },
}
RATIOS = {
    "resnet18": {"ratio": 2.0, "low": 1.9, "high": 2.1},
    "resnet50": {"ratio": 1.01, "low": 0.95, "high": 1.05},
    "gpt2": {"ratio": 0.75, "low": 0.7, "high": 0.8},
}
MADE: dict[str, dict[str, Any]] = {
    "native": {"rows": RATIOS},
    "native_int8": {"rows": RATIOS},
    "native_memory": {"rows": {"resnet18": {"share": 0.5}}},
    "native_threads": {"rows": {"bert_base": {"ratio": 1.25, "low": 1.2, "high": 1.3}}},
    "fronts": {"settings": {"time_budget": "10m"}, "rows": {"resnet20_cifar10": FRONT}},
    "peers": {
        "rows": {
            "resnet20_cifar10": {
                "rows": [{"peer": "tensmith", "variant": "c1"}, {"peer": "NNCF", "variant": "mixed"}],
                "hypervolume": {"tensmith": 0.75, "NNCF": 0.5, "OpenVINO fp32": 0.9},
            }
        }
    },
    "lifting_speed": {
        "rows": {
            "c/a": {"seconds": {"f": {"gcc -O3": 2.0, "gcc -O3 -march=native": 1.5, "numpy": 1.0, "c": 4.0}}}
        }
    },
    "characters": {
        "settings": {"time_budget": "10m"},
        "rows": {
            "characters": {
                "F16": llama(9.0),
                "Q8_0": llama(5.0) | {"loses more": {"value": 0.0, "low": -0.1, "high": 0.1}},
                "Q2_K": llama(2.0) | {"loses more": {"value": -0.2, "low": -0.3, "high": -0.1}},
                "000": {"bytes": 1_000_000, "loss": 1.7, "tokens_per_second": 9000.0, "words": "int8"},
            }
        },
    },
    "lifting_differential": {"counts": {"c": {"kernels": 3, "compared": 2_000_000, "wrong": 0}}},
}


def made(folder: Path, *names: str) -> dict[str, Any]:
    for name in names:
        path = folder / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"runs": [RUN], **MADE[path.stem]}))
    return readme.results(folder)


def test_the_figures_are_those_of_the_results() -> None:
    assert readme.written(TEXT, readme.results()) == TEXT, "run `make docs`"


def test_what_was_not_measured_stays_as_it_is(tmp_path: Path) -> None:
    assert readme.written(TEXT, made(tmp_path)) == TEXT
    full = readme.written(TEXT, made(tmp_path, *MADE))
    assert full != TEXT and "dc6d496" not in full
    assert readme.written(full, {}) == full


def test_figures_say_of_which_commit_they_are() -> None:
    for name in readme.BLOCKS:
        (block,) = re.findall(rf"<!-- {name} -->(.*?)<!-- end {name} -->", TEXT, re.DOTALL)
        assert re.search(r"[Cc]ommit [0-9a-f]{7}", block), name


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (("native", "native_memory"), "| ResNet-18 | 2.00x | | 0.50 |"),
        (("native", "native_memory"), "| GPT-2, 128 tokens | 0.75x | | |"),
        (("native",), "| ResNet-50 | (1.01x) | | |"),
        (("native",), "**Where it loses**: GPT-2 in fp32 0.75x."),
        (("native",), "*A processor, commit abc, 2026-01-02.*"),
        (("native_threads",), "- **Threads.** On two, each engine with two: 1.25x on BERT-base over"),
        (
            ("fronts", "peers"),
            "| ResNet-20, CIFAR-10 | 7.00x faster, 5.00x smaller; 4.00x faster, 11.00x smaller "
            "| 0.50 (-1.00 to 2.00) points; 0.25 (-1.00 to 2.00) points | 0.5 points | 8,000 | 0.75, 0.50 |",
        ),
        (("fronts",), "native, chosen"),
        (
            ("amx/fronts", "amx/native_int8"),
            "There the native engine in 8 bits is 0.75x (GPT-2, 128 tokens) to 2.00x (ResNet-18) over the "
            "fastest of the others (OpenVINO's floats in fp32); surely faster on 1 of 3 networks.",
        ),
        (("lifting_speed",), "1 loops of published benchmarks"),
        (("lifting_speed",), "| NumPy | 2.00x | 1.50x | 1 of 1 |"),
        (("lifting_speed",), "| C, `-O3 -march=native` | 0.50x | 0.38x | 0 of 1 |"),
        (("lifting_differential",), "2,000,000 random inputs and more of 3 kernels, on each of 1 targets"),
        (("characters",), "| ours, int8 | 1.00 | 1.7000 | 9,000 |"),
        (("characters",), "Smaller, faster and of less loss: Q2_K; smaller and faster at a loss that paired"),
        (("characters",), "tell apart: Q8_0; not beaten: F16."),
    ],
)
def test_figures_come_from_their_results(tmp_path: Path, names: tuple[str, ...], line: str) -> None:
    text = readme.written(TEXT, made(tmp_path, *names))
    assert line in text


def test_peers_of_another_front_are_left_out(tmp_path: Path) -> None:
    found = made(tmp_path, "fronts", "peers")
    assert "| area, ours and theirs |" in readme.written(TEXT, found)
    found["peers"]["runs"] = [RUN | {"commit": "def"}]
    assert "commit abc and def" in readme.written(TEXT, found)
    found["peers"]["rows"]["resnet20_cifar10"]["rows"][0]["variant"] = "c9"
    text = readme.written(TEXT, found)
    (block,) = re.findall(r"<!-- fronts -->(.*?)<!-- end fronts -->", text, re.DOTALL)
    assert "area, ours" not in block and "commit def" not in block


def test_several_models_at_once_are_said(tmp_path: Path) -> None:
    found = made(tmp_path, "fronts")
    found["fronts"]["runs"] = [RUN | {"at_once": 2}]
    assert "2026-01-02, up to 2 models at once, each on a core of its own.*" in readme.written(TEXT, found)


def test_what_was_measured_beside_other_work_says_so(tmp_path: Path) -> None:
    found = made(tmp_path, "native")
    found["native"]["runs"] = [RUN | {"load": 3.2}]
    said = "*A processor, commit abc, 2026-01-02, beside other work (load up to 3).*"
    assert said in readme.written(TEXT, found)


def test_a_block_that_is_gone_is_noticed() -> None:
    with pytest.raises(ValueError, match="0 blocks 'front'"):
        readme.written(TEXT.replace("<!-- end front -->", ""), {})


def test_the_rules_are_counted() -> None:
    rules, xla = ((readme.ROOT / "docs" / name).read_text() for name in ("rules.md", "xla_rules.md"))
    exact = rules.partition("## Lossy methods")[0]
    rows, structural = exact.count("\n| `"), exact.count("| by structure: ")
    proved, count = re.findall(r"^(\d+) of (\d+) are proved", xla, re.MULTILINE)[0]
    assert f"{rows - structural} of the {rows} [rules]" in TEXT and structural == 5
    assert f"{proved} of the {count} rules" in TEXT

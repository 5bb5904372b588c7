"""A report document like a run on a small residual network makes: 21 layers, 7 points, 141 candidates."""

from __future__ import annotations

import hashlib
import random
from typing import Any

from tensmith.report.document import LayerRow, Metrics, PointRow, Report, StepRow
from tensmith.report.metric import Evidence

UNITS = {
    "speedup": "x",
    "size_ratio": "x",
    "accuracy": "%",
    "accuracy_drop": "pt",
    "latency_ms": "ms",
    "energy_mj": "mJ",
}


def metric(
    name: str, value: float, spread: float = 0.0, evidence: Evidence = "measured", unit: str | None = None
) -> dict[str, Any]:
    return {
        "value": value,
        "low": value - spread,
        "high": value + spread,
        "unit": unit if unit is not None else UNITS.get(name, "bytes"),
        "evidence": evidence,
    }


def metrics(speedup: float, size_ratio: float, accuracy: float) -> Metrics:
    return {
        "accuracy": metric("accuracy", accuracy, 0.24),
        "accuracy_drop": metric("accuracy_drop", round(92.58 - accuracy, 2), 0.19),
        "file_bytes": metric("file_bytes", round(1_190_000 / size_ratio * 1.1)),
        "packed_bytes": metric("packed_bytes", round(1_120_000 / size_ratio)),
        "weight_bytes": metric("weight_bytes", round(1_080_000 / size_ratio * 1.15)),
        "peak_bytes": metric("peak_bytes", 31_000_000 / speedup**0.5, 400_000),
        "latency_ms": metric("latency_ms", 1.042 / speedup, 0.011),
        "speedup": metric("speedup", speedup, 0.02 * speedup),
        "size_ratio": metric("size_ratio", size_ratio),
        "energy_mj": metric("energy_mj", 9.8 / speedup, evidence="estimated"),
    }


def steps(bits: int, pruned: int) -> list[StepRow]:
    def step(rule: str, kind: Any, site: str, evidence: Evidence, **params: Any) -> StepRow:
        return {"rule": rule, "kind": kind, "site": site, "params": params, "evidence": evidence}

    trail = [step("fold_batch_norm", "exact", f"layer{1 + i // 6}.{i % 6}.conv", "proved") for i in range(19)]
    trail += [{"rule": "fold_constants", "kind": "exact", "site": "*", "params": {}}]
    trail += [
        step("prune_channels", "lossy", f"layer3.{i}.conv1", "measured", ratio=0.25) for i in range(pruned)
    ]
    trail += [
        step(
            "quantize_static", "lossy", f"layer{1 + i // 6}.{i % 6}.conv", "measured", bits=bits, scale="mse"
        )
        for i in range(19)
    ]
    return trail


def point(
    identifier: str, triple: tuple[float, float, float], trail: list[StepRow], within: bool = True
) -> PointRow:
    names, figures = ["certificate.json", "model.onnx", "model.packed"], metrics(*triple)
    return {
        "id": identifier,
        "within_budget": within,
        "metrics": figures,
        "search": {"accuracy_drop": figures["accuracy_drop"], "samples": 2000, "at_most": 0.49},
        "engine": "onnxruntime",
        "trail": trail,
        "files": {name: hashlib.sha256(f"{identifier}/{name}".encode()).hexdigest() for name in names},
    }


def layer(index: int) -> LayerRow:
    stage = index // 7
    weights = 432 if index == 0 else 9 * (16 << stage) ** 2 * 4
    return {
        "name": f"layer{stage + 1}.{index % 7}.conv",
        "op": "Conv",
        "shape": f"{16 << stage}x{32 >> stage}x{32 >> stage}",
        "bytes_before": weights,
        "bytes_after": weights // (4 if stage < 2 else 7),
        "ms_before": 0.04 + 0.006 * (index % 5),
        "ms_after": 0.018 + 0.002 * (index % 4),
        "ms_evidence": "measured",
        "sensitivity": None if index == 20 else round(abs(0.31 - 0.05 * index) / (1 + index % 3), 3),
        "sensitivity_evidence": "measured",
        "treatment": "int8 per channel" if stage < 2 else "25% of channels removed, int8 per channel",
    }


def sample() -> Report:
    """A fresh document; tests change it freely."""
    rng = random.Random(0)
    original = metrics(1.0, 1.0, 92.58)
    original["speedup"] = metric("speedup", 1.0)
    points = [
        point("003", (1.03, 1.06, 92.58), steps(8, 0)[:20]),
        point("041", (2.43, 3.91, 92.41), steps(8, 0)),
        point("057", (2.28, 4.62, 92.30), steps(8, 4)),
        point("088", (2.12, 5.37, 92.19), steps(6, 4)),
        point("101", (1.31, 6.74, 92.11), steps(4, 4)),
        point("126", (2.55, 3.72, 92.12), steps(8, 6)),
        point("133", (2.2, 7.41, 91.47), steps(4, 6), within=False),
    ]
    tried: list[Any] = [
        {
            "id": p["id"],
            "status": "front" if p["within_budget"] else "beyond",
            "reason": "",
            "metrics": p["metrics"],
        }
        for p in points
    ]
    for index in range(134):
        speed, size = rng.uniform(0.85, 2.45), rng.uniform(0.95, 5.6)
        dropped = index % 9 == 0
        found = metrics(speed, size * (1 if speed < 2 else 0.75), 92.6 - rng.expovariate(1.2))
        tried.append(
            {
                "id": f"{200 + index}",
                "status": "rejected" if dropped else "dominated",
                "reason": "loses more accuracy than the budget allows"
                if dropped
                else "088 is better in both",
                "metrics": {"accuracy": found["accuracy"]} if dropped else found,
            }
        )
    return {
        "front": {
            "schema": 3,
            "baseline": {"engine": "ONNX Runtime fp32", "metrics": original},
            "original": {"metrics": dict(original)},
            "budget": {"accuracy_drop": 0.5, "packed_bytes": 400_000},
            "held_out_samples": 10_000,
            "knee": "088",
            "points": points,
        },
        "context": {
            "model": "resnet20_cifar10.onnx",
            "data": "cifar10, 10,000 held-out test images",
            "target": "Intel Xeon (AVX-512 VNNI)",
            "threads": 1,
            "batch": 1,
            "seed": 0,
            "command": "tensmith compress resnet20_cifar10.onnx --data cifar10:data/cifar10 --max-drop 0.5 "
            "--prefer balanced --time-budget 10m --threads 1 --seed 0 --output out",
            "versions": {"tensmith": "0.1.0", "onnxruntime": "1.22.0", "python": "3.11"},
            "chosen": "057",
            "prefer": "balanced",
            "accuracy_name": "top-1 accuracy",
            "accuracy_better": "higher",
            "accuracy_limit": 92.08,
        },
        "peers": [
            {"name": "ONNX Runtime static int8", "metrics": metrics(2.08, 3.31, 92.35)},
            {"name": "ONNX Runtime dynamic int8", "metrics": metrics(0.62, 3.42, 92.49)},
            {"name": "OpenVINO int8 (NNCF)", "metrics": metrics(1.92, 2.87, 92.40)},
        ],
        "layers": [layer(index) for index in range(21)],
        "tried": tried,
        "evidence": [
            {
                "claim": "The 20 exact steps keep the program's meaning.",
                "evidence": "proved",
                "detail": "Both sides of every rule have equal index formulas, for all sizes.",
                "assumptions": ["Real arithmetic: float rounding is bounded separately."],
            },
            {
                "claim": "The program after the exact steps equals the original.",
                "evidence": "checked",
                "detail": "Whole-program evaluation over four prime fields near 2^20.",
                "assumptions": ["A false pass has probability at most 1e-15.", "Opaque nodes: none."],
            },
            {
                "claim": "Accuracy 92.30 % on held-out data.",
                "evidence": "measured",
                "detail": "10,000 test images through onnxruntime; none was seen by calibration or search.",
                "assumptions": [],
            },
        ],
        "notes": [
            "Preprocessing unit was picked: the model works best under it on 300 labelled training images."
        ],
    }

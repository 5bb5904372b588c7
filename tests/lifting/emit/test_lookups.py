"""What is read where data says is there, or refused: in every target, at every edge."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import compiled
import numpy as np
import pytest
from compiled import needs_gcc

from tensmith.lifting.pipeline import emitter_of, lift_file
from tensmith.verify import lift_checker

pytestmark = pytest.mark.xdist_group("traced")

SOURCE = """
void padded(int n, const int *ids, const float *t, float *out) {
    for (int i = 0; i < n; i++) { if (ids[i] >= 0) out[i] = t[ids[i]]; else out[i] = 0; }
}
void beside(int n, const int *ids, const float *t, float *out) {
    for (int i = 0; i < n; i++) out[i] = t[i] - t[ids[i]];
}
float right(int n, int d, const float t[n][d], const int *k) {
    float sum = 0; for (int i = 0; i < n; i++) sum += t[i][k[i]]; return sum;
}
int found(int n, const int *a) { for (int i = 0; i < n; i++) if (a[i] < 0) return a[i]; return 0; }
"""
NONE = np.zeros(0, "f")


def function(folder: Path, name: str, target: str) -> Any:
    file = folder / "f.c"
    file.write_text(SOURCE)
    (result,) = lift_file(file, function=name, targets=(), run=False)
    assert result.status == "proved" and result.work.lifted is not None, result.reason
    for path, content in emitter_of(target).emit(result.work.lifted).files.items():
        (folder / path).write_bytes(content)
    spec = importlib.util.spec_from_file_location(f"{name}_{target}", folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


@pytest.mark.parametrize("target", ["numpy", "torch", "tensorflow", "jax", "mlx"])
def test_places_outside_are_refused_and_what_is_not_asked_for_need_not_be_there(
    target: str, tmp_path: Path
) -> None:
    pytest.importorskip({"mlx": "mlx.core"}.get(target, target))
    padded, found = (function(tmp_path, name, target) for name in ("padded", "found"))
    table = np.array([5, 6], "f")

    def taken(ids: list[int], table: np.ndarray) -> list[float]:
        return np.asarray(padded(len(ids), np.array(ids, np.int32), table, None)).tolist()

    assert taken([-1, 1, 0], table) == [0, 6, 5]
    assert taken([-1, -1], NONE) == [0, 0]
    assert taken([], NONE) == []
    for ids, read in (([2], table), ([-1, 2], table), ([-1, 0], NONE), ([0], NONE)):
        with pytest.raises(ValueError, match="t holds every element that is read at 3:61"):
            taken(ids, read)
    assert int(found(0, np.zeros(0, np.int32))) == 0
    assert int(found(3, np.array([4, -7, -8], np.int32))) == -7


NARROW = """
short narrow(int n, const int *ids, const short *t) {
    short sum = 0; for (int i = 0; i < n; i++) if (ids[i] >= 0) sum += t[ids[i]]; return sum;
}
"""
IDS, NOWHERE = np.array([-1, 1, 0], np.int32), np.full(3, -1, np.int32)
TABLE, OUT = np.array([5, 6]), np.zeros(3, "f")


@pytest.mark.parametrize(
    "name, given, wanted",
    [
        ("padded", {"ids": IDS, "t": TABLE.astype("f"), "out": OUT}, [0, 6, 5]),
        ("padded", {"ids": NOWHERE, "t": NONE, "out": OUT}, [0, 0, 0]),
        ("narrow", {"ids": IDS, "t": TABLE.astype("i2")}, 11),
        ("narrow", {"ids": NOWHERE, "t": NONE.astype("i2")}, 0),
        ("found", {"a": IDS}, -1),
        ("found", {"a": IDS[:0]}, 0),
    ],
)
def test_onnx_reads_nothing_of_an_empty_table_where_nothing_is_asked_for(
    name: str, given: dict[str, Any], wanted: Any, tmp_path: Path
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    (tmp_path / "f.c").write_text(SOURCE + NARROW)
    (result,) = lift_file(tmp_path / "f.c", function=name, targets=("onnx",), run=False)
    session = runtime.InferenceSession(result.emitted["onnx"][f"{name}.onnx"])
    count = np.array(len(given.get("ids", given.get("a", ""))), np.int32)
    np.testing.assert_array_equal(session.run(None, {"n": count, **given})[0], wanted)


UNREAD = """
#include <math.h>
void curve(int n, const int *ids, const double *t, const double *x, double *out) {
    for (int i = 0; i < n; i++) out[i] = exp(t[ids[0]]) * x[i];
}
void total(int n, const int *ids, const double *t, const double *x, double *out) {
    for (int i = 0; i < n; i++) {
        double sum = 0; for (int k = 0; k < 3; k++) sum += t[ids[k]];
        out[i] = sum * x[i];
    }
}
void padded(int n, const int *ids, const double *embedding, double *out) {
    for (int i = 0; i < n; i++) { if (ids[i] >= 0) out[i] = exp(embedding[ids[i]]); else out[i] = 0; }
}
"""


@needs_gcc
@pytest.mark.parametrize("name", ["curve", "total", "padded"])
def test_in_c_nothing_is_asked_of_what_is_not_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(UNREAD)
    (result,) = lift_file(tmp_path / "f.c", function=name, targets=(), run=False)
    assert result.work.lifted is not None, result.reason
    count = 2 if name == "padded" else 0
    ids, table = np.full(3, -1 if count else 99, np.int32), np.zeros(0 if count else 2)
    given = {"n": count, "ids": ids, "x": np.zeros(2), "out": np.zeros(2), "t": table, "embedding": table}
    library = compiled.build(result.work.lifted)
    found = compiled.call(result.work.lifted, library, given)
    assert isinstance(found, dict), f"requirement {found}"
    np.testing.assert_array_equal(found["out"], 0)
    given["n"], given["ids"] = 1, np.full(3, 99, np.int32)
    refused = compiled.call(result.work.lifted, library, given)
    assert isinstance(refused, int) and " holds every element" in result.requires[refused - 1]


def test_a_negative_place_does_not_count_from_the_back(tmp_path: Path) -> None:
    beside = function(tmp_path, "beside", "numpy")
    ids, table = np.array([1, -1], np.int32), np.array([5, 6], "f")
    with pytest.raises(ValueError, match="t holds every element"):
        beside(2, ids, table, None)


@pytest.mark.parametrize("target", ["numpy", "torch", "tensorflow", "jax", "mlx"])
def test_a_place_in_the_next_row_is_outside(target: str, tmp_path: Path) -> None:
    pytest.importorskip({"mlx": "mlx.core"}.get(target, target))
    right = function(tmp_path, "right", target)
    table = np.arange(6, dtype="f")
    assert float(right(2, 3, table, np.array([2, 0], np.int32))) == 2 + 3
    for places in ([3, 0], [0, -1]):
        with pytest.raises(ValueError, match="t holds every element"):
            right(2, 3, table, np.array(places, np.int32))


@pytest.mark.parametrize("target", ["numpy", "torch", "tensorflow", "jax", "mlx"])
def test_each_row_is_read_at_a_place_of_its_own(target: str, tmp_path: Path) -> None:
    pytest.importorskip({"mlx": "mlx.core"}.get(target, target))
    file = tmp_path / "f.py"
    file.write_text(
        "def scaled(a: list[list[list[float]]], k: list[int]) -> list[list[float]]:\n"
        "    return [[a[i][k[i]][j] * k[i] for j in range(len(a[0][0]))] for i in range(len(k))]\n"
    )
    lift_file(file, targets=(target,), output=tmp_path / "out", run=False)
    spec = importlib.util.spec_from_file_location(f"scaled_{target}", tmp_path / "out" / "scaled.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    a, k = np.random.default_rng(0).standard_normal((3, 4, 5)), np.array([3, 0, 2], np.int64)
    np.testing.assert_allclose(np.asarray(module.scaled(a, k)), a[[0, 1, 2], k] * k[:, None], rtol=1e-6)
    with pytest.raises(ValueError, match="a holds every element"):
        module.scaled(a, np.array([3, 4, 0], np.int64))


def test_the_array_that_lacks_an_element_is_named(tmp_path: Path) -> None:
    file = tmp_path / "two.c"
    file.write_text(
        "void two(int n, const int *a, const int *b, const float *t, const float *u, float *out) {"
        " for (int i = 0; i < n; i++) out[i] = t[a[i]] + u[b[i]]; }"
    )
    lift_file(file, targets=("numpy", "c"), output=tmp_path, run=False)
    text = (tmp_path / "numpy" / "two.py").read_text()
    guards = [line for line in text.splitlines() if "raise" in line and "holds every" in line]
    assert [("t holds" in line, "u holds" in line) for line in guards] == [(True, False), (False, True)]
    text = (tmp_path / "c" / "two.c").read_text()
    named = re.findall(r'"(.*)",$', text, re.MULTILINE)
    asked = re.findall(r"len_([tu]), INT64_C\((\d+)\), &outside", text)
    assert sorted(array for array, _ in asked) == ["t", "u"]
    assert all(named[int(status) - 1].startswith(f"{array} holds every") for array, status in asked)


def test_other_accesses_beside_it_are_proved_to_be_inside_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(SOURCE)
    lift_file(tmp_path / "f.c", function="beside", output=tmp_path, run=False)
    folder = tmp_path / "beside.cert"
    document = json.loads((folder / lift_checker.NAME).read_text())
    bounds = [row["subject"] for row in document["obligations"] if row["kind"] == "bounds"]
    assert bounds.count("t") == 1 and {"ids", "out"} < set(bounds)
    assert list(lift_checker.check(folder)) == []
    document["requires"] = [text for text in document["requires"] if "holds every" not in text]
    document["digest"] = lift_checker._sha(
        {name: item for name, item in document.items() if name != "digest"}
    )
    (folder / lift_checker.NAME).write_text(json.dumps(document))
    (problem,) = lift_checker.check(folder)
    assert problem.endswith("nothing proves the bounds of t at 6:49")

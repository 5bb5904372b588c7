"""A proof about inputs of at most one element says that it is one, wherever it is shown."""

from __future__ import annotations

import json
import warnings

import pytest

import tensmith
from tensmith.lifting.pipeline import lift_file

BACK = """
def back(a: list[int]) -> int:
    s = 0
    for i in range(len(a)):
        s += a[2 * i]
    return s
"""
NOTE = "the requirements admit only inputs where len(a) is at most 1"
FORWARD = BACK.replace("a[2 * i]", "a[i]")


def lifted(tmp_path, text, suffix=".py", targets=("numpy", "c", "onnx")):
    path = tmp_path / f"given{suffix}"
    path.write_text(text)
    (result,) = lift_file(path, targets=targets)
    assert result.proved, result.reason
    return result


def test_requirements_that_admit_one_element_are_said_to_do_so(tmp_path):
    result = lifted(tmp_path, BACK)
    assert result.notes == (NOTE,) and result.to_json()["notes"] == [NOTE]
    assert NOTE in result.emitted["numpy"]["back.py"].decode()
    assert NOTE in " ".join(result.emitted["c"]["back.h"].decode().replace("*", "").split())
    assert NOTE.encode() in result.emitted["onnx"]["back.onnx"]


def test_the_certificate_says_it_too(tmp_path):
    path = tmp_path / "given.py"
    path.write_text(BACK)
    lift_file(path, output=tmp_path / "out")
    texts = [file.read_text() for file in (tmp_path / "out" / "back.cert").glob("*.json")]
    assert any(NOTE in json.dumps(json.loads(text)) for text in texts)


@pytest.mark.parametrize(
    "text",
    [
        FORWARD,
        BACK.replace("a[2 * i]", "a[len(a) - 1 - i]"),
        FORWARD.replace("def back(", "def back(n: int, ").replace("len(a)", "n"),
        "def f(a: list[int]) -> int:\n    return a[0] if len(a) > 0 else 0\n",
    ],
)
def test_requirements_that_admit_more_say_nothing(text, tmp_path):
    assert lifted(tmp_path, text, targets=()).notes == ()


@pytest.mark.parametrize("subscript", ["-i", "i - i * 2"])
def test_in_c_the_number_of_iterations_is_named(subscript, tmp_path):
    loop = f"int s = 0; for (int i = 0; i < n; i++) s += a[{subscript}]; return s;"
    (note,) = lifted(tmp_path, f"int f(int n, const int *a) {{ {loop} }}", ".c", ()).notes
    assert note == "the requirements admit only inputs where n is at most 1"


@tensmith.lift
def back(a):
    s = 0
    for i in range(len(a)):
        s += a[2 * i]
    return s


def test_the_decorator_warns_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert back([7]) == 7 and back([8]) == 8
    assert [str(warning.message) for warning in caught] == [f"back: {NOTE}"]

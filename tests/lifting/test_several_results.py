"""Functions of Python that return several values: in order, each proved by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import tensmith
from tensmith.lifting.conditions import obligations, program_obligations
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Function
from tensmith.lifting.pipeline import derive_or_search, lift_file, read_source
from tensmith.lifting.tensorize import tensorize
from tensmith.verify import lift_checker
from tensmith.verify.obligation import Obligation
from tensmith.verify.solve import discharge

SOURCE = """
def sums(x: list[float]):
    s, q = 0.0, 0.0
    for each in x:
        s += each
        q += each * each
    return s, q

def one_list_more(x: list[float]):
    s = 0.0
    for each in x:
        s += each
    return s, [each + 1.0 for each in x], x

"""


def lifted(path: Path, name: str) -> Lifted:
    path.write_text(SOURCE)
    functions = {entry.name: entry for entry in read_source(path) if isinstance(entry, Function)}
    return tensorize(derive_or_search(functions[name]))


def proved(asked: list[Obligation]) -> bool:
    return all(verdict.status == "proved" for verdict in discharge(asked, "z3", 2.0))


def test_results_that_change_places_are_not_proved(tmp_path: Path) -> None:
    right = lifted(tmp_path / "f.py", "sums")
    summary = derive_or_search(right.function)
    assert proved(obligations(summary)) and proved(program_obligations(right, summary))
    first, second = summary.results
    assert (first.name, second.name) == ("return.1", "return.2")
    swapped = (replace(first, written=second.written), replace(second, written=first.written))
    assert not proved(obligations(replace(summary, results=swapped)))
    for outputs in (right.outputs[::-1], right.outputs[:1], (*right.outputs, right.outputs[0])):
        assert not proved(program_obligations(replace(right, outputs=outputs), summary))
    for results in ((first,), (first, first), (first, replace(second, name="return"))):
        assert not proved(obligations(replace(summary, results=results)))


@pytest.mark.parametrize(
    "kept", [("return.1",), ("return.1", "return.2"), ("return.1", "return.2", "return")]
)
def test_a_certificate_that_leaves_one_out_is_refused(tmp_path: Path, kept: tuple[str, ...]) -> None:
    (tmp_path / "f.py").write_text(SOURCE)
    lift_file(tmp_path / "f.py", function="one_list_more", output=tmp_path, run=False)
    folder = tmp_path / "one_list_more.cert"
    assert list(lift_checker.check(folder)) == []
    document = json.loads((folder / lift_checker.NAME).read_text())
    assert document["results"] == ["return.1", "return.2", "return.3"]
    document["results"] = list(kept)
    document["digest"] = lift_checker._sha({n: item for n, item in document.items() if n != "digest"})
    (folder / lift_checker.NAME).write_text(json.dumps(document))
    assert list(lift_checker.check(folder))


def test_a_decorated_function_gives_a_tuple(tmp_path: Path) -> None:
    @tensmith.lift
    def sums(x: list[float]) -> tuple[float, list[float]]:
        s = 0.0
        for each in x:
            s += each
        return s, [each - s for each in x]

    total, rest = cast(tuple[float, list[float]], sums([1.0, 2.0]))
    assert total == 3.0
    np.testing.assert_array_equal(rest, [-2.0, -1.0])


REFUSED = {
    "return (a[0], a[1]), a[2]": "a tuple cannot be lifted",
    "return ()": "fewer than two values",
    "return (a[0],)": "fewer than two values",
    "if n > 0:\n        return 1.0, 2.0\n    return 1.0": "return as many on every path",
    "if n > 0:\n        return 1.0, 2.0\n    return 1.0, 2.0, 3.0": "return as many on every path",
    "if n > 0:\n        return [1.0], 2.0\n    return a, 2.0": "a list that is returned is made",
    "x = pair(a[0])\n    return x": "take them apart: x, y = pair(...)",
    "return pair(a[0]) + 1.0": "take them apart: x, y = pair(...)",
    "x, y, z = pair(a[0])\n    return x": "2 values are given to 3 names",
}


@pytest.mark.parametrize("body", REFUSED)
def test_refusals_say_what_to_write(tmp_path: Path, body: str) -> None:
    text = f"def pair(x):\n    return x, x + 1.0\n\ndef f(a: list[float], n: int):\n    {body}\n"
    (tmp_path / "f.py").write_text(text)
    (result,) = lift_file(tmp_path / "f.py", function="f", run=False)
    assert result.status == "refused" and REFUSED[body] in result.reason

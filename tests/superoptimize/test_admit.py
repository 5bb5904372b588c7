"""What a text may do before it is traced: arithmetic, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tensmith.errors import UsageError
from tensmith.superoptimize.admit import admit, admit_file
from tensmith.superoptimize.trace import NotTraceable

TABLE = np.ones(3)


def reads_an_array(x):
    return x + TABLE


def random(x):
    return x + np.random.random()


def prints(x):
    print(x)
    return x


def waits(x):
    while True:
        x = x + 1


def tells_objects_apart(x, y):
    return x * 0.5 if x is y else x + y


def hides_an_array(x):
    return x * sum([2 * TABLE for TABLE in (1.0, 2.0)]) + TABLE


def doubled(x):
    return 2 * x


def of_doubled(x):
    return doubled(x) + 1


def test_a_function_and_its_helpers_may_have_other_names_than_their_defs(monkeypatch) -> None:
    monkeypatch.setattr(doubled, "__name__", "renamed")
    monkeypatch.setattr(of_doubled, "__name__", "renamed_too")
    found = admit(of_doubled)
    assert found.name == "of_doubled" and found.traced(3.0) == 7.0


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (tells_objects_apart, "'is' in line {} asks for more than values"),
        (hides_an_array, "'TABLE' is a name of a comprehension and one outside"),
        (reads_an_array, "it reads 'TABLE' \\(ndarray\\) in line {}"),
        (random, "it calls 'np.random.random'"),
        (prints, "it reads 'print'"),
        (waits, "'while' in line {}"),
        (len, "made by def"),
    ],
)
def test_what_is_not_arithmetic_is_refused_by_name(function, reason: str) -> None:
    line = function.__code__.co_firstlineno + 1 if function is not len else 0
    with pytest.raises(NotTraceable, match=reason.format(line)):
        admit(function)


@pytest.mark.parametrize(
    "body",
    [
        "__import__('os').system('touch ran')",
        "().__class__.__base__.__subclasses__()",
        "(lambda: open('ran', 'w'))()",
        "np.save('ran', x)",
        "np.load('ran')",
        "np.ctypeslib.ctypes",
        "eval('1')",
        "getattr(x, 'tofile')('ran')",
        "x.tofile('ran')",
        "'{0.__class__}'.format(x)",
        "os.system('touch ran')",
        "[y for y in ran]",
        "np.frompyfunc(ran, 1, 1)(x)",
    ],
)
def test_a_files_text_does_nothing_else(body: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "f.py"
    file.write_text(f"import os\nimport numpy as np\nopen('ran', 'w')\ndef f(x):\n    return {body}\n")
    with pytest.raises(NotTraceable):
        admit_file(file, "f")
    assert not (tmp_path / "ran").exists()


def test_of_a_file_numbers_and_helpers_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text(
        "from numpy import exp\nimport numpy as np\nK = 2\nprint('ran')\n"
        "def g(x):\n    return exp(x) * K\n\ndef f(x, y=None):\n    return g(x) + np.pi\n"
    )
    found = admit_file(file, "f")
    assert found.parameters == ("x", "y")
    np.testing.assert_allclose(found.plain(np.ones(2)), 2 * np.e + np.pi)
    with pytest.raises(UsageError, match="no function 'h'; its functions: g, f"):
        admit_file(file, "h")


@pytest.mark.parametrize(
    "line",
    [
        "K = float(K)",
        "K += 1",
        "if True:\n    K = 3",
        "for K in (3,):\n    pass",
        "import os as K",
        "K, J = 3, 4",
        "from math import *",
    ],
)
def test_of_a_file_only_numbers_that_stay_are_taken(line: str, tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    text = f"import numpy as np\nimport numpy.linalg\nK = 2\n{line}\ndef f(x):\n    return np.exp(x) * K\n"
    file.write_text(text)
    with pytest.raises(NotTraceable, match=r"it reads '(K|np)' \(not known\)"):
        admit_file(file, "f")
    file.write_text(f"{text}import numpy as np\nK = 5\n")
    assert admit_file(file, "f").plain(0.0) == 5


@pytest.mark.parametrize(
    "line",
    [
        "g = twice(g)",
        "if True:\n    def g(x):\n        return x",
        "from math import *",
        "try:\n    1 / 0\nexcept ZeroDivisionError as g:\n    pass",
        "match 3:\n    case g:\n        pass",
        "match {}:\n    case {**g}:\n        pass",
        "def other():\n    global g\n    g = abs",
    ],
)
def test_of_a_file_functions_are_what_they_mean_at_its_end(line: str, tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text(f"def g(x):\n    return 2 * x\n{line}\ndef f(x):\n    return g(x)\n")
    for name in ("f", "g"):
        with pytest.raises(NotTraceable, match="the file gives 'g' another meaning than its def"):
            admit_file(file, name)


def test_of_a_file_functions_read_numbers_that_others_change(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text("K = 2\ndef f(x):\n    return x * K\ndef g(x):\n    global K\n    K = x\n")
    with pytest.raises(NotTraceable, match="it reads 'K' \\(not known\\)"):
        admit_file(file, "f")


def test_of_a_file_decorators_count(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text(
        "import tensmith\n@tensmith.optimize(seconds=1)\ndef f(x):\n    return x\n"
        "@twice\ndef g(x):\n    return x\n"
    )
    assert admit_file(file, "f").plain(3) == 3
    with pytest.raises(NotTraceable, match="a decorator changes what 'g' does"):
        admit_file(file, "g")

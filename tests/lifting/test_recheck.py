"""A certificate is held against its source: whoever wrote it is not trusted, forged or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lifting.corpus import KERNELS
from tensmith.errors import TensmithError, VerificationError
from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.recheck import recheck
from tensmith.verify.lift_certificate import NAME, check
from verify.forgery import FORGERIES, forge

GEMV = """\
void gemv(int m, int n, const float *a, const float *x, float *y) {
    for (int i = 0; i < m; ++i) {
        y[i] = 0;
        for (int j = 0; j < n; ++j)
            y[i] += a[i * n + j] * x[j];
    }
}

int zeros(int n, const int *a) {
    int found = 0;
    for (int i = 0; i < n; ++i)
        if (a[i] == 0) found++;
    return found;
}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with gemv.c and the certificates of its functions."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "gemv.c").write_text(GEMV)
    assert all(result.proved for result in lift_file(folder / "gemv.c", output=folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path, made: Path) -> Path:
    for path in (made / "gemv.cert").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_a_certificate_is_what_its_source_gives(made: Path) -> None:
    """Also where the second function of its file is now the only one, in a file of another name."""
    assert recheck(made / "gemv.cert", made / "gemv.c").problems == ()
    assert recheck(made / "zeros.cert", made / "gemv.c").problems == ()
    first, second = GEMV.split("\n\n")
    (made / "other.c").write_text("\n" * (first.count("\n") + 2) + second)
    assert recheck(made / "zeros.cert", made / "other.c").problems == ()


def test_running_the_source_again_gives_the_count(folder: Path, made: Path) -> None:
    """Without running it, a stated count is neither confirmed nor denied, and that is said."""
    stated = json.loads((folder / NAME).read_text())["checked"]
    again = recheck(folder, made / "gemv.c")
    assert again.problems == () and again.checked.inputs == stated["inputs"] > 50
    forge(folder, lambda document: document["checked"].update(inputs=100_000))
    assert "inputs that the source was run on" in recheck(folder, made / "gemv.c").problems[0]
    assert recheck(folder, made / "gemv.c", run=False).checked.inputs == 0


@pytest.mark.parametrize(
    "change", [{"why_not": "a word"}, {"by": ""}, {"by": "Python"}, {"inputs": 0}, {"more": 1}]
)
def test_what_is_said_of_running_the_source_fits_together(
    folder: Path, made: Path, change: dict[str, object]
) -> None:
    forge(folder, lambda document: document["checked"].update(change))
    assert recheck(folder, made / "gemv.c").problems


@pytest.mark.parametrize("name", FORGERIES)
def test_every_forgery_is_found(folder: Path, made: Path, name: str) -> None:
    change, words = FORGERIES[name]
    forge(folder, lambda document: change(folder, document))
    problems = recheck(folder, made / "gemv.c", run=False).problems
    assert problems, name
    assert words or check(folder).ok  # then nothing but the source tells


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("* x[j]", "* x[j] * 2", "gives another"),
        ("int j = 0", "int j = 1", "gives another"),
        ("i < m", "i < m - 1", "gives another"),
        ("float *a", "double *a", "gives another"),
        ("void gemv", "void vmeg", "has no function named gemv"),
        ("y[i] += a[i * n + j]", "y[(int)x[j]] += a[i * n + j]", "has no proof"),
    ],
)
def test_another_source_is_told(folder: Path, tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in GEMV
    source = tmp_path / "gemv.c"
    source.write_text(GEMV.replace(old, new))
    problems = recheck(folder, source, run=False).problems
    assert problems and words in problems[0]


def test_what_cannot_be_read_is_an_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="is no plain file"):
        recheck(tmp_path / "none", tmp_path / "gemv.c")
    with pytest.raises(TensmithError, match="cannot be read"):
        recheck(folder, tmp_path / "none.c")


@pytest.mark.parametrize(
    ("source", "function"),
    [("own/scans.c", "prefix_sum"), ("cpp/blend.cpp", "color_burn_8"), ("python/llama.py", "softmax_part1")],
)
def test_other_languages_and_operations(source: str, function: str, tmp_path: Path) -> None:
    (result,) = lift_file(KERNELS / source, function, output=tmp_path)
    assert result.proved and recheck(tmp_path / f"{function}.cert", KERNELS / source).problems == ()


FORMS = {
    "a size of an unsigned number": "int f(unsigned n, const int *a) "
    "{ int s = 0; for (unsigned i = n; i-- > 0; ) s += a[i]; return s; }",
    "a constant size": "int f(const unsigned char *a) "
    "{ int s = 0; for (int i = 0; i < 9; i++) s += a[i]; return s; }",
    "a divided size": "int f(int n, const int *a) "
    "{ int s = 0; for (int i = 0; i < n; i += 3) s += a[i]; return s; }",
    "steps of a fold between several points": "void f(int n, const int *a, int *b) "
    "{ for (int i = 0; i < n; i++) { int s = 0; for (int j = -2; j <= 2; j++) "
    "if (i + j >= 0 && i + j < n) s += a[i + j]; b[i] = s; } }",
    "divisors": "void f(int n, int d, int *a, const int *b) "
    "{ for (int i = 0; i < n; i++) a[i] = a[i] / b[i] + a[i] % d; }",
}


@pytest.mark.parametrize("name", FORMS)
def test_facts_of_other_forms_are_allowed(name: str, tmp_path: Path) -> None:
    source = tmp_path / "f.c"
    source.write_text(FORMS[name])
    (result,) = lift_file(source, output=tmp_path, run=False)
    assert result.proved, result.reason
    assert check(tmp_path / "f.cert").ok
    assert all(
        recheck(tmp_path / "f.cert", source, run=False).problems == () for _ in range(3)
    )  # always made alike

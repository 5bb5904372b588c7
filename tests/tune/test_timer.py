"""The timer: real kernels in a process of their own, and what happens to those that crash or hang."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from small_networks import problem

from tensmith.errors import EngineError
from tensmith.kernel import Kernel, candidates, host_isa
from tensmith.tune import timer as timing
from tensmith.tune.timer import Timer


@pytest.fixture
def timer() -> Iterator[Timer]:
    with Timer(patience=20.0) as made:
        yield made


def first(**changes: object) -> Kernel:
    return candidates(dataclasses.replace(problem(), **changes), host_isa())[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["f32", "u8"])
@pytest.mark.parametrize("memory", [0, 1, 2])
def test_a_kernel_takes_some_time(timer: Timer, dtype: str, memory: int) -> None:
    assert 0 < timer.seconds(first(dtype=dtype), memory, 0.01) < 1


def test_sparse_weights_are_sparse(timer: Timer) -> None:
    kernels = candidates(dataclasses.replace(problem(), density=0.1), host_isa())
    sparse = next(kernel for kernel in kernels if kernel.name == "sparse")
    assert timer.seconds(sparse, 0, 0.01) > 0


@pytest.mark.parametrize(
    ("body", "words"), [("__builtin_trap();", "died"), ("for (;;) in = out;", "did not end")]
)
def test_a_kernel_that_crashes_or_hangs_is_survived(
    body: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = first()
    broken = (
        '__attribute__((visibility("default"))) void repeat(long f, long n, long c, long s,'
        f" const void *volatile in, const char *w, const float *b, void *out, void *t) {{ {body} }}"
    )
    with Timer(patience=3.0) as timer:
        with monkeypatch.context() as patch:
            patch.setattr(timing, "text_alone", lambda _: broken)
            with pytest.raises(EngineError, match=words):
                timer.seconds(kernel, 0, 0.01)
        assert timer.seconds(kernel, 0, 0.01) > 0


def test_what_goes_wrong_in_its_process_is_told(timer: Timer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "text_alone", lambda _: "int nothing;")
    with pytest.raises(EngineError, match="undefined symbol: repeat"):
        timer.seconds(first(), 0, 0.01)


def test_a_kernel_that_does_not_compile_is_an_error(timer: Timer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "text_alone", lambda _: "this is no C")
    with pytest.raises(EngineError, match="compiler"):
        timer.seconds(first(), 0, 0.01)

"""MetaSchedule's kernels: searched, kept, correct wherever ours are, and chosen where they are asked for."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_networks import Clock, answered, problem, two_layers
from test_device import needs_tvm

from command_line import refused, tensmith
from own_cache import own_cache
from tensmith import cache
from tensmith.backend.native.choose.choosers import estimated
from tensmith.backend.native.choose.measured import metascheduled
from tensmith.backend.native.emit.loader import Model
from tensmith.engine import ENGINES
from tensmith.engine.module_worker import ModuleWorker, WorkerEnded
from tensmith.errors import EngineError
from tensmith.kernel import ConvolutionProblem, Epilogue, host_isa
from tensmith.kernel.scheduled import ARGUMENTS, FUNCTION, Scheduled, keep, revision, scheduled
from tensmith.kernel.timings import Timings
from tensmith.tune.network import tasks_of
from tensmith.tune.search import Budget, TuningSearch
from tensmith.tune.tvm import metaschedule
from tensmith.tune.tvm.definition import definition, shapes, target
from tensmith.tune.tvm.metaschedule import MetaSchedule, scheduled_seconds
from tensmith.tune.tvm.schedule import Unusable, argument_names, extracted

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "kernel"))
from kernel_runs import curve, reference, rounding_bound, run_kernel, sample

ISA = host_isa()


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kernels and timings are this test's own."""
    return own_cache(tmp_path / "cache", monkeypatch)


@needs_tvm
def test_its_kernels_are_right_in_any_buffers_with_any_epilogue() -> None:
    asked = (
        ConvolutionProblem(2 * ISA.lanes, 9, 7, ISA.lanes + 3, (3, 3), pads=(1, 1, 1, 1)),
        ConvolutionProblem(3, 9, 8, 20, (3, 2), (2, 1), (1, 0, 0, 1), (1, 2)),
    )
    with ModuleWorker(("tensmith.tune.tvm.schedule",), 300.0) as worker:
        for problem in asked:
            blank = Scheduled(problem, ISA)
            function = {"text": definition(blank), "target": target(ISA), "seed": 1}
            function["shapes"] = list(shapes(blank).values())
            answer, _ = worker.ask({"function": function, "count": 4})
            if problem is asked[0]:  # it goes on where it was
                first, (answer, _) = answer, worker.ask({"function": function, "count": 2})
                assert answer["seconds"] <= first["seconds"]
                assert (first["trials"], answer["trials"]) == (4, 6)
            kernel = Scheduled(problem, ISA, answer["assembly"], tuple(answer["order"]))
            image, weights = sample(problem)
            truth, bound = reference(problem, image, weights), rounding_bound(problem, image, weights)
            generator = np.random.default_rng(1)
            bias = generator.standard_normal(problem.filters, np.float32)
            added = generator.standard_normal(truth.shape, np.float32)
            # Two more additions, each rounded.
            bound = bound + 1e-6 * (abs(bias)[:, None, None] + abs(added) + abs(truth))
            assert (abs(run_kernel(kernel, image, weights) - truth) <= bound).all()
            relu = Epilogue(True, kernel.target, curve("relu"))
            for loose in (False, True):
                found = run_kernel(kernel, image, weights, bias, added, relu, loose)
                assert (abs(found - np.maximum(0, truth + bias[:, None, None] + added)) <= bound).all()


@needs_tvm
def test_a_network_is_tuned_by_it_and_a_setting_of_the_engine_takes_it(tiny: Path, tmp_path: Path) -> None:
    arguments = ("tune", tiny / "tiny.onnx", "--tuning", "metaschedule", "--trials", "12", "--json")
    found = json.loads(tensmith(*arguments, "--output", "made", folder=tmp_path).stdout)
    assert found["failures"] == []
    assert all(row["metaschedule"]["microseconds"] > 0 for row in found["problems"])
    x, truth = answered(tiny / "tiny.onnx")
    made = Model(tmp_path / "made")
    assert set(made.manifest["kernels"].values()) == {"metaschedule"}
    np.testing.assert_allclose(made(x=x)["y"], truth, rtol=1e-4, atol=1e-4)
    session = ENGINES["native"].prepare(tiny / "tiny.onnx", 1, tuning="metaschedule")
    np.testing.assert_allclose(session.run({"x": x})["y"], truth, rtol=1e-4, atol=1e-4)


def stub(problem: ConvolutionProblem) -> Scheduled:
    return Scheduled(problem, ISA, f"{FUNCTION}:\n\tret")


def test_what_is_kept_is_offered_alone_and_only_for_its_problem() -> None:
    keep(kernel := stub(problem()))
    assert scheduled(problem(), ISA) == kernel
    choose = metascheduled(estimated, Timings())(0)
    assert [found for _, found in choose(problem(), ISA, problem())] == [kernel]
    assert choose(other := problem(64), ISA, other) == estimated(0)(other, ISA, other)


def test_the_revision_tells_kept_kernels_apart(private_cache: Path) -> None:
    seen = [revision()]
    for kernel in (stub(problem()), stub(problem(64)), replace(stub(problem()), assembly=f"{FUNCTION}: ret")):
        keep(kernel)
        seen.append(revision())
    assert len(set(seen)) == 4
    keep(stub(problem()))
    assert revision() == seen[2]


def test_a_replaced_kernel_is_none(private_cache: Path) -> None:
    keep(stub(problem()))
    assert scheduled(problem(), ISA) is not None
    (entry,) = (private_cache / "metaschedule").iterdir()
    path = entry / "kernel.json"
    path.write_text(path.read_text().replace(FUNCTION, "another"))
    assert scheduled(problem(), ISA) is None


def test_a_kernel_that_another_process_is_replacing_is_none(
    private_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(stub(problem()))
    found = cache.find

    def find(*arguments: Any) -> Path | None:
        entry = found(*arguments)
        assert entry is not None
        entry.rename(private_cache / "away")
        return entry

    with monkeypatch.context() as patch:
        patch.setattr(cache, "find", find)
        assert scheduled(problem(), ISA) is None
    before = revision()
    entries = cache.entries
    monkeypatch.setattr(cache, "entries", lambda room: [*entries(room), room / "away"])
    assert revision() == before


def test_a_search_that_dies_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metaschedule, "check_packages", lambda: None)
    tasks, memory = tasks_of(two_layers(), ISA)
    search = TuningSearch(tasks, memory, Timings(tmp_path / "timings.sqlite"), Clock())
    with MetaSchedule() as other:

        def dies(*_: object) -> object:
            raise WorkerEnded("died")

        monkeypatch.setattr(other._worker, "ask", dies)
        other.run(search, Budget(600.0), lambda: False)
    assert [failure.partition(" searching")[0] for failure in other.failures] == ["MetaSchedule died"] * 2
    assert scheduled(tasks[0].problem, ISA) is None


def test_what_was_found_before_a_search_died_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metaschedule, "check_packages", lambda: None)
    monkeypatch.setattr(metaschedule, "check_agreement", lambda *_: None)
    tasks, memory = tasks_of(two_layers(), ISA)
    search = TuningSearch(tasks[:1], memory, Timings(tmp_path / "timings.sqlite"), Clock())
    with MetaSchedule() as other:
        find = Finder(end=False)

        def dies_later(request: dict[str, object]) -> object:
            if find.asked:
                raise WorkerEnded("died")
            return find(request)

        monkeypatch.setattr(other._worker, "ask", dies_later)
        other.run(search, Budget(600.0), lambda: False)
    (failure,) = other.failures
    assert failure.startswith("MetaSchedule died searching")
    assert scheduled_seconds(tasks[0], search) is not None


class Finder:
    """Stands for the process that searches: it finds the stub at once, in whatever `order`."""

    def __init__(self, order: tuple[str, ...] = ARGUMENTS, end: bool = True) -> None:
        self.asked: list[dict[str, object]] = []
        self._order, self._end = order, end

    def __call__(self, request: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """An answer of tune.tvm.schedule."""
        self.asked.append(request)
        found = {"assembly": stub(problem()).assembly, "order": self._order, "seconds": 1e-6}
        return {**found, "trials": 16, "end": self._end}, {}


@pytest.mark.parametrize(("order", "crashing", "words"), [
    (ARGUMENTS, "metaschedule", "died"),
    (ARGUMENTS, "nothing", "wrongly"),
    (("source", "weights", "bias"), "nothing", "not of source"),
])  # fmt: skip
def test_what_crashes_or_computes_something_else_is_not_kept(
    order: tuple[str, ...], crashing: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metaschedule, "check_packages", lambda: None)
    tasks, memory = tasks_of(two_layers(), ISA)
    search = TuningSearch(tasks[:1], memory, Timings(tmp_path / "timings.sqlite"), Clock(crashing))
    with MetaSchedule() as other:
        monkeypatch.setattr(other._worker, "ask", Finder(order))
        other.run(search, Budget(600.0), lambda: False)
    (failure,) = other.failures
    assert words in failure
    assert scheduled(tasks[0].problem, ISA) is None and scheduled_seconds(tasks[0], search) is None


def test_nothing_is_searched_for_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metaschedule, "check_packages", lambda: None)
    monkeypatch.setattr(metaschedule, "check_agreement", lambda *_: None)
    tasks, memory = tasks_of(two_layers(), ISA)
    search = TuningSearch(tasks, memory, Timings(tmp_path / "timings.sqlite"), Clock())
    ask = Finder()
    for times in (2, 2):
        with MetaSchedule() as other:
            monkeypatch.setattr(other._worker, "ask", ask)
            other.run(search, Budget(600.0), lambda: False)
        assert len(ask.asked) == times and other.failures == []
    assert all(scheduled_seconds(task, search) is not None for task in tasks)


def test_what_it_cannot_search_is_refused_by_a_reason() -> None:
    for other, reason in (
        (ConvolutionProblem(8, 8, 8, 8, dtype="u8"), "f32"),
        (problem_of_groups(), "groups"),
    ):
        assert reason in str(Scheduled.refuses(other, ISA))


def problem_of_groups() -> ConvolutionProblem:
    return ConvolutionProblem(32, 8, 8, 32, (3, 3), groups=32)


def test_the_text_of_the_function_is_taken_with_its_constants_alone() -> None:
    before = "\t.text\nother:\n\tcallq\tsomething@PLT\n\t.size\tother, 1\n"
    constants = "\t.section\t.rodata\n.LCPI1_0:\n\t.long\t1\n\t.text\n"
    body = f"{FUNCTION}:\n\t.loc\t1 0 0\n.Ltmp1:\n\tcallq\tmemset@PLT\n\tretq\n"
    module = f"{before}{constants}{body}\t.size\t{FUNCTION}, 2\n\t.text\nmore:\n"
    assert extracted(module) == f"{constants}{FUNCTION}:\n\tcallq\tmemset@PLT\n\tretq"
    with pytest.raises(Unusable, match="malloc"):
        extracted(module.replace("memset", "malloc"))
    text = f"define internal fastcc void @{FUNCTION}(ptr noalias %bias, ptr align 4 %source) #3 {{"
    assert argument_names(text) == ["bias", "source"]


@pytest.mark.parametrize("options", [("--tuning", "often"), ("--tuning", "metaschedule", "--rpc", "host:1")])
def test_bad_settings_are_refused(options: tuple[str, ...], tiny: Path, tmp_path: Path) -> None:
    refused(tensmith("tune", tiny / "tiny.onnx", *options, folder=tmp_path), 2, "--tuning")
    with pytest.raises(EngineError, match="metaschedule"):
        ENGINES["native"].prepare(tiny / "tiny.onnx", 1, tuning="often")

"""The tuned choice of kernels: what was measured takes the place of what is estimated."""

from __future__ import annotations

import functools

from tensmith.backend.native.choose.choosers import Chooser, Choosing, Options, estimated, memory_of, price
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.scheduled import scheduled
from tensmith.kernel.timings import Timings


def measured(timings: Timings, untuned: Choosing = estimated) -> Choosing:
    """Choosers that offer the kernels of `untuned` which were timed, or all by estimate where none was.

    An estimate is never held against a measurement. Tuning times whole problems: beside one that was timed,
    estimates are scaled by what its fastest kernel takes, over its estimate; beside one that was not, there
    are estimates alone.
    """

    def chooser(weight_bytes: int) -> Chooser:
        guess, memory = untuned(weight_bytes), memory_of(weight_bytes)

        @functools.cache
        def timed(problem: ConvolutionProblem, isa: Isa) -> Options:
            known = timings.known((kernel for _, kernel in guess(problem, isa, problem)), memory)
            return [(seconds + price(kernel, memory), kernel) for kernel, seconds in known.items()]

        def scaled(problem: ConvolutionProblem, isa: Isa, beside: ConvolutionProblem) -> Options:
            seconds, fastest = min(timed(beside, isa), key=lambda option: option[0])
            estimates = {kernel: estimate for estimate, kernel in guess(beside, isa, beside)}
            scale = seconds / estimates[fastest]
            return [(scale * estimate, kernel) for estimate, kernel in guess(problem, isa, beside)]

        @functools.cache
        def choose(problem: ConvolutionProblem, isa: Isa, beside: ConvolutionProblem) -> Options:
            if not timed(beside, isa):
                return guess(problem, isa, beside)
            return timed(problem, isa) or scaled(problem, isa, beside)

        return choose

    return chooser


def metascheduled(otherwise: Choosing, timings: Timings) -> Choosing:
    """Choosers that offer MetaSchedule's kernel where one was searched for, else what `otherwise` does.

    It has its measured seconds, against which cutting the problem into parts is held; parts are the others'.
    Where it was not timed with weights from this memory, it counts as much as the fastest of the others.
    """

    def chooser(weight_bytes: int) -> Chooser:
        choose, memory = otherwise(weight_bytes), memory_of(weight_bytes)

        @functools.cache
        def found(problem: ConvolutionProblem, isa: Isa, beside: ConvolutionProblem) -> Options:
            options = choose(problem, isa, beside)
            kernel = scheduled(problem, isa) if beside == problem else None
            if kernel is None:
                return options
            known = timings.known([kernel], memory)
            others = min(seconds for seconds, _ in options)
            return [(known[kernel] + price(kernel, memory) if known else others, kernel)]

        return found

    return chooser

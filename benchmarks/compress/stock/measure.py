"""Size, accuracy and interleaved latency of entries: everybody's files go through the same code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from benchmarks.compress.stock.cases import Case
from benchmarks.compress.stock.entries import Entry
from benchmarks.compress.stock.table import Row
from tensmith.data import Subset
from tensmith.engine.base import Arrays
from tensmith.engine.worker import SessionWorker
from tensmith.errors import EngineError, TensmithError
from tensmith.evaluate.accuracy import classify, model_language
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import Latency, summarize, take_turns
from tensmith.evaluate.outcome import Classification, LanguageModel
from tensmith.evaluate.padded import judging_texts
from tensmith.files import atomic_path, sha256_file
from tensmith.report.metric import Metric

_JUDGING_THREADS = 2


def measure(
    case: Case,
    entries: Sequence[Entry],
    view: Subset,
    example: Arrays,
    cache: Path,
    seconds: float,
    progress: Callable[[str], None],
) -> list[Row]:
    """A row an entry; the first entry is the original on the baseline. Failures become rows, too."""
    outcomes: dict[Entry, Classification | LanguageModel] = {}
    failures = {entry: entry.failure for entry in entries if entry.failure}
    for entry in entries:
        if entry.contender is not None:
            progress(f"judging {entry.peer} {entry.variant}")
            try:
                outcomes[entry] = _outcome(case, entry, entry.contender, view, cache)
            except TensmithError as error:
                failures[entry] = str(error)
    if entries[0] in failures:
        raise EngineError(f"the baseline does not run: {failures[entries[0]]}")
    progress(f"timing {len(outcomes)} in turns for {seconds:g} s")
    contenders = {entry: entry.contender for entry in outcomes if entry.contender is not None}
    latencies = _race(contenders, example, seconds, failures)
    original = outcomes[entries[0]]
    return [
        Row(entry.peer, entry.variant, entry.runtime, failure=failures[entry])
        if entry in failures
        else _row(case, entry, latencies[entry], outcomes[entry], original)
        for entry in entries
    ]


def _race(
    contenders: Mapping[Entry, Contender],
    example: Arrays,
    seconds: float,
    failures: dict[Entry, str],
) -> dict[Entry, Latency]:
    """Latencies on one thread, all in turns; who cannot start goes to `failures`."""
    with ExitStack() as stack:
        workers: dict[Entry, SessionWorker] = {}
        for entry, contender in contenders.items():
            try:
                workers[entry] = stack.enter_context(contender.start(example, threads=1))
            except TensmithError as error:
                failures[entry] = str(error)
        rounds = take_turns([worker.time for worker in workers.values()], seconds)
    return dict(zip(workers, summarize([contenders[entry] for entry in workers], rounds)))


def _row(
    case: Case,
    entry: Entry,
    latency: Latency,
    outcome: Classification | LanguageModel,
    original: Classification | LanguageModel,
) -> Row:
    written = sum(path.stat().st_size for path in entry.files)
    coded = sum(map(_zstd_bytes, entry.files))
    if entry.packed is not None:
        coded = min(coded, entry.packed.stat().st_size)
    agreement: Metric | None = None
    if isinstance(outcome, Classification) and isinstance(original, Classification):
        drop, agreement = outcome.drop(original), outcome.agreement(original)
        judged = original.judged_by(original)
        counted = outcome.judged_by(original).drop(judged) if case.measure == "agreement" else drop
    else:
        assert isinstance(outcome, LanguageModel) and isinstance(original, LanguageModel)
        drop = counted = outcome.drop(original)
    return Row(
        entry.peer,
        entry.variant,
        entry.runtime,
        latency.latency,
        latency.ratio,
        written,
        coded,
        outcome.metric(),
        drop,
        agreement,
        counted.value <= case.budget,
        entry.note,
    )


def _zstd_bytes(path: Path) -> int:
    return len(zstandard.ZstdCompressor(level=19).compress(path.read_bytes()))


def _outcome(
    case: Case, entry: Entry, contender: Contender, view: Subset, cache: Path
) -> Classification | LanguageModel:
    """What the file answers on `view`; remembered by the contents of its files."""
    identity = [*map(sha256_file, entry.files), contender.engine, str(contender.settings), case.name]
    key = hashlib.sha256("\n".join([*identity, str(len(view))]).encode()).hexdigest()
    path = cache / f"{key[:24]}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as stored:
            kind = LanguageModel if case.measure == "loss" else Classification
            return kind(stored["first"], stored["second"])
    settings: dict[str, Any] = dict(contender.settings)
    with SessionWorker(contender.engine, contender.path, _JUDGING_THREADS, timeout=600, **settings) as worker:
        if case.measure == "loss":
            session = judging_texts(worker, contender.engine, contender.path)
            outcome: Classification | LanguageModel = model_language(session, view)
        else:
            outcome = classify(worker, view, preprocess=case.inputs)
    first, second = vars(outcome).values()
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, first=first, second=second)
    return outcome

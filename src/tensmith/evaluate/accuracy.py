"""Runs a model over a view of data, a batch at a time, and keeps one small outcome a sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tensmith.data.dataset import Inputs, Subset, sample_count
from tensmith.data.tokenizers import BESIDE_TOKENS
from tensmith.engine.base import Session, check_inputs, fixed_batch, in_parts, kinds_of
from tensmith.engine.signature import TensorSpec
from tensmith.errors import DataError, EngineError, TensmithError
from tensmith.evaluate.detection import Detections, matched
from tensmith.evaluate.heads import Head
from tensmith.evaluate.outcome import Classification, LanguageModel, Outputs, Score, joined
from tensmith.formula.arith import Array

Model = Callable[[Inputs], dict[str, Array]]
Preprocess = Callable[[Array], Array]

# Samples of the largest batch; smaller ones halve it, so that shards of whole batches cut none.
MOST_SAMPLES = 64
_MOST_BYTES = 16 << 20
_ASSUMED_SIZE = 128
_ASSUMED_ITEM = 4
# Elements of each output that are compared, a sample.
_KEPT = 256

# They take one scale from all values of a batch, so that a sample's answer depends on its neighbours.
_BATCH_DEPENDENT = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})


def classify(session: Session, view: Subset, *, preprocess: Preprocess | None = None) -> Classification:
    """Top-1 answers of the first output, [n, classes], with the labels int64 [n] if there are any.

    DataError if samples do not fit the model, a label is out of range, or the view is empty.
    """
    model = as_model(session, preprocess)
    predicted: list[Array] = []
    labels: list[Array] = []
    for batch in view.batches(best_batch_size(session)):
        answers = model(batch.inputs)
        _demand_one_answer(session.outputs[0].name, answers)
        scores = first_output(session, answers, batch.inputs).astype(np.float32, copy=False)
        if scores.shape[1] < 2:
            raise no_classes()
        predicted.append(np.where(np.isnan(scores).any(axis=1), -1, scores.argmax(axis=1)))
        if batch.labels is not None:
            labels.append(_checked(batch.labels, (len(scores),), scores.shape[1]))
    if not predicted:
        raise DataError("there are no samples to evaluate on; give data that is not empty")
    return Classification(np.concatenate(predicted), np.concatenate(labels) if labels else None)


def no_classes() -> DataError:
    """Of a first output that has one number a sample."""
    return DataError(
        "the model's first output has one number a sample, which tells no classes apart; "
        "use --measure fidelity, or give an evaluation function"
    )


def tells_classes(dims: Sequence[object]) -> bool:
    """Whether an output [n, ...] has several numbers a sample, all at one place."""
    return sum(size != 1 for size in dims[1:]) == 1


def _demand_one_answer(name: str, answers: Mapping[str, Array]) -> None:
    shape = answers[name].shape
    if sum(size != 1 for size in shape[1:]) > 1:  # pixels, or tokens
        raise DataError(
            f"output '{name}' {list(shape)} has answers at several places of a sample, and classes are told "
            "once a sample; use --measure fidelity, or give an evaluation function"
        )


def first_output(session: Session, answers: Mapping[str, Array], inputs: Inputs) -> Array:
    """The numbers of the first output, [n, ...]; DataError where it has none for each of the n samples."""
    name = session.outputs[0].name
    return _rows(answers[name], name, sample_count(inputs))


def _rows(output: Array, name: str, count: int) -> Array:
    """An output as [count, numbers]."""
    if output.dtype.kind not in "fiubV" or (count > 1 and (not output.ndim or len(output) != count)):
        raise DataError(
            f"output '{name}', {output.dtype} {list(output.shape)}, has no numbers for each of {count} "
            "samples; give an evaluation function"
        )
    return output.reshape(count, -1)


def model_language(session: Session, view: Subset) -> LanguageModel:
    """Cross-entropy of the first output, logits [n, length, vocabulary], at labels int64 [n, length].

    A label is the token that follows; negative ones are not counted. EngineError if an answer is NaN.
    """
    model = as_model(session)
    nats: list[float] = []
    tokens: list[int] = []
    for batch in view.batches(best_batch_size(session)):
        logits = model(batch.inputs)[session.outputs[0].name]
        if batch.labels is None:
            raise DataError("a language model is judged by the tokens that follow, and the data has none")
        if logits.ndim != 3:
            raise DataError(
                f"a language model gives logits [n, length, vocabulary], and '{session.outputs[0].name}' is "
                f"{list(logits.shape)}; export the logits first, or use --measure fidelity"
            )
        for row, following in zip(logits, _checked(batch.labels, logits.shape[:2], logits.shape[2])):
            counted = following >= 0
            nats.append(_cross_entropy(row[counted], following[counted]))
            tokens.append(int(counted.sum()))
    if sum(tokens) == 0:
        raise DataError("there are no tokens to evaluate on; give data that is not empty")
    if not np.isfinite(nats).all():
        raise EngineError("the model's answers are not numbers (NaN or infinity) on this engine")
    return LanguageModel(np.array(nats), np.array(tokens))


def all_outputs(session: Session, view: Subset, *, preprocess: Preprocess | None = None) -> Outputs:
    """Every output; of a large one 256 elements a sample, at places that its size gives.

    One sample at a time where an output does not begin with the axis of samples, as states of recurrent
    layers do. DataError where there is nothing to compare.
    """
    model = as_model(session, preprocess)
    apart = any(not spec.shape or isinstance(spec.shape[0], int) for spec in session.outputs)
    best = 1 if apart and fixed_batch(session.inputs) is None else best_batch_size(session)
    rows: list[Array] = []
    for batch in view.batches(best):
        answers = model(batch.inputs)
        count = sample_count(batch.inputs)
        rows.append(np.stack([_kept(answers[spec.name], spec.name, count) for spec in session.outputs], 1))
    if not rows:
        raise DataError("there are no samples to evaluate on; give data that is not empty")
    return Outputs(np.concatenate(rows))


def _kept(output: Array, name: str, count: int) -> Array:
    """float32 [count, 256] of an output; infinite for what is no number, NaN where it has fewer elements."""
    flat = _rows(output, name, count)
    size = flat.shape[1]
    if size > _KEPT:
        flat = flat[:, np.sort(np.random.default_rng(size).choice(size, _KEPT, replace=False))]
    kept = np.full((count, _KEPT), np.nan, np.float32)
    numbers = flat.astype(np.float32)
    kept[:, : flat.shape[1]] = np.where(np.isfinite(numbers), numbers, np.inf)
    return kept


def detect(
    session: Session,
    view: Subset,
    head: Head,
    classes: int,
    *,
    preprocess: Preprocess | None = None,
) -> Detections:
    """What the boxes that `head` reads off the outputs find of labels float32 [n, boxes, 6].

    DataError if samples are no images, have no labels, or the outputs are not of this head.
    """
    model = as_model(session, preprocess)
    parts: list[Detections] = []
    for batch in view.batches(best_batch_size(session)):
        if isinstance(batch.inputs, Mapping) or batch.inputs.ndim != 4 or batch.labels is None:
            raise DataError("a detector is judged by the boxes in images; give data such as coco:DIR")
        height, width = batch.inputs.shape[2:]
        boxes = head.boxes(model(batch.inputs), (height, width), len(batch.inputs))
        shares = np.array([width, height, width, height, 1, 1], np.float64)
        parts.append(matched([rows / shares for rows in boxes], batch.labels, classes))
    if not parts:
        raise DataError("there are no samples to evaluate on; give data that is not empty")
    return joined(parts)  # type: ignore[return-value]


def score(
    session: Session,
    view: Subset,
    evaluation: Callable[[Model, Subset], float],
    *,
    preprocess: Preprocess | None = None,
) -> Score:
    """What the user's `evaluation(model, view)` returns; DataError if it fails or gives no finite number."""
    try:
        value = evaluation(as_model(session, preprocess), view)
    except TensmithError:
        raise
    except Exception as error:  # whatever people's own code raises, which costs one candidate
        raise DataError(f"the evaluation function failed: {type(error).__name__}: {error}") from error
    number = value.item() if isinstance(value, np.generic | np.ndarray) and value.size == 1 else value
    if not isinstance(number, int | float) or not math.isfinite(number):
        raise DataError(f"the evaluation function returned {value!r}; it must return a finite number")
    return Score(float(number))


def best_batch_size(session: Session) -> int:
    """Samples to hand over at once (up to 64, 16 MiB): a multiple of what the file or the engine fixes, where
    they are all of one size, else a power of two.

    With an operator that quantizes by the batch it is 1: what is deployed sees one sample at a time.
    """
    specs, fixed = (*session.inputs, *session.outputs), _at_a_time(session)
    if fixed is None and (session.operators & _BATCH_DEPENDENT or not all(spec.shape for spec in specs)):
        return 1
    if fixed is not None and not _by_samples(specs):
        return fixed
    most = max(1, min(MOST_SAMPLES, _MOST_BYTES // max(1, sum(map(_sample_bytes, specs)))))
    return fixed * max(1, most // fixed) if fixed else int(2 ** math.floor(math.log2(most)))


def as_model(session: Session, preprocess: Preprocess | None = None) -> Model:
    """`session` as a function of any number of samples, whatever batch the file fixes.

    Samples are preprocessed, named and cast; DataError if they do not fit the model.
    """
    fixed = _at_a_time(session)
    whole = set()  # kinds of inputs that are answered at once

    def run(samples: Inputs) -> dict[str, Array]:
        named = named_inputs(session.inputs, samples, preprocess)
        kinds = kinds_of(named)
        if kinds in whole:
            return session.run(named)
        count = sample_count(named)
        if not count:
            raise DataError("there are no samples to answer; give at least one")
        if fixed is None or _fits(session, named, count):
            _check(session, named)
            if fixed is None or count >= fixed:
                whole.add(kinds)
            return session.run(named)
        _check(session, next(in_parts(named, fixed)))
        parts = session.run_in_parts(named, fixed)
        for name, array in (output for part in parts for output in part.items()):
            if not array.ndim or len(array) != fixed:
                raise DataError(
                    f"output '{name}' has no axis of samples, so that the model answers {fixed} at a time, "
                    f"not {count}"
                )
        return {name: np.concatenate([part[name] for part in parts])[:count] for name in parts[0]}

    return run


def _check(session: Session, named: dict[str, Array]) -> None:
    try:
        check_inputs(session.inputs, named)
    except EngineError as error:
        raise DataError(f"the data does not fit the model: {error}") from error


def named_inputs(
    specs: tuple[TensorSpec, ...], samples: Inputs, preprocess: Preprocess | None
) -> dict[str, Array]:
    """What of `samples` is fed to a model that takes `specs`: preprocessed, named, and cast where the model's
    numbers are of the same kind. DataError where one array is to fill several inputs."""
    if not isinstance(samples, Mapping):
        if len(specs) != 1:
            wanted = ", ".join(spec.name for spec in specs)
            raise DataError(
                f"the model takes the inputs {wanted}, but the data has one; name them in the data"
            )
        samples = {specs[0].name: preprocess(samples) if preprocess else samples}
    dtypes = {spec.name: spec.dtype for spec in specs}
    unused = BESIDE_TOKENS - dtypes.keys()
    return {name: _cast(array, dtypes.get(name)) for name, array in samples.items() if name not in unused}


def _cast(array: Array, dtype: str | None) -> Array:
    """`array` as the model's dtype where that is the same kind of number, else untouched."""
    kinds = {"f": ("float16", "float32", "float64"), "i": ("int8", "int16", "int32", "int64")}
    if dtype in kinds.get(array.dtype.kind, ()):
        return np.asarray(array, dtype, order="C")
    return np.asarray(array, order="C")


def _at_a_time(session: Session) -> int | None:
    """How many samples the file or the engine answers at a time; None for any number."""
    fixed = fixed_batch(session.inputs)
    return session.samples if fixed is None else fixed


def _by_samples(specs: Sequence[TensorSpec]) -> bool:
    """Whether the first axis of all of them is that of the samples, and a sample of each has one size.

    What a detector found, or a state, is not told apart by sample when several are put together.
    """
    shapes = [spec.shape or () for spec in specs]
    sized = all(shape and all(isinstance(size, int) for size in shape[1:]) for shape in shapes)
    return sized and len({shape[0] for shape in shapes}) == 1


def _fits(session: Session, named: Mapping[str, Array], count: int) -> bool:
    """Whether these are as many samples as are answered at a time, every input with the batch of its own."""
    if fixed_batch(session.inputs) is None:
        return count == session.samples or (session.fewer and count < (session.samples or 0))
    sizes = {spec.name: spec.shape[0] for spec in session.inputs if spec.shape}
    return all(len(array) == sizes[name] for name, array in named.items() if isinstance(sizes.get(name), int))


def _sample_bytes(spec: TensorSpec) -> int:
    sizes = [size if isinstance(size, int) else _ASSUMED_SIZE for size in (spec.shape or ())[1:]]
    return _ASSUMED_ITEM * math.prod(sizes)


def _checked(labels: Array, shape: tuple[int, ...], classes: int) -> Array:
    if labels.shape != shape or labels.dtype.kind not in "iu":
        raise DataError(
            f"labels {labels.dtype} {list(labels.shape)} do not fit answers {list(shape)}; "
            "give an evaluation function for this task"
        )
    lowest = 0 if labels.ndim == 1 else -math.inf
    if labels.size and (labels.max() >= classes or labels.min() < lowest):
        wrong = labels.max() if labels.max() >= classes else labels.min()
        raise DataError(f"label {wrong} is out of range: the model tells {classes} classes apart")
    return labels.astype(np.int64)


def _cross_entropy(logits: Array, labels: Array) -> float:
    """Sum of -log softmax(logits)[labels], logits [n, classes], whose powers may be no halves."""
    if not len(labels):
        return 0.0
    logits = logits.astype(np.float32, copy=False)
    top = logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(logits - top).sum(axis=1, dtype=np.float64)) + top[:, 0]
    return float((log_sum - logits[np.arange(len(labels)), labels]).sum())

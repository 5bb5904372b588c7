"""Three disjoint samples of a dataset: to calibrate on, to search on, and to judge by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensmith.data.dataset import ALL, TEST, TRAIN, VALIDATION, Dataset, DatasetPart, Subset
from tensmith.errors import DataError, UsageError

# What the sizes of `shares` are for; a split so far from what was wanted, and of so small a share, is none.
_USES = ("calibrate on", "search on", "judge by")
_FAR_FEWER, _SMALLEST_SHARE = 8, 20
# Of the part to judge by, one in so many is to search on, where that is so many samples; else of the part to
# fit on one in so many at most, where that is so many: weights may learn from the others.
_ONE_IN, _LEAST_UNSEEN, _ONE_OF_FITTED = 5, 500, 3

# How many samples a run calibrates and searches on, where nobody says.
CALIBRATION, SEARCH = 256, 2000

Order = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Splits:
    """Disjoint views of one dataset. Nothing is ever chosen by looking at `held_out`.

    fitting: what weights may be fitted to: the samples to calibrate on, and those of no split.
    """

    calibration: Subset
    search: Subset
    held_out: Subset
    fitting: Subset

    @property
    def training(self) -> Subset:
        """What may be looked at of the part to calibrate on: as many as to calibrate and to search on."""
        first, part = self.calibration.indices, self.calibration.part
        rest = self.search.indices if self.search.part is part else self.fitting.indices[len(first) :]
        return Subset(part, np.concatenate([first, rest[: len(self.search)]]))

    @property
    def searched_beside(self) -> int:
        """How many samples of the part that is judged by are searched on."""
        return len(self.search) if self.search.part is self.held_out.part else 0


def most_frequent_share(view: Subset) -> float:
    """How many of the labels, which are class numbers, are the most frequent one; 0 without labels."""
    labels = view.part.labels(view.indices)
    return 0.0 if labels is None else float(np.bincount(labels).max() / len(labels))


def split(
    dataset: Dataset,
    calibration: int = CALIBRATION,
    search: int = SEARCH,
    held_out: int | None = None,
    seed: int = 0,
) -> Splits:
    """Draws the three splits, the same ones for the same seed.

    A dataset of one part gives all three, held-out at least half of it. Else calibration comes from the
    training part, or from what belongs to no part, and held-out is the test part, else the validation part,
    else the first other one. Search wants samples that the model has not learned by heart: of the validation
    part where there is a test part too, else a fifth of what is judged by, or what a given `held_out` leaves
    of it; these are not held out. Where they are fewer than 500, and fewer than were asked for, search comes
    from the training part, of which models lose more than of other samples: a third of it at most, so that
    weights may learn from the rest, unless that is fewer than 500. The numbers are upper limits:
    where samples are few, they shrink in proportion. Every split, and every beginning of one, has the classes
    in the proportions of its part. Raises DataError when the samples do not suffice for one in each.
    """
    for count in (calibration, search) if held_out is None else (calibration, search, held_out):
        if count < 1:
            raise UsageError(f"a split holds at least one sample, not {count}")
    fitting, judging = _two_parts(dataset)
    source = dataset.source or dataset.name
    order = balanced_order(dataset, fitting, seed)
    if judging is fitting:
        if held_out is None:
            sizes = shares(len(order) // 2, (calibration, search), source)
            sizes = (*sizes, len(order) - sum(sizes))
        else:
            sizes = shares(len(order), (calibration, search, held_out), source)
        first, second, last, rest = np.split(order, np.cumsum(sizes))
        return _splits(Subset(fitting, first), Subset(fitting, second), Subset(fitting, last), rest)
    if not len(judging):
        raise DataError(f"{source} has an empty test part; there is nothing to judge the result by")
    last = balanced_order(dataset, judging, seed)
    looked_at, last = _unseen(dataset, judging, last, search, held_out, seed)
    if looked_at is not None:
        first, rest = np.split(order, shares(len(order), (calibration,), source))
    else:
        search = min(search, max(len(order) // _ONE_OF_FITTED, _LEAST_UNSEEN))
        first, second, rest = np.split(order, np.cumsum(shares(len(order), (calibration, search), source)))
        looked_at = Subset(fitting, second)
    return _splits(Subset(fitting, first), looked_at, Subset(judging, last), rest)


def _unseen(
    dataset: Dataset, judging: DatasetPart, order: Order, search: int, held_out: int | None, seed: int
) -> tuple[Subset | None, Order]:
    """Samples to search on that no model was fitted to, None where they are too few; and those to judge by,
    a beginning of `order`."""
    enough = min(search, _LEAST_UNSEEN)
    if {VALIDATION, TEST} <= dataset.parts.keys() and not dataset.parts.keys().isdisjoint({TRAIN, ALL}):
        part = dataset.part(VALIDATION)
        if len(part) >= enough:
            return Subset(part, balanced_order(dataset, part, seed)[:search]), order[:held_out]
    spare = len(order) // _ONE_IN if held_out is None else max(0, len(order) - held_out)
    if (unseen := min(search, spare)) < enough:
        return None, order[:held_out]
    return Subset(judging, order[-unseen:]), order[:-unseen][:held_out]


def _splits(calibration: Subset, search: Subset, held_out: Subset, rest: Order) -> Splits:
    fitting = Subset(calibration.part, np.concatenate([calibration.indices, rest]))
    return Splits(calibration, search, held_out, fitting)


def _two_parts(dataset: Dataset) -> tuple[DatasetPart, DatasetPart]:
    """The part to fit on and the part to judge by, which may be the same one."""
    if not dataset.parts:
        raise DataError(f"{dataset.source or dataset.name} has no samples; check the path")
    learned = [name for name in (TRAIN, ALL) if name in dataset.parts]
    unseen = [name for name in (TEST, VALIDATION) if name in dataset.parts]
    if learned and not unseen:
        unseen = [name for name in dataset.parts if name not in (TRAIN, ALL)]
    names = [*unseen, *learned] or [next(iter(dataset.parts))]
    return dataset.part(learned[0] if learned else names[-1]), dataset.part(names[0])


def shares(room: int, wanted: Sequence[int], source: str) -> tuple[int, ...]:
    """`wanted` sizes when they fit into `room` samples, else shrunk in proportion, each at least 1.

    UsageError where one is so large that hardly any sample is left for another.
    """
    if room < len(wanted):
        raise DataError(
            f"{source} has too few samples to split: every split needs one; give a larger dataset"
        )
    if sum(wanted) <= room:
        return tuple(wanted)
    sizes = [max(1, size * room // sum(wanted)) for size in wanted]
    while sum(sizes) > room:
        sizes[int(np.argmax(sizes))] -= 1
    few = min(sizes)
    if few * _FAR_FEWER < wanted[sizes.index(few)] and few * _SMALLEST_SHARE < room:
        most, least = (_USES[int(choose(wanted))] for choose in (np.argmax, np.argmin))
        raise UsageError(
            f"{max(wanted):,} samples to {most} are too many: {source} has {room:,} for that and all else, "
            f"and {few} would be left to {least}; ask for fewer"
        )
    return tuple(sizes)


def balanced_order(dataset: Dataset, part: DatasetPart, seed: int) -> Order:
    """A seeded order of all samples of `part` in which every beginning, and so every slice, is balanced.

    Sample r of the n of its class (in random order) takes place (r + u) / n, with u random in 0..1: classes
    are spread evenly. Without classes the order is simply random.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(len(part))
    labels = part.labels(np.arange(len(part))) if dataset.task == "classification" else None
    if labels is None:
        return order
    place = np.empty(len(part))
    for label in np.unique(labels):
        members = order[labels[order] == label]
        place[members] = (np.arange(len(members)) + random.random()) / len(members)
    return order[np.argsort(place[order], kind="stable")]

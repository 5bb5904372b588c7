"""Datasets of arrays: .npz files, a user's own function, and objects in Python."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tensmith.data import Dataset, as_dataset, open_dataset
from tensmith.data.dataset import DatasetPart, LazyParts
from tensmith.errors import DataError, UsageError

IMAGES = np.random.default_rng(2).integers(0, 256, (6, 5, 4, 3), np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2], np.uint8)


def everything(dataset: Dataset, part: str = "all") -> np.ndarray:
    return dataset.part(part).inputs(np.arange(len(dataset.part(part))))


@pytest.mark.parametrize("fault", [TypeError, RuntimeError])
def test_a_tensor_that_is_no_array_is_refused(fault: type[Exception]) -> None:
    """As PyTorch's are that need gradients (RuntimeError), lie on a GPU or hold bfloat16 (TypeError)."""

    class Tensor:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            raise fault("use .cpu()")

    with pytest.raises(DataError, match=r"data is not readable as an array \(use .cpu\(\)\)"):
        as_dataset((Tensor(), LABELS))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_images_become_nchw(tmp_path: Path, save) -> None:
    save(tmp_path / "d.npz", x=IMAGES, y=LABELS)
    dataset = open_dataset(f"npz:{tmp_path / 'd.npz'}")
    assert (dataset.task, dataset.classes, dataset.modality) == ("classification", 3, "image")
    assert np.array_equal(everything(dataset), IMAGES.transpose(0, 3, 1, 2))
    assert dataset.part("all").labels([2, 5]).tolist() == [2, 2]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    ("array", "expected", "dtype"),
    [
        (np.asfortranarray(np.arange(12.0).reshape(4, 3)), np.arange(12).reshape(4, 3), np.float32),
        (np.arange(8, dtype=">i2").reshape(4, 2), np.arange(8).reshape(4, 2), np.int64),
        (IMAGES[:, :, :, 0], IMAGES[:, None, :, :, 0], np.float32),
        (IMAGES.transpose(0, 3, 1, 2), IMAGES.transpose(0, 3, 1, 2), np.float32),
    ],
)
def test_npz_arrays_keep_their_values(tmp_path: Path, save, array, expected, dtype) -> None:
    save(tmp_path / "d.npz", x=array)
    dataset = open_dataset(f"npz:{tmp_path / 'd.npz'}")
    assert dataset.task == "unlabelled" and dataset.part("all").labels([0]) is None
    assert everything(dataset).dtype == dtype and np.array_equal(everything(dataset), expected)


@pytest.mark.parametrize("shift", [0.5, -1.0], ids=["fractions", "below 0"])
def test_floats_that_are_no_pixels_keep_their_axes(shift: float) -> None:
    features = IMAGES / np.float32(1020) + np.float32(shift)
    assert np.array_equal(everything(as_dataset((features, LABELS))), features)


def test_floats_among_several_inputs_keep_their_axes() -> None:
    named = {"a": IMAGES.astype(np.float32), "b": LABELS}
    found = as_dataset((named, LABELS)).part("all").inputs(range(6))
    assert isinstance(found, dict) and np.array_equal(found["a"], named["a"])


@pytest.mark.parametrize("samples", [IMAGES, LABELS], ids=["images", "numbers"])
def test_samples_instead_of_batches_are_refused(samples: np.ndarray) -> None:
    with pytest.raises(DataError, match="data gives single samples; give batches"):
        as_dataset(list(zip(samples, LABELS)))


def test_batches_with_labels_of_several_shapes_are_refused() -> None:
    with pytest.raises(DataError, match="batches of different shapes"):
        as_dataset([(IMAGES, LABELS), (IMAGES, LABELS[:, None])])


def test_npz_has_parts_as_keras_names_them(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "d.npz", x_train=IMAGES, y_train=LABELS[:, None], x_test=IMAGES[:2], y_test=LABELS[:2]
    )
    dataset = open_dataset(f"npz:{tmp_path / 'd.npz'}")
    assert {name: len(part) for name, part in dataset.parts.items()} == {"train": 6, "test": 2}
    assert dataset.part("train").labels([1]).tolist() == [1]


def test_two_parts_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'val' and 'dev' are both the part 'validation'"):
        as_dataset({"val": (IMAGES, LABELS), "dev": (IMAGES, LABELS)})
    np.savez(tmp_path / "d.npz", x_val=IMAGES, x_validation=IMAGES)
    with pytest.raises(DataError, match=r"d\.npz: '_val' and '_validation' are both the part 'validation'"):
        open_dataset(f"npz:{tmp_path / 'd.npz'}")


def test_float_labels_make_a_regression(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.ones((2, 3)), y=np.ones(2))
    dataset = open_dataset(f"npz:{tmp_path / 'd.npz'}")
    assert (dataset.task, dataset.classes) == ("regression", None)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": LABELS}, r"no array x or x_train, nor one for a model's input \(it has \['y'\]"),
        ({"x": IMAGES, "y": LABELS[:3]}, "do not belong together"),
        ({"x": IMAGES[:0], "y": LABELS[:0]}, "is empty"),
        (
            {"x": IMAGES, "y": LABELS.astype(int) - 1},
            "label -1 of sample 0 is negative, and classes are not;",
        ),
        ({"x": IMAGES, "y": np.eye(6, dtype=int) + 1}, "argmax"),
        ({"x": np.array(["a", None], object)}, "not numbers"),
        ({"x": np.array(["a", "b"])}, "not numbers"),
    ],
)
def test_npz_content_that_cannot_be_used_is_refused(tmp_path: Path, arrays, message: str) -> None:
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(DataError, match=message):
        open_dataset(f"npz:{tmp_path / 'd.npz'}")


def test_damaged_npz_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, x=IMAGES, y=LABELS)
    whole = path.read_bytes()
    mutants = [b"", b"PK", whole[: len(whole) // 2], whole.replace(b"(6, 5, 4, 3)", b"(9, 5, 4, 3)")]
    for mutant in mutants:
        path.write_bytes(mutant)
        with pytest.raises(DataError, match=r"d\.npz"):
            open_dataset(f"npz:{path}")
    with pytest.raises(DataError, match="does not exist"):
        open_dataset(f"npz:{tmp_path / 'missing.npz'}")


@pytest.mark.parametrize(
    ("part", "damaged"),
    [
        (b"(3, 400)", b"(3, 400 "),  # TokenError
        (b"'descr': '<f8'", b"[1, 2]: '<f8' "),  # TypeError
        (b"'<f8'", b"()   "),  # IndexError
    ],
)
def test_headers_that_are_none_are_refused(part: bytes, damaged: bytes, tmp_path: Path) -> None:
    """Of so large an array the checksum is not known yet where its header ends."""
    path = tmp_path / "d.npz"
    np.savez(path, x=np.ones((3, 400)))
    path.write_bytes(path.read_bytes().replace(part, damaged))
    with pytest.raises(DataError, match=r"d\.npz is not a readable \.npz .*x\.npy has no header"):
        open_dataset(f"npz:{path}")


SOURCE = """
import numpy as np
from tensmith.data import as_dataset
x, y = np.zeros((4, 2), np.float32), np.array([0, 1, 1, 0])
def pair(): return x, y
def parts(): return {"train": (x, y), "val": (x[:1], None)}
def batches(size="2"): return ((x[i:i + int(size)], y[i:i + int(size)]) for i in range(0, 4, int(size)))
def dataset(): return as_dataset((x, y))
def unpaired(): return [x]
def empty(): return []
def number(): return 3
def uneven(): return [(x, y), (x[:, :1], y)]
def wrong(): raise KeyError("k")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_data_for_test", raising=False)
    (tmp_path / "own_data_for_test.py").write_text(SOURCE)
    return "python:own_data_for_test"


@pytest.mark.parametrize("function", ["pair", "batches", "batches?size=3", "dataset"])
def test_a_function_of_the_current_folder_gives_the_data(module: str, function: str) -> None:
    dataset = open_dataset(f"{module}:{function}")
    assert (dataset.classes, dataset.task, len(dataset.part("all"))) == (2, "classification", 4)
    assert dataset.part("all").labels([0, 1, 2, 3]).tolist() == [0, 1, 1, 0]
    assert str(Path.cwd()) not in sys.path


def test_a_function_may_give_parts(module: str) -> None:
    dataset = open_dataset(f"{module}:parts")
    assert {name: len(part) for name, part in dataset.parts.items()} == {"train": 4, "validation": 1}
    assert dataset.part("validation").labels([0]) is None


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (":unpaired", DataError, "a pair"),
        (":empty", DataError, "no batches"),
        (":number", DataError, "is a int"),
        (":uneven", DataError, "different shapes"),
        (":wrong", DataError, "failed with KeyError: 'k'"),
        (":pair?a=1", DataError, "failed with TypeError"),
        (":absent", UsageError, "no function 'absent'"),
        ("", UsageError, "MODULE:FUNCTION"),
        ("x:pair", UsageError, "cannot import 'own_data_for_testx'"),
    ],
)
def test_a_function_that_fails_is_named(module: str, function: str, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        open_dataset(f"{module}{function}")


def test_a_dataset_stays_itself() -> None:
    dataset = as_dataset((IMAGES, LABELS))
    assert as_dataset(dataset) is dataset


def test_asking_for_a_missing_part_lists_those_there_are() -> None:
    with pytest.raises(DataError, match="no part 'test'; it has: all"):
        as_dataset((IMAGES, LABELS), "mine").part("test")


NAMED = {"ids": np.arange(18).reshape(6, 3), "mask": np.ones((6, 3), np.uint8), "on": np.ones(6, bool)}


@pytest.mark.parametrize("suffix", ["", "_train"])
def test_npz_holds_an_array_for_each_input(tmp_path: Path, suffix: str) -> None:
    np.savez(tmp_path / "d.npz", **{name + suffix: array for name, array in {**NAMED, "y": LABELS}.items()})
    dataset = open_dataset(f"npz:{tmp_path / 'd.npz'}")
    part = dataset.part("train" if suffix else "all")
    inputs = part.inputs([4, 1])
    assert (dataset.task, dataset.modality, len(part)) == ("classification", "array", 6)
    assert {name: array.dtype for name, array in inputs.items()} == {"ids": "i8", "mask": "i8", "on": "?"}
    assert inputs["ids"].tolist() == [[12, 13, 14], [3, 4, 5]]


def test_an_input_may_be_called_x(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=NAMED["ids"], b=NAMED["mask"], y=LABELS, notes=np.array(["a"] * 6))
    assert open_dataset(f"npz:{tmp_path / 'd.npz'}").part("all").inputs([0]).keys() == {"x", "b"}


def test_one_name_is_as_good_as_none() -> None:
    dataset = as_dataset(({"pixels": IMAGES}, LABELS))
    assert dataset.modality == "image" and everything(dataset).shape == (6, 3, 5, 4)


def test_parts_of_different_inputs_are_refused() -> None:
    parts = {"train": (NAMED, LABELS), "test": ({**NAMED, "ids": np.ones((6, 4))}, LABELS)}
    with pytest.raises(DataError, match=r"'test' are not like those of 'train': ids \[4\], .* ids \[3\]"):
        as_dataset(parts)


def test_an_archive_with_x_has_one_input_whatever_else_it_holds(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x_train=IMAGES, y_train=LABELS, notes=np.ones(3))
    assert everything(open_dataset(f"npz:{tmp_path / 'd.npz'}"), "train").shape == (6, 3, 5, 4)


def test_batches_of_named_inputs_are_joined() -> None:
    halves = [
        ({name: array[rows] for name, array in NAMED.items()}, LABELS[rows])
        for rows in (slice(4), slice(4, 6))
    ]
    inputs = as_dataset(halves).part("all").inputs(np.arange(6))
    assert inputs["ids"].tolist() == NAMED["ids"].tolist() and inputs.keys() == NAMED.keys()


def test_inputs_of_different_lengths_are_refused() -> None:
    with pytest.raises(DataError, match=r"inputs of different lengths: \{'ids': 6, 'mask': 5\}"):
        as_dataset(({"ids": NAMED["ids"], "mask": NAMED["mask"][:5]}, LABELS))


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_one_hot_labels_are_class_numbers(dtype: type) -> None:
    dataset = as_dataset((IMAGES, np.eye(4, dtype=dtype)[LABELS % 4]))
    assert (dataset.task, dataset.classes) == ("classification", 1 + (LABELS % 4).max())
    assert dataset.part("all").labels(np.arange(6)).tolist() == (LABELS % 4).tolist()
    assert as_dataset((IMAGES, np.full((6, 4), 0.25, np.float32))).task == "regression"


def test_a_label_beyond_all_integers_is_refused() -> None:
    with pytest.raises(
        DataError, match=f"label {2**63 + 5} of sample 1 is out of range, classes are 0..{2**63 - 1}"
    ):
        as_dataset((np.zeros((3, 2)), np.array([0, 2**63 + 5, 1], np.uint64)))


def test_samples_that_are_no_numbers_are_remarked_on() -> None:
    ids = NAMED["ids"].astype(np.float32)
    assert list(as_dataset(({**NAMED, "ids": ids}, LABELS)).remarks()) == []
    ids[2, 0], ids[4, 1] = np.nan, np.inf
    (said,) = as_dataset(({**NAMED, "ids": ids}, LABELS)).remarks()
    assert said == "part 'all' of the data has NaN or infinity in 2 of 6 samples of input 'ids', first in 2"


def test_remarks_open_no_part() -> None:
    def never() -> DatasetPart:
        raise AssertionError

    assert list(Dataset("d", "unlabelled", None, LazyParts({"train": never})).remarks()) == []

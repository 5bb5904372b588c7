"""Whatever happens in a worker, the parent goes on and says what it was."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

import fake_engine  # noqa: F401 - registers the engine "fake"
import numpy as np
import psutil
import pytest

from tensmith.engine import ENGINES, SessionWorker, available, module_worker
from tensmith.engine.frame import read_frame, write_frame
from tensmith.errors import EngineError, OutputError, is_of_disk

X = {"x": np.arange(3, dtype=np.float32)}
PATH = Path("model.fake")


def test_a_worker_runs_and_ends() -> None:
    with SessionWorker("fake", PATH) as worker:
        np.testing.assert_array_equal(worker.run(X)["x"], [0, 2, 4])
        running = worker._worker._running
        assert running is not None
    assert running[0].returncode is not None
    with pytest.raises(EngineError, match="is closed"):
        worker.run(X)
    worker.close()


def test_a_crash_becomes_an_error_with_the_last_words() -> None:
    with (
        SessionWorker("fake", PATH, behaviour="crash") as worker,
        pytest.raises(
            EngineError, match=r"fake died \(SIGSEGV\) while running .*something native went wrong"
        ),
    ):
        worker.run(X)
    with pytest.raises(EngineError, match="is closed"):
        worker.run(X)


def test_what_has_died_is_not_started_again() -> None:
    with SessionWorker("fake", PATH, behaviour="crash") as worker:
        for _ in range(2):
            with pytest.raises(EngineError, match=r"fake died \(SIGSEGV\) while running"):
                worker.run(X)
        assert worker._worker._running is None


@pytest.mark.parametrize("behaviour", ["hang", "stopped"])
def test_a_hang_is_ended(behaviour: str) -> None:
    with (
        SessionWorker("fake", PATH, behaviour=behaviour) as worker,
        pytest.raises(EngineError, match=r"did not answer within 1 s while running .*; it was stopped"),
    ):
        worker._worker.patience = 1.0  # of what is asked from here on: starting may take longer
        worker.run(X)


def test_an_answer_that_comes_with_the_end_of_its_time_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    with SessionWorker("fake", PATH) as worker:

        def read_late(stream: BinaryIO) -> Any:
            answer = read_frame(stream)
            time.sleep(1.0)
            return answer

        worker._worker.patience = 0.5
        with monkeypatch.context() as patch:
            patch.setattr(module_worker, "read_frame", read_late)
            with pytest.raises(EngineError, match=r"did not answer within 0.5 s while running"):
                worker.run(X)
        assert worker._worker._running is None


def test_a_crash_while_loading_is_an_error() -> None:
    with pytest.raises(EngineError, match=r"fake died \(exit code 3\) while loading"):
        SessionWorker("fake", PATH, behaviour="exit")


def test_an_engine_s_own_error_passes_through_unchanged() -> None:
    with pytest.raises(EngineError, match=r"^fake cannot load .*model.fake: it does not want to$"):
        SessionWorker("fake", PATH, behaviour="refuse")


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("full", r"^the system refused \(/full/scratch\): No space left on device; free some space$"),
        ("unwritten", "^cannot write /full/made$"),
    ],
)
def test_a_full_disk_is_no_engine_s_refusal(behaviour: str, words: str) -> None:
    with pytest.raises(OutputError, match=words) as full:
        SessionWorker("fake", PATH, behaviour=behaviour)
    assert is_of_disk(full.value)


def test_a_worker_survives_an_error() -> None:
    with SessionWorker("fake", PATH, behaviour="raise") as worker:
        for _ in range(2):
            with pytest.raises(EngineError, match="RuntimeError: no such kernel"):
                worker.run(X)


def test_what_a_library_prints_does_not_disturb() -> None:
    with SessionWorker("fake", PATH, behaviour="print") as worker:
        np.testing.assert_array_equal(worker.run(X)["x"], [0, 2, 4])


def test_texts_travel_and_other_objects_cost_no_process() -> None:
    texts = np.array([["a", "übel"]], dtype=object)
    with SessionWorker("fake", PATH, behaviour="texts") as worker:
        assert worker.run({"x": texts})["x"].tolist() == ["a", "", "übel"]
        with pytest.raises(EngineError, match="'x' holds objects that are neither"):
            worker.run({"x": np.array([object()])})
        assert worker.run({"x": texts[:, :0]})["x"].dtype.kind == "U"
    with SessionWorker("fake", PATH, behaviour="objects") as worker:
        for _ in range(2):
            with pytest.raises(EngineError, match="'x' holds objects that are neither"):
                worker.run(X)


def test_timing_needs_inputs() -> None:
    with SessionWorker("fake", PATH) as worker, pytest.raises(EngineError, match="no inputs were fed"):
        worker.time(1)


def test_what_takes_long_is_timed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    with SessionWorker("fake", PATH) as worker:
        worker.feed(X)
        usual = worker._worker.ask

        def ask(request: dict[str, Any], arrays: Any = None) -> Any:
            """Each inference takes 0.8 s, of which a tenth is waiting."""
            asked.append((request["do"], request["count"]))
            assert 0.8 * request["count"] <= 60
            if request["do"] == "peak":
                return usual(request, arrays)
            spent = np.full(request["count"], 8 * 10**8)
            return {"waited": spent.sum() // 10, "held": 0}, {"nanoseconds": spent}

        monkeypatch.setattr(worker._worker, "ask", ask)
        worker._each = 0.9  # the first run, which allocates
        turn = worker.time(151)
        assert len(turn.nanoseconds) == 151 and turn.disturbed and len(turn.later) == 150
        assert asked == [("time", 66), ("time", 75), ("time", 10)]
        worker._each = 40.0
        worker.peak(2)
        assert asked[3:] == [("peak", 1), ("peak", 1)]


def test_the_peak_holds_what_was_given_back() -> None:
    with SessionWorker("fake", PATH, behaviour="grow") as worker:
        worker.feed(X)
        peak = worker.peak(1)
    if peak.exact:
        assert peak.resident - worker.resident_before > 48 << 20


def test_no_worker_outlives_its_parent() -> None:
    code = (
        "import os, sys, pathlib, fake_engine; from tensmith.engine import SessionWorker;"
        "worker = SessionWorker('fake', pathlib.Path('model.fake'));"
        "os.write(1, str(worker._worker._running[0].pid).encode()); os.kill(os.getpid(), 9)"
    )
    folder = str(Path(__file__).parent)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    process = psutil.Process(int(result.stdout)) if psutil.pid_exists(int(result.stdout)) else None
    if process is not None:
        psutil.wait_procs([process], timeout=60)
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_worker_imports_its_engine_and_little_else() -> None:
    heavy = ["onnx", "pydantic", "typer", "torch", "pandas", *available()]
    code = f"import sys, tensmith.engine.serve; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_missing_engine_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    reason = ENGINES["openvino"].missing()
    assert reason is not None and "tensmith[openvino]" in reason
    with pytest.raises(EngineError, match="openvino is not installed"):
        ENGINES["openvino"].start()


def test_frames_carry_headers_and_arrays() -> None:
    stream = io.BytesIO()
    arrays = {
        "a": np.arange(6, dtype=np.int64).reshape(2, 3).T,
        "b": np.array(True),
        "empty": np.zeros((0, 4), np.float16),
    }
    write_frame(stream, {"do": "it"}, arrays)
    stream.seek(0)
    header, received = read_frame(stream)
    assert header == {"do": "it"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(received[name], array)
        assert received[name].dtype == array.dtype


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x05\x00\x00\x00{}"])
def test_a_short_frame_is_an_end(data: bytes) -> None:
    with pytest.raises(EOFError):
        read_frame(io.BytesIO(data))


def _announced(shape: tuple[int, ...], descr: str = "<f4") -> bytes:
    """What stands before the elements of an array."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


@pytest.mark.parametrize(
    ("header", "block"),
    [
        (b"[]", b""),
        (b'{"arrays": 3}', b""),
        (b'{"arrays": [[]]}', b""),
        (b"[" * 100_000, b""),
        (b'{"arrays": ["x"]}', b"\x93NUMPY\1\0\x12\0{'descr': '<f4', (  "),
        (b'{"arrays": ["x"]}', b"\x93NUMPY\1\0\x04\0{01}"),
    ],
    ids=["no object", "no list", "no name", "deep", "cut", "no literal"],
)
def test_what_is_no_frame_is_refused(header: bytes, block: bytes) -> None:
    """Whoever asks a worker takes a ValueError for its end, and other errors for faults of ours."""
    with pytest.raises(ValueError):
        read_frame(io.BytesIO(len(header).to_bytes(4, "little") + header + block))


def test_a_frame_is_bounded_and_never_unpickled() -> None:
    with pytest.raises(ValueError, match="a header of"):
        read_frame(io.BytesIO(b"\xff\xff\xff\xff"))
    for block, said in (
        (_announced((1 << 20, 1 << 30)), "an array of 4503599627370496 bytes"),
        (_announced((-1, 1 << 50)), "an array of"),
        (_announced((4,), "|O"), "of object"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "another format"),
    ):
        header = b'{"arrays": ["x"]}'
        with pytest.raises(ValueError, match=said):
            read_frame(io.BytesIO(len(header).to_bytes(4, "little") + header + block))
    with pytest.raises(ValueError, match="allow_pickle"):
        write_frame(io.BytesIO(), {}, {"x": np.array([object()])})

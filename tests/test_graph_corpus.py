"""A small part of benchmarks/trust/corpus.py: random graphs and exporters' work, or are refused by name."""

from __future__ import annotations

import onnx
import pytest
from benchmarks.trust import corpus
from benchmarks.trust.exported import EXPORTED
from benchmarks.trust.random_graphs import Graph, uses

from forked import Commands
from tensmith.ir.op import OPS
from tensmith.ir.program import PRODUCER

pytestmark = pytest.mark.xdist_group("node_cases")  # see test_node_conformance
# One of each exporter that is installed everywhere tests run.
_EXPORTED = ("torch.export choices", "TorchScript recurrent", "skl2onnx regression")


def test_random_graphs(commands: Commands) -> None:
    assert corpus.random_models(range(20), commands).wrong == ()


def test_every_operator_is_drawn() -> None:
    drawn = {use.operator for use in uses()}
    assert {f"{op.domain}.{op.onnx}" for op in OPS.values() if op.onnx} <= drawn
    found = set().union(*(Graph(number).operators for number in range(200)))
    assert len(found) > 0.8 * len(drawn)  # opsets leave the newest out


@pytest.mark.parametrize("name", _EXPORTED)
def test_exported_graphs(name: str, commands: Commands) -> None:
    try:
        assert corpus.exported_model(name, commands).wrong == ()
    except ImportError as error:
        pytest.skip(str(error))


def test_a_wrong_answer_is_noticed(monkeypatch: pytest.MonkeyPatch, commands: Commands) -> None:
    def altered(model: onnx.ModelProto, inputs: corpus.Arrays) -> dict[str, corpus.Array]:
        found, ours = true(model, inputs), model.producer_name == PRODUCER
        return {name: array + 1e-3 for name, array in found.items()} if ours else found

    pytest.importorskip("skl2onnx")
    true, model = corpus.run_onnx, EXPORTED["skl2onnx regression"]()
    monkeypatch.setattr(corpus, "run_onnx", altered)
    found = corpus.examined("altered", lambda path: onnx.save(model, path), commands)
    assert [fault.split(":")[0] for fault in found.wrong] == ["altered written", "altered simplified"]

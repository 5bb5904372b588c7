"""PyTorch modules become programs of claimed ops that compute the same, at every opset torch writes."""

from __future__ import annotations

import itertools
import logging

import numpy as np
import pytest

from tensmith.errors import ModelError
from tensmith.ir.interpreter import interpret
from tensmith.ir.program import Program
from tensmith.ir.types import TensorType

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
pytest.importorskip("onnxscript", reason="the torch extra is not installed")

from benchmarks import models  # noqa: E402
from tensmith.frontend.torch import read_torch  # noqa: E402

# Each network at one opset, so that all opsets are met and the tests stay short.
OPSETS = dict(zip(models.NAMES, itertools.cycle((17, 18, 19, 20, None, 18, 20, 17, 23))))


def agree(program: Program, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """The program's outputs are the module's, to rounding."""
    with torch.no_grad():
        found = module(*inputs)
    wanted = [item.numpy() for item in (found if isinstance(found, tuple) else (found,))]
    feed = {name: item.numpy() for name, item in zip(program.inputs, inputs)}
    for got, want in zip(interpret(program, feed).values(), wanted, strict=True):
        # Sums of some thousand float32 terms in another order.
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("name", models.NAMES)
def test_well_known_networks_import_without_an_opaque_node(name: str) -> None:
    torch.manual_seed(0)
    module, inputs = models.build(name, full=False)
    program = read_torch(module, inputs, opset=OPSETS[name])
    assert [node.op for node in program.nodes if node.opaque is not None] == []
    assert {str(type_.dims[0]) for type_ in program.inputs.values()} == {"batch"}
    agree(program, module, inputs)


def test_a_batch_that_the_module_fixes_stays_as_it_is() -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.shape[0] != 4:
                raise ValueError("four")
            return x.reshape(2, 6)

    program = read_torch(Fixed(), torch.ones(4, 3))
    assert list(program.inputs.values()) == [TensorType("f32", (4, 3))]
    agree(program, Fixed(), (torch.ones(4, 3),))


def test_a_batch_of_one_is_still_left_open() -> None:
    module = torch.nn.Linear(3, 2)
    agree(read_torch(module, torch.ones(1, 3)), module, (torch.ones(5, 3),))


def test_the_module_stays_as_it_was_and_logging_too() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout())
    module[0].eval()
    level = logging.getLogger("torch.onnx").level
    read_torch(module, torch.ones(2, 3))
    assert [each.training for each in module.modules()] == [True, False, True]
    assert logging.getLogger("torch.onnx").level == level


def test_why_a_module_cannot_be_exported_is_said_alone(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelError, match=r"by torch.export: .*\[\d+, 7\] X \[6, 2\]; check that it takes"):
        read_torch(torch.nn.Linear(6, 2), torch.ones(2, 7))
    assert capfd.readouterr() == ("", "")


def test_what_cannot_be_exported_is_said() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(ModelError, match="Branches cannot be exported"):
        read_torch(Branches(), torch.ones(2, 3))
    with pytest.raises(ModelError, match="NumPy arrays; give tensors"):
        read_torch(torch.nn.Linear(3, 2), np.ones((2, 3), np.float32))
    with pytest.raises(ModelError, match=r"expected a torch.nn.Module, not int"):
        read_torch(3, torch.ones(2, 3))

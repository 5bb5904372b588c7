"""Dynamic 8-bit matrix products: weights int8, activations quantized on the fly by their own range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tensmith.errors import ProgramError
from tensmith.ir import Program, make_node
from tensmith.ir.part import without_dead
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.grid import QuantizedWeights, on_grid
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.stored_codes import (
    beside_layers_in_codes,
    grids_beside_layers,
    outlooks_in_integers,
)
from tensmith.rewrite.lossy.tables import looked_up_as_codes
from tensmith.rewrite.lossy.weights import (
    StoredWeights,
    WeightedLayer,
    weighted_layers,
)
from tensmith.rewrite.method import NUMBERS, Form, Method, MethodOutlook, Params, Prospect, bits_of, lossy
from tensmith.rewrite.rule import EVERYWHERE


@lossy(
    "dynamic_int8", stage=NUMBERS, promise="8-bit matrix products, ranges of activations taken as they come"
)
class DynamicInt8(Method):
    """y = matmul(x, w) becomes matmul_integer(q(x), codes) * (scale(x) * scales).

    Only matrix products, in the form ONNX Runtime runs as one kernel; everywhere, weights of recurrent layers
    and tables as well. params: as int8 for weights.
    """

    acts_on = (StoredWeights,)
    rounds_activations = True

    def treatment(self, params: Params, *names: str) -> str:
        """With its bits."""
        return f"{self.name}, {bits_of(params, *names)}-bit weights"

    def starts(self, prospect: Prospect) -> Iterable[Form]:
        """All matrix products."""
        if _products(prospect.program):
            yield Form((self.step(default_bits=prospect.bits),), self.name, order=30)

    def outlooks(self, prospect: Prospect) -> Mapping[str, MethodOutlook]:
        """Matrix products, in integers."""
        program = prospect.program
        return outlooks_in_integers(program, _products(program), prospect.bits)

    def sites(self, program: Program) -> Iterator[str]:
        """All at once, or one matrix product."""
        yield EVERYWHERE
        yield from (layer.site for layer in _products(program))

    def apply(self, program: Program, site: str, params: Params, calibration: Calibration) -> Program:
        """The program with the matrix products at `site` in 8 bits."""
        reader = Parameters(self.name, params)
        skip = reader.grids()
        reader.done()
        chosen = [p for p in _products(program) if site in (EVERYWHERE, p.site) and p.site not in skip]
        if not chosen:
            raise ProgramError(f"there is no matrix product of fp32 with constant weights at '{site}'")
        beside = grids_beside_layers(program, params, skip, calibration) if site == EVERYWHERE else {}
        for layer in chosen:
            grid = on_grid(program, layer, bits_of(params, layer.site), params, calibration)
            program = _replaced(program, layer, grid)
        return without_dead(beside_layers_in_codes(program, beside))


def _products(program: Program) -> list[WeightedLayer]:
    """Of fp32: ranges are found of no other floats."""
    return [
        layer
        for layer in weighted_layers(program)
        if layer.product.bare and program.type(layer.weight).dtype == "f32"
    ]


def _replaced(program: Program, layer: WeightedLayer, grid: QuantizedWeights) -> Program:
    site, x = layer.site, layer.node.inputs[0]
    codes, scales, w_zero = (program.unused(f"{site}.{part}") for part in ("codes", "scales", "w_zero"))
    made = ("q", "scale", "zero", "sum", "wide", "factor")
    names = {part: program.unused(f"{site}.{part}") for part in made}
    constants = {codes: grid.codes, scales: grid.scales, w_zero: np.zeros((), np.int8)}
    matrix = program.unused(f"{codes}.turned") if layer.turned else codes
    turning = [make_node("transpose", (codes,), (matrix,), {"perm": (1, 0)})] if layer.turned else []
    nodes = [
        *turning,
        make_node("dynamic_quantize_linear", (x,), (names["q"], names["scale"], names["zero"])),
        make_node("matmul_integer", (names["q"], matrix, names["zero"], w_zero), (names["sum"],)),
        make_node("cast", (names["sum"],), (names["wide"],), {"to": 1}),
        make_node("mul", (names["scale"], scales), (names["factor"],)),
        make_node("mul", (names["wide"], names["factor"]), (site,)),
    ]
    program = program.edit(remove=[layer.node], add=nodes, constants=constants)
    return looked_up_as_codes(program, {layer.weight: (codes, scales)}) if grid.axis == 0 else program

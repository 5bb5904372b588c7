"""Low-rank factorization: one layer becomes two or three thinner ones.

    split    y = A (B x), any layer; a convolution becomes k x k -> rank, then 1x1 (Zhang et al. 2016)
    tucker   1x1 -> rank_in, k x k -> rank, 1x1: convolutions (Kim et al. 2016, Tucker-2)

With calibration data the error of the outputs is minimised, E |W x - W' x|^2, by the singular values of
W H^(1/2) rather than of W.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.part import without_dead
from tensmith.ir.program import make_node
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.bias_correction import shifted_bias, takes_bias, too_wide
from tensmith.rewrite.lossy.compensation import cholesky, damped
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.weights import (
    WeightedLayer,
    find_layer,
    sole_reader,
    weighted_layers,
)
from tensmith.rewrite.method import STRUCTURE, Form, Method, MethodOutlook, Params, Prospect, Standing, lossy

_DAMPING = 1e-4
# The share of squared singular values that a search keeps of a layer.
_KEPT_ENERGY = 0.95
# The largest rank that is looked at where nobody asked for a search.
_MOST_LOOKED_AT = 512


@lossy(
    "low_rank",
    stage=STRUCTURE,
    promise="replaces a layer's weights by a product of thinner ones, which is less to store and to compute",
)
class LowRank(Method):
    """params: rank (a group's, for grouped convolutions) or energy (the share of the squared singular values
    that is kept); form "split" or "tucker"; rank_in (tucker; by default in proportion to rank); criterion
    "data" or "weights"."""

    def extensions(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """The next largest layer, of those not too wide for moments, as a product of thinner ones."""
        if not plan.ready or plan.on_line:
            return
        sites = set(self.sites(prospect.program)) - plan.sites(self.name)
        layers = [own for own in weighted_layers(prospect.program) if own.site in sites and not too_wide(own)]
        if layers:
            largest = max(layers, key=lambda layer: math.prod(layer.shape))
            yield Form(plan.having(self.step(largest.site, energy=_KEPT_ENERGY)), plan.family, order=40)

    def outlooks(self, prospect: Prospect) -> Mapping[str, MethodOutlook]:
        """Layers that are smaller at the rank that their weights alone ask for; no very large ones."""
        found, sites = {}, set(self.sites(prospect.program))
        for layer in weighted_layers(prospect.program):
            stored = prospect.program.constants[layer.weight]
            rows = layer.rows(stored)
            high, wide = rows.shape[1:]
            if layer.site in sites and min(high, wide) <= _MOST_LOOKED_AT and np.isfinite(rows).all():
                rank = max(_rank_of(_singular_values(matrix), _KEPT_ENERGY) for matrix in rows)
                share = rank * (high + wide) / (high * wide)
                if share < 1:
                    size = share * stored.nbytes
                    found[layer.site] = MethodOutlook(
                        f"rank {rank} of {min(high, wide)}", size, share, loaded=size
                    )
        return found

    def sites(self, program: Program) -> Iterator[str]:
        """Layers whose weights are theirs alone and are no vector."""
        for layer in weighted_layers(program):
            _, rows, d = layer.rows(program.constants[layer.weight]).shape
            if sole_reader(program, layer) and min(rows, d) > 1:
                yield layer.site

    def apply(self, program: Program, site: str, params: Params, calibration: Calibration) -> Program:
        """The factors in place of the layer; its output keeps its name. ProgramError if nothing is saved."""
        reader = Parameters(self.name, params)
        rank, energy = reader.count("rank"), reader.number("energy", low=0, high=1)
        form, rank_in = reader.choice("form", "split", "tucker"), reader.count("rank_in")
        by_data = reader.choice("criterion", "data", "weights") == "data"
        reader.done()
        if (rank is None) == (energy is None):
            raise reader.wrong("give either rank or energy")
        layer = find_layer(program, site)
        if not sole_reader(program, layer):
            raise ProgramError(
                f"the weights of '{site}' are read elsewhere too; they cannot be factored here"
            )
        factors = _Factoring(program, layer, calibration if by_data else None)
        if form == "split":
            parts = factors.split(rank, energy)
        elif layer.groups == 1 and factors.taps > 1:
            parts = factors.tucker(rank, rank_in, energy)
        else:
            raise reader.wrong(f"'{site}' is no ungrouped convolution wider than 1; use form split")
        old, new = factors.rows.size, sum(part.size for part in parts)
        if new >= old:
            raise reader.wrong(f"'{site}' has {old} weights and would have {new}; ask for a lower rank")
        return factors.program_of(parts)


class _Factoring:
    """The weights of one layer as rows [g, rows, d] with the moments that weigh their errors."""

    def __init__(self, program: Program, layer: WeightedLayer, calibration: Calibration | None) -> None:
        self._program, self._layer = program, layer
        self.rows = layer.rows(program.constants[layer.weight])
        if not np.isfinite(self.rows).all():
            raise ProgramError(f"weights of '{layer.site}' are infinite; they have no factors")
        groups, _, d = self.rows.shape
        self.taps = int(np.prod(layer.shape[2:]))
        self._first = None
        second = np.broadcast_to(np.eye(d), (groups, d, d))
        if calibration is not None:
            moment = calibration.moment(program, layer.site)
            biased = takes_bias(program, layer)  # which makes up for the mean of the error
            self._first = moment.first if biased else None
            second = moment.about_mean if biased else moment.second
        self._second = second

    def split(self, rank: int | None, energy: float | None) -> list[Array]:
        """[B [g, r, d], A [g, rows, r]]: the best rank in the norm of the moments, equal for all groups."""
        roots = [cholesky(damped(second, _DAMPING)) for second in self._second]
        found = [np.linalg.svd(w @ root, full_matrices=False) for w, root in zip(self.rows, roots)]
        r = rank or max(_rank_of(values, energy) for _, values, _ in found)
        if r > len(found[0][1]):
            raise ProgramError(f"rank {r} is more than the {len(found[0][1])} that '{self._layer.site}' has")
        inner, outer = [], []
        for (left, values, right), root in zip(found, roots):
            scale = np.sqrt(values[:r])
            outer.append(left[:, :r] * scale)
            inner.append(np.linalg.solve(root.T, (scale[:, None] * right[:r]).T).T)
        return [np.stack(inner), np.stack(outer)]

    def tucker(self, rank: int | None, rank_in: int | None, energy: float | None) -> list[Array]:
        """[F [r_in, C], core [r, r_in * taps], A [rows, r]], from the singular vectors of both unfoldings."""
        rows, d = self.rows.shape[1:]
        channels = d // self.taps
        weights, second = self.rows[0], damped(self._second[0], _DAMPING)
        left, values, _ = np.linalg.svd(weights @ cholesky(second), full_matrices=False)
        r = rank or _rank_of(values, energy)
        # The inputs' moments with kernel positions taken alike: [C, C].
        blocks = second.reshape(channels, self.taps, channels, self.taps)
        root = cholesky(np.einsum("atbt->ab", blocks) / self.taps)
        unfolded = root.T @ weights.reshape(rows, channels, self.taps).transpose(1, 0, 2).reshape(
            channels, -1
        )
        basis, values_in, _ = np.linalg.svd(unfolded, full_matrices=False)
        r_in = rank_in or (
            _rank_of(values_in, energy) if rank is None else max(1, round(r * channels / rows))
        )
        if r > left.shape[1] or r_in > basis.shape[1]:
            raise ProgramError(
                f"ranks {r} and {r_in} are more than the {left.shape[1]} and {basis.shape[1]} that "
                f"'{self._layer.site}' has"
            )
        first = np.linalg.solve(root.T, basis[:, :r_in]).T
        core = (basis[:, :r_in].T @ unfolded).reshape(r_in, rows, self.taps)
        core = np.einsum("ikt,kr->rit", core, left[:, :r]).reshape(r, r_in * self.taps)
        return [first, core, left[:, :r]]

    def program_of(self, parts: list[Array]) -> Program:
        """The program with a chain of layers in place of the one; the bias is the last one's."""
        layer, program = self._layer, self._program
        names = program.fresh(layer.site)
        constants: dict[str, Array] = {}
        inputs = [layer.bias] if layer.bias else []
        if self._first is not None:
            error = self.rows - self._approximation(parts)
            inputs = [next(names)]
            constants[inputs[0]] = shifted_bias(
                program.constants, layer, np.einsum("grd,gd->gr", error, self._first).ravel()
            )
        like = program.constants[layer.weight]
        value = layer.node.inputs[0]
        nodes: list[Node] = []
        for position, part in enumerate(parts):
            weight, last = next(names), position == len(parts) - 1
            output = layer.site if last else next(names)
            array, attrs = self._written(part, position, len(parts))
            constants[weight] = np.ascontiguousarray(array.astype(like.dtype))
            node = make_node(layer.op, [value, weight, *(inputs if last else [])], [output], attrs)
            nodes.append(replace(node, name=layer.node.name) if last else node)
            value = output
        return without_dead(program.edit(remove=[layer.node], add=nodes, constants=constants))

    def _approximation(self, parts: list[Array]) -> Array:
        """What the factors multiply out to: [g, rows, d]."""
        if len(parts) == 2:
            return np.asarray(parts[1] @ parts[0])
        first, core, last = parts
        r, r_in = len(core), len(first)
        middle = np.einsum("rit,ic->rct", core.reshape(r, r_in, self.taps), first)
        return np.asarray((last @ middle.reshape(r, -1))[None])

    def _written(self, part: Array, position: int, count: int) -> tuple[Array, dict[str, Any]]:
        """A factor as a weight tensor, and the attributes of its node.

        Strides, pads and dilations are those of the factor with the kernel; without a bias before it, the
        zeros of its padding are the zeros that were there.
        """
        layer, attrs = self._layer, dict(self._layer.node.attrs)
        last = position == count - 1
        if not layer.product.windowed:
            own: dict[str, Any] = {"transB": 0, **({"transA": 0} if position else {})}
            own |= {} if last else {"alpha": 1.0, "beta": 1.0}
            return part[0].T, {name: own.get(name, value) for name, value in attrs.items()}
        kernel = layer.shape[2:]
        if position == count - 2:
            return part.reshape(-1, part.shape[-1] // self.taps, *kernel), attrs
        ones = (1,) * len(kernel)
        plain = {"kernel_shape": ones, "strides": ones, "dilations": ones, "pads": (0,) * (2 * len(kernel))}
        return part.reshape(-1, part.shape[-1], *ones), attrs | plain | {"auto_pad": "NOTSET"}


def _singular_values(matrix: Array) -> Array:
    """From the largest on, by the smaller of both products of a matrix with itself."""
    gram = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0)))


def _rank_of(values: Array, energy: float | None) -> int:
    """The fewest singular values whose squares add up to that share."""
    share = np.cumsum(values**2) / max(float(np.sum(values**2)), 1e-300)
    return min(int(np.searchsorted(share, energy or 0.0)) + 1, len(values))

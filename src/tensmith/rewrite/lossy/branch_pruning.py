"""Branch pruning: whole residual branches go, and what they were added to passes on as it is.

So depth is pruned, as channels are width: blocks of a residual network (Chen & Zhao 2018), attention and
feed-forward layers of a transformer (ShortGPT; Men et al. 2024).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from tensmith.errors import ProgramError
from tensmith.ir import Node, Program
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.part import without_dead
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.weights import stored_weights
from tensmith.rewrite.method import (
    STRUCTURE,
    Form,
    Method,
    MethodOutlook,
    Params,
    Prospect,
    Standing,
    lossy,
    worth,
)
from tensmith.rewrite.rule import Step

# The shares of all branches that are worth taking where training follows; nats a sample that one may cost to
# be worth trying where none does.
_CHALLENGING, _BORNE = (0.1, 0.2, 0.3, 0.5), 0.1


@dataclass(frozen=True)
class Branch:
    """What is added to a value it was computed from, and nothing else reads.

    id: the site of its first layer. total: the sum; trunk: the value that is left of it. layers: the sites of
    all layers of the branch.
    """

    id: str
    total: Node
    trunk: str
    layers: tuple[str, ...]


def branches(program: Program) -> list[Branch]:
    """The residual branches that have layers of their own, in the order of their sums."""
    sites: dict[Node, list[str]] = {}
    for stored in stored_weights(program):
        sites.setdefault(stored.node, []).append(stored.site)
    found: dict[str, Branch] = {}
    for total in program.nodes:
        if not _sums_two(total) or total.outputs[0] in program.outputs:
            continue
        for value, trunk in (total.inputs, total.inputs[::-1]):
            own = _computed_for(program, value, total, trunk)
            layers = tuple(site for node in own for site in sites.get(node, ()))
            residual = any(trunk in node.inputs for node in own)
            left, whole = (program.facts[name].type for name in (trunk, total.outputs[0]))
            if layers and residual and left and left.rank is not None and left == whole:
                found.setdefault(layers[0], Branch(layers[0], total, trunk, layers))
    return [*found.values()]


def _sums_two(node: Node) -> bool:
    family = None if node.opaque else node.definition
    return isinstance(family, Elementwise) and family.function == "add" and len(node.inputs) == 2


def _computed_for(program: Program, value: str, total: Node, trunk: str) -> list[Node]:
    """The nodes that one summand is computed by from the other, which nothing but their sum reads, in the
    program's order."""
    own, waiting = {total}, [value]
    while waiting:
        node = program.producers.get(name := waiting.pop())
        if node is None or node in own or trunk in node.outputs or name in program.static_values:
            continue
        read = {user for made in node.outputs for user in program.consumers.get(made, ())}
        if read <= own and not any(made in program.outputs for made in node.outputs):
            own.add(node)
            waiting += node.inputs
    return [node for node in program.nodes if node in own and node is not total]


@lossy(
    "branch_pruning",
    stage=STRUCTURE,
    promise="removes whole residual branches with all their layers, for a program of fewer steps",
)
class BranchPruning(Method):
    """site: the first layer of a residual branch; no params."""

    def extensions(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """The next branch, if the answers hardly change without it."""
        taken = plan.sites(self.name)
        gone = {layer for site in taken for layer in self.removed(prospect.program, site)}
        if plan.ready and not plan.on_line:
            left = (step for step in self._ranked(prospect) if step.site not in gone)
            for step in islice((step for step in left if prospect.lost(step) <= _BORNE), 1):
                yield Form(plan.having(step), plan.family, order=45)

    def challenges(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """A share of all branches."""
        if not plan.ready or plan.sites(self.name):
            return
        ranked = self._ranked(prospect)
        for count in sorted({math.ceil(share * len(ranked)) for share in _CHALLENGING if ranked}):
            yield Form(plan.having(*ranked[:count]), plan.family)

    def _ranked(self, prospect: Prospect) -> list[Step]:
        """The steps, first those that take most roofline time for what they lose."""
        found = branches(prospect.program) if prospect.seconds else []

        def rank(branch: Branch) -> float:
            return -worth(prospect.time(branch.layers), prospect.lost(self.step(branch.id)))

        return [self.step(branch.id) for branch in sorted(found, key=rank)]

    def outlooks(self, prospect: Prospect) -> Mapping[str, MethodOutlook]:
        """Nothing is left of a branch's layers."""
        sites = {site for branch in branches(prospect.program) for site in branch.layers}
        return {site: MethodOutlook("gone with its branch", 0.0, 0.0, loaded=0.0) for site in sites}

    def sites(self, program: Program) -> Iterator[str]:
        """The first layers of residual branches."""
        yield from (branch.id for branch in branches(program))

    def removed(self, program: Program, site: str) -> Iterable[str]:
        """All layers of the branch."""
        return (layer for branch in branches(program) if branch.id == site for layer in branch.layers)

    def apply(self, program: Program, site: str, params: Params, calibration: Calibration) -> Program:
        """Whoever read the sum reads what the branch was added to."""
        Parameters(self.name, params).done()
        branch = next((each for each in branches(program) if each.id == site), None)
        if branch is None:
            raise ProgramError(
                f"no residual branch begins with '{site}'; it is added to nothing that it is computed from"
            )
        (total,) = branch.total.outputs
        return without_dead(program.edit(remove=(branch.total,), alias={total: branch.trunk}))

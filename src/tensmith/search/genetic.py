"""Genetic search over plans: a seeded population, crossed, mutated, and selected by what was measured.

The population is what NSGA-II keeps (Deb et al., IEEE TEC 6(2), 2002): Pareto ranks over accuracy lost, size
and latency, the least crowded of a rank first; before all of them the few of best fitness, which are never
lost. What breaks the budget by little breeds too: the way to the budget crosses it from both sides.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tensmith.rewrite.lossy.weights import StoredWeights, stored_weights
from tensmith.rewrite.method import LOSSY, bits_of
from tensmith.rewrite.rule import EVERYWHERE, Step
from tensmith.search.candidate import Candidate
from tensmith.search.front import crowding, pareto
from tensmith.search.objective import Objective
from tensmith.search.plan import UNTOUCHED, Plan
from tensmith.search.space import Idea, Space
from tensmith.search.strategy import Quest, TriedIdea

_POPULATION, _ELITE = 12, 2
# Of children; the others are mutants.
_CROSSED = 0.4
# Draws for one generation, each of which may be a plan that was tried: after so many the space is exhausted.
_DRAWS = 40 * _POPULATION
_LEAST_BITS = 2
# What a price of memory, or a layer's worth, becomes where it is changed.
_OTHER_PRICES, _OTHER_WORTHS = (0.5, 2.0), (0.25, 4.0)


def genetic_search(quest: Quest) -> list[Candidate]:
    """Candidates in the order they were tried, as long as there is time left and plans are found.

    A pure function of the space, the seed and the outcomes.
    """
    space, chance = quest.space, random.Random(quest.seed)
    tried: dict[str, TriedIdea] = {}
    for idea in quest.seeds():
        if idea.plan.key not in tried:
            tried[idea.plan.key] = TriedIdea(idea, quest.attempt(idea.plan))
    population = survivors(list(tried.values()), quest.objective, quest.original_bytes)
    while population and quest.time_left():
        children = _children(space, population, tried, chance)
        if not children:
            break
        quest.prepare([idea.plan for idea in children.values()])
        for key, idea in children.items():
            if quest.time_left():
                tried[key] = TriedIdea(idea, quest.attempt(idea.plan))
        born = [tried[key] for key in children if key in tried]
        population = survivors([*population, *born], quest.objective, quest.original_bytes)
    return [found.candidate for found in tried.values()]


def survivors(
    found: Sequence[TriedIdea],
    objective: Objective,
    original_bytes: float,
    most: int = _POPULATION,
    elite: int = _ELITE,
) -> list[TriedIdea]:
    """Those that breed, best first: the elite by fitness, then by Pareto rank and crowding.

    What was not measured does not breed, nor what was trained; what breaks budgets by far does after all
    others.
    """
    measured = [
        each
        for each in found
        if each.idea.plan != UNTOUCHED
        and not each.idea.plan.is_trained
        and each.candidate.drop is not None
        and {"speedup", "packed_bytes", "latency_ms"} <= each.candidate.metrics.keys()
    ]

    def near(each: TriedIdea) -> bool:
        return _costs(each)[0] <= objective.reach

    accepted = [each for each in measured if each.candidate.holds]
    accepted.sort(key=lambda each: -objective.fitness(each.candidate, original_bytes))
    ranked = _by_rank([each for each in measured if near(each)])
    far = sorted((each for each in measured if not near(each)), key=_costs)
    ordered = {each.idea.plan.key: each for each in (*accepted[:elite], *ranked, *far)}
    return list(ordered.values())[:most]


def _costs(found: TriedIdea) -> tuple[float, float, float]:
    """Accuracy lost, size and latency; a gain in accuracy is no loss."""
    candidate = found.candidate
    assert candidate.drop is not None
    return max(candidate.drop.value, 0.0), candidate.bytes, candidate.latency


def _by_rank(found: list[TriedIdea]) -> Iterator[TriedIdea]:
    """Front after front, each from its ends to where it is most crowded."""
    while found:
        rank = pareto(found, _costs)
        room = crowding([_costs(each) for each in rank])
        yield from (rank[i] for i in sorted(range(len(rank)), key=lambda i: -room[i]))
        found = [each for each in found if each not in rank]


def _children(
    space: Space, population: Sequence[TriedIdea], tried: Mapping[str, TriedIdea], chance: random.Random
) -> dict[str, Idea]:
    """Plans that nobody tried, by key: as many as a population holds, or as were found."""
    children: dict[str, Idea] = {}
    for _ in range(_DRAWS):
        if len(children) == _POPULATION:
            break
        mother = _parent(population, chance)
        if chance.random() < _CROSSED:
            child = _crossed(space, mother.idea, _parent(population, chance).idea, chance)
        else:
            mutants = _mutants(space, mother, chance)
            child = chance.choice(mutants) if mutants else mother.idea
        child = replace(child, plan=space.fitted(child.plan))
        if child.plan.key not in tried:
            children.setdefault(child.plan.key, child)
    return children


def _parent(population: Sequence[TriedIdea], chance: random.Random) -> TriedIdea:
    """The better of two: the population is in order of merit."""
    return population[min(chance.randrange(len(population)) for _ in range(2))]


def _crossed(space: Space, mother: Idea, father: Idea, chance: random.Random) -> Idea:
    """Steps by rule and site, each as in either parent; bits of one step layer by layer.

    Exact steps at places are taken by region: the father's at some nodes, the mother's at the others.
    """
    of_mother, of_father = (
        {(step.rule, step.site): step for step in parent.plan.steps if not _is_placed(step)}
        for parent in (mother, father)
    )
    cuts = sorted(chance.randrange(len(space.program.nodes) + 1) for _ in range(2))
    steps = space.regions.of_both(_placed(mother.plan), _placed(father.plan), *cuts)
    for place in {**of_mother, **of_father}:
        ours, theirs = of_mother.get(place), of_father.get(place)
        taken = chance.choice((ours, theirs))
        if taken is not None:
            steps.append(_mixed(ours, theirs, taken, chance) if ours and theirs else taken)
    settings = chance.choice((mother, father)).plan.settings
    return Idea(Plan.of(steps, settings), mother.family)


def _is_placed(step: Step) -> bool:
    return step.kind == "exact" and step.site != EVERYWHERE


def _placed(plan: Plan) -> list[Step]:
    """Its exact steps at places, in their order."""
    return [step for step in plan.steps if _is_placed(step)]


def _mixed(ours: Step, theirs: Step, taken: Step, chance: random.Random) -> Step:
    """One of two like steps, with each layer's bits, or worth, from either where both say them by layer."""
    for name in ("bits", "worth"):
        tables = [table for step in (ours, theirs) if isinstance(table := step.params.get(name), Mapping)]
        if len(tables) == 2:
            mixed = {site: chance.choice(tables).get(site, own) for site, own in taken.params[name].items()}
            taken = replace(taken, params={**taken.params, name: mixed})
    return taken


def _mutants(space: Space, found: TriedIdea, chance: random.Random) -> list[Idea]:
    """Plans of one kind of mutation, of those that bring any.

    What methods say, the next level on a line of bits, a step taken back, all layers with other bits, one
    layer treated otherwise, or a region in an equal form.
    """
    idea, steps = found.idea, found.idea.plan.steps
    graded = [step for step in steps if step.kind == "lossy" and LOSSY[step.rule].graded]

    kinds: list[Callable[[], list[Idea]]] = [
        lambda: [*space.variants(idea, found.candidate), *space.moves(idea, found.candidate)],
        lambda: [*filter(None, [space.further(idea, found.candidate)])],
        lambda: [_with(idea, steps[:i] + steps[i + 1 :]) for i in range(len(steps))],
        lambda: [other for step in graded for other in _other_levels(space, idea, step)],
        lambda: [other for step in graded for other in _other_layers(space, idea, step)],
        lambda: _other_forms(space, idea, chance),
    ]
    chance.shuffle(kinds)
    return next(filter(None, (kind() for kind in kinds)), [])


def _other_levels(space: Space, idea: Idea, step: Step) -> Iterator[Idea]:
    """All layers with a bit more or a bit less, within what weights may take; or another price of memory."""
    if "price" in step.params:
        for factor in _OTHER_PRICES:
            like = replace(step, params={**step.params, "price": factor * step.params["price"]})
            yield _with(idea, idea.plan.having(like).steps)
        return
    skip = frozenset(step.params.get("skip", ()))
    for change in (-1, 1):
        bits = {
            layer.site: min(max(bits_of(step.params, layer.site) + change, _LEAST_BITS), space.prospect.bits)
            for layer in _treated(space, step)
        }
        yield _with(idea, idea.plan.having(replace(step, params=_params(step.params, bits, skip))).steps)


def _treated(space: Space, step: Step) -> list[StoredWeights]:
    """What the method of a step acts on."""
    outlooks = LOSSY[step.rule].outlooks(space.prospect)
    return [own for own in stored_weights(space.prospect.program) if own.site in outlooks]


def _other_layers(space: Space, idea: Idea, step: Step) -> Iterator[Idea]:
    """Each layer with a bit more, a bit less, another worth, or left in floats (no longer)."""
    skip = frozenset(step.params.get("skip", ()))
    layers = {layer.site: layer for layer in _treated(space, step)}
    bits = {site: bits_of(step.params, site) for site in layers}
    for site, layer in layers.items():
        changed = [(bits, skip ^ {site})]
        for name in LOSSY[step.rule].spares:
            if name != "skip" and site not in skip and layer.multiplies:
                kept = {key: value for key, value in step.params.items() if key != name}
                spared = {*step.params.get(name, ())} ^ {site}
                like = replace(step, params={**kept, name: sorted(spared)} if spared else kept)
                yield _with(idea, idea.plan.having(like).steps)
        worth = step.params.get("worth", {})
        for factor in _OTHER_WORTHS if site in worth and site not in skip else ():
            params = {**step.params, "worth": {**worth, site: factor * worth[site]}}
            yield _with(idea, idea.plan.having(replace(step, params=params)).steps)
        if site not in skip and not worth:
            counts = (bits[site] + change for change in (-1, 1))
            changed += [
                ({**bits, site: count}, skip)
                for count in counts
                if _LEAST_BITS <= count <= space.prospect.bits
            ]
        for table, skipped in changed:
            like = replace(step, params=_params(step.params, table, skipped))
            yield _with(idea, idea.plan.having(like).steps)


def _other_forms(space: Space, idea: Idea, chance: random.Random) -> list[Idea]:
    """One region in an equal form, the cheaper by estimate of two drawn; where a device is in sight."""
    nodes = space.regions.formed(placed := _placed(idea.plan)).program.nodes
    if not space.layer_seconds or not nodes:
        return []
    forms = space.regions.forms(placed, chance.randrange(len(nodes)))
    if not forms:
        return []
    moves = forms[min(chance.randrange(len(forms)) for _ in range(2))]
    return [_with(idea, (*placed, *moves, *(s for s in idea.plan.steps if not _is_placed(s))))]


def _params(params: Mapping[str, Any], bits: Mapping[str, int], skip: Collection[str]) -> dict[str, Any]:
    """Parameters with other bits and layers skipped; what is empty or usual is not said."""
    kept = {name: value for name, value in params.items() if name not in ("bits", "skip")}
    if skip:
        kept["skip"] = sorted(skip)
    if any(count != bits_of(kept, site) for site, count in bits.items()):
        kept["bits"] = {site: count for site, count in bits.items() if site not in skip}
    return kept


def _with(idea: Idea, steps: Sequence[Step]) -> Idea:
    """The plan of other steps, off every line of levels."""
    return Idea(Plan.of(steps, idea.plan.settings), idea.family)

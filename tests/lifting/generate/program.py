"""What a generator makes, and what all of them share: choices by a seed, and the names of what was used."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Generated:
    """A function as text, and the constructs in it by name."""

    name: str
    text: str
    constructs: frozenset[str]


class Generator:
    """Random choices; `used` collects the constructs."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.used: set[str] = set()

    def pick(self, *choices: Choice) -> Choice:
        return self.chance.choice(choices)

    def of(self, choices: Sequence[Choice]) -> Choice:
        return self.chance.choice(choices)

    def often(self, share: float) -> bool:
        return self.chance.random() < share

    def use(self, construct: str) -> None:
        self.used.add(construct)

"""How large macros may make a text: an upper bound, found without expanding them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BLANK = r"(?:[^\S\n]|\u180e)*"  # what clang takes for white space, and more
DIRECTIVE = re.compile(rf"{_BLANK}(?:#|%:){_BLANK}(\w*){_BLANK}(.*)")
LIMIT = 10**12  # a bound beyond is as good as none


@dataclass(frozen=True)
class Macro:
    """The words of a macro's body, and how often it repeats one of its parameters at most."""

    words: list[str]
    repeats: int


def growth(lines: list[str], depth: int) -> int:
    """The words that one line may become, where parentheses lie `depth` deep inside one another.

    A macro's size is the sum of its words' sizes; its gain, the factor by which it repeats an argument, is
    its own repetitions times the gains of all macros in its body. Arguments inside arguments multiply gains.
    """
    macros = definitions(lines)
    sizes: dict[str, int] = {}
    gains: dict[str, int] = {}

    def measure(name: str, inside: tuple[str, ...]) -> None:
        if name not in macros or name in sizes or name in inside:
            return
        if len(inside) > 100:
            sizes[name] = gains[name] = LIMIT
            return
        size, gain = 0, max(1, macros[name].repeats)
        for word in macros[name].words:
            measure(word, (*inside, name))
            size = min(LIMIT, size + sizes.get(word, 1))
            gain = min(LIMIT, gain * gains.get(word, 1))
        sizes[name], gains[name] = size, gain

    for name in macros:
        measure(name, ())
    gain, size = max(gains.values(), default=1), max(sizes.values(), default=1)
    grown: int = size * gain ** min(depth, 40)
    return min(LIMIT, grown)


def definitions(lines: list[str]) -> dict[str, Macro]:
    """The macros of a file; of several definitions of a name, the longest and the most repeating."""
    found: dict[str, Macro] = {}
    for line in lines:
        directive = DIRECTIVE.match(line)
        if directive is None or directive[1] != "define":
            continue
        macro = re.match(r"(\w+)(\(([^)]*)\))?(.*)", directive[2])
        if macro is None:
            continue
        words = re.findall(r"\w+|[^\s\w]", macro[4])
        parameters = ["__VA_ARGS__" if "..." in p else p.strip() for p in (macro[3] or "").split(",")]
        repeats = max(words.count(parameter) for parameter in parameters)
        old = found.get(macro[1], Macro([], 0))
        found[macro[1]] = Macro(max(old.words, words, key=len), max(old.repeats, repeats))
    return found

"""What a law is proved for: symbolic instances, with shapes in words.

A word is a size: a name, a number, or products and sums of these. `*S` stands for as many sizes as the
instance has dimensions, `*1` for as many ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tensmith.formula.expr import Scalar
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.op import Attrs

# What an attribute that is left out stands for, one number an axis.
_NEUTRAL = {"pads": 0, "strides": 1, "dilations": 1}


@dataclass(frozen=True)
class Instance:
    """Symbolic shapes of variables, and attributes of captures: integers are conditions, symbols are free.

    dims: how many sizes a `*S` stands for. lower: least values of symbols, 0 where nothing is said.
    values: of variables that are known, as axes are: arrays, or a number that is every element.
    elements: of variables that are not any tensor, the element at each position. dtypes: where not f32.
    sample: attributes that are no conditions. example: neither are its shapes; the law says where it holds.
    """

    name: str
    shapes: Mapping[str, str]
    dims: int = 0
    attrs: Mapping[str, Attrs] = field(default_factory=dict)
    lower: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    sample: Mapping[str, Attrs] = field(default_factory=dict)
    elements: Mapping[str, Callable[..., Scalar]] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    example: bool = False


Given: TypeAlias = Sequence[Instance]

# Tensors of one shape: elementwise laws hold for any, as they are about one element.
MATRIX: Given = (Instance("matrix", {"": "M N"}),)
# Of the shapes that a law names, no size 0.
NOT_EMPTY: Given = (Instance("not empty", {}, lower=dict.fromkeys("BIJKLN", 1)),)


# Shapes in words


def shape_words(words: str, dims: int) -> list[str]:
    """A shape in words with `*S` and `*1` written out: a word an axis."""
    found: list[str] = []
    for word in words.split():
        name, plus, rest = word[1:].partition("+")
        numbers = [""] * dims if name == "1" else range(dims)
        found += [f"{name}{axis}{plus}{rest}" for axis in numbers] if word.startswith("*") else [word]
    return found


def symbolic_shape(words: str, dims: int) -> tuple[Poly, ...]:
    """A shape in words as polynomials."""
    return tuple(map(_size, shape_words(words, dims)))


def _size(word: str) -> Poly:
    """`G*K+2` as a polynomial."""
    total = Poly.of(0)
    for part in word.split("+"):
        product = Poly.of(1)
        for factor in part.split("*"):
            product = product * (Poly.of(int(factor)) if factor.isdigit() else Poly.symbol(factor))
        total = total + product
    return total


def binds(words: Sequence[str], shape: Sequence[Dim], sizes: dict[str, Dim], condition: bool) -> bool:
    """Whether a shape has the rank of its words and, on condition, is what they stood for before.

    Ones in front may be left out. Words without a condition only learn what they stand for.
    """
    missing = len(words) - len(shape)
    if missing < 0 or any(word != "1" for word in words[:missing]):
        return False
    for word, size in zip(words[missing:], shape):
        expected = int(word) if word.isdigit() else sizes.setdefault(word, size)
        if condition and expected != size:
            return False
    return True


def agrees(name: str, wanted: Any, found: Any) -> bool:
    """Whether an attribute is as an instance has it: symbols stand for anything."""
    if isinstance(wanted, Poly) or (isinstance(wanted, tuple) and any(isinstance(w, Poly) for w in wanted)):
        return True
    if isinstance(wanted, tuple) and name in _NEUTRAL:
        return all(v == _NEUTRAL[name] for v in wanted) and all(v == _NEUTRAL[name] for v in found or ())
    return bool(found == wanted)


# Instances of heavy ops


def conv_instances(
    dims: Iterable[int] = (1, 2, 3),
    *,
    grouped: bool = True,
    padded: bool = True,
    square: bool = False,
    **others: str,
) -> Given:
    """conv(x, w, b), everything symbolic: x [N, G*C, *H], w [G*K, C, *R], b [G*K]; others by their shapes.

    One group of K filters and C channels if not `grouped`; C filters if `square`.
    """
    found = []
    for n in dims:
        filters = "C" if square else "G*K" if grouped else "K"
        channels = "G*C" if grouped else "C"
        attrs = {"strides": _symbols("s", n), "dilations": _symbols("d", n),
                 "pads": _symbols("p", 2 * n) if padded else (0,) * (2 * n),
                 "group": Poly.symbol("G") if grouped else 1}  # fmt: skip
        shapes = {"x": f"N {channels} *H", "w": f"{filters} C *R", "b": filters, **others}
        lower = {f"p{side}": 0 for side in range(2 * n)} if padded else {}
        found.append(Instance(f"{n}d", shapes, n, {"conv": attrs}, lower))
    return found


def _symbols(letter: str, count: int) -> tuple[Poly, ...]:
    return tuple(Poly.symbol(f"{letter}{number}") for number in range(count))


def gemm_instances(**others: str) -> Given:
    """gemm(X, W, B): X [N, C], W [C, K] or turned, B [K], nothing scaled; and others by their shapes."""
    plain = {"alpha": 1.0, "beta": 1.0, "transA": 0}
    return [
        Instance(f"transB={turned}", {"x": "N C", "w": "K C" if turned else "C K", "b": "K", **others}, 0,
                 {"gemm": {**plain, "transB": turned}})
        for turned in (0, 1)
    ]  # fmt: skip


def matmul_instances(dims: Iterable[int] = (0, 1, 2, 3), **others: str) -> Given:
    """Products of X [*L, N, C] and others by their shapes; `dims` leading axes L."""
    return [Instance(f"rank {2 + n}", {"x": "*L N C", **others}, n) for n in dims]

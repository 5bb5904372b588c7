"""Every other channel of an image, or every third: what the parts of a channel shuffle are."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import ELEMENT_BYTES, Buffer
from tensmith.kernel.routine import Routine

# Types whose vectors are shuffled, by the bytes of an element.
_MOVED = {1: "uint8_t", 2: "uint16_t", 4: "int32_t", 8: "int64_t"}


@dataclass(frozen=True)
class PickChannels(Routine):
    """y[c] = x[start + c * step], for every channel c of y; both lie in blocks of one size."""

    start: int
    step: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Vectors of y, each from the vectors of x that hold its channels."""
        (source,), size = sources, ELEMENT_BYTES[target.dtype]
        blocks = "".join(self._block(block, source, target) for block in range(target.blocks))
        body = f"""\
    typedef {_MOVED[size]} moved __attribute__((vector_size({target.block * size})));
    const {source.c_type} *x = (const {source.c_type} *)in[0] + {source.address(0, 0, 0)};
    {target.c_type} *y = ({target.c_type} *)out + {target.address(0, 0, 0)};
    for (int i = 0; i < {target.height}; i++) for (int j = 0; j < {target.width}; j++) {{
        const {source.c_type} *p = x + i * {source.row} + j * {source.block};
        {target.c_type} *q = y + i * {target.row} + j * {target.block};
        moved a, b;
{blocks}    }}
"""
        return self.function(name, f"{source.channels} channels to {target.channels}.", body)

    def _block(self, block: int, source: Buffer, target: Buffer) -> str:
        """One vector of y: a takes lanes from one vector of x after the other; any where y has no channel."""
        lanes = target.block
        wanted = range(block * lanes, min(target.channels, (block + 1) * lanes))
        places = [divmod(self.start + self.step * channel, lanes) for channel in wanted]
        places += places[:1] * (lanes - len(places))
        first, *others = sorted({held for held, _ in places})
        kept = [lane if held == first else 0 for held, lane in places]
        lines = [f"memcpy(&a, p + {first * source.plane}, sizeof a);"]
        if not others:
            lines.append(f"a = PICK(moved, a, a, {', '.join(map(str, kept))});")
        for other in others:
            order = [lanes + lane if held == other else kept[i] for i, (held, lane) in enumerate(places)]
            lines.append(f"memcpy(&b, p + {other * source.plane}, sizeof b);")
            lines.append(f"a = PICK(moved, a, b, {', '.join(map(str, order))});")
            kept = list(range(lanes))
        lines.append(f"memcpy(q + {block * target.plane}, &a, sizeof a);")
        return "".join(f"        {line}\n" for line in lines)

"""The fold of a recurrent layer: products of the state with weights, and the gates, step after step.

What the gates compute of a tile of sums stays in registers: one pass over the panels of weights is a step.
Every other step goes through them backwards, and finds those that the step before it read last in the cache,
where not all of them fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.isa import Isa
from tensmith.kernel.parts import load_code, store_code
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.recurrent_panels import Panel, digits, tiling
from tensmith.kernel.routines.strided import StridedOperand
from tensmith.kernel.tiles import chunks

# Weights are fetched so many rows before they are read.
_AHEAD = 4
# The largest integer that so many digits write of either sign; one more is added to all.
_TOP = {2: 2**15 - 1, 3: 2**22 - 1}

# The digits of n elements of `a`, four to a word: element k of each quarter in word k, digit by digit, each
# after `padded` words. What a unit of the last digit is worth is returned, NaN where an element is no number.
_DIGITS_OF = """\
static float {name}_digits(const float *a, int32_t *to)
{{
    vf all = splat(0);
    for (int j = 0; j < {n}; j += {lanes}) {{
        vf x = j + {lanes} <= {n} ? load(a + j) : load_part(a + j, {n} - j);
        all = vmaximum(all, vabs(x));
    }}
    const float most = most_of(all), top = most + (most - most), times = top > 1e-30f ? {top}.0f / top : 0;
    for (int j = 0; j < {quarter}; j += {lanes}) {{
        vi words[{digits}] = {{{{0}}}};
        UNROLL for (int i = 0; i < 4; i++) {{
            const int from = i * {quarter} + j, left = {n} - from;
            vf x = left >= {lanes} ? load(a + from) : load_part(a + from, left > 0 ? left : 0);
            vi q = rint_i(x * times) + {offset};
            UNROLL for (int d = 0; d < {digits}; d++) words[d] |= ((q >> 8 * d) & 255) << 8 * i;
        }}
        UNROLL for (int d = 0; d < {digits}; d++) memcpy(to + d * {padded} + j, &words[d], sizeof(vi));
    }}
    return top > 1e-30f ? top / {top}.0f : top - top;
}}
"""


@dataclass(frozen=True)
class GateStage:
    """Products of one value with the weights of some gates, and what is computed of all sums so far.

    `values` are C over vectors: x0, x1 are the input's sums by gate, r0, r1 the products, p0 to p2 peepholes,
    s0, s1 the states. Those of the last stage are the next states; those before are what the next stage
    multiplies. `names` are the names in them.
    """

    gates: tuple[int, ...]
    values: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class RecurrentFold(Routine):
    """y [S, D, N, H], and behind it, unless `alone`, the last states [D, N, H] each.

    x: the input's sums [S, N, D, G, H], dense; starts: the first states [D, N, H], dense, zeros where None.
    `backwards` says of each of D directions where it begins. The constants: `packed` and `tables`, at these
    offsets in elements. `coded` weights are bytes, and the tables say what a code of each row is worth, and
    the sum of the codes. Behind its length, of i32 [N], a row's states stay as they are and y is 0; the last
    states of one without elements are 0.
    """

    steps: int
    batch: int
    hidden: int
    gates: int
    backwards: tuple[bool, ...]
    stages: tuple[GateStage, ...]
    x: StridedOperand
    starts: tuple[StridedOperand | None, ...]
    weights: int
    tables: int
    coded: bool
    isa: Isa
    alone: bool
    lengths: StridedOperand | None = None

    @property
    def _padded(self) -> int:
        """Elements of a state in whole vectors."""
        return self.isa.round_up(self.hidden)

    @property
    def _digits(self) -> int:
        """How many digits a state is written in; 0 where it is multiplied as it is."""
        return digits(self.coded, self.hidden, self.isa)

    @property
    def _quarter(self) -> int:
        """Words that a digit of a state takes."""
        return -(-self.hidden // 4)

    @property
    def _depth(self) -> int:
        """Rows of weights, those without any to make up words among them."""
        return 4 * self._quarter if self._digits else self.hidden

    @property
    def _words(self) -> int:
        """Of all digits of a state, in whole vectors."""
        return self._digits * self.isa.round_up(self._quarter)

    @property
    def _state(self) -> int:
        """Elements of a state of all directions."""
        return len(self.backwards) * self.batch * self.hidden

    @property
    def size(self) -> int:
        """Elements of what it writes."""
        return self._state * (self.steps + (0 if self.alone else len(self.starts)))

    @property
    def _kept(self) -> tuple[int, ...]:
        """The gates whose products a later stage than their own reads."""
        later = {name for stage in self.stages[1:] for name in stage.names}
        return tuple(g for stage in self.stages[:-1] for g in stage.gates if f"r{g}" in later)

    @property
    def scratch_bytes(self) -> int:
        """The states but the first, which is y; for stages before the last, their value and kept products."""
        return 4 * (self._floats + (self.batch * (self._words + 1) if self._digits else 0))

    @property
    def _floats(self) -> int:
        """Of the scratch memory, in whole vectors; digits lie behind them."""
        waiting = self.batch * self.hidden * (len(self.starts) - 1) if self.lengths is not None else 0
        return self.isa.round_up(self._computed + waiting)

    @property
    def _computed(self) -> int:
        """Floats of the states and of what lies between stages; behind them are states that may stay."""
        return self.batch * (self.hidden * len(self.starts) + self._padded * len(self._between))

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """A function a tile, and one that walks over directions, steps and tiles."""
        first, size = self.batch * self.hidden * len(self.starts), self.batch * self._padded
        between = "".join(
            f"    float *{value} = state + {first + place * size};\n"
            for place, value in enumerate(self._between)
        )
        tiles = {}
        if self._digits:
            top = _TOP[self._digits]
            between += f"    int32_t *digits = (int32_t *)(state + {self._floats});\n"
            between += f"    float *units = state + {self._floats + self.batch * self._words};\n"
            tiles["digits"] = _DIGITS_OF.format(
                name=name, n=self.hidden, lanes=self.isa.lanes, quarter=self._quarter, digits=self._digits,
                padded=self.isa.round_up(self._quarter), top=top, offset=top + 1,
            )  # fmt: skip
        for number, stage in enumerate(self.stages):
            tall, panels = self._tiling(stage)
            for rows, _ in chunks(self.batch, tall):
                for panel in panels:
                    key = self._name(name, number, rows, panel)
                    tiles[key] = self._tile(key, number, rows, panel)
        ways = "".join(self._way(name, way) for way in range(len(self.backwards)))
        says = f"{self.steps} steps of {self.batch} states of {self.hidden}, {len(self.backwards)} ways."
        return self.function(
            name, says, f"    float *state = scratch;\n{between}{ways}", "".join(tiles.values())
        )

    @property
    def _between(self) -> tuple[str, ...]:
        """What the stages before the last one leave to those behind them."""
        return (*(f"v{n}" for n in range(len(self.stages) - 1)), *(f"k{gate}" for gate in self._kept))

    def _way(self, name: str, way: int) -> str:
        """All steps in one direction."""
        size, ways = self.batch * self.hidden, len(self.backwards)
        begin = []
        for place, start in enumerate(self.starts):
            to = f"state + {place * size}"
            if start is None:
                begin.append(f"memset({to}, 0, {4 * size});")
            else:
                at = f"{start.pointer} + {start.view.offset + way * size}"
                begin.append(f"memcpy({to}, {at}, {4 * size});")
        end = []
        if not self.alone:
            first = self.steps * self._state + way * size
            end.append(f"memcpy(out + {first}, h, {4 * size});")
            end += [
                f"memcpy(out + {first + place * self._state}, state + {place * size}, {4 * size});"
                for place in range(1, len(self.starts))
            ]
        order = f"{self.steps - 1} - n" if self.backwards[way] else "n"
        width = ways * self.gates * self.hidden
        x = f"{self.x.pointer} + {self.x.view.offset + way * self.gates * self.hidden}"
        lines = [
            "{", *(f"    {line}" for line in begin), "    const float *h = state;",
            f"    for (int n = 0; n < {self.steps}; n++) {{",
            f"        const int t = {order};",
            f"        const float *x = {x} + (size_t)t * {self.batch * width};",
            f"        float *y = out + (size_t)t * {self._state} + {way * size};",
            *(f"        {line}" for line in self._waiting(self._step(name, way))),
            "        h = y;", "    }", *(f"    {line}" for line in (*end, *self._silent(way))), "}",
        ]  # fmt: skip
        return "".join(f"    {line}\n" for line in lines)

    def _waiting(self, step: list[str]) -> list[str]:
        """A step after which rows behind their lengths have the states of before."""
        if self.lengths is None:
            return step
        size, row = self.batch * self.hidden, 4 * self.hidden
        others, kept = range(1, len(self.starts)), f"state + {self._computed}"
        before = [f"memcpy({kept}, state + {size}, {4 * size * len(others)});"] if others else []
        back = [f"memcpy(y + i * {self.hidden}, h + i * {self.hidden}, {row});"]
        for place in others:
            to, of = (f"{place * size} + i * {self.hidden}", f"{(place - 1) * size} + i * {self.hidden}")
            back.append(f"memcpy(state + {to}, {kept} + {of}, {row});")
        return [*before, *step, f"{self._behind} {{ {' '.join(back)} }}"]

    def _silent(self, way: int) -> list[str]:
        """What sets y to 0 behind the lengths, and the last states of rows without elements."""
        if self.lengths is None:
            return []
        at = f"out + (size_t)t * {self._state} + {way * self.batch * self.hidden} + i * {self.hidden}"
        every = f"for (int t = 0; t < {self.steps}; t++)"
        silent = [f"{every} {self._behind} memset({at}, 0, {4 * self.hidden});"]
        for place in range(0 if self.alone else len(self.starts)):
            last = (self.steps + place) * self._state + way * self.batch * self.hidden
            silent.append(
                f"for (int i = 0, t = 0; i < {self.batch}; i++) if (t >= {self._length}) "
                f"memset(out + {last} + i * {self.hidden}, 0, {4 * self.hidden});"
            )
        return silent

    @property
    def _behind(self) -> str:
        """C of a loop over the rows i whose length is behind at step t."""
        return f"for (int i = 0; i < {self.batch}; i++) if (t >= {self._length})"

    @property
    def _length(self) -> str:
        """C of the length of row i."""
        assert self.lengths is not None
        return f"({self.lengths.pointer} + {self.lengths.view.offset})[i]"

    def _step(self, name: str, way: int) -> list[str]:
        """The calls of one step: stage by stage, panel by panel, for all rows."""
        lines, place = [], self.weights + way * self.gates * self._padded * self._depth
        weights = f"(const {self._element} *)constants"
        for number, stage in enumerate(self.stages):
            tall, panels = self._tiling(stage)
            if self._digits:
                row = self._padded if number else self.hidden
                lines.append(
                    f"for (int i = 0; i < {self.batch}; i++) units[i] = "
                    f"{name}_digits({self._read(number)} + i * {row}, digits + i * {self._words});"
                )
            for panel in panels:
                wide = panel.blocks * self.isa.lanes
                size = len(stage.gates) * wide * self._depth
                row = 0
                for rows, times in chunks(self.batch, tall):
                    call = f"{self._name(name, number, rows, panel)}({weights} + {place} + p * {size}"
                    last = panel.times - 1
                    lines.append(
                        f"for (int k = 0, p = n & 1 ? {last} : 0; k <= {last}; k++, p += n & 1 ? -1 : 1) "
                        f"for (int i = {row}; i < {row + rows * times}; i += {rows}) {call}, "
                        f"constants + {self._table(way)}, {self._arguments(number)}, "
                        f"i, {panel.first * self.isa.lanes} + p * {wide});"
                    )
                    row += rows * times
                place += size * panel.times
        return lines

    def _table(self, way: int) -> int:
        """Where the biases of a direction begin; behind them are its peepholes and what codes are worth."""
        return self.tables + way * (3 * self.gates + 3) * self._padded

    def _tiling(self, stage: GateStage) -> tuple[int, list[Panel]]:
        return tiling(self.batch, self.hidden, len(stage.gates), self.isa, max(1, self._digits))

    @property
    def _element(self) -> str:
        """The C type of a weight."""
        return "int8_t" if self.coded else "float"

    def _read(self, number: int) -> str:
        """What a stage multiplies."""
        return f"v{number - 1}" if number else "h"

    def _arguments(self, number: int) -> str:
        read = ("digits", "units") if self._digits else (self._read(number),)
        return ", ".join(("x", *read, "h", "state", "y", *self._between))

    def _name(self, name: str, number: int, rows: int, panel: Panel) -> str:
        return f"{name}_{number}_{rows}x{panel.blocks}_{panel.rest}"

    def _tile(self, name: str, number: int, rows: int, panel: Panel) -> str:
        """C of `rows` rows of one panel, from row i and element j on."""
        stage, lanes, padded = self.stages[number], self.isa.lanes, self._padded
        gates, blocks = len(stage.gates), panel.blocks
        pointers = ", ".join(f"float *{place}" for place in ("state", "y", *self._between))
        each = f"UNROLL for (int r = 0; r < {rows}; r++) UNROLL for (int b = 0; b < {blocks}; b++)"

        def sums(element: str) -> str:
            """C that sets the sums of each gate, by its place in the tile and that of its table."""
            lines = (f"s[r][{place}][b] = {element.format(place=place, gate=gate * padded)};"
                     for place, gate in enumerate(stage.gates))  # fmt: skip
            return f"{each} {{ {' '.join(lines)} }}"

        at = f"j + b * {lanes}"
        bias = f"load(table + {{gate}} + {at})"
        scaled = f"s[r][{{place}}][b] * load(table + {{gate}} + {(self.gates + 3) * padded} + {at}) + {bias}"
        worth = f"    {sums(scaled)}\n" if self.coded else ""
        if self._digits:
            read = "const int32_t *a, const float *units"
            added = self._added_digits(stage, rows, blocks)
        else:
            read = "const float *a"
            added = f"    {sums('splat(0)' if self.coded else bias)}\n{self._added(number, rows, blocks)}"
        return f"""\
static void {name}(const {self._element} *restrict w, const float *table, const float *x, {read},
    const float *h, {pointers}, int i, int j)
{{
    vf s[{rows}][{gates}][{blocks}];
{added}{worth}    UNROLL for (int r = 0; r < {rows}; r++) {{
{"".join(self._gate_text(number, panel, block) for block in range(blocks))}    }}
}}
"""

    def _added(self, number: int, rows: int, blocks: int) -> str:
        """Adds the products of elements."""
        row = self._padded if number else self.hidden
        gates, lanes = len(self.stages[number].gates), self.isa.lanes
        read = f"{'bytes_of' if self.coded else 'load'}(w + (g * {blocks} + b) * {lanes})"
        return f"""\
    a += i * {row};
    UNROLL_4 for (int k = 0; k < {self.hidden}; k++, w += {gates * blocks * lanes}) {{
        UNROLL for (int g = 0; g < {gates}; g++) UNROLL for (int b = 0; b < {blocks}; b++) {{
            FETCH(w + (g * {blocks} + b) * {lanes} + {_AHEAD * gates * blocks * lanes});
            vf f = {read};
            UNROLL for (int r = 0; r < {rows}; r++) s[r][g][b] += a[r * {row} + k] * f;
        }}
    }}
"""

    def _added_digits(self, stage: GateStage, rows: int, blocks: int) -> str:
        """Sums the products of digits, and what they make: what a digit is off by comes off at once."""
        gates, lanes, off = len(stage.gates), self.isa.lanes, self.isa.byte_offset
        padded, words, last = self.isa.round_up(self._quarter), self._words, self._digits - 1
        offs = [off] * last + [off - (_TOP[self._digits] + 1 >> 8 * last)]
        each = f"UNROLL for (int r = 0; r < {rows}; r++) UNROLL for (int b = 0; b < {blocks}; b++)"
        at = f"j + b * {lanes}"
        begin = []
        for place, gate in enumerate(stage.gates):
            codes = f"rint_i(load(table + {(gate + 2 * self.gates + 3) * self._padded} + {at}))"
            begin.append(f"vi c{place} = {codes};")
            begin += [f"t[r][{place}][b][{d}] = c{place} * {offs[d]};" for d in range(self._digits)]
        total = " + ".join(
            f"__builtin_convertvector(t[r][g][b][{d}], vf) * {256.0**d}f" for d in range(self._digits)
        )
        return f"""\
    vi t[{rows}][{gates}][{blocks}][{self._digits}];
    {each} {{ {" ".join(begin)} }}
    a += i * {words};
    for (int k = 0; k < {self._quarter}; k++, w += {4 * gates * blocks * lanes}) {{
        vi q[{rows}][{self._digits}];
        UNROLL for (int r = 0; r < {rows}; r++) UNROLL for (int d = 0; d < {self._digits}; d++)
            q[r][d] = isplat(a[r * {words} + d * {padded} + k]);
        UNROLL for (int g = 0; g < {gates}; g++) UNROLL for (int b = 0; b < {blocks}; b++) {{
            vi f = iload(w + 4 * (g * {blocks} + b) * {lanes});
            UNROLL for (int r = 0; r < {rows}; r++) UNROLL for (int d = 0; d < {self._digits}; d++)
                t[r][g][b][d] = dot(t[r][g][b][d], q[r][d], f);
        }}
    }}
    {each} UNROLL for (int g = 0; g < {gates}; g++) s[r][g][b] = ({total}) * units[i + r];
"""

    def _gate_text(self, number: int, panel: Panel, block: int) -> str:
        """What is computed of one vector of sums in row r."""
        stage, lanes, padded, hidden = self.stages[number], self.isa.lanes, self._padded, self.hidden
        count = panel.rest if block == panel.blocks - 1 else lanes

        def kept(pointer: str) -> str:
            """Where a value between two stages lies."""
            return f"{pointer} + (i + r) * {padded} + at"

        def state(place: int, pointer: str) -> str:
            """Where one of the states lies, the first one at a pointer of its own."""
            pointer = f"state + {place * self.batch * hidden}" if place else pointer
            return f"{pointer} + (i + r) * {hidden} + at"

        def read(word: str) -> str:
            kind, place = word[0], int(word[1:])
            if kind == "p":
                return f"load(table + {(self.gates + place) * padded} + at)"
            if kind == "r" and place in stage.gates:
                return f"s[r][{stage.gates.index(place)}][{block}]"
            if kind == "r":
                return f"load({kept(f'k{place}')})"
            row = len(self.backwards) * self.gates * hidden
            at = f"x + (i + r) * {row} + {place * hidden} + at" if kind == "x" else state(place, "h")
            return load_code(at, count, lanes)

        lines = [f"const int at = j + {block * lanes};"]
        lines += [f"vf {word} = {read(word)};" for word in stage.names]
        lines += [f"vf n{place} = {value};" for place, value in enumerate(stage.values)]
        if number < len(self.stages) - 1:
            lines.append(f"store({kept(f'v{number}')}, n0);")
            lines += [f"store({kept(f'k{gate}')}, s[r][{place}][{block}]);"
                      for place, gate in enumerate(stage.gates) if gate in self._kept]  # fmt: skip
        else:
            lines += [f"{store_code(state(place, 'y'), f'n{place}', count, lanes)};"
                      for place in range(len(stage.values))]  # fmt: skip
        return "        {\n" + "".join(f"            {line}\n" for line in lines) + "        }\n"

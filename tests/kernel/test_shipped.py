"""The table of kernels that comes with the package: what it says, to whom, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest

from tensmith.errors import EngineError
from tensmith.kernel import ConvolutionProblem, Isa, Kernel, candidates, isa_named, shipped
from tensmith.kernel.alone import function_version
from tensmith.kernel.isa import BFLOAT_TILES, TILES
from tensmith.kernel.shipped import Document, Ranked, ShippedEntry, ShippedTable, read_table

ISA = isa_named("avx2")
PROBLEM = ConvolutionProblem(32, 8, 8, 32, (3, 3), pads=(1, 1, 1, 1))
NEAR = replace(PROBLEM, channels=64)
FAR = replace(PROBLEM, channels=256)


def entry(problem: ConvolutionProblem, place: int, memory: int = 1) -> ShippedEntry:
    """The candidate at a place was twice as fast as the first one."""
    kernels = candidates(problem, ISA)
    rows = [Ranked(str(k), r, function_version(k)) for k, r in ((kernels[place], 0.5), (kernels[0], 1.0))]
    return ShippedEntry(problem=problem, memory=memory, kernels=tuple(rows))


def document(*entries: ShippedEntry) -> Document:
    return Document(
        version=1, isa=ISA.name, needs=tuple(sorted(ISA.needs)), cpu="some", cache_bytes=(32768,),
        compiler="cc", entries=entries,
    )  # fmt: skip


def names(problem: ConvolutionProblem) -> list[str]:
    return list(map(str, candidates(problem, ISA)))


def test_a_file_is_a_line_an_entry_and_comes_back() -> None:
    made = document(entry(PROBLEM, 3), entry(NEAR, 2, memory=2))
    assert read_table(made.text(), "some") == made
    assert sum('"problem"' in line for line in made.text().splitlines()) == 2


def test_it_says_ratios_the_fastest_first_for_its_problem_and_memory_only() -> None:
    table = ShippedTable(ISA, (entry(PROBLEM, 3),))
    kernels = candidates(PROBLEM, ISA)
    assert list(table.ratios(PROBLEM, 1).items()) == [(kernels[3], 0.5), (kernels[0], 1.0)]
    assert table.ratios(PROBLEM, 2) == table.ratios(NEAR, 1) == {}


def test_the_nearest_shape_comes_first_and_other_kinds_not_at_all() -> None:
    strided = replace(PROBLEM, strides=(2, 2))
    table = ShippedTable(ISA, (entry(FAR, 1), entry(NEAR, 2), entry(strided, 1), entry(PROBLEM, 3)))
    expected = [(0.0, names(PROBLEM)[3]), (1.0, names(NEAR)[2]), (3.0, names(FAR)[1])]
    assert table.near(PROBLEM, 1) == expected
    assert table.near(PROBLEM, 1, most=1) == expected[:1]
    assert table.near(replace(PROBLEM, dtype="u8"), 1) == []


def test_weights_from_the_same_memory_are_nearer() -> None:
    table = ShippedTable(ISA, (entry(PROBLEM, 3, memory=2), entry(PROBLEM, 2, memory=0), entry(PROBLEM, 1)))
    assert next(name for _, name in table.near(PROBLEM, 1)) == names(PROBLEM)[1]


def test_an_entry_whose_kernel_was_changed_is_passed_over() -> None:
    first, *rest = entry(PROBLEM, 3).kernels
    stale = ShippedEntry(problem=PROBLEM, memory=1, kernels=(first._replace(version="0" * 12), *rest))
    gone = ShippedEntry(problem=NEAR, memory=1, kernels=(Ranked("an older kernel (size 4)", 1.0, "0" * 12),))
    table = ShippedTable(ISA, (stale, gone, entry(FAR, 1)))
    assert table.stale == 2
    assert table.ratios(PROBLEM, 1) == {}
    assert table.near(PROBLEM, 1) == [(3.0, names(FAR)[1])]


def test_an_edit_of_the_prelude_or_another_compiler_leaves_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ShippedTable(ISA, (entry(PROBLEM, 3),))
    monkeypatch.setattr(Isa, "prelude", "/* another one */")
    monkeypatch.setattr("tensmith.kernel.alone.build_version", lambda _: "another compiler")
    assert table.stale == 0


def test_other_instructions_get_an_empty_table() -> None:
    assert shipped.shipped(isa_named("generic")).entries == ()
    avx512 = isa_named("avx512", ["avx512_vnni", "avx512_bf16"])
    fewer = isa_named("avx512")
    assert shipped.shipped(avx512).entries and not shipped.shipped(fewer).entries


def test_tiles_leave_what_was_timed_of_floats() -> None:
    features = ["avx512_vnni", "avx512_bf16"]
    without, with_tiles = (
        shipped.shipped(isa_named("avx512", names)) for names in (features, [*features, TILES])
    )
    floats = [entry for entry in without.entries if entry.problem.dtype != "u8"]
    assert floats and list(with_tiles.entries) == floats
    both = shipped.shipped(isa_named("avx512", [*features, TILES, BFLOAT_TILES])).entries
    assert {entry.problem.dtype for entry in both} == {"f32"}
    assert not shipped.shipped(isa_named("avx512", [TILES])).entries


def damaged(path: tuple[str | int, ...], value: Any) -> str:
    """A file in which the value at a path is another one."""
    root = json.loads(document(entry(PROBLEM, 3)).text())
    place = root
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(root)


ENTRY = ("entries", 0)


@pytest.mark.parametrize(("path", "value", "words"), [
    (("version",), 2, "version"),
    (("more",), 1, "more"),
    ((*ENTRY, "problem", "colour"), 1, "no colour"),
    ((*ENTRY, "problem", "channels"), "many", "channels"),
    ((*ENTRY, "problem", "window"), [3, 3, 3], "window"),
    ((*ENTRY, "memory"), 3, "memory"),
    ((*ENTRY, "kernels"), [], "kernels"),
    ((*ENTRY, "kernels", 0, 1), 0, "greater than 0"),
    ((*ENTRY, "kernels", 0, 1), float("nan"), "kernels.0.1"),
    ((*ENTRY, "kernels", 0, 1), 2.0, "fastest first"),
    ((*ENTRY, "kernels", 1, 1), 0.9, "has ratio 1"),
    ((*ENTRY, "kernels", 0, 2), "../../etc/pw", "pattern"),
])  # fmt: skip
def test_an_altered_file_is_refused(path: tuple[str | int, ...], value: Any, words: str) -> None:
    with pytest.raises(EngineError, match=r"some.*damaged") as caught:
        read_table(damaged(path, value), "some")
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "no JSON", '{"version": 1}', " " * (1 << 18) + "{}"])
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(EngineError, match="install tensmith anew"):
        read_table(text, "some")


@pytest.mark.parametrize(
    "file", list((resources.files("tensmith.kernel") / "tables").iterdir()), ids=lambda file: file.name
)
def test_what_is_shipped_reads_back_is_small_and_names_each_problem_once(file: Any) -> None:
    text = file.read_text(encoding="utf-8")
    made = read_table(text, file.name)
    assert made.text() == text and len(text) < 100_000
    assert file.name == f"{made.isa}.json"
    assert len({(one.problem, one.memory) for one in made.entries}) == len(made.entries)


def test_a_kernel_of_another_problem_has_another_version() -> None:
    versions: dict[str, Kernel] = {}
    for problem in (PROBLEM, NEAR):
        versions |= {function_version(kernel): kernel for kernel in candidates(problem, ISA)}
    assert len(versions) == len(names(PROBLEM)) + len(names(NEAR))

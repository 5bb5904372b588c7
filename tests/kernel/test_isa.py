"""Instruction sets are those that the CPU has in full, as far as the compiler knows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensmith.hardware import load_target
from tensmith.kernel import isa, isa_named
from tensmith.kernel.isa import isa_of, target_isa

EXTRAS = {"avx512_vnni", "avx512_bf16"}


@pytest.mark.parametrize("missing", ["", "avx512f", "avx512bw", "avx512dq", "avx512vl"])
def test_a_part_of_avx512_is_none(missing: str) -> None:
    found = isa_of(isa_named("avx512").features - {missing})
    assert found.name == ("avx2" if missing else "avx512")
    assert {"avx512bw", "avx512dq", "avx512vl"} <= isa_named("avx512").needs
    assert target_isa(load_target("server-avx512-vnni")).name == "avx512"


@pytest.mark.parametrize("unknown", [[], ["avx512bf16"], ["avx512bf16", "avx512vnni"]])
def test_instructions_that_the_compiler_does_not_know_are_done_without(
    unknown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "old"
    refused = "".join(f'*" -m{flag} "*) exit 1;; ' for flag in unknown)
    script.write_text(f'#!/bin/sh\ncase " $* " in {refused}*) exit 0;; esac\n')
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    found = isa._unknown(isa_named("avx512", EXTRAS))
    assert {name.replace("_", "") for name in found} == {*unknown}
    monkeypatch.setenv("CC", "no-such-compiler")
    assert isa._unknown(isa_named("avx512", EXTRAS)) == frozenset()

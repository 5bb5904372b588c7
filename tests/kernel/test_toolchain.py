"""Compiling: results are kept by content, and what goes wrong is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from own_cache import own_cache
from tensmith.errors import EngineError, MissingExtra
from tensmith.kernel import host_isa, toolchain
from tensmith.kernel.toolchain import Compiler, compile_library, find_compiler


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> list[Compiler]:
    """A list whose one element is the compiler that is found."""
    chosen = [find_compiler()]
    monkeypatch.setattr(toolchain, "find_compiler", lambda _: chosen[0])
    return chosen


def test_equal_text_is_compiled_once(tmp_path: Path) -> None:
    first = compile_library("int one(void) { return 1; }", host_isa(), room=tmp_path)
    written = first.stat().st_mtime_ns
    assert compile_library("int one(void) { return 1; }", host_isa(), room=tmp_path) == first
    assert first.stat().st_mtime_ns == written
    assert compile_library("int one(void) { return 2; }", host_isa(), room=tmp_path) != first


def test_a_complaint_is_passed_on_and_nothing_is_kept(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"failed .*error"):
        compile_library("this is no C", host_isa(), room=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_compiler_that_hangs_is_ended(
    tmp_path: Path, compiler: list[Compiler], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "sleepy"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    compiler[0] = Compiler((str(script),), "1", cross=False)
    monkeypatch.setattr(toolchain, "LONGEST_SECONDS", 0.2)
    with pytest.raises(EngineError, match="did not end within"):
        compile_library("int x;", host_isa(), room=tmp_path / "cache")


def test_a_compiler_that_dies_is_named(tmp_path: Path, compiler: list[Compiler]) -> None:
    script = tmp_path / "mortal"
    script.write_text("#!/bin/sh\nkill -9 $$\n")
    script.chmod(0o755)
    compiler[0] = Compiler((str(script),), "1", cross=False)
    with pytest.raises(EngineError, match=r"mortal was ended by SIGKILL; .*memory"):
        compile_library("int x;", host_isa(), room=tmp_path / "cache")


def test_no_compiler_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain.shutil, "which", lambda _: None)
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match="native"):
        find_compiler("mips")


def test_the_environment_names_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = find_compiler()
    script = tmp_path / "mine"
    script.write_text(f'#!/bin/sh\nexec {usual.command[0]} "$@"\n')
    script.chmod(0o755)
    before = toolchain.build_version(host_isa())
    monkeypatch.setenv("CC", f"{script} -DSEVEN=7")
    assert find_compiler().command == (str(script), "-DSEVEN=7")
    assert toolchain.build_version(host_isa()) != before
    compile_library("int seven(void) { return SEVEN; }", host_isa(), room=tmp_path / "cache")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(EngineError, match="CC is 'no-such-compiler'"):
        find_compiler()
    monkeypatch.setenv("CC", "gcc '")
    with pytest.raises(EngineError, match="which is no command"):
        find_compiler()


def test_a_header_that_was_parsed_before_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = host_isa().prelude + "vf twice(vf x) { return x + x; }"
    first = compile_library(text, host_isa(), room=tmp_path / "first").read_bytes()
    monkeypatch.setattr(toolchain, "_parsed", lambda *_: tmp_path / "gone.h")
    assert compile_library(text, host_isa(), room=tmp_path / "second").read_bytes() == first


def test_libraries_make_room_for_newer_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_cache(tmp_path, monkeypatch)
    compile_library("int one(void) { return 1; }", host_isa())
    monkeypatch.setattr(toolchain, "_MOST_BYTES", 1)
    newest = compile_library("int one(void) { return 2; }", host_isa())
    assert list(newest.parents[1].iterdir()) == [newest.parent]

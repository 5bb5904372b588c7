"""Pragmas and attributes, by name: those known to leave values alone, and all others as hazards.

Neither is a cursor of libclang, or not always: pragmas are read from the text, attributes that clang does not
know from its warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tensmith.formula.expr import SourcePosition
from tensmith.lifting.source.c.macros import DIRECTIVE

# Attributes of functions, variables, types and statements, without underscores and namespaces.
ATTRIBUTES = {
    "what the optimizer may do": "always_inline noinline gnu_inline flatten hot cold artificial noclone "
    "noipa nomerge nothrow leaf likely unlikely fallthrough pure const noreturn returns_nonnull nonnull "
    "malloc alloc_size alloc_align assume_aligned no_stack_protector stack_protect target target_clones "
    "vectorcall sysv_abi ms_abi min_vector_width minsize optnone opencl_unroll_hint",
    "what the compiler may say": "unused used maybe_unused nodiscard warn_unused_result deprecated "
    "unavailable diagnose_if format sentinel warning error access carries_dependency nodebug",
    "where code and data lie": "aligned section visibility dllexport dllimport externally_visible "
    "no_instrument_function no_reorder retain internal_linkage abi_tag type_visibility",
    "what sanitizers look at": "no_sanitize no_sanitize_address no_sanitize_thread no_sanitize_undefined "
    "no_address_safety_analysis",
    "what pointers promise": "restrict may_alias noescape nullable",
}
HARMLESS_ATTRIBUTES = frozenset(name for names in ATTRIBUTES.values() for name in names.split())

# Pragmas, by how their words begin.
HARMLESS = (
    *("once", "mark", "region", "endregion", "message", "warning", "error", "unroll", "nounroll", "ivdep"),
    *("simd", "vector", "novector", "GCC diagnostic", "GCC system_header", "GCC poison", "GCC warning"),
    *("GCC error", "GCC dependency", "GCC ivdep", "GCC unroll", "GCC visibility", "GCC push_options"),
    *("GCC pop_options", "GCC target", "clang diagnostic", "clang loop", "clang attribute pop"),
    *(
        "clang system_header",
        "STDC FP_CONTRACT",
        "STDC CX_LIMITED_RANGE",
        "STDC FENV_ACCESS OFF",
        "loop_count",
    ),
    *("clang fp contract", "intrinsic", "function", "inline_depth", "inline_recursion", "comment"),
    *("push_macro", "pop_macro"),  # clang follows them
)
# Directives of OpenMP that mean the loop as it stands, and clauses that leave it so: a race has no meaning.
DIRECTIVES = (
    *("parallel for simd", "parallel for", "for simd", "for", "simd", "declare simd", "atomic", "critical"),
    *("ordered", "unroll", "loop"),
)
CLAUSES = (
    *("schedule", "num_threads", "collapse", "shared", "default", "simdlen", "safelen", "aligned", "nowait"),
    *("if", "proc_bind", "reduction", "ordered", "update", "write", "read", "capture", "seq_cst", "relaxed"),
    *("partial", "full", "uniform", "notinbranch", "inbranch"),
)
OPTION = re.compile(r'"?-?(O[0-3s]?|[0-3]|f?(no-)?(unroll-|tree-|inline)[\w-]*)"?')


@dataclass(frozen=True)
class Hazard:
    """What may change the meaning of the function around it, or of all functions (`everywhere`)."""

    file: str
    position: SourcePosition
    why: str
    everywhere: bool = False


def harmless_attribute(name: str) -> bool:
    """Whether an attribute changes no value: `__hot__`, `gnu::hot` and `hot` are one."""
    return plain_attribute(name) in HARMLESS_ATTRIBUTES


def plain_attribute(name: str) -> str:
    name = name.rsplit("::", 1)[-1].strip()
    return name[2:-2] if name.startswith("__") and name.endswith("__") else name


def attribute_hazard(name: str) -> str:
    return f"the attribute {plain_attribute(name)} may change what is computed: remove it"


def pragmas(file: str, stripped: str) -> Iterator[Hazard]:
    """The pragmas of a text without comments that are not known to be harmless."""
    for number, line in enumerate(stripped.split("\n"), 1):
        directive = DIRECTIVE.match(line)
        defining = directive is not None and directive[1] == "define"
        found: Iterable[tuple[int, str]] = ()
        if directive is not None and directive[1] == "pragma":
            found = [(line.index(directive[0].strip()[0]) + 1, directive[2])]
        elif "_Pragma" in line or "__pragma" in line:
            found = [
                (at.start() + 1, written(line[at.end() :])) for at in re.finditer(r"_?_[Pp]ragma\b", line)
            ]
        for column, words in found:
            why = pragma_hazard(" ".join(words.split()))
            if why:
                yield Hazard(file, SourcePosition(number, column), why, defining)


def written(rest: str) -> str:
    """The words of _Pragma("words") and __pragma(words)."""
    literal = re.match(r'\s*\(\s*L?"((?:[^"\\]|\\.)*)"\s*\)', rest)
    if literal is not None:
        return re.sub(r"\\(.)", r"\1", literal[1])
    plain = re.match(r"\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)", rest)
    return plain[1] if plain is not None else "?"


def pragma_hazard(words: str) -> str:
    """Why a pragma may change a function's meaning; "" where it is known not to."""
    if not words or any(re.match(rf"{re.escape(known)}(?!\w)", words) for known in HARMLESS):
        return ""
    level = re.fullmatch(r"GCC optimize\s*\(?([^()]*)\)?", words)
    if level is not None and all(OPTION.fullmatch(each) for each in re.split(r"[\s,]+", level[1]) if each):
        return ""
    if re.match(r"warning\s*\(", words):
        return ""
    first = re.match(r"\w+(?: \w+)?", words)
    name = first[0] if first is not None else words[:20]
    if words.startswith("omp ") or words == "omp":
        return openmp_hazard(words[4:])
    return f"#pragma {name} may change what is computed: remove it"


def openmp_hazard(words: str) -> str:
    """Why OpenMP would compute something else than the loop as it stands."""
    for known in DIRECTIVES:
        if re.match(rf"{known}(?!\w)", words):
            rest = words[len(known) :]
            break
    else:
        return f"#pragma omp {words.split('(')[0][:30]} runs code in another way: write the loop without it"
    if known == "critical":
        rest = re.sub(r"^\s*\(\w*\)", "", rest)
    flat, previous = rest, ""
    while flat != previous:
        previous, flat = flat, re.sub(r"\([^()]*\)", " ", flat)
    for clause in re.findall(r"\w+", flat):
        if clause not in CLAUSES:
            reason = f"#pragma omp {known} with {clause} gives the threads variables of their own"
            return f"{reason}: declare them inside the loop"
    return ""

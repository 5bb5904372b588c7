"""The lift road: a source file in; for each function a proved tensor program, its files and its certificate.

read -> summarize -> tensorize -> obligations -> discharge -> second reader -> emit -> certificate
"""

from __future__ import annotations

import importlib.util
import keyword
import time
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from tensmith.errors import TensmithError, UsageError, our_fault
from tensmith.files import sha256_bytes, sha256_file, write_bytes
from tensmith.formula.expr import SourcePosition, numbered_from_zero
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.lifting.conditions import obligations, program_obligations
from tensmith.lifting.conditions.admitted import trivial
from tensmith.lifting.conditions.certify import certify
from tensmith.lifting.limit import TimeUp, limited
from tensmith.lifting.loops import Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.result import LiftResult, Work
from tensmith.lifting.second import SecondReader
from tensmith.lifting.source.clipped import with_whole_windows
from tensmith.lifting.source.kept import with_kept_elements
from tensmith.lifting.summarize import summarize
from tensmith.lifting.summarize.plan import at_least_text
from tensmith.lifting.summary import Requirement, Summary
from tensmith.lifting.tensorize import tensorize
from tensmith.lifting.unproved import unproved
from tensmith.progress import Progress, silent
from tensmith.verify.obligation import Obligation, Verdict
from tensmith.verify.solve import discharge

if TYPE_CHECKING:
    from tensmith.lifting.emit import Emitter

Settle: TypeAlias = Callable[[Sequence[Obligation]], list[Verdict]]

_FORMS, _PROOF = 4.0, 20.0  # seconds of processor time for one function
_OF_MODULES = ("__builtins__", "__cached__", "__debug__", "__file__", "__path__")
_SIZE_BITS = 32
_AT_ONCE = 8  # obligations between two looks at the outcome
_C_SUFFIXES = {".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh"}


def derive_or_search(function: Function, seconds: float = 1.0) -> Summary:
    """The closed forms of a function by derivation, as it is or with whole windows, else by a search of some
    seconds; a refusal is that of derivation as it is."""
    whole = with_whole_windows(function)
    try:
        found = summarize(function)
    except Refusal:
        other = _with_windows(function, whole) or _searched(function, seconds)
        if other is None:
            raise
        found = other
    return found if whole == function else _of_bounded_sizes(found)


def _with_windows(function: Function, whole: Function) -> Summary | None:
    with suppress(Refusal, TimeUp):
        return None if whole == function else summarize(whole)
    return None


def _searched(function: Function, seconds: float) -> Summary | None:
    from tensmith.lifting.synthesis.closed import complete

    with suppress(TimeUp):
        return complete(function, seconds, _becomes_a_program)
    return None


def _of_bounded_sizes(summary: Summary) -> Summary:
    """Requires of numbers that windows are as long as, and no array that is there, that their products fit
    32 bits.

    The source leaves out most of such a window, and takes any number; what is written computes with its
    length, and counts up to it.
    """
    degrees: dict[str, int] = {}
    for size in summary.sizes:
        degree = max((sum(power for _, power in monomial) for monomial, _ in size.poly.terms), default=0)
        degrees |= {name: max(degree, degrees.get(name, 0)) for name in size.poly.symbols()}
    held = {requirement.poly for requirement in summary.requires}
    lengths = [each.poly for each in summary.requires if each.kind == "length" and each.poly is not None]
    found = []
    for name, type_ in summary.function.fields:
        number, degree = Poly.symbol(name), degrees.get(name, 1)
        wide = isinstance(type_, MachineType) and (type_.bits or 64) > _SIZE_BITS // degree
        if wide and name in degrees and number not in lengths:
            largest = int(((1 << _SIZE_BITS - 1) - 1) ** (1 / degree))
            found.append(Poly.of(largest) - number)
            if number not in held:
                found.append(number + largest)
    bounds = (Requirement("at_least", at_least_text(poly), poly) for poly in found)
    return replace(summary, requires=(*summary.requires, *bounds))


def _becomes_a_program(summary: Summary) -> bool:
    try:
        tensorize(summary)
    except Refusal:
        return False
    return True


def emitter_of(target: str) -> Emitter:
    """The emitter of a target; UsageError if there is none. A target of ours is found without reading the
    modules of all others."""
    from tensmith.lifting.emit import EMITTERS

    home = f"tensmith.lifting.emit.{target}"
    if target.isidentifier() and importlib.util.find_spec(home) is not None:
        importlib.import_module(home)
    return EMITTERS[target]


def read_source(path: Path) -> list[Function | Refusal]:
    """The functions of a file in the language of its suffix."""
    if path.suffix == ".py":
        from tensmith.lifting.source.python.read import read_python

        return read_python(path)
    if path.suffix in _C_SUFFIXES:
        from tensmith.lifting.source.c.read import read_c

        return read_c(path)
    raise UsageError(
        f"{path} is no C, C++ or Python file by its name; give it one of .py {' '.join(sorted(_C_SUFFIXES))}"
    )


def lift_file(
    path: Path,
    function: str | None = None,
    targets: Sequence[str] = ("numpy",),
    output: Path | None = None,
    progress: Progress | None = None,
    run: bool = True,
) -> list[LiftResult]:
    """Lifts every function of a file, or the one named, in the order of the file.

    run: whether the source's functions are run beside the programs that are proved (`second`).

    With `output`, files are written there (each in a folder of its target's name if there are several
    targets) and certificates beside them. One function's refusal never stops the others. Raises TensmithError
    for a file that cannot be read at all, UsageError for a function that is not in it.
    """
    tell = progress or silent
    tell(f"reading {path}")
    found = read_source(path)
    if function is not None:
        named = [entry for entry in found if name_of(entry) == function]
        if not named:
            known = ", ".join(map(name_of, found)) or "none"
            raise UsageError(f"{path} has no function '{function}'; its functions: {known}")
        found = named
    names = [name_of(entry) for entry in found]
    found = [entry if names.count(name_of(entry)) == 1 else _ambiguous(entry) for entry in found]
    functions = [entry for entry in found if isinstance(entry, Function)]
    reader = SecondReader(path, functions) if run and functions else None
    return [lift_function(entry, targets, output, tell, reader) for entry in found]


def _ambiguous(entry: Function | Refusal) -> Refusal:
    name = name_of(entry)
    reason = f"several functions are named {name}, and so would be their files; rename all but one"
    return entry if isinstance(entry, Refusal) else Refusal(reason, entry.position, name)


def lift_function(
    entry: Function | Refusal,
    targets: Sequence[str] = ("numpy",),
    output: Path | None = None,
    progress: Progress | None = None,
    reader: SecondReader | None = None,
    settle: Settle | None = None,
) -> LiftResult:
    """The rest of the road for one function that was read; without a reader, its source is not run.

    settle: what gives verdicts on obligations in the place of solvers.
    """
    began, work = time.perf_counter(), Work()
    name = name_of(entry)
    start = entry.position
    tell = progress or silent
    try:
        if isinstance(entry, Refusal):
            raise entry
        work.function = entry
        with numbered_from_zero():
            result = _lift(entry, targets, work, tell, reader, settle or discharge)
        if output is not None:
            result = write_result(result, output)
    except Refusal as refusal:
        where = refusal.position if refusal.position.line else start
        result = _refused(name, refusal.reason, where, work)
    except TimeUp:
        what = "finding closed forms" if work.lifted is None else "the proof"
        reason = f"{what} took too long and was given up; split the function into smaller ones"
        result = _refused(name, reason, start, work)
    except TensmithError as error:
        if error.exit_code == 2:
            raise
        result = _refused(name, str(error), start, work)
    except Exception as error:
        result = _refused(name, our_fault(error), start, work)
    return replace(result, seconds=time.perf_counter() - began)


def name_of(entry: Function | Refusal) -> str:
    """The name of what was read, or was refused."""
    return entry.function if isinstance(entry, Refusal) else entry.name


def _refused(name: str, reason: str, where: SourcePosition, work: Work) -> LiftResult:
    summary = work.summary
    return LiftResult(
        name,
        "refused",
        reason,
        where.line,
        where.column,
        summary.arithmetic if summary else "",
        tuple(entry.text for entry in summary.requires) if summary else (),
        summary.assumes if summary else (),
        len(work.verdicts),
        work=work,
    )


def _lift(
    function: Function,
    targets: Sequence[str],
    work: Work,
    tell: Progress,
    reader: SecondReader | None,
    settle: Settle,
) -> LiftResult:
    """Summary, program, proof, second reading and texts of one function."""
    name = function.name
    if not name.isidentifier() or keyword.iskeyword(name) or not _is_name(name):
        raise Refusal(f"{name!r} cannot name a file and a function; rename it", function.position)
    tell(f"{name}: closed forms")
    with limited(_FORMS):
        work.summary = summary = _summary(function)
        work.lifted = lifted = tensorize(summary)
    tell(f"{name}: proof")
    with limited(_PROOF):
        _prove(settle, work, [*obligations(summary), *program_obligations(lifted, summary)])
        notes = trivial(summary, lifted)
    if notes:
        work.lifted = lifted = replace(lifted, notes=notes)
    if reader is not None:
        tell(f"{name}: beside its source")
        work.checked = reader.check(lifted)
    tell(f"{name}: {', '.join(targets)}")
    written = {target: emitter_of(target).emit(lifted) for target in targets}
    said = (*notes, *(note for files in written.values() for note in files.notes))
    return LiftResult(
        name,
        "proved",
        "",
        function.position.line,
        function.position.column,
        lifted.arithmetic,
        tuple(dict.fromkeys(entry.text for entry in lifted.requires)),
        tuple(dict.fromkeys(lifted.assumes)),
        len(work.verdicts),
        notes=tuple(dict.fromkeys(said)),
        program=str(lifted.program),
        emitted={target: files.files for target, files in written.items()},
        work=work,
    )


def _summary(function: Function) -> Summary:
    """The closed forms; of the function with elements in variables where it has none as it is."""
    try:
        return derive_or_search(function)
    except Refusal:
        kept = with_kept_elements(function)
        if kept == function:
            raise
        with suppress(Refusal, TimeUp):
            return derive_or_search(kept)
        raise


def _is_name(name: str) -> bool:
    """Whether Python reads a name as it is spelt, and modules have no other use for it."""
    return unicodedata.normalize("NFKC", name) == name and name not in {*dir(ModuleType("")), *_OF_MODULES}


def _prove(settle: Settle, work: Work, asked: Sequence[Obligation]) -> None:
    """Discharges obligations until one fails, which refuses the function."""
    verdicts: list[Verdict] = []
    for start in range(0, len(asked), _AT_ONCE):
        verdicts += settle(asked[start : start + _AT_ONCE])
        work.verdicts = verdicts
        failed = next((verdict for verdict in verdicts[start:] if verdict.status != "proved"), None)
        if failed is not None:
            assert work.function is not None
            raise unproved(failed, work.function)
    if not verdicts:
        raise Refusal("there is nothing to prove, so nothing is known")


def write_result(result: LiftResult, output: Path) -> LiftResult:
    """Writes the certificate and then the files of a proved function; each appears whole or not at all.

    Nothing is written if a file would lie outside of the folder or in the place of another that is no earlier
    one of this function, whose certificate would lie there.
    """
    certificate = output / f"{result.name}.cert"
    function, files = result.work.function, dict[Path, bytes]()
    for target, contents in result.emitted.items():
        folder = output / target if len(result.emitted) > 1 else output
        for name, content in contents.items():
            path = folder / name
            if not path.resolve().is_relative_to(folder.resolve()):
                raise Refusal(f"the file {name} would lie outside of {folder}; rename the function")
            if function is not None and path.resolve() == Path(function.file).resolve():
                raise Refusal(f"{path} is the source itself; write to another folder with --output")
            other = path.is_file() and sha256_file(path) != sha256_bytes(content)
            if other and not certificate.exists():
                raise Refusal(f"{path} is there already and is another file; write elsewhere with --output")
            files[path] = content
    work = result.work
    assert work.summary is not None and work.lifted is not None, "certificates are of proved functions"
    claims = certify(certificate, work.summary, work.lifted, work.verdicts, work.checked)
    for path, content in files.items():
        write_bytes(path, content)
    return replace(result, files=(*files, *claims))

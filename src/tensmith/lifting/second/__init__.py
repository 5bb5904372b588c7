"""The second reader: a source's own function run beside the lifted program.

A proof is about the source as the front end read it. Here the source's own language has the word: functions
are cut out of the file with what they need, compiled (C and C++, with sanitizers) or interpreted (Python) in
a process that may do nothing else, and called on inputs at the boundaries of every requirement.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensmith.errors import TensmithError
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.second.checked import Checked
from tensmith.lifting.second.values import SourceFunction

INPUTS = 128  # drawn for one function


class SecondReader:
    """The functions of one file, ready to be run beside what they are lifted to, each on `inputs` drawn."""

    def __init__(self, path: Path, functions: Sequence[Function], inputs: int = INPUTS) -> None:
        self.path, self.functions, self.inputs = path, functions, inputs

    @functools.cached_property
    def sources(self) -> Mapping[str, SourceFunction]:
        """The functions that can be called, by name; compiled when the first is asked for."""
        if self.path.suffix == ".py":
            from tensmith.lifting.second.interpreted import Interpreted

            return Interpreted(self.path, self.functions)  # type: ignore[return-value]
        from tensmith.lifting.second.compiled import CompiledSource

        return CompiledSource(self.path, self.functions)  # type: ignore[return-value]

    @functools.cached_property
    def programs(self) -> Any:
        """Where emitted code runs; it starts at once and is not waited for."""
        from tensmith.lifting.second.interpreted import Interpreter

        found = Interpreter(numpy=True)
        found.start()
        return found

    def check(self, lifted: Lifted) -> Checked:
        """Runs program and source. Raises Refusal with the input on which they differ."""
        from tensmith.lifting.emit.numpy import NumPy
        from tensmith.lifting.second.inputs import Sampler
        from tensmith.lifting.second.interpreted import emitted_function
        from tensmith.lifting.second.judge import Difference, LiftJudge

        function = lifted.function
        try:
            programs = self.programs
            source = self.sources[function.name]
            files = NumPy().emit(lifted).files
        except (TensmithError, Refusal) as error:
            return Checked(0, "", str(error))
        judge = LiftJudge(lifted, source, emitted_function(programs, function, files))
        try:
            count = judge.all(Sampler(lifted, 0).boundaries(self.inputs))
        except Difference as difference:
            raise Refusal(
                f"the lifted program is not what the source computes: {difference.text}; this is a fault of "
                "ours or of an assumption: please report it",
                function.position,
            ) from difference
        by = str(getattr(source, "by", ""))
        return Checked(count, by, "" if count else "no input met what it requires within time and memory")

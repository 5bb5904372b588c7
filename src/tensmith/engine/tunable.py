"""What engines of tensmith's kernels share: their settings, and how kernels are chosen by them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tensmith.backend.native.choose.choosers import ANY, FAMILIES, Choosing
from tensmith.backend.native.choose.precision import PRECISIONS, refusal
from tensmith.backend.native.choose.tuning import TUNINGS, UNTUNED, chosen_by, timings_revision
from tensmith.engine.base import CompilingEngine, require
from tensmith.engine.compiled import code_revision
from tensmith.errors import EngineError
from tensmith.kernel.isa import host_isa
from tensmith.kernel.toolchain import compiler_file, find_compiler


class TunableEngine(CompilingEngine):
    """An engine whose kernels are chosen by `tuning`, `precision` and `algorithm`."""

    settings = MappingProxyType({
        "tuning": TUNINGS, "precision": PRECISIONS, "algorithm": (ANY, *FAMILIES)
    })  # fmt: skip

    def start(self) -> None:
        require(self)
        code_revision()  # asked for once a process, and no part of what a model takes

    def completed(self, settings: Mapping[str, str]) -> dict[str, str]:
        """As any engine's; what other precisions than floats take is estimated, never tuned."""
        found = super().completed(settings)
        precision = found["precision"]
        if reason := refusal(precision, host_isa()):
            raise EngineError(f"{self.name} has no precision {precision} here: {reason}")
        return found if precision == PRECISIONS[0] else {**found, "tuning": UNTUNED}

    def compiler(self) -> str:
        """What the C compiler calls itself; EngineError if the engine cannot run here."""
        require(self)
        try:
            return " ".join(find_compiler().identity)
        except EngineError:  # whoever compiles is told
            return "a C compiler that does not answer"

    def revision(self, **settings: str) -> str:
        """The timings of kernels, and the C compiler."""
        return f"{timings_revision(settings['tuning'])} {compiler_file()}"

    def chooser(self, settings: Mapping[str, str]) -> Choosing:
        """How kernels are chosen."""
        return chosen_by(settings["tuning"], settings["precision"], settings["algorithm"])

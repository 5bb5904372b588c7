"""Search for closed forms, where derivation leaves a hole; what it finds is proved like everything else.

examples   exact runs of functions and terms on small random inputs
grammar    what may be tried
enumerate  smallest first, one term for each behaviour
closed     recurrences that no rule knows
trees      the source's expression trees
scratch    whole kernels from nothing, for the ablation of the three optimizations

The algorithm is that of Tenspiler (Qiu et al., 2024): type-directed, guided by the source's expression trees,
with growing bounds, blocking what is refuted.
"""

from tensmith.lifting.synthesis.closed import complete
from tensmith.lifting.synthesis.enumerate import Effort
from tensmith.lifting.synthesis.grammar import SynthesisSettings
from tensmith.lifting.synthesis.scratch import synthesise

__all__ = ["Effort", "SynthesisSettings", "complete", "synthesise"]

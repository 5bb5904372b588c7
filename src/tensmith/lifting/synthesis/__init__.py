"""Search for closed forms, where derivation leaves a hole; what it finds is proved like everything else.

examples   exact values of terms on small random inputs
grammar    what may be tried
enumerate  smallest first, one term for each behaviour
closed     recurrences that no rule knows

The algorithm is that of Tenspiler (Qiu et al., 2024): type-directed, guided by the source's expression trees,
with growing bounds, blocking what is refuted. benchmarks/lifting/scratch searches whole kernels by it.
"""

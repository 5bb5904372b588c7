"""Formulas as C: what everything written in C, OpenCL C or CUDA C from formulas shares.

typed    machine types for formulas: in which arithmetic each number is computed
dialect  what the languages write differently
names    identifiers, literals, subscripts
scalar   expressions as C expressions and statements
helpers  the static functions that scalar arithmetic calls
loops    loop nests that compilers vectorize
"""

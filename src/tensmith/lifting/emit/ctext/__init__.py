"""Loops over scalar expressions as C11 text: what every target written in C shares.

names    identifiers, element types, literals
scalar   expressions as C expressions and statements
helpers  the static functions that scalar arithmetic calls
loops    a step of a plan as a loop nest that compilers vectorize
"""

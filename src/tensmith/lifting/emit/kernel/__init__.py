"""A lifted program as loops over scalar expressions: what the targets that are written as loops share.

expr      one element of a tensor as a typed expression over loop variables
elements  each TensIR op as the expression of its element
plan      which values are stored and which are inlined into their readers
"""

"""A lifted program as loops over scalar expressions: what the targets that are written as loops share.

elements  each TensIR op as the typed expression of its element
plan      which values are stored and which are inlined into their readers
body      that plan as statements of C
"""

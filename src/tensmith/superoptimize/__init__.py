"""`tensmith.optimize`: NumPy functions as programs, rewritten by exact rules, run as is fastest here.

admit      the text of a function, node by node: what it may name, read and do, before it is traced
trace      arrays that write down what is done to them, as TensIR
meanings   what NumPy's functions are in TensIR: numpy_table, numpy_shapes, numpy_linear
domain     what the caller promises of values
forms      equal programs, by exact rules, cheapest first
text       a program as NumPy statements, and C where loops are fused
kernels    several values of a program as one C function
compiled   a program that can be called, and whether it agrees with the original
dispatch   which calls a program answers, and which the original
loops      functions that are lifted, where they are not traced
pipeline   all of it for one function and one set of arguments
decorator  the door: which call goes which way
"""

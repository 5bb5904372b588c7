"""Programs for massively parallel devices: kernels in a dialect that is OpenCL C and CUDA C.

definitions   each value of a program as the formula of its element, read from flat memory
reductions    reductions inside formulas become values of their own, but for one that a kernel computes
fusion        definitions that one kernel computes, element by element
contraction   sums of products as tiles of matrices
text          formulas as expressions of C
kernels       the three shapes of kernel: a thread an element, a group an element, a group a tile
plan          kernels in order, memory and constants
dialect       what makes the dialect OpenCL C, or CUDA C
"""

"""Gemmini: matrix products and sums on the 16 x 16 mesh, against the public ISA macros; the rest in plain C.

find    which steps of a plan the mesh can run
text    the C functions that drive it
"""

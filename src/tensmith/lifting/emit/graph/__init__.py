"""A lifted function as one graph: sizes, views and write-backs are nodes too, for targets without statements.

build        nodes and constants, each made once
views        boxes of arrays as slices, reshapes and gathers, and their way back
contraction  Einstein sums as matrix products
kernels      ops in the element types that run-times have kernels for
"""

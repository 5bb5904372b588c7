"""TPC-C: kernels for Gaudi's vector cores against the public intrinsics, and the host code around them.

lanes   expressions as intrinsics on vectors of 64 lanes
kernel  a step of a plan as a kernel over an index space
glue    how a kernel's index space covers its tensors
host    what packs arrays into tensors, launches kernels, and puts results back
"""

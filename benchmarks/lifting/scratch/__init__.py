"""Whole kernels by search alone, for the ablation of the search's three optimizations."""

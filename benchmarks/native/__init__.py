"""The native engine: whole networks, layers, kernels; their speed, memory and answers."""

from benchmarks import use_tests

use_tests("", "kernel", "backend/native")

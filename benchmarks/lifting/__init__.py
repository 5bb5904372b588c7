"""Lifted loops, of tests/lifting/kernels and generated: coverage, correctness, speed. One thread."""

import os

from benchmarks import use_tests

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
use_tests("", "lifting")

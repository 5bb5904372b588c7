"""Exact rules: wrong ones are refuted, right ones compute the same."""

from benchmarks import use_tests

use_tests("rewrite/exact")

"""What must not happen: forged certificates pass, files crash a command, a kill destroys a run."""

from benchmarks import use_tests

use_tests("", "verify", "deploy", "backend/packed")

"""Networks and damaged files come from the benchmarks, whose folder goes on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

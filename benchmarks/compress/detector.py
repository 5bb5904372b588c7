"""A detector of persons, compressed within half a point of average precision.

    python -m benchmarks.compress.detector [--time-budget 10m] [--folder build/detector] [--output FILE]

FastestDet on 350 images of COCO that show one annotated person; the search sees 150 others.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import DATA, ROOT, parts
from benchmarks.compress.asked import Asked, compressed_as_asked

ASKED = Asked(budget=0.5, faster=2.0, smaller=4.0)


def main() -> int:
    """1 where less was reached than was asked for."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "detector")
    parser.add_argument("--time-budget", default="10m")
    options = parser.parse_args()

    def compressed(name: str) -> parts.Found:
        return compressed_as_asked(
            DATA / "models" / f"{name}.onnx", f"coco:{DATA / 'coco_person'}", options.folder,
            options.time_budget, ASKED, "--decode", "fastestdet", "--preprocess", "unit-bgr",
        )  # fmt: skip

    settings = {"bench": "detector", "time_budget": options.time_budget}
    return parts.main(["fastestdet_coco"], compressed, options.output, settings)


if __name__ == "__main__":
    sys.exit(main())

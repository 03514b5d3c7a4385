"""``make kep-table``: the proposal's table beside Zoneward's, cell by cell; exit status 1 if two decimals differ."""

import json
import subprocess
import sys
from typing import Final

from bench.measuring import ZONEWARD

COLUMNS: Final = ("total", "inZone", "maxOverload", "meanOverload", "overload", "slices")
PUBLISHED: Final = {
    "random": (72.48, 38.84, 100.00, 100.00, 100.00, 100.00),
    "local-kep-tool": (86.71, 84.33, 97.87, 98.62, 98.25, 63.10),
    "local-shared": (86.89, 84.13, 98.73, 99.15, 98.94, 63.06),
    "local-weighted": (84.34, 83.90, 100.00, 100.00, 100.00, 43.88),
    "local-opt": (84.89, 83.74, 99.31, 99.64, 99.47, 49.45),
}
"""KEP-2004 § Test Results, "Results of large dataset, 39+ million inputs". The tool's own ``local`` made it."""


def main() -> int:
    """Simulate, print every cell as ``published actual``, and mark those that differ."""
    command = [*ZONEWARD, "simulate", "-d", "kep", "-a", ",".join(PUBLISHED), "-o", "json"]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    actual = {mean["algorithm"]: mean for mean in result["means"]}
    print(f"{result['dataset']}: {result['rows']:,} inputs; in each cell what KEP-2004 prints, then the result here")
    print(f"{'':<16}" + "".join(f"{column:>18}" for column in COLUMNS))
    differ = 0
    for algorithm, published in PUBLISHED.items():
        cells = []
        for column, expected in zip(COLUMNS, published, strict=True):
            pair = f"{expected:.2f}", f"{actual[algorithm][column]:.2f}"
            differ += pair[0] != pair[1]
            cells.append(f"{'' if pair[0] == pair[1] else '*'}{pair[0]} {pair[1]}")
        print(f"{algorithm:<16}" + "".join(f"{cell:>18}" for cell in cells))
    print(f"{differ} cells differ (*)" if differ else f"equal in all {len(PUBLISHED) * len(COLUMNS)} cells")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m bench [NAME...]``: run the benchmarks, print every figure, and fail where one misses what it promises."""

import sys
from collections.abc import Callable, Iterator

from bench import allocations, client, commands, csv_files, decisions, sandbox, simulations, watch
from bench.measuring import Figure

BENCHMARKS: dict[str, Callable[[], Iterator[Figure]]] = {
    "start": commands.start,
    "allocation": allocations.allocations,
    "decision": decisions.one_changed,
    "plan-json": commands.plan_json,
    "plan-yaml": commands.plan_yaml,
    "compare": commands.compare,
    "csv": csv_files.csv_files,
    "client": client.client,
    "watch": watch.watch,
    "sandbox": sandbox.sandbox,
    "simulate": simulations.kep,
    "simulate-ns": simulations.inputs,
    "simulate-parquet": simulations.parquet,
}


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all. Exit status 1 where a figure misses."""
    unknown = set(names) - BENCHMARKS.keys()
    if unknown:
        print(f"expected one of {', '.join(BENCHMARKS)}, got {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    missed = 0
    for name in names or BENCHMARKS:
        for figure in BENCHMARKS[name]():
            print(figure, flush=True)
            missed += not figure.holds
    return 1 if missed else 0


sys.exit(main(sys.argv[1:]))

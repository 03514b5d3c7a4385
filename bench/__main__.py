"""``python -m bench [NAME...]``: run the benchmarks, print every figure, and fail if a figure misses its limit."""

import sys

from bench.children import results_of
from bench.measuring import Figure

BENCHMARKS: dict[str, str] = {
    "start": "commands.start",
    "incremental": "incremental.one_flips",
    "balanced": "balanced.decisions",
    "balanced-sample": "balanced_sample.check",
    "plan-json": "commands.plan_json",
    "plan-yaml": "commands.plan_yaml",
    "plan-large": "commands.plan_large",
    "advise": "commands.advise",
    "compare": "commands.compare",
    "explain": "explain.explain",
    "check": "checks.check",
    "csv": "simulations.csv_files",
    "client": "client.client",
    "watch": "watch.watch",
    "sandbox": "sandbox.sandbox",
    "simulate": "simulations.kep",
    "simulate-balanced": "simulations.balanced",
    "simulate-ns": "simulations.inputs",
    "simulate-parquet": "simulations.parquet",
    "controller-syncs": "controller_syncs.syncs",
    "controller-fairness": "controller_fairness.latencies",
    "controller-flips": "controller.flips",
    "controller-rollouts": "controller.rollouts",
    "controller-services": "controller.many_services",
    "controller-large": "controller.large",
    "overlay": "overlay.costs",
    "meter": "meters.meter",
    "ownership": "ownership.shared_addresses",
    "proxy-start": "proxy_start.start",
    "proxy-changes": "proxy_changes.changes",
    "proxy-rate": "proxy_services.rate",
    "proxy-large": "proxy_services.large",
    "proxy-addresses": "proxy_services.addresses",
    "proxy-connections": "proxy_connections.connections",
    "proxy-affinity": "proxy_services.affinity",
    "proxy-node": "proxy_services.node_of_many",
}
ALONE = {name for name in BENCHMARKS if name.startswith("proxy-")} - {"proxy-changes", "proxy-node"}
"""Benchmarks that run in a separate network namespace; others that need namespaces create them."""
GROUPS: dict[str, tuple[str, ...]] = {
    tower: tuple(name for name in BENCHMARKS if name.startswith(f"{tower}-")) for tower in ("controller", "proxy")
}
"""Groups of benchmarks by name."""


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all. Exit status 1 if a figure misses its limit."""
    unknown = set(names) - BENCHMARKS.keys() - GROUPS.keys()
    if unknown:
        known = ", ".join((*BENCHMARKS, *GROUPS))
        print(f"expected one of {known}, got {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    missed = 0
    for name in (member for given in names or BENCHMARKS for member in GROUPS.get(given, [given])):
        for figure in (Figure(*values) for values in results_of(BENCHMARKS[name], alone=name in ALONE)):
            print(figure, flush=True)
            missed += not figure.holds
    return 1 if missed else 0


sys.exit(main(sys.argv[1:]))

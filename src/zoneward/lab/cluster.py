"""The Services of a cluster as a dataset: what each algorithm would do to them."""

from collections.abc import Iterable

import numpy as np

from zoneward.kube.input_error import InputError
from zoneward.lab.datasets import Inputs, Named
from zoneward.routing.demand import Demand
from zoneward.routing.placement.homes import neediest
from zoneward.slices.plan import ServicePlan


def services(plans: Iterable[ServicePlan], demand: Demand) -> Named:
    """A row for each Service and address family whose traffic can be predicted; raises `InputError` for one zone.

    Endpoints count where they are. One outside the zones where traffic starts goes where subsetting would take it: to
    the zone in greatest need.
    """
    if len(demand.zones) < 2:
        raise InputError("--dataset cluster", f"expected ready nodes in two zones or more, got {len(demand.zones)}")
    names, rows = [], []
    for plan in plans:
        meta = plan.service.metadata
        for family in plan.families:
            if family.traffic is None or not family.traffic.served:
                continue
            located = {zone: each.located for zone, each in family.traffic.zones.items()}
            supply = [located.pop(zone, 0) for zone in demand.zones]
            total = sum(supply) + sum(located.values())
            for _ in range(sum(located.values())):
                supply[neediest(demand.weights, supply, total)] += 1
            suffix = f" {family.address_type[-1]}" if len(plan.families) > 1 else ""
            names.append(f"{meta.namespace}/{meta.name}{suffix}")
            rows.append(supply)
    if not rows:
        raise InputError("--dataset cluster", "expected Services whose traffic can be predicted, found none")
    supplies = np.array(rows, np.int64)
    demands = np.tile(np.array(demand.weights, np.int64), (len(rows), 1))
    return Named("cluster", Inputs(np.arange(len(rows)), demands, supplies, names))

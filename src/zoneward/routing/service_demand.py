"""Demand of single Services, from figures of where their traffic starts."""

from collections.abc import Collection
from fractions import Fraction

from zoneward.kube.demand import DemandFigures
from zoneward.kube.objects import ObjectKey
from zoneward.routing.phrases import counted, listed


def service_parts(figures: DemandFigures) -> dict[ObjectKey, dict[str, Fraction]]:
    """The parts of zones in the traffic of each Service, which add up to 1. A Service without traffic has none, so the
    demand of all Services stays its own.
    """
    parts = {}
    for key, amounts in figures.amounts.items():
        exact = {zone: Fraction(amount) for zone, amount in sorted(amounts.items()) if amount > 0}
        whole = sum(exact.values(), Fraction(0))
        if whole:
            parts[key] = {zone: amount / whole for zone, amount in exact.items()}
    return parts


def without_zones(figures: DemandFigures, *, known: Collection[str]) -> DemandFigures:
    """The figures of known zones: nobody sends from a zone without a Node. A note names the others."""
    known = set(known)
    unknown = sorted({zone for zones in figures.amounts.values() for zone in zones} - known)
    if not unknown:
        return figures
    amounts = {
        key: {zone: amount for zone, amount in zones.items() if zone in known} for key, zones in figures.amounts.items()
    }
    note = f"figures of {counted(len(unknown), 'zone')} without a Node count for nothing ({listed(tuple(unknown))})"
    return DemandFigures(amounts, (*figures.notes, note))


def unknown_services(figures: DemandFigures, *, known: Collection[ObjectKey]) -> tuple[ObjectKey, ...]:
    """The Services that have figures and are not known, by namespace and name."""
    return tuple(sorted(figures.amounts.keys() - set(known)))

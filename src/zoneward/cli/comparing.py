"""From options to comparisons: read the snapshot, choose Services and approaches, compare, sort."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from zoneward.cli.options import Note, Options
from zoneward.cli.planning import choose_for
from zoneward.kube.gc_tuning import without_gc
from zoneward.kube.input_error import InputError
from zoneward.slices.comparison import COMPARED, ComparedApproach, ServiceComparison, compare_service


@dataclass(frozen=True, slots=True)
class Compared:
    """Comparisons in the order that was asked for; ``notes`` are for standard error."""

    comparisons: tuple[ServiceComparison, ...]
    notes: tuple[Note, ...]


def compare_for(options: Options, *, only: Iterable[str], sort: str) -> Compared:
    """Compare approaches for the selected Services. Raises InputError or a usage error before anything is written."""
    approaches = _approaches(only)
    with without_gc():
        chosen = choose_for(options)
        comparisons = [
            comparison
            for service in chosen.services
            for comparison in compare_service(
                service,
                approaches=approaches,
                pods=chosen.snapshot.pods_of(service),
                slices=chosen.snapshot.slices_of(service),
                cluster_state=chosen.cluster_state,
                taken=chosen.taken.get(service.metadata.namespace, ()),
            )
        ]
    if sort != "name":
        comparisons.sort(key=lambda each: _largest_first(_ORDERS[sort](each)))
    return Compared(tuple(comparisons), chosen.notes)


def _approaches(only: Iterable[str]) -> tuple[str, ...]:
    """Those that were named, in the usual order; all where none was."""
    named = [name for names in only for name in names.split(",")]
    for name in named:
        if name not in COMPARED:
            raise InputError("--only", f"expected names of {', '.join(COMPARED)}, got {name!r}")
    return tuple(each for each in COMPARED if each in named) if named else COMPARED


def _largest_first(value: float | None) -> tuple[bool, float]:
    """Services of which nothing is known come last."""
    return (value is None, -value if value is not None else 0.0)


def _gain(comparison: ServiceComparison) -> float | None:
    best, today = comparison.best, comparison.today
    if best is None or best.score is None or today.score is None:
        return None
    return best.score - today.score


def _in_zone(candidate: ComparedApproach | None) -> float | None:
    return candidate.traffic.in_zone if candidate is not None and candidate.traffic is not None else None


_ORDERS: Final[dict[str, Callable[[ServiceComparison], float | None]]] = {
    "gain": _gain,
    "score": lambda each: each.best.score if each.best else None,
    "in-zone": lambda each: _in_zone(each.best),
    "overload": lambda each: each.today.traffic.max_overload if each.today.traffic else None,
}
"""What Services are sorted by; those that are alike stay in the order of their names."""

"""In which order slices are written, so that no endpoint is ever missing for a move of our own.

Additions go before removals: first what is created, then updates, then deletions, and among the updates one that takes
an endpoint in before the one that gives it away. Where slices exchange endpoints in a circle, one of them lists for a
moment what it has and what it will have, at the cost of one write more; or, where that would be too many or its ports
change, a new slice takes its place.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from zoneward.controller.sync_counts import Operation
from zoneward.kube.objects import Endpoint, EndpointSlice, Identity, ObjectMeta, identity
from zoneward.routing.selection.group_labels import group_of_slice
from zoneward.slices.changes import slice_name
from zoneward.slices.plan import ServicePlan
from zoneward.slices.ports import port_key

MOST_ENDPOINTS: Final = 1_000
"""An API server takes no slice with more."""


@dataclass(frozen=True, slots=True)
class Step:
    """One write. ``slice`` is as it should be, or what is deleted; updates and deletions know the version they mean.

    A slice that is written twice has the version of before both times: who writes puts in what the first one came to.
    """

    operation: Operation
    slice: EndpointSlice


@dataclass(slots=True, eq=False)
class _Update:
    """``gains`` and ``loses`` are endpoints that the slice did not list, or will not."""

    slice: EndpointSlice
    before: EndpointSlice
    gains: dict[Identity, Endpoint]
    loses: dict[Identity, Endpoint]


def steps_of(plan: ServicePlan, *, before: Mapping[str, EndpointSlice], taken: Container[str] = ()) -> tuple[Step, ...]:
    """All that has to be written for a plan. ``before`` has the slices by name that it was made from.

    ``taken`` holds names of slices that a new one must avoid. Slices of the built-in controller that ours stand in for,
    and those of families that are no more, go last.
    """
    creates: list[Step] = []
    updates: list[Step] = []
    deletes: list[EndpointSlice] = []
    for family in plan.families:
        changes = family.changes
        creates += [Step(Operation.CREATE, each) for each in changes.create]
        new = {each.metadata.name for each in changes.create}
        if len(changes.update) < 2:
            # With whom should it exchange endpoints? Most syncs are like this.
            updates += [Step(Operation.UPDATE, each) for each in changes.update]
            deletes += changes.delete
            continue
        ordered, stood_in_for = _ordered([_update(each, before) for each in changes.update])
        for old in stood_in_for:
            # What it should be, under another name.
            fresh = _renamed(old.slice, plan, (taken, before, new))
            new.add(fresh.metadata.name)
            creates.append(Step(Operation.CREATE, fresh))
            deletes.append(old.before)
        updates += [Step(Operation.UPDATE, each) for each in ordered]
        deletes += changes.delete
    deletes += [each for family in plan.families for each in family.replaced]
    deletes += plan.surplus
    return (*creates, *updates, *(Step(Operation.DELETE, each) for each in deletes))


def _update(slice_: EndpointSlice, before: Mapping[str, EndpointSlice]) -> _Update:
    was = before[slice_.metadata.name]
    old, new = ({identity(endpoint): endpoint for endpoint in each.endpoints or ()} for each in (was, slice_))
    return _Update(
        slice_,
        was,
        gains={key: endpoint for key, endpoint in new.items() if key not in old},
        loses={key: endpoint for key, endpoint in old.items() if key not in new},
    )


def _ordered(updates: Collection[_Update]) -> tuple[list[EndpointSlice], list[_Update]]:
    """What to write one after the other, and those in whose place a new slice has to come."""
    left = sorted(updates, key=lambda each: (bool(each.loses), each.slice.metadata.name))
    gaining: dict[Identity, set[_Update]] = {}
    for each in left:
        for key in each.gains:
            gaining.setdefault(key, set()).add(each)
    writes: list[EndpointSlice] = []
    stood_in_for: list[_Update] = []
    while left:
        ready = [each for each in left if not _awaited(each, gaining)]
        if not ready:
            first = _where_to_begin(left, gaining)
            if _can_hold_both(first, gaining):
                writes.append(_with(first.slice, (first.loses[key] for key in _awaited(first, gaining))))
                for key in first.gains:
                    gaining[key].discard(first)
                # What it lists for the moment it gives away by another write.
                first.gains = {}
                continue
            stood_in_for.append(first)
            ready = [first]
        else:
            writes += [each.slice for each in ready]
        for each in ready:
            left.remove(each)
            for key in each.gains:
                gaining[key].discard(each)
    return writes, stood_in_for


def _where_to_begin(left: Iterable[_Update], gaining: Mapping[Identity, Collection[_Update]]) -> _Update:
    """Of slices that wait for each other in a circle, and others that wait for these, the cheapest of the circle."""
    awaited = {key for each in left for key in _awaited(each, gaining)}
    return min(
        (each for each in left if not awaited.isdisjoint(each.gains)),
        key=lambda each: (not _can_hold_both(each, gaining), len(_awaited(each, gaining)), each.slice.metadata.name),
    )


def _awaited(update: _Update, gaining: Mapping[Identity, Collection[_Update]]) -> list[Identity]:
    """The endpoints that a slice must not give away yet."""
    return [key for key in update.loses if gaining.get(key)]


def _can_hold_both(update: _Update, gaining: Mapping[Identity, Collection[_Update]]) -> bool:
    if port_key(update.slice.ports) != port_key(update.before.ports):
        return False
    return len(update.slice.endpoints or ()) + len(_awaited(update, gaining)) <= MOST_ENDPOINTS


def _with(slice_: EndpointSlice, more: Iterable[Endpoint]) -> EndpointSlice:
    return replace(slice_, endpoints=(*(slice_.endpoints or ()), *more))


def _renamed(slice_: EndpointSlice, plan: ServicePlan, taken: tuple[Container[str], ...]) -> EndpointSlice:
    group, metadata = group_of_slice(slice_), slice_.metadata
    name = slice_name(
        plan.service,
        address_type=slice_.address_type,
        ports=port_key(slice_.ports),
        group=str(group) if group else "",
        taken=taken,
    )
    fresh = ObjectMeta(
        name=name,
        namespace=metadata.namespace,
        labels=metadata.labels,
        annotations=metadata.annotations,
        owner_references=metadata.owner_references,
    )
    return replace(slice_, metadata=fresh)

"""Step 6 of a plan, *changes*: packed slices to the slices to create, update and delete.

New slices get names that depend only on what they hold and on the slices that exist: a repeated create meets the slice
that it made before, and can never make a second one. Weights of zones (`zoneward.kube.zone_weights`) go onto one of all
slices.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Final

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, ObjectMeta, Service
from zoneward.kube.zone_weights import format_zone_weights, parse_zone_weights
from zoneward.routing.selection.group_labels import group_of_slice
from zoneward.routing.zone_weights import ZoneWeights, have_moved, is_stale
from zoneward.slices.existing import is_owned
from zoneward.slices.pack import PackedSlices, merged_annotations
from zoneward.slices.ports import PortKey, port_key

_OUR_ANNOTATIONS: Final = (names.APPROACH_ANNOTATION, names.ZONES_ANNOTATION)
_MAX_NAME_LENGTH: Final = 253
_HASH_LENGTH: Final = 10
_MAX_NUMBER: Final = 100
"""After so many names none needs to come after another one: the other may be greater than all."""


@dataclass(frozen=True, slots=True)
class SliceChanges:
    """What has to be written: whole slices as they should be. ``delete`` has them as they are.

    ``added`` and ``removed`` count the endpoints that join and leave slices.
    """

    create: tuple[EndpointSlice, ...] = ()
    update: tuple[EndpointSlice, ...] = ()
    unchanged: tuple[EndpointSlice, ...] = ()
    delete: tuple[EndpointSlice, ...] = ()
    added: int = 0
    removed: int = 0

    @property
    def after(self) -> tuple[EndpointSlice, ...]:
        """The slices that exist when everything is written, by name."""
        return tuple(sorted((*self.create, *self.update, *self.unchanged), key=lambda each: each.metadata.name))


def changes_of(
    packed: PackedSlices,
    existing: Iterable[EndpointSlice],
    *,
    service: Service,
    taken: Sequence[Container[str]],
    trigger_time: str | None,
    weights: ZoneWeights | None = None,
) -> SliceChanges:
    """Turn packed slices into the changes to write.

    A create and a delete become one update; an update that changes nothing is dropped; a Service that is being deleted
    gets no new slice; new slices get their names. ``existing`` are the slices that `pack` updates or deletes, ``taken``
    has the names of all slices in the namespace, and ``trigger_time`` goes into the annotation of every slice that is
    written (RFC 3339; None removes it). ``weights`` go onto the first slice with endpoints, and onto no other.
    """
    old = {each.metadata.name: each for each in existing}
    create, delete = list(packed.create), []
    update = list(packed.update)
    for each in packed.delete:
        if create and create[-1].address_type == each.address_type and is_owned(each, service):
            fresh = create.pop()
            metadata = replace(
                each.metadata, labels=fresh.metadata.labels, annotations=_merged(each.metadata, fresh.metadata)
            )
            update.append(replace(fresh, metadata=metadata))
        else:
            delete.append(each)
    if service.metadata.deletion_timestamp is not None:
        create = []
    changed = [each for each in update if each != old[each.metadata.name]]
    same = [each for each in update if each == old[each.metadata.name]]
    text = format_zone_weights(weights)
    # Weights stay on the slice that has them: a new one must not come before it.
    carrier = _first_name((*changed, *same, *packed.unchanged)) if text is not None else ""
    named = _named(create, service, taken, after=carrier)
    create, changed, unchanged = _with_zone_weights(named, changed, [*packed.unchanged, *same], weights, text)
    return SliceChanges(
        create=tuple(_triggered(each, trigger_time) for each in create),
        update=tuple(_triggered(each, trigger_time) for each in changed),
        unchanged=tuple(unchanged),
        delete=tuple(delete),
        added=packed.added,
        removed=packed.removed,
    )


def _named(
    create: Iterable[EndpointSlice], service: Service, taken: Sequence[Container[str]], *, after: str
) -> list[EndpointSlice]:
    used: set[str] = set()
    named = []
    for each in create:
        group = group_of_slice(each)
        name = slice_name(
            service,
            address_type=each.address_type,
            ports=port_key(each.ports),
            group=str(group) if group else "",
            taken=(*taken, used),
            after=after,
        )
        used.add(name)
        named.append(replace(each, metadata=replace(each.metadata, name=name)))
    return named


def _merged(existing: ObjectMeta, fresh: ObjectMeta) -> dict[str, str] | None:
    ours = fresh.annotations or {}
    return merged_annotations(existing.annotations, {name: ours.get(name) for name in _OUR_ANNOTATIONS})


# --- weights of zones -------------------------------------------------------------------------------------------------


def _first_name(slices: Iterable[EndpointSlice]) -> str:
    """The name of the first slice with endpoints; empty where there is none."""
    return min((each.metadata.name for each in slices if each.endpoints), default="")


def _with_zone_weights(
    create: list[EndpointSlice],
    changed: list[EndpointSlice],
    unchanged: list[EndpointSlice],
    weights: ZoneWeights | None,
    text: str | None,
) -> tuple[list[EndpointSlice], list[EndpointSlice], list[EndpointSlice]]:
    """The same slices with weights on one of them: some that would not change have to be written for that.

    Nobody writes a slice for weights that are as good as those that it has.
    """
    carrier = _first_name((*create, *changed, *unchanged)) if text is not None else ""

    def wanted(each: EndpointSlice) -> str | None:
        return text if each.metadata.name == carrier else None

    def weighted(each: EndpointSlice) -> EndpointSlice:
        if _weights_on(each) == wanted(each):
            return each
        annotations = merged_annotations(each.metadata.annotations, {names.ZONE_WEIGHTS_ANNOTATION: wanted(each)})
        return replace(each, metadata=replace(each.metadata, annotations=annotations))

    kept, written = [], []
    for each in unchanged:
        other = weighted(each)
        if other is each or (weights is not None and each.metadata.name == carrier and _are_good(each, weights)):
            kept.append(each)
        else:
            written.append(other)
    return [weighted(each) for each in create], [weighted(each) for each in changed] + written, kept


def _weights_on(each: EndpointSlice) -> str | None:
    return (each.metadata.annotations or {}).get(names.ZONE_WEIGHTS_ANNOTATION)


def _are_good(each: EndpointSlice, weights: ZoneWeights) -> bool:
    """Whether the weights on a slice may stay."""
    existing = _weights_on(each)
    found = parse_zone_weights(existing) if existing is not None else None
    return found is not None and not is_stale(found, weights.counts) and not have_moved(found, weights)


# --- metadata ---------------------------------------------------------------------------------------------------------


def _triggered(each: EndpointSlice, trigger_time: str | None) -> EndpointSlice:
    annotations = dict(each.metadata.annotations or {})
    if trigger_time is None:
        annotations.pop(names.TRIGGER_TIME_ANNOTATION, None)
    else:
        annotations[names.TRIGGER_TIME_ANNOTATION] = trigger_time
    if annotations == (each.metadata.annotations or {}):
        return each
    return replace(each, metadata=replace(each.metadata, annotations=annotations or None))


def slice_name(
    service: Service,
    *,
    address_type: str,
    ports: PortKey,
    taken: Sequence[Container[str]] = (),
    group: str = "",
    after: str = "",
) -> str:
    """A name that is free in the Service's namespace.

    The hash covers the Service's UID, the address family, the ports, the slice group and the smallest number whose name
    is not taken, and comes after the name ``after`` where one of the first numbers does.
    """
    meta = service.metadata
    first = ""
    for number in count():
        parts = (meta.uid, meta.namespace, meta.name, address_type, repr(ports), group, str(number))
        digest = sha256("\0".join(parts).encode()).hexdigest()[:_HASH_LENGTH]
        # The part before the hyphen must not end with a dot or a hyphen where it is cut.
        name = f"{meta.name[: _MAX_NAME_LENGTH - _HASH_LENGTH - 1].rstrip('.-')}-{digest}"
        if any(name in names_ for names_ in taken):
            continue
        if name > after:
            return name
        first = first or name
        if number >= _MAX_NUMBER:
            break
    return first

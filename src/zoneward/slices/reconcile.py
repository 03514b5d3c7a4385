"""Step 4 of a plan, *reconcile*: the fewest changes of EndpointSlices that make them as desired, as Kubernetes makes
them (``reconcileByPortMapping`` and ``finalize`` of its EndpointSlice controller).

Endpoints stay in the slice that they are in. The others fill slices that change anyway, the fullest first; then the one
unchanged slice that they fit into best; then new slices. Slices are never rebalanced: every write costs all readers.

New slices get names that depend only on what they hold and on the slices that exist: a repeated create meets the slice
that it made before, and can never make a second one.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count, groupby
from operator import itemgetter
from typing import Final

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.formats import name_with_suffix
from zoneward.kube.objects import (
    Endpoint,
    EndpointIdentity,
    EndpointSlice,
    ObjectMeta,
    OwnerReference,
    Service,
    identity,
)
from zoneward.kube.zone_weights import ZoneWeights, format_zone_weights, parse_zone_weights
from zoneward.routing.selection.endpoint_selection import is_stale
from zoneward.routing.zone_groups import group_of_slice
from zoneward.slices.desired import DesiredSlices, SliceKey, SliceTemplate, desired_slices, mirrored_labels
from zoneward.slices.endpoints import PortKey, port_key, without_hints
from zoneward.slices.existing import is_owned

_HASH_LENGTH: Final = 10
_MAX_NUMBER: Final = 100
"""After this many attempts a name may come before the other one: the other may be greater than all."""
_MAX_MOVE: Final = 0.02
"""Of a zone's traffic: a share that moves no farther is not worth a write."""
_NOISE: Final = 1e-9


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
        slices = (*self.create, *self.update, *self.unchanged)
        return tuple(sorted(slices, key=lambda slice_: slice_.metadata.name))

    def count_missing(self, service: Service) -> int:
        """How many slices must be created although those to delete are reused (`finalize`)."""
        return len(self.create) - sum(1 for slice_ in self.delete if is_owned(slice_, service))


@dataclass(slots=True)
class _Changes:
    """`SliceChanges` while they are made. New slices have no name yet."""

    create: list[EndpointSlice] = field(default_factory=list)
    update: list[EndpointSlice] = field(default_factory=list)
    unchanged: list[EndpointSlice] = field(default_factory=list)
    delete: list[EndpointSlice] = field(default_factory=list)
    added: int = 0
    removed: int = 0


def reconcile(
    template: SliceTemplate,
    desired: Mapping[SliceKey, DesiredSlices],
    existing: Iterable[EndpointSlice],
    *,
    settled: Mapping[SliceKey, Mapping[str, EndpointSlice]] | None = None,
    reads_routing: bool = True,
) -> SliceChanges:
    """Change the existing slices of one Service and address family as little as possible; new ones have no name yet.

    One that belongs to an earlier Service of the same name is deleted. ``settled`` slices, by name, hold exactly what
    they should: neither they nor their endpoints are among the others. They get endpoints where no other slice changes.
    ``reads_routing`` off: zone labels mean nothing, and hints do not count, as in Kubernetes, which sets them later.
    """
    changes = _Changes()
    settled = settled or {}
    by_ports: dict[PortKey, list[EndpointSlice]] = {}
    total = sum(map(len, settled.values()))
    for slice_ in sorted(existing, key=lambda slice_: slice_.metadata.name):
        total += 1
        if is_owned(slice_, template.service):
            by_ports.setdefault(port_key(slice_.ports), []).append(slice_)
        else:
            changes.delete.append(slice_)
    for ports, keys in groupby(sorted(desired), key=itemgetter(0)):
        by_key: dict[SliceKey, list[EndpointSlice]] = {}
        for slice_ in by_ports.pop(ports, ()):
            group = group_of_slice(slice_) if reads_routing else None
            by_key.setdefault((ports, group.zones if group is not None else ()), []).append(slice_)
        for key in keys:
            slices = by_key.pop(key, [])
            _reconcile_key(template, desired[key], slices, settled.get(key, {}), changes, compare_hints=reads_routing)
        # Slices of groups that no longer exist.
        for slices in by_key.values():
            changes.removed += sum(len(slice_.endpoints or ()) for slice_ in slices)
            changes.delete += slices
    for slices in by_ports.values():
        changes.delete += slices
    if len(changes.delete) == total and not changes.create:
        _keep_placeholder(template, changes)
    return SliceChanges(
        tuple(changes.create),
        tuple(changes.update),
        tuple(changes.unchanged),
        tuple(changes.delete),
        changes.added,
        changes.removed,
    )


def _reconcile_key(
    template: SliceTemplate,
    desired: DesiredSlices,
    existing: Iterable[EndpointSlice],
    settled: Mapping[str, EndpointSlice],
    changes: _Changes,
    *,
    compare_hints: bool,
) -> None:
    wanted = dict(desired.endpoints)
    changing: list[tuple[EndpointSlice, list[Endpoint]]] = []
    unchanged: dict[str, EndpointSlice] = {}
    for slice_ in existing:
        staying, differs = _staying(slice_, wanted, compare_hints=compare_hints)
        size = len(slice_.endpoints or ())
        changes.removed += size - len(staying)
        if differs or len(staying) != size:
            if not staying:
                changes.delete.append(slice_)
            else:
                changing.append((slice_, staying if compare_hints else list(map(without_hints, staying))))
        elif _metadata_differs(slice_, desired):
            changing.append((slice_, staying))
        else:
            unchanged[slice_.metadata.name] = slice_
    changes.added += len(wanted)
    # By identity, so that the order in which Pods arrive does not matter; taken from the end.
    left = [wanted[key] for key in sorted(wanted, reverse=True)]
    for _, staying in sorted(changing, key=lambda item: -len(item[1])):
        _fill(staying, left, template.max_endpoints)
    if settled:
        unchanged = dict(sorted({**unchanged, **settled}.items()))
    while left:
        fitting = _best_fit(unchanged.values(), len(left), template.max_endpoints)
        endpoints: list[Endpoint] = []
        if fitting is not None:
            del unchanged[fitting.metadata.name]
            endpoints = list(fitting.endpoints or ())
            changing.append((fitting, endpoints))
        _fill(endpoints, left, template.max_endpoints)
        if fitting is None:
            changes.create.append(new_slice(template, desired, endpoints))
    changes.update += [_updated_slice(slice_, desired, endpoints) for slice_, endpoints in changing]
    changes.unchanged += unchanged.values()


def _staying(
    slice_: EndpointSlice, wanted: dict[EndpointIdentity, Endpoint], *, compare_hints: bool
) -> tuple[list[Endpoint], bool]:
    """The endpoints of a slice that are still wanted, as they should be, and whether one of them differs. They are
    removed from ``wanted``."""
    staying = []
    differs = False
    for endpoint in slice_.endpoints or ():
        desired = wanted.pop(identity(endpoint), None)
        if desired is None:
            continue
        if desired != (endpoint if compare_hints else without_hints(endpoint)):
            differs = True
            staying.append(desired)
        else:
            staying.append(endpoint)
    return staying, differs


def _metadata_differs(slice_: EndpointSlice, desired: DesiredSlices) -> bool:
    annotations = slice_.metadata.annotations or {}
    return labels_differ(slice_.metadata.labels, desired.labels) or any(
        annotations.get(name) != value for name, value in desired.annotations.items()
    )


def labels_differ(existing: Mapping[str, str] | None, wanted: Mapping[str, str]) -> bool:
    """Whether labels need a write. As upstream, reserved labels alone never do; the zone label does."""
    return mirrored_labels(existing) != mirrored_labels(wanted)


def _fill(endpoints: list[Endpoint], left: list[Endpoint], max_endpoints: int) -> None:
    while left and len(endpoints) < max_endpoints:
        endpoints.append(left.pop())


def _best_fit(slices: Iterable[EndpointSlice], endpoints: int, max_endpoints: int) -> EndpointSlice | None:
    """The slice that takes ``endpoints`` more and has the least room left then; the first by name."""
    best, least = None, max_endpoints
    if endpoints >= max_endpoints:
        return None
    for slice_ in slices:
        room = max_endpoints - endpoints - len(slice_.endpoints or ())
        if 0 <= room < least:
            best, least = slice_, room
    return best


def _merged_annotations(existing: Mapping[str, str] | None, own: Mapping[str, str | None]) -> dict[str, str] | None:
    """Existing annotations with our own in place; None where there are none."""
    annotations = {name: value for name, value in (existing or {}).items() if name not in own}
    annotations |= {name: value for name, value in own.items() if value is not None}
    return annotations or None


def _updated_slice(slice_: EndpointSlice, desired: DesiredSlices, endpoints: Iterable[Endpoint]) -> EndpointSlice:
    annotations = _merged_annotations(slice_.metadata.annotations, desired.annotations)
    metadata = replace(slice_.metadata, labels=dict(desired.labels), annotations=annotations)
    return replace(slice_, metadata=metadata, endpoints=tuple(endpoints))


def new_slice(template: SliceTemplate, desired: DesiredSlices, endpoints: Iterable[Endpoint]) -> EndpointSlice:
    """A slice without a name. Where the Service has no UID (a file written by hand) it has no owner either."""
    meta = template.service.metadata
    owner = OwnerReference(
        api_version="v1", kind="Service", name=meta.name, uid=meta.uid, controller=True, block_owner_deletion=True
    )
    return EndpointSlice(
        metadata=ObjectMeta(
            namespace=meta.namespace,
            labels=dict(desired.labels),
            annotations=_merged_annotations(None, desired.annotations),
            owner_references=(owner,) if meta.uid else None,
        ),
        address_type=template.address_type,
        endpoints=tuple(endpoints),
        ports=desired.ports,
    )


def _keep_placeholder(template: SliceTemplate, changes: _Changes) -> None:
    """A Service always has a slice: without endpoints, one without ports. An existing placeholder stays as it is."""
    desired = desired_slices(template, None)
    placeholder = new_slice(template, desired, ())
    if len(changes.delete) == 1:
        only = changes.delete[0]
        is_placeholder = (
            not only.endpoints
            and not only.ports
            and only.address_type == placeholder.address_type
            and (only.metadata.labels or {}) == placeholder.metadata.labels
            and is_owned(only, template.service)
        )
        if is_placeholder and not _metadata_differs(only, desired):
            changes.unchanged.append(changes.delete.pop())
            return
    changes.create.append(placeholder)


# --- finalize ---------------------------------------------------------------------------------------------------------


def finalize(
    changes: SliceChanges,
    existing: Mapping[str, EndpointSlice],
    *,
    service: Service,
    taken: Sequence[Container[str]],
    trigger_time: str | None,
    weights: ZoneWeights | None = None,
) -> SliceChanges:
    """The changes to write.

    A create and a delete become one update; an update that changes nothing is dropped; a Service that is being deleted
    gets no new slice; new slices get their names. ``existing`` are by name the slices that change, ``taken`` has the
    names of all slices in the namespace, and ``trigger_time`` becomes an annotation of every slice that is written
    (RFC 3339; None removes it). ``weights`` go onto the first slice with endpoints, and onto no other.
    """
    create, delete = list(changes.create), []
    update = list(changes.update)
    for slice_ in changes.delete:
        if create and create[-1].address_type == slice_.address_type and is_owned(slice_, service):
            update.append(_reused(slice_, create.pop()))
        else:
            delete.append(slice_)
    if service.metadata.deletion_timestamp is not None:
        create = []
    changed = [slice_ for slice_ in update if slice_ != existing[slice_.metadata.name]]
    same = [slice_ for slice_ in update if slice_ == existing[slice_.metadata.name]]
    text = format_zone_weights(weights)
    # Weights stay on the slice that has them: a new one must not come before it.
    carrier = _first_name((*changed, *same, *changes.unchanged)) if text is not None else ""
    named = _named(create, service, taken, after=carrier)
    create, changed, unchanged = _with_zone_weights(named, changed, [*changes.unchanged, *same], weights, text)
    return SliceChanges(
        create=tuple(_triggered(slice_, trigger_time) for slice_ in create),
        update=tuple(_triggered(slice_, trigger_time) for slice_ in changed),
        unchanged=tuple(unchanged),
        delete=tuple(delete),
        added=changes.added,
        removed=changes.removed,
    )


def _reused(slice_: EndpointSlice, fresh: EndpointSlice) -> EndpointSlice:
    ours = fresh.metadata.annotations or {}
    annotations = {name: ours.get(name) for name in (names.APPROACH_ANNOTATION, names.ZONES_ANNOTATION)}
    metadata = replace(
        slice_.metadata,
        labels=fresh.metadata.labels,
        annotations=_merged_annotations(slice_.metadata.annotations, annotations),
    )
    return replace(fresh, metadata=metadata)


def _named(
    create: Iterable[EndpointSlice], service: Service, taken: Sequence[Container[str]], *, after: str
) -> list[EndpointSlice]:
    used: set[str] = set()
    named = []
    for slice_ in create:
        name = name_of_new(slice_, service, taken=(*taken, used), after=after)
        used.add(name)
        named.append(replace(slice_, metadata=replace(slice_.metadata, name=name)))
    return named


def name_of_new(slice_: EndpointSlice, service: Service, *, taken: Sequence[Container[str]], after: str = "") -> str:
    """A free name for a slice to create: see `slice_name`."""
    group = group_of_slice(slice_)
    return slice_name(
        service,
        address_type=slice_.address_type,
        ports=port_key(slice_.ports),
        group=str(group) if group else "",
        taken=taken,
        after=after,
    )


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
    for attempt in count():
        parts = (meta.uid, meta.namespace, meta.name, address_type, repr(ports), group, str(attempt))
        digest = sha256("\0".join(parts).encode()).hexdigest()[:_HASH_LENGTH]
        name = name_with_suffix(meta.name, f"-{digest}")
        if any(name in names_ for names_ in taken):
            continue
        if name > after:
            return name
        first = first or name
        if attempt >= _MAX_NUMBER:
            break
    return first


def _triggered(slice_: EndpointSlice, trigger_time: str | None) -> EndpointSlice:
    annotations = _merged_annotations(slice_.metadata.annotations, {names.TRIGGER_TIME_ANNOTATION: trigger_time})
    if (annotations or {}) == (slice_.metadata.annotations or {}):
        return slice_
    return replace(slice_, metadata=replace(slice_.metadata, annotations=annotations))


# --- weights of zones -------------------------------------------------------------------------------------------------


def _first_name(slices: Iterable[EndpointSlice]) -> str:
    """The name of the first slice with endpoints; empty where there is none."""
    return min((slice_.metadata.name for slice_ in slices if slice_.endpoints), default="")


def _with_zone_weights(
    create: list[EndpointSlice],
    changed: list[EndpointSlice],
    unchanged: list[EndpointSlice],
    weights: ZoneWeights | None,
    text: str | None,
) -> tuple[list[EndpointSlice], list[EndpointSlice], list[EndpointSlice]]:
    """The same slices with weights on one of them: some that would not change have to be written for that.

    Slices whose weights are close enough are not written.
    """
    carrier = _first_name((*create, *changed, *unchanged)) if text is not None else ""

    def weighted(slice_: EndpointSlice) -> EndpointSlice:
        wanted = text if slice_.metadata.name == carrier else None
        if _weights_on(slice_) == wanted:
            return slice_
        annotations = _merged_annotations(slice_.metadata.annotations, {names.ZONE_WEIGHTS_ANNOTATION: wanted})
        return replace(slice_, metadata=replace(slice_.metadata, annotations=annotations))

    same, written = [], []
    for slice_ in unchanged:
        other = weighted(slice_)
        is_close = weights is not None and slice_.metadata.name == carrier and _are_close(slice_, weights)
        if other is slice_ or is_close:
            same.append(slice_)
        else:
            written.append(other)
    return [weighted(slice_) for slice_ in create], [weighted(slice_) for slice_ in changed] + written, same


def _weights_on(slice_: EndpointSlice) -> str | None:
    return (slice_.metadata.annotations or {}).get(names.ZONE_WEIGHTS_ANNOTATION)


def _are_close(slice_: EndpointSlice, weights: ZoneWeights) -> bool:
    """Whether the weights on a slice may stay."""
    text = _weights_on(slice_)
    existing = parse_zone_weights(text) if text is not None else None
    return existing is not None and not is_stale(existing, weights.counts) and not have_moved(existing, weights)


def have_moved(old: ZoneWeights, new: ZoneWeights) -> bool:
    """Whether a share differs by more than 2 points."""
    for start in old.shares.keys() | new.shares.keys():
        before, after = old.shares.get(start, {}), new.shares.get(start, {})
        for end in before.keys() | after.keys():
            if abs(before.get(end, 0.0) - after.get(end, 0.0)) > _MAX_MOVE + _NOISE:
                return True
    return False

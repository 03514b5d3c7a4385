"""Endpoints into EndpointSlices with the fewest changes, as current Kubernetes packs them.

Endpoints stay in the slice they are in. What is left over fills slices that change anyway, the fullest first; then a
single unchanged slice that it fits into best; then new slices. Slices are never rebalanced: readers pay for every
write.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import Endpoint, EndpointSlice, Identity, ObjectMeta, OwnerReference, Service, identity
from zoneward.routing.placement.groups import Group
from zoneward.routing.selection.group_labels import group_of_slice, zones_annotation
from zoneward.slices.endpoints import PortGroup, without_hints
from zoneward.slices.labels import need_update
from zoneward.slices.naming import slice_name
from zoneward.slices.ports import PortKey, port_key

_OUR_ANNOTATIONS: Final = (names.APPROACH_ANNOTATION, names.ZONES_ANNOTATION)


_NOTHING_SETTLED: Final[Mapping[tuple[str, ...], "Settled"]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What all slices of a Service in one address family have in common.

    ``in_force`` is what slices remember of the decision, or None. ``upstream``: hints are set after packing, and a zone
    label means nothing.
    """

    service: Service
    address_type: str
    labels: Mapping[str, str]
    in_force: str | None = None
    upstream: bool = False
    max_endpoints: int = 100


@dataclass(slots=True)
class Packed:
    """Slices by what happens to them, in the making. New ones have no name yet."""

    create: list[EndpointSlice] = field(default_factory=list)
    update: list[EndpointSlice] = field(default_factory=list)
    unchanged: list[EndpointSlice] = field(default_factory=list)
    delete: list[EndpointSlice] = field(default_factory=list)
    added: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class SliceChanges:
    """What has to be written: whole slices as they should be, by name. ``delete`` holds them as they are."""

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


@dataclass(frozen=True, slots=True)
class Settled:
    """Slices of one port group and slice group that hold, in every word, what they should, by name."""

    group: Group | None
    slices: dict[str, EndpointSlice]


SettledGroups = Mapping[tuple[str, ...], Settled]
"""By the zones that consume the group; none for all."""


def pack(
    target: Target,
    existing: Iterable[EndpointSlice],
    groups: Mapping[PortKey, PortGroup],
    settled: Mapping[PortKey, SettledGroups] = MappingProxyType({}),
) -> Packed:
    """Pack every port group into the existing slices of one Service and address family.

    ``existing`` are slices that may be changed. One that belongs to an earlier Service of the same name is deleted.
    ``settled`` slices are not looked into: neither they nor their endpoints are among the others, which may be put into
    them where no other slice changes.
    """
    packed = Packed()
    by_ports: dict[PortKey, list[EndpointSlice]] = {}
    count = sum(len(each.slices) for there in settled.values() for each in there.values())
    for each in sorted(existing, key=lambda each: each.metadata.name):
        count += 1
        if is_owned(each, target.service):
            by_ports.setdefault(port_key(each.ports), []).append(each)
        else:
            packed.delete.append(each)
    for key in sorted(groups):
        _pack_slice_groups(target, by_ports.pop(key, []), groups[key], settled.get(key, _NOTHING_SETTLED), packed)
    for slices in by_ports.values():
        packed.delete.extend(slices)
    if len(packed.delete) == count and not packed.create:
        _hold_place(target, packed)
    return packed


def lacks_slices(packed: Packed, service: Service) -> bool:
    """Whether more slices are needed than `finish` finds to write anew."""
    return len(packed.create) > sum(1 for each in packed.delete if is_owned(each, service))


def is_owned(each: EndpointSlice, service: Service) -> bool:
    """Whether a slice belongs to this very Service: no owner is named, or its UID is the Service's."""
    owners = [owner for owner in each.metadata.owner_references or () if owner.controller]
    return not owners or not service.metadata.uid or any(owner.uid == service.metadata.uid for owner in owners)


def _pack_slice_groups(
    target: Target, existing: Sequence[EndpointSlice], ports: PortGroup, settled: SettledGroups, packed: Packed
) -> None:
    """Pack each slice group of a port group apart. Slices of groups that are no more are left over."""
    if target.upstream:
        _pack_group(target, existing, ports, Settled(None, {}), packed)
        return
    there: dict[tuple[str, ...], list[EndpointSlice]] = {}
    for each in existing:
        group = group_of_slice(each)
        there.setdefault(group.zones if group else (), []).append(each)
    wanted: dict[tuple[str, ...], tuple[Settled, PortGroup]] = {
        zones: (each, PortGroup(ports.ports, {})) for zones, each in settled.items()
    }
    for key, group in ports.slice_groups.items():
        zones = group.zones if group else ()
        if zones not in wanted:
            wanted[zones] = Settled(group, {}), PortGroup(ports.ports, {})
        wanted[zones][1].endpoints[key] = ports.endpoints[key]
    if not ports.slice_groups and (ports.endpoints or not wanted):
        wanted[()] = settled.get((), Settled(None, {})), ports
    for zones in sorted(wanted):
        _pack_group(target, there.pop(zones, []), wanted[zones][1], wanted[zones][0], packed)
    for slices in there.values():
        packed.removed += sum(len(each.endpoints or ()) for each in slices)
        packed.delete.extend(slices)


def _pack_group(
    target: Target, existing: Sequence[EndpointSlice], ports: PortGroup, settled: Settled, packed: Packed
) -> None:
    group = settled.group
    wanted = dict(ports.endpoints)
    changing: list[tuple[EndpointSlice, list[Endpoint]]] = []
    unchanged: dict[str, EndpointSlice] = {}
    for each in existing:
        kept, differs = _keep(each, wanted, compare_hints=not target.upstream)
        size = len(each.endpoints or ())
        packed.removed += size - len(kept)
        if differs or len(kept) != size:
            if kept:
                changing.append((each, [without_hints(endpoint) for endpoint in kept] if target.upstream else kept))
            else:
                packed.delete.append(each)
        elif _meta_differs(each, target, group):
            changing.append((each, kept))
        else:
            unchanged[each.metadata.name] = each
    packed.added += len(wanted)
    # By identity, so that the order in which Pods arrive does not matter; taken from the end.
    left = [wanted[key] for key in sorted(wanted, reverse=True)]
    for _, kept in sorted(changing, key=lambda item: -len(item[1])):
        _fill(kept, left, target.max_endpoints)
    if settled.slices:
        unchanged = dict(sorted((unchanged | settled.slices).items()))
    while left:
        fitting = _best_fit(unchanged.values(), len(left), target.max_endpoints)
        if fitting is not None:
            del unchanged[fitting.metadata.name]
            kept = list(fitting.endpoints or ())
            changing.append((fitting, kept))
            _fill(kept, left, target.max_endpoints)
        else:
            fresh: list[Endpoint] = []
            _fill(fresh, left, target.max_endpoints)
            packed.create.append(_new_slice(target, ports, group, fresh))
    for each, kept in changing:
        packed.update.append(_updated(each, target, group, kept))
    packed.unchanged.extend(unchanged.values())


def _keep(each: EndpointSlice, wanted: dict[Identity, Endpoint], *, compare_hints: bool) -> tuple[list[Endpoint], bool]:
    """The endpoints of a slice that are still wanted, as they should be; they are taken out of ``wanted``."""
    kept = []
    differs = False
    for endpoint in each.endpoints or ():
        desired = wanted.pop(identity(endpoint), None)
        if desired is None:
            continue
        if desired != (endpoint if compare_hints else without_hints(endpoint)):
            differs = True
            kept.append(desired)
        else:
            kept.append(endpoint)
    return kept, differs


def _meta_differs(each: EndpointSlice, target: Target, group: Group | None) -> bool:
    annotations = each.metadata.annotations or {}
    return need_update(each.metadata.labels, _labels(target, group)) or any(
        annotations.get(name) != value for name, value in _own_annotations(target, group).items()
    )


def _labels(target: Target, group: Group | None) -> dict[str, str]:
    labels = dict(target.labels)
    if group is not None:
        labels[names.ZONE_LABEL] = group.label_zone
    return labels


def _own_annotations(target: Target, group: Group | None) -> dict[str, str | None]:
    """What our annotations have to be; None where one must not be there."""
    return {names.APPROACH_ANNOTATION: target.in_force, names.ZONES_ANNOTATION: zones_annotation(group)}


def _fill(endpoints: list[Endpoint], left: list[Endpoint], most: int) -> None:
    while left and len(endpoints) < most:
        endpoints.append(left.pop())


def _best_fit(slices: Iterable[EndpointSlice], number: int, most: int) -> EndpointSlice | None:
    """The slice that takes ``number`` more endpoints and has the least room left then; the first by name."""
    best, least = None, most
    if number >= most:
        return None
    for each in slices:
        room = most - number - len(each.endpoints or ())
        if 0 <= room < least:
            best, least = each, room
    return best


def _annotations(existing: Mapping[str, str] | None, own: Mapping[str, str | None]) -> dict[str, str] | None:
    annotations = {name: value for name, value in (existing or {}).items() if name not in own}
    annotations |= {name: value for name, value in own.items() if value is not None}
    return annotations or None


def _updated(each: EndpointSlice, target: Target, group: Group | None, endpoints: Iterable[Endpoint]) -> EndpointSlice:
    metadata = replace(
        each.metadata,
        labels=_labels(target, group),
        annotations=_annotations(each.metadata.annotations, _own_annotations(target, group)),
    )
    return replace(each, metadata=metadata, endpoints=tuple(endpoints))


def _new_slice(
    target: Target, ports: PortGroup | None, group: Group | None, endpoints: Iterable[Endpoint]
) -> EndpointSlice:
    """A slice without a name. Where the Service has no UID (a file written by hand) it has no owner either."""
    meta = target.service.metadata
    owner = OwnerReference(
        api_version="v1", kind="Service", name=meta.name, uid=meta.uid, controller=True, block_owner_deletion=True
    )
    return EndpointSlice(
        metadata=ObjectMeta(
            namespace=meta.namespace,
            labels=_labels(target, group),
            annotations=_annotations(None, _own_annotations(target, group)),
            owner_references=(owner,) if meta.uid else None,
        ),
        address_type=target.address_type,
        endpoints=tuple(endpoints),
        ports=ports.ports if ports else (),
    )


def _hold_place(target: Target, packed: Packed) -> None:
    """A Service always has a slice: without endpoints, one without ports. One that is there already just stays."""
    placeholder = _new_slice(target, None, None, ())
    if len(packed.delete) == 1:
        there = packed.delete[0]
        same = (
            not there.endpoints
            and not there.ports
            and there.address_type == placeholder.address_type
            and (there.metadata.labels or {}) == placeholder.metadata.labels
            and is_owned(there, target.service)
        )
        if same and not _meta_differs(there, target, None):
            packed.unchanged.append(packed.delete.pop())
            return
    packed.create.append(placeholder)


def finish(
    packed: Packed,
    existing: Iterable[EndpointSlice],
    *,
    service: Service,
    taken: Sequence[Container[str]],
    trigger_time: str | None,
) -> SliceChanges:
    """Turn packed slices into writes.

    A create and a delete become one update; no write is left whose content does not change; a Service that is being
    deleted gets no new slice; new slices get their names. ``taken`` holds the names of all slices in the namespace;
    ``trigger_time`` goes into the annotation of everything written (RFC 3339; None removes it).
    """
    before = {each.metadata.name: each for each in existing}
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
        )
        used.add(name)
        named.append(_triggered(replace(each, metadata=replace(each.metadata, name=name)), trigger_time))
    changed = [each for each in update if each != before[each.metadata.name]]
    same = [each for each in update if each == before[each.metadata.name]]
    return SliceChanges(
        create=tuple(named),
        update=tuple(_triggered(each, trigger_time) for each in changed),
        unchanged=(*packed.unchanged, *same),
        delete=tuple(delete),
        added=packed.added,
        removed=packed.removed,
    )


def _merged(existing: ObjectMeta, fresh: ObjectMeta) -> dict[str, str] | None:
    ours = fresh.annotations or {}
    return _annotations(existing.annotations, {name: ours.get(name) for name in _OUR_ANNOTATIONS})


def _triggered(each: EndpointSlice, trigger_time: str | None) -> EndpointSlice:
    annotations = dict(each.metadata.annotations or {})
    if trigger_time is None:
        annotations.pop(names.TRIGGER_TIME_ANNOTATION, None)
    else:
        annotations[names.TRIGGER_TIME_ANNOTATION] = trigger_time
    if annotations == (each.metadata.annotations or {}):
        return each
    return replace(each, metadata=replace(each.metadata, annotations=annotations or None))

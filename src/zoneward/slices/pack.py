"""Step 5 of a plan, *pack*: encoded endpoints into EndpointSlices with the fewest changes, as Kubernetes packs them.

Endpoints stay in the slice that they are in. The others fill slices that change anyway, the fullest first; then the one
unchanged slice that they fit into best; then new slices. Slices are never rebalanced: every write costs all readers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from msgspec.structs import replace

from zoneward.kube.objects import Endpoint, EndpointIdentity, EndpointSlice, ObjectMeta, OwnerReference, identity
from zoneward.routing.selection.group_labels import group_of_slice
from zoneward.slices.encode import EncodedGroup, SliceTemplate, encode_group, mirrored_labels
from zoneward.slices.endpoints import without_hints
from zoneward.slices.existing import GroupKey, is_owned
from zoneward.slices.ports import PortKey, port_key


@dataclass(slots=True)
class PackedSlices:
    """Slices by what happens to them. New ones have no name yet."""

    create: list[EndpointSlice] = field(default_factory=list)
    update: list[EndpointSlice] = field(default_factory=list)
    unchanged: list[EndpointSlice] = field(default_factory=list)
    delete: list[EndpointSlice] = field(default_factory=list)
    added: int = 0
    removed: int = 0

    def count_missing(self, template: SliceTemplate) -> int:
        """How many slices must be created although those to delete are reused: see `zoneward.slices.changes`."""
        return len(self.create) - sum(1 for each in self.delete if is_owned(each, template.service))


def pack(
    template: SliceTemplate,
    encoded: Mapping[GroupKey, EncodedGroup],
    existing: Iterable[EndpointSlice],
) -> PackedSlices:
    """Pack the endpoints of each group into the existing slices of one Service and address family.

    ``existing`` are slices that may be changed. One that belongs to an earlier Service of the same name is deleted.
    Clean slices are not looked into: neither they nor their endpoints are among the others. They get endpoints where no
    other slice changes.
    """
    packed = PackedSlices()
    by_ports: dict[PortKey, list[EndpointSlice]] = {}
    count = sum(len(group.clean) for group in encoded.values())
    for each in sorted(existing, key=lambda each: each.metadata.name):
        count += 1
        if is_owned(each, template.service):
            by_ports.setdefault(port_key(each.ports), []).append(each)
        else:
            packed.delete.append(each)
    for ports, keys in groupby(sorted(encoded), key=itemgetter(0)):
        by_zones: dict[tuple[str, ...], list[EndpointSlice]] = {}
        for each in by_ports.pop(ports, ()):
            group = None if template.upstream else group_of_slice(each)
            by_zones.setdefault(group.zones if group else (), []).append(each)
        for key in keys:
            _pack_group(template, encoded[key], by_zones.pop(key[1], []), packed)
        # Slices of groups that no longer exist.
        for slices in by_zones.values():
            packed.removed += sum(len(each.endpoints or ()) for each in slices)
            packed.delete.extend(slices)
    for slices in by_ports.values():
        packed.delete.extend(slices)
    if len(packed.delete) == count and not packed.create:
        _keep_placeholder(template, packed)
    return packed


def _pack_group(
    template: SliceTemplate, group: EncodedGroup, existing: Sequence[EndpointSlice], packed: PackedSlices
) -> None:
    wanted = dict(group.endpoints)
    changing: list[tuple[EndpointSlice, list[Endpoint]]] = []
    unchanged: dict[str, EndpointSlice] = {}
    for each in existing:
        kept, differs = _keep_endpoints(each, wanted, compare_hints=not template.upstream)
        size = len(each.endpoints or ())
        packed.removed += size - len(kept)
        if differs or len(kept) != size:
            if kept:
                changing.append((each, [without_hints(endpoint) for endpoint in kept] if template.upstream else kept))
            else:
                packed.delete.append(each)
        elif _metadata_differs(each, group):
            changing.append((each, kept))
        else:
            unchanged[each.metadata.name] = each
    packed.added += len(wanted)
    # By identity, so that the order in which Pods arrive does not matter; taken from the end.
    left = [wanted[key] for key in sorted(wanted, reverse=True)]
    for _, kept in sorted(changing, key=lambda item: -len(item[1])):
        _fill(kept, left, template.max_endpoints)
    if group.clean:
        unchanged = dict(sorted({**unchanged, **group.clean}.items()))
    while left:
        fitting = _best_fit(unchanged.values(), len(left), template.max_endpoints)
        if fitting is not None:
            del unchanged[fitting.metadata.name]
            kept = list(fitting.endpoints or ())
            changing.append((fitting, kept))
            _fill(kept, left, template.max_endpoints)
        else:
            fresh: list[Endpoint] = []
            _fill(fresh, left, template.max_endpoints)
            packed.create.append(new_slice(template, group, fresh))
    for each, kept in changing:
        packed.update.append(_updated_slice(each, group, kept))
    packed.unchanged.extend(unchanged.values())


def _keep_endpoints(
    each: EndpointSlice, wanted: dict[EndpointIdentity, Endpoint], *, compare_hints: bool
) -> tuple[list[Endpoint], bool]:
    """The endpoints of a slice that are still wanted, as they should be, and whether one of them differs. They are
    removed from ``wanted``."""
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


def _metadata_differs(each: EndpointSlice, group: EncodedGroup) -> bool:
    annotations = each.metadata.annotations or {}
    return labels_differ(each.metadata.labels, group.labels) or any(
        annotations.get(name) != value for name, value in group.annotations.items()
    )


def labels_differ(existing: Mapping[str, str] | None, wanted: Mapping[str, str]) -> bool:
    """Whether labels need a write. As upstream, reserved labels alone never do; the zone label does."""
    return mirrored_labels(existing, upstream=True) != mirrored_labels(wanted, upstream=True)


def _fill(endpoints: list[Endpoint], left: list[Endpoint], max_endpoints: int) -> None:
    while left and len(endpoints) < max_endpoints:
        endpoints.append(left.pop())


def _best_fit(slices: Iterable[EndpointSlice], number: int, max_endpoints: int) -> EndpointSlice | None:
    """The slice that takes ``number`` more endpoints and has the least room left then; the first by name."""
    best, least = None, max_endpoints
    if number >= max_endpoints:
        return None
    for each in slices:
        room = max_endpoints - number - len(each.endpoints or ())
        if 0 <= room < least:
            best, least = each, room
    return best


def merged_annotations(existing: Mapping[str, str] | None, own: Mapping[str, str | None]) -> dict[str, str] | None:
    """Existing annotations with our own in place; None where there are none."""
    annotations = {name: value for name, value in (existing or {}).items() if name not in own}
    annotations |= {name: value for name, value in own.items() if value is not None}
    return annotations or None


def _updated_slice(each: EndpointSlice, group: EncodedGroup, endpoints: Iterable[Endpoint]) -> EndpointSlice:
    annotations = merged_annotations(each.metadata.annotations, group.annotations)
    metadata = replace(each.metadata, labels=dict(group.labels), annotations=annotations)
    return replace(each, metadata=metadata, endpoints=tuple(endpoints))


def new_slice(template: SliceTemplate, group: EncodedGroup, endpoints: Iterable[Endpoint]) -> EndpointSlice:
    """A slice without a name. Where the Service has no UID (a file written by hand) it has no owner either."""
    meta = template.service.metadata
    owner = OwnerReference(
        api_version="v1", kind="Service", name=meta.name, uid=meta.uid, controller=True, block_owner_deletion=True
    )
    return EndpointSlice(
        metadata=ObjectMeta(
            namespace=meta.namespace,
            labels=dict(group.labels),
            annotations=merged_annotations(None, group.annotations),
            owner_references=(owner,) if meta.uid else None,
        ),
        address_type=template.address_type,
        endpoints=tuple(endpoints),
        ports=group.ports,
    )


def _keep_placeholder(template: SliceTemplate, packed: PackedSlices) -> None:
    """A Service always has a slice: without endpoints, one without ports. An existing placeholder stays as it is."""
    labels, annotations = encode_group(template, None)
    group = EncodedGroup(labels=labels, annotations=annotations, endpoints={})
    placeholder = new_slice(template, group, ())
    if len(packed.delete) == 1:
        only = packed.delete[0]
        is_placeholder = (
            not only.endpoints
            and not only.ports
            and only.address_type == placeholder.address_type
            and (only.metadata.labels or {}) == placeholder.metadata.labels
            and is_owned(only, template.service)
        )
        if is_placeholder and not _metadata_differs(only, group):
            packed.unchanged.append(packed.delete.pop())
            return
    packed.create.append(placeholder)

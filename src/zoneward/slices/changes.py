"""Step 6 of a plan, *changes*: packed slices to the slices to create, update and delete.

New slices get names that depend only on what they hold: a repeated create meets the slice that it made before, and can
never make a second one.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, ObjectMeta, Service
from zoneward.routing.selection.group_labels import group_of_slice
from zoneward.slices.existing import is_owned
from zoneward.slices.pack import PackedSlices, merged_annotations
from zoneward.slices.ports import PortKey, port_key

_OUR_ANNOTATIONS: Final = (names.APPROACH_ANNOTATION, names.ZONES_ANNOTATION)
_MAX_NAME_LENGTH: Final = 253
_HASH_LENGTH: Final = 10


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
) -> SliceChanges:
    """Turn packed slices into the changes to write.

    A create and a delete become one update; an update that changes nothing is dropped; a Service that is being deleted
    gets no new slice; new slices get their names. ``existing`` are the slices that `pack` updates or deletes, ``taken``
    has the names of all slices in the namespace, and ``trigger_time`` goes into the annotation of every slice that is
    written (RFC 3339; None removes it).
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
    changed = [each for each in update if each != old[each.metadata.name]]
    same = [each for each in update if each == old[each.metadata.name]]
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
    return merged_annotations(existing.annotations, {name: ours.get(name) for name in _OUR_ANNOTATIONS})


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
    service: Service, *, address_type: str, ports: PortKey, taken: Sequence[Container[str]] = (), group: str = ""
) -> str:
    """A name that is free in the Service's namespace.

    The hash covers the Service's UID, the address family, the ports, the slice group and the smallest number whose name
    is not taken.
    """
    meta = service.metadata
    number = 0
    while True:
        parts = (meta.uid, meta.namespace, meta.name, address_type, repr(ports), group, str(number))
        digest = sha256("\0".join(parts).encode()).hexdigest()[:_HASH_LENGTH]
        # The part before the hyphen must not end with a dot or a hyphen where it is cut.
        name = f"{meta.name[: _MAX_NAME_LENGTH - _HASH_LENGTH - 1].rstrip('.-')}-{digest}"
        if not any(name in names_ for names_ in taken):
            return name
        number += 1
